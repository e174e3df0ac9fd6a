"""What codes and gates mean, and what to do about each, in words for the person who signs a plan off."""

from __future__ import annotations

from pipeline.plan.manifest import Plan
from pipeline.text import printable

MEANINGS = {
    # reading
    "bad_json": "the row is not JSON",
    "bad_utf8": "the row is not UTF-8",
    "bad_csv_row": "the row has another number of cells than the header, or a broken quote",
    "too_deep": "the row nests more than 64 levels deep",
    # mapping
    "unmapped_event": "the mapping lists the event names it knows, and this is none of them",
    "bad_value": "a value is not what the mapping says, or cannot be sent as JSON",
    "empty_row": "the mapping makes no event of the row",
    # validating
    "missing_event": "the row has no event name",
    "long_event": "the event name is longer than the service keeps",
    "missing_distinct_id": "the row names nobody",
    "junk_distinct_id": "every id of the row is a placeholder such as null or anonymous",
    "long_distinct_id": "the id is longer than the service keeps, so that two people could become one",
    "missing_timestamp": "the row has no time, and a missing time never becomes now",
    "bad_timestamp": "the time cannot be read",
    "ancient_timestamp": "the time lies before 1970",
    "future_timestamp": "the time lies in the future",
    "recent_timestamp": "the event is under 48 hours old, and would be billed as a live one",
    "event_too_large": "the event is larger than the service stores",
    # sending
    "refused_event": "the service refused the event, with the status and the text that stand beside it",
    # left out
    "duplicate_event": "an exact copy of an event that is sent",
    "superseded": "an earlier version of an event that is sent",
    "already_settled": "an earlier window of the job sent the event",
    "outside_window": "the event lies outside --since and --until",
    "excluded_id": "the person asked to be forgotten (--exclude-ids)",
    "session_event": "the tool's own start or end of a session; the service makes sessions of the events themselves",
    "session_recording": "a mark of the tool's session recording, which is no event",
    "attribution_event": "the tool's own note on where a person came from; the events carry what it is made of",
    "unsupported_event": "an event of the service's own machinery, which is never sent again",
    "deleted_person": "a person that was deleted",
    "discarded_value": "a value that a warehouse put aside, since it did not fit its column",
    "identity_table": "a row of the warehouse's own identity resolution",
    "incomplete_merge": "a merge of which one id is missing or a placeholder",
    "unfollowed_merge": "two of the tool's persons became one, which is not followed unless a setting says so",
    # warnings
    "unsafe_integer": "an integer beyond 2^53 is sent exactly; readers that use doubles round it",
    "near_duplicate": "two events differ only in a little",
    "clock_skew": "the clock of the row and its receive time lie far apart",
    "hot_distinct_id": "the id has more events than the service takes of one id in a minute (about 5,000): sent faster,"
    " they land, but their person is not processed; slow down with apply --rate",
    "overwrites_person": "the event sets properties of its person ($set): the service takes the last one sent, however"
    " old, so a live profile can be overwritten",
    "duplicate_key": "a key stands twice in a row; the last value wins",
    "nan_value": "a number that is none (NaN) is sent as null",
    "replaced_property": "a property of the row gave way to the import's own",
    "partly_duplicate_row": "some of the events of a row are copies and are left out",
    "ambiguous_time": "the time lies in the hour that autumn repeats, and nothing tells which",
    "nonexistent_time": "the time lies in the hour that spring skips",
    "time_truncated": "digits below a microsecond were left out",
    "changed_since_settled": "the export tells an event otherwise now; what was sent cannot be changed",
    "held_link": "a merge that the job holds back (merges: hold)",
    "settled_link": "a merge that an earlier window of the job sent",
    "identical_rows": "the row has no id of its own and equals another one: each is sent as an event of its own, and"
    " --collapse-identical makes one of them",
    "old_timestamp": "the event lies before 2005, when no tool recorded any: its time may be 0, or in another unit",
    "name_collision": "two properties of a row would have had one name",
    # groups and persons
    "empty_person_update": "the row says nothing of its person",
    "empty_group_update": "the row says nothing of a group",
    "junk_group": "the group's key is a placeholder such as null",
    "long_group": "the type or key is longer than the service keeps",
    "large_group": "the group's properties are larger than the service stores",
    "other_type": "a group of a type that --group-types leaves out",
    "junk_person": "the id is a placeholder such as null or anonymous",
    "long_person": "the id is longer than the service keeps, so that two people could become one",
    "large_person": "the profile is larger than the service stores",
    "anonymous_person": "the id has no identity, and --persons identified gives it no profile",
    "unset_property": "a property that the history takes away at last",
    "left_out_group": "an event's group of a type that --group-types leaves out; it stays as the property TYPE_ids",
    "empty_page": "a page of profiles without any",
    "left_out_profile": "a profile of nobody, beside others of its page that are sent",
    "settled_group": "a group that an earlier window of the job sent as it is",
    "settled_person": "a profile that an earlier window of the job sent as it is",
}

DECISIONS = {
    "merge": "merged",
    "first_user": "merged with the first user",
    "conflict": "not merged: conflict",
    "refused": "not merged: refused",
}
"""What became of pairs of ids, in the order in which a report tells it."""

