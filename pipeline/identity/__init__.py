"""Who is who: every pair of ids that an export shows, decided over the whole source before anything is sent.

    observed    pairs as they are met, block by block, on disk
    pair_file   pairs that the operator names (`--identities`)
    numbering   ids as numbers, so that the rest works on arrays
    sightings   when each id has its first event, and which ids are users
    rules       which pairs may count at all, and why others may not
    clusters    which ids are one person, and the id that each person keeps
    resolve     the steps in their order
    outcome     what came of it: the table, the links, the summary for a report

A merge cannot be undone, so in doubt nothing is merged (docs/know/peers.md#merges-and-ids). Nothing depends on the
order of rows.
"""
