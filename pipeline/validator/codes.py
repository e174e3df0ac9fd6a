"""Every code under which a row, an event, a profile or a group is rejected, skipped or reported, with its text.

The terminal, the report, the documentation and shell completion take their wording from here. The codes of validation
rules are declared with the rules (`pipeline.validator.rules`); all others are in the table below. A mapping file may
declare skip codes too; they have no text here.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeline.validator.rules import REJECT, RULES, SKIP, WARNING, event_too_large


class Code(NamedTuple):
    """`level` is `reject` (cannot be sent), `skip` (left out on purpose) or `warning` (sent; a person should look)."""

    name: str
    level: str
    text: str


NULLED = "nulled_value"
OUT_OF_SCOPE = "out_of_scope"
UNCONVERTED = "unconverted:"
"""Before a property's name: the code of its values that cannot be converted and stop the plan."""

_OTHERS = (
    # reading
    Code("bad_json", REJECT, "the row is not JSON"),
    Code("bad_utf8", REJECT, "the row is not UTF-8"),
    Code("bad_csv_row", REJECT, "the number of cells differs from the header's, or a quote is not closed"),
    Code("cut_off", REJECT, "the tool ended the export before its end"),
    Code("repeated_header", SKIP, "a repeated header of the table"),
    Code("folder_value", WARNING, "a folder `key=value` differs from the row's own value, which counts"),
    Code("too_deep", REJECT, "the row nests more than 64 levels deep"),
    Code("duplicate_key", WARNING, "a key occurs twice in a row; the last value wins"),
    Code("cell_error", WARNING, "a cell with an Excel error, such as #N/A, counts as missing"),
    Code("rounded_integer", WARNING, "an integer of 16 or more digits: Excel keeps 15, so the others may be lost"),
    Code("nan_value", WARNING, "NaN or an infinity, sent as null"),
    # mapping
    Code("unmapped_event", REJECT, "an event name that the mapping does not list"),
    Code("empty_row", SKIP, "the mapping produces no event from the row"),
    Code("no_time", SKIP, "a column for the time of an event is blank, so that event did not happen"),
    Code("session_event", SKIP, "the tool's own session start or end; the service derives sessions from events"),
    Code("automatic_event", SKIP, "an event that the tool adds by itself, left out by a setting or by the mapping"),
    Code(
        "actions_left_out",
        SKIP,
        "the tool cut this visit at its limit of actions; those beyond it are not in the export",
    ),
    Code("view_duration", SKIP, "the end of a view, which reports how long it lasted; its beginning is the view"),
    Code("deleted_group", SKIP, "a deleted group"),
    Code("excluded_hit", SKIP, "a hit that the tool leaves out of its reports"),
    Code("summary_row", SKIP, "a total that was uploaded to the tool, not an event"),
    Code("heartbeat", SKIP, "a sign that a page or a stream is still open"),
    Code("metadata_event", SKIP, "properties of a person or group that a page sent; their exports have the latest"),
    Code("item_of_purchase", SKIP, "an item that its purchase carries"),
    Code("page_ping", SKIP, "the heartbeat of an open page, left out unless a setting keeps it"),
    Code("spider", SKIP, "an event that the tool attributes to a robot, left out unless a setting keeps it"),
    Code("entity_table", SKIP, "a row of a table of entities, which cannot be joined to its event"),
    Code("aggregate", SKIP, "a sum or a summary over several events, not an event"),
    Code("not_a_person", SKIP, "a row about something other than a person, such as a company"),
    Code("session_recording", SKIP, "a marker of the tool's session recording, not an event"),
    Code("child_table", SKIP, "a list item that a loader wrote into a separate table, not an event"),
    Code("attribution_event", SKIP, "the tool's own attribution record; the events carry the same properties"),
    Code("unsupported_event", SKIP, "an internal event of the service, which cannot be imported"),
    Code("deleted_person", SKIP, "a deleted person"),
    Code("discarded_value", SKIP, "a value that the warehouse set aside because it did not fit its column"),
    Code("identity_table", SKIP, "a row of the warehouse's own identity resolution"),
    Code("incomplete_merge", SKIP, "a merge with a missing or placeholder id"),
    Code("unfollowed_merge", SKIP, "a merge in the source tool that is followed only if a setting asks for it"),
    Code("empty_person_update", SKIP, "no profile properties in the row"),
    Code("empty_group_update", SKIP, "no group properties in the row"),
    Code("empty_page", SKIP, "a page without profiles"),
    Code("left_out_profile", WARNING, "profile without an id, left out; the others of its page are sent"),
    Code("unreadable_entity", WARNING, "an entity that cannot be read: it stays an unchanged property"),
    Code(NULLED, WARNING, "a value that cannot be converted to the type of its property, sent as null"),
    Code("name_collision", WARNING, "two properties of a row would have had the same name"),
    Code(
        "unsafe_integer",
        WARNING,
        "an integer beyond 2^53; readers that use doubles round it, unless it is sent as text",
    ),
    Code("clock_skew", WARNING, "the event time and the receive time of the row are far apart"),
    Code(
        "ambiguous_time",
        WARNING,
        "local time that occurs twice (end of DST); taken as the first unless received well after both",
    ),
    Code(
        "nonexistent_time",
        WARNING,
        "local time that does not exist (start of DST); read on the clock from before the change",
    ),
    Code("time_truncated", WARNING, "digits below a microsecond were removed"),
    # the mapping's own code (`python`)
    Code("python_skipped", SKIP, "left out by the mapping's own code"),
    Code("python_error", REJECT, "the mapping's own code raised an exception"),
    Code("python_result", REJECT, "the mapping's own code returned something that is not an event"),
    Code(
        "python_changed_id",
        WARNING,
        "the mapping's own code changed the id of a row that joins two ids; the merge is left out",
    ),
    # validating and encoding
    Code("outside_window", SKIP, "outside --since and --until"),
    Code(OUT_OF_SCOPE, SKIP, "an event name that the table of --scope leaves out"),
    Code("excluded_id", SKIP, "a person listed in --exclude-ids"),
    Code("replaced_property", WARNING, "an import property overwrote a property of the row"),
    Code(
        "overwrites_person",
        WARNING,
        "the event sets person properties ($set): the service keeps the last one sent, however old, so values of a"
        " live profile can be overwritten",
    ),
    Code(
        "hot_distinct_id",
        WARNING,
        "the id has more events than the service processes per id and minute (about 5,000): sent faster, they are"
        " stored without person processing, so apply limits the rate of each id (--per-id)",
    ),
    # duplicates
    Code("duplicate_event", SKIP, "an exact duplicate of an event that is sent"),
    Code("superseded", SKIP, "another version of an event that is sent"),
    Code("already_settled", SKIP, "sent by an earlier plan"),
    Code("near_duplicate", WARNING, "two events differ only slightly"),
    Code("partly_duplicate_row", WARNING, "some events of the row are duplicates and are left out"),
    Code("changed_since_settled", WARNING, "changed since it was sent; what was sent cannot be changed"),
    Code(
        "identical_rows",
        WARNING,
        "the row has no id of its own and equals another one: each is sent as a separate event, or as one with"
        " --collapse-identical",
    ),
    # people and groups
    Code("held_link", SKIP, "a merge that the job does not send (merges: hold)"),
    Code("settled_link", SKIP, "a merge that an earlier plan sent"),
    Code("settled_group", SKIP, "a group that an earlier plan sent unchanged"),
    Code("settled_person", SKIP, "a profile that an earlier plan sent unchanged"),
    Code("junk_group", SKIP, "the group key is a placeholder such as null"),
    Code("long_group", SKIP, "the group type or key is longer than the service stores"),
    Code("large_group", SKIP, "the group properties are larger than the service stores"),
    Code("other_type", SKIP, "a group of a type that --group-types leaves out"),
    Code("left_out_group", WARNING, "a group of a type that --group-types leaves out; sent as the property TYPE_ids"),
    Code("junk_person", SKIP, "the id is a placeholder such as null or anonymous"),
    Code("long_person", SKIP, "the id is longer than the service stores, so two people could become one"),
    Code("large_person", SKIP, "the profile is larger than the service stores"),
    Code("anonymous_person", SKIP, "an anonymous id, which gets no profile with --persons identified"),
    Code("unset_property", SKIP, "property removed at the end of the history"),
    # sending
    Code("refused_event", REJECT, "refused by the service, with the status and the text shown next to it"),
)


def codes() -> dict[str, Code]:
    """Every code by its name: those of the rules first, in the order in which they are checked."""
    declared = (Code(rule.code, rule.level, rule.text) for rule in (*RULES, event_too_large))
    return {code.name: code for code in (*declared, *_OTHERS)}


def meaning(name: str) -> str:
    """The text of a code, "" for a code that only a mapping declares."""
    code = codes().get(name)
    return code.text if code is not None else ""