REASONS = {
    "same_row": "rows bear both ids",
    "stated": "a record of the tool says that they are one person",
    "named": "the file given with --identities names the pair",
    "settled": "an earlier plan merged them",
    "first_user": "the id has several users (a shared device), and this one came first",
    "self_pair": "an id paired with itself",
    "junk_id": "one of the ids is a placeholder such as null or anonymous",
    "long_id": "one of the ids is longer than the service keeps",
    "email_as_device": "an e-mail address stands where a device's id belongs",
    "user_as_device": "a user's id stands where a device's id belongs",
    "never_alone": "no event bears the anonymous id alone, so there is nothing to join (a server's id that changes with"
    " every call)",
    "too_many_users": "the id has more than {most} users: a shared machine or a placeholder",
    "too_many_ids": "the person would have more than {most} anonymous ids (--max-ids-per-person)",
    "other_user": "the id belongs to another user, who came first",
    "settled_apart": "earlier plans made two persons of them, whom the service does not merge any more",
}

POLICIES = {
    "fill-only": "written as $set_once, so that what a live profile says stays as it is",
    "overwrite": "written as $set: what a live profile says is overwritten, however old the history is",
    "prefix": "written as $set under names that begin with {prefix}, beside what a live profile says",
}

ADVICE = {
    "max_rejects": "look at them with `backcast rejects DIR`; mend the export or the mapping, or allow so many with"
    " --max-rejects, and plan again",
    "rejects": "look at them with `backcast rejects DIR` before anything is sent",
    "zero_events": "check the mapping, --since and --until, and the files that were named",
    "zone": "name the zone that the project was set to in the tool: --timezone Area/City, also when it is UTC",
    "duplicates": "nothing to do: every export holds copies, and they are left out",
    "unmatched_reference": "compare the mapping with the columns that `backcast survey` shows; what only some exports"
    " have may stay as it is",
    "key_not_unique": "add what tells them apart to the mapping's `key` (with `generic`, name another column or none"
    " with --set uuid), or say with --allow-key-conflicts that rows of one key are one event all the same",
    "keyless": "say `collapse: identical` in the job file, so that identical rows become one event",
    "merges": "look at the merges in identities.jsonl of the plan; raise `up-to`, or say `merges: hold`",
    "group_types": "the service keeps five types of groups: choose them with --group-types a,b,c",
}

VERDICTS = {
    "ready": "Ready: nothing was found that a person has to look at.",
    "warnings": "Ready, with warnings: read them before applying.",
    "not-ready": "Not ready: apply refuses this plan until what the gates say is mended. It can be rehearsed.",
}

STATES = {
    "not-ready": "not ready",
    "stopped": "stopped (resumable)",
    "sent-with-refusals": "sent, {refused:,} refused",
}
"""The states of a plan (`report.state.State`) that people read in other words than programs do."""

COLLAPSE = (
    "equal to another in uuid, name, person and UTC day: requests whose answer was lost were sent again, and the"
    " service collapses what came twice"
)
"""What the copies of a verification are."""

PHASES = {
    "identities": "merges of two ids into one person; they cannot be undone",
    "groups": "groups and their properties",
    "events": "events",
    "persons": "final properties of persons",
}


def phase_meaning(phase: str, plan: Plan) -> str:
    """What a phase of a plan sends, in words."""
    if phase == "groups" and plan.people.promotes:
        return f"{PHASES[phase]}; first values of persons ($initial_…)"
    return PHASES[phase]


def mapping_of(plan: Plan) -> str:
    """The mapping that a plan was made with, and the tool it is of where that has another name."""
    name = printable(plan.mapping.name, 200)
    return plan.tool if name == plan.tool else f"{name} ({plan.tool})"


def state_in_words(state: str, refused: int) -> str:
    """Where a plan stands, as people read it. `refused` is the number of refused events."""
    return STATES.get(state, state).format(refused=refused)


def meaning(code: str) -> str:
    """A code in words, "" for a code of the mapping's own."""
    return MEANINGS.get(code, "")


def advice(gate: str) -> str:
    """What to do about a gate, "" where its detail says it all."""
    return ADVICE.get(gate, "")


def decided_because(reason: str, plan: Plan) -> str:
    """Why a pair was decided as it was, "" for a reason that this version does not know."""
    return REASONS.get(reason, "").format(most=plan.options.max_ids_per_person)


def policy_meaning(policy: str) -> str:
    """How final properties meet those of a live profile, in words."""
    name, _, prefix = policy.partition("=")
    return POLICIES.get(name, name).format(prefix=printable(prefix))


def unproved(plan: Plan) -> list[str]:
    """What this report cannot prove, each as a sentence; a person signs these off by other means."""
    sentences = [
        "That the export is complete: only rows in the files that were named are counted here.",
        "That what the service accepts is stored: its answer comes before it stores anything. `backcast verify` reads"
        " back what landed.",
        "That a copy at the service disappears: it collapses copies of one uuid, event, distinct_id and UTC day, but"
        " eventually, and without a guarantee.",
    ]
    if plan.options.zones and not plan.zone_evidence:
        sentences.append(f"That the times are in {plan.zone}: a person named the zone, and no receive times prove it.")
    elif plan.zone_evidence:
        sentences.append(
            "That the zone holds in months not listed under zone evidence: they have too few rows with a receive time."
        )
    if plan.options.limit is not None:
        sentences.append(f"Anything about rows after the first {plan.options.limit:,}: the plan stops there.")
    if plan.events.phases.get("identities", 0):
        sentences.append(
            "That merges will be taken: the service refuses one whose absorbed id is a person identified by then."
        )
    return sentences
