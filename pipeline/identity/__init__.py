"""Identity resolution: which ids are one person, decided over the whole source before anything is sent.

Rows pair ids: an ordinary row has the id of a device and the id of a user, a record of the tool states a merge, the
operator names pairs in a file. The merges to send follow from all pairs. A merge cannot be undone, so a doubtful pair
is not merged (docs/know/peers.md#merges-and-ids). Nothing depends on the order of rows.

The steps:

1. Workers write what the rows of a block state (`pipeline.transform.statements`): pairs of ids, and updates of
   properties.
2. Queries group the pairs (`observed_pairs`) and the ids of events (`event_ids`): each once, with its first and last
   time and its number of rows; with the operator's pairs and what earlier plans merged.
3. Number the ids (`numbering`), so that the decisions work on arrays.
4. Apply the rules (`rules`): a placeholder, an id that is too long or the id of a shared machine joins no people.
5. Find the clusters: connected components with at most one user each, unless a record names both users;
   and the canonical id of each, which is the id that the person keeps.
6. Decide on each pair: merged, merged as the first user of a device, refused or in conflict, and why. The
   result (`identities`) is the table for people, the merges to send and the person of each id.

Once the persons are known, `last_values` finds the last value of each property (last write wins), and `persons` and
`groups` make one update of each person and group; `promotion` does the same for the event properties that the service
itself copies to persons. `kinds` names the kinds of pairs and updates, `settings` has the options about people, and
`database` is the scratch database, which holds everything that grows with the number of people.
"""
