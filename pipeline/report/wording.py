"""What checks and decisions mean and what to do about each, for the person who approves a plan."""

from __future__ import annotations

from msgspec import UNSET

from pipeline.models import Finding
from pipeline.plan.sealed.manifest import Plan
from pipeline.targets import has_files, is_loopback
from pipeline.text import pluralize, printable

DECISIONS = {
    "merge": "merged",
    "first_user": "merged with the first user",
    "last_user": "merged with the last user",
    "conflict": "not merged: conflict",
    "refused": "not merged: refused",
}
"""The decisions on pairs of ids, in the order of a report."""

REASONS = {
    "same_row": "both ids in one row",
    "stated": "merged in the source tool",
    "named": "named in the file of --identities",
    "settled": "merged by an earlier plan",
    "first_user": "the id has several users (a shared device), and this one came first",
    "last_user": "the id has several users (a shared device), and this one came last (--shared-devices latest)",
    "self_pair": "an id paired with itself",
    "junk_id": "one of the ids is a placeholder such as null or anonymous, or a number that was rounded",
    "long_id": "one of the ids is longer than the service stores",
    "email_as_device": "an e-mail address in place of a device id",
    "user_as_device": "a user id in place of a device id",
    "never_alone": "anonymous id never used without its user, so there is nothing to merge (a server's id that changes"
    " with every call)",
    "too_many_users": "the id has more than {most} users: a shared machine or a placeholder",
    "too_many_ids": "the person would have more than {most} anonymous ids (--max-ids-per-person)",
    "other_user": "the id belongs to another user, who came first",
    "later_user": "the id belongs to another user, who came last (--shared-devices latest)",
    "shared_device": "the id has several users (a shared device), which stay apart (--shared-devices none)",
    "two_users": "a record would make one person of two users, who stay apart (--joined-users none)",
    "settled_apart": "two persons since earlier plans, which the service no longer merges",
}

USER_POLICIES = {
    ("shared-devices", "first"): "each is merged with its first user",
    ("shared-devices", "latest"): "each is merged with its last user",
    ("shared-devices", "none"): "none is merged with any of its users",
    ("shared-devices", "stop"): "the plan stops",
    ("joined-users", "first"): "they are merged, and keep the id that the records keep",
    ("joined-users", "latest"): "they are merged, and keep the id whose first event is the latest",
    ("joined-users", "none"): "they are not merged",
    ("joined-users", "stop"): "the plan stops",
}

POLICIES = {
    "fill-only": "written as $set_once: existing values are kept",
    "overwrite": "written as $set: existing values are overwritten, however old the history is",
    "prefix": "written as $set under names that start with {prefix}, next to the existing values",
}

ADVICE = {
    "max_rejects": "list them with `backcast rejects DIR`; fix the export or the mapping, and plan again;"
    " --max-rejects is for rows that may be left out for good",
    "ignored_files": "look into these files; fetch them again if they are damaged, move them out of the folder if they"
    " are not part of the export, or allow this many with --allow-ignored N",
    "max_unmapped": "name them in the mapping: `backcast mapping check FILE --against EXPORT` writes the lines; or"
    " allow this many with --max-unmapped",
    "not_in_scope": "add a line for each name to the table, with `yes` or `no` under `keep`, and plan again",
    "scope_unused": "correct the spelling: names are those of the old tool, as `backcast survey EXPORT --scope FILE`"
    " writes them",
    "rejects": "list them with `backcast rejects DIR` before anything is sent",
    "open_choices": "decide each in the mapping and delete its entry under `open`, or answer with `backcast mapping new"
    " --ask`",
    "cut_off": "fetch these days again, and plan again",
    "zero_events": "check the mapping, --since and --until, and the files on the command line",
    "zone": "name the zone that the project has in the tool: --timezone Area/City, also when it is UTC",
    "unmatched_reference": "compare the mapping with the columns that `backcast survey` shows; a column that only"
    " some exports have may stay",
    "anonymous_groups": "plan with --persons all if the groups of anonymous events matter",
    "key_not_unique": "add a field that differs between them to the mapping's `key` (with `generic`, name another"
    " column or none with --set uuid), or declare with --allow-key-conflicts that rows with the same key are one event",
    "keyless": "set `collapse: identical` in the job file, so that identical rows become one event",
    "merges": "read the merges in identities.jsonl of the plan; raise `up-to`, or set `merges: hold`",
    "empty_days": "look for the files of these days and export them again; `backcast survey EXPORT` shows the range"
    " of times, and --gap DAYS allows shorter gaps",
    "empty_hours": "look for the files of these hours and export them again",
    "empty_days_of_a_name": "ask whether the event was not recorded then, or export these days again; --gap DAYS"
    " allows shorter gaps",
    "spike": "look at rows of that day: a test, a loop, bots, or files given twice. Plan the day alone with"
    " --since DAY --until NEXT-DAY; --spike TIMES allows more",
    "spike_of_a_name": "look at rows of that day: a test, a loop, bots, or files given twice; --spike TIMES"
    " allows more",
    "level": "ask what changed then: an event recorded twice or no longer, a new app version, a file or project that"
    " is missing; --level TIMES allows more",
    "level_of_a_name": "ask what changed then: an event recorded twice, or on fewer pages; --level TIMES allows more",
    "night_by_day": "ask in which zone the tool wrote its times: the project's settings show it. Plan again with"
    " --timezone ZONE; if people do live elsewhere, nothing is wrong",
    "clock_jump": "ask whether the project's zone was changed then, and name both: --timezone ZONE --timezone"
    " ZONE@DATE; if people of another region came, nothing is wrong",
    "clock_change": "ask in which zone the tool wrote its times, and plan again with --timezone ZONE",
    "one_day_ids": "if users of an application should return, check which column is the person; for anonymous visitors,"
    " plan with `--persons identified` to send their events without a person, which costs less: they then have no"
    " profile, no person properties and no merge, which cannot be changed afterwards; --one-day PERCENT allows more",
    "inhuman_rate": "ask what these ids are: bots, tests, a server, an id that many people share. To leave them out,"
    " write them to a file, one a line, and plan again with --exclude-ids FILE; --per-second, --per-minute and"
    " --per-day allow more",
    "near_duplicate": "look at both rows: a tag that fires twice, or an export that has rows twice with other ids."
    " Remove one kind from the export, or leave its name out in the mapping; --repeated PERCENT allows more",
    "not_in_time_order": "plan with --promoted-properties final, which sends the final values by themselves; or sort"
    " the export by time",
    "renamed_event": "if they are one event, give both one name: in the mapping, `OLD NAME: NEW NAME` under `events`",
    "similar_names": "if they are one event, give them one name: in the mapping, `OLD NAME: NEW NAME` under `events`",
    "missing_files": "export these days and give their files to the same plan; if they had no events, nothing is"
    " missing; --gap DAYS allows fewer days",
    "missing_hours": "export these hours and give their files to the same plan; if the tool writes no file for an hour"
    " without events, nothing is missing",
    "unjoined_rows": "add the files with the rows that they belong to; if those rows are left out on purpose, nothing"
    " is missing",
    "missing_parts": "download the parts again; if the program leaves empty parts out, nothing is missing",
    "overlapping_files": "compare rows of both files: a row with the source id of another is left out already, the"
    " other rows are sent. Leave a file out only if the other has all of its rows; rows without a source id are"
    " sent twice, unless --collapse-identical",
    "mixed_types": "give it one type in the mapping, under `properties`, `set`: `NAME: {type: text, of: NAME}`; or give"
    " each kind of value a name of its own. --mixed-types PERCENT allows more",
    "numbers_as_text": "make them numbers in the mapping, under `properties`, `set`: `NAME: {type: number, of: NAME}`;"
    " sums and filters leave texts out. --mixed-types PERCENT allows more",
    "unconverted": "correct the export or convert these values in the mapping; `else: keep`, `null` or `reject` under"
    " `types` accepts them",
    "tracking_plan_not_checked": "compare these by hand: the sentence names what is not applied, and where",
    "tracking_plan": "correct the tracking plan, or the events in the mapping; --stop-on tracking_plan requires it",
    "amounts_as_text": "if it is to be added up, make it a number in the mapping, under `properties`, `set`:"
    " `NAME: {type: number, of: NAME}`, with a decimal comma `type: comma_number`",
    "split_ids": "name the columns of these ids, and .0 is left off: --set integers=COLUMN,COLUMN, or in a mapping"
    " `files: {integers: [COLUMN, COLUMN]}`",
    "float_ids": "if the live product sends integers, name the columns: --set integers=COLUMN leaves .0 off; digits"
    " that are lost come back by another export alone, with ids as texts",
    "rounded_value": "export the table again, without a spreadsheet: the digits are lost in this file",
    "unsafe_integer": "if it is an id, make it a text in the mapping, under `properties`, `set`: `NAME: {type: text,"
    " of: NAME}`, from an object `of: /OBJECT/MEMBER`; readers that use doubles round it",
    "null_rate": "ask what changed then: a new app version, another column, a file that is missing; --null-jump POINTS"
    " allows more",
    "cut_values": "look whether the tool can export them whole; --cut-values N allows more",
    "loader_columns": "nothing, unless you need them: --set loader_columns=keep makes properties of them",
    "property_names": "ids or values are used as names: drop them in the mapping, or move them into one property; the"
    " service stores every name for good. --property-names N allows more",
    "replayed_rows": "a correction may change what an event is, not its source key or the rows that were accepted: give"
    " their rows and their key back, and correct the others",
    "zone_not_confirmed": "compare --timezone with the zone in the project's settings in the tool, and plan again"
    " if it is another",
    "ambiguous_time": "nothing, unless an hour matters: an export in UTC has no such times",
    "nonexistent_time": "check the zone: the clock of the project never shows these times; an export in UTC has none",
    "merge_approval": "read which ids are merged and why; `apply` asks for this number, and `plan --persons identified`"
    " plans no merge of anonymous ids",
    "no_target": "plan again with --for us or --for eu, or with --for URL for a service of your own",
    "warnings": "read what each code means, and its first row, in the chapter of warnings; `explain` shows such a row",
    "sampled": "nothing; a value that only a few events have may be missing from what is said about values",
    "limit": "plan again without --limit before anything is sent",
    "joined_users": "read the records of these ids (`where` in identities.parquet), and decide with --joined-users;"
    " your own pairs (--identities) come before",
    "shared_devices": "decide with --shared-devices, or give your own pairs with --identities",
    "resolved_share": "check which columns are the user and the device, and whether the export has the rows that pair"
    " them; --resolved PERCENT allows less",
    "group_types": "the service stores five types of groups: choose them with --group-types a,b,c",
}
"""What to do about a check, for those whose detail is not enough."""


def advice_of(check: Finding) -> str:
    """What to do about what a check found, "" if its detail is enough."""
    if check.level == "accepted":
        return f"nothing; it was accepted: {check.reason}"
    if check.level == "stop" and check.reason is not UNSET:
        accept = f'it {check.reason}; if this is right for your export, plan again with --accept {check.name}="WHY"'
        return f"{ADVICE[check.name]}; {accept}" if check.name in ADVICE else accept
    if check.name in ("rejects", "max_rejects") and WITHOUT_ZONE in check.detail:
        return "plan again with --timezone Area/City; what is rejected then, `backcast rejects DIR` lists"
    return ADVICE.get(check.name, "")


STATES = {
    "not-ready": "not ready",
    "stopped": "stopped (resumable)",
    "sent-with-refusals": "sent, {refused:,} refused",
}
"""The texts of the states (`report.state.State`) that differ from their names."""

MOODS = {
    "not-ready": "stop", "differs": "stop", "sending": "care", "stopped": "care", "sent-with-refusals": "care",
    "sent": "plain",
}  # fmt: skip
"""How each state is shown, if nothing else is open; every other state is `good`."""


def mapping_of(plan: Plan) -> str:
    """The mapping of a plan, and its tool if that has another name."""
    name = printable(plan.mapping.name, 200)
    return plan.tool if name == plan.tool else f"{name} ({plan.tool})"


def to_check(plan: Plan, to: str = "", *, begun: bool = False) -> list[Finding]:
    """What a person has to check before the plan is sent: what its checks found, except what was accepted.

    The address `to`, if it is known, answers what is open about the target; once sending has `begun`, merges are
    approved.
    """
    answered = {"no_target"} if to or begun else set()
    if begun or is_loopback(to):
        answered.add("merge_approval")
    return [check for check in plan.gates if check.level != "accepted" and check.name not in answered]


_FILES = {"sending": "writing", "sent": "written", "verified": "written and verified"}
"""The states of a plan that is written to files."""


def state_in_words(state: str, refused: int, checks: int = 0, to: str = "") -> str:
    """The text of a state. `refused` is the number of refused events, `checks` of the things to check.

    `to` is the address that the plan is sent to, where that began.
    """
    if has_files(to) and state in _FILES:
        return _FILES[state]
    words = STATES.get(state, state).format(refused=refused)
    return f"{words}, {pluralize(checks, 'thing')} to check" if checks and state in ("ready", "rehearsed") else words


def mood_of(plan: Plan, state: str, refused: int, checks: int) -> str:
    """The mood of a plan's state: `good` only if nothing was rejected, none of the `checks` is still to be decided, and
    its rehearsal had nothing `refused`."""
    mood = MOODS.get(state, "good")
    open_ = state in ("ready", "rehearsed") and (checks or refused)
    return "care" if mood == "good" and (open_ or plan.rejects or plan.rows.rejected) else mood


WITHOUT_ZONE = "their times have no offset"
"""Stands in the check of rejected rows that would be sent if a zone was named (`plan.checks.rows.REMEDIES`)."""


def zone_proof(plan: Plan) -> str:
    """How the time zone of the plan is known."""
    months = len(plan.zone_evidence)
    if months:
        agree = sum(month.agrees for month in plan.zone_evidence)
        return f"confirmed by {agree:,} of {pluralize(months, 'month')}"
    if plan.options.zones:
        return "from --timezone, not confirmed: too few rows have a receive time"
    if any(WITHOUT_ZONE in check.detail for check in plan.gates):
        return "where they have an offset; the others need --timezone"
    return "as the tool exports them"


def decided_because(reason: str, plan: Plan) -> str:
    """The reason of a decision in words; the reason itself if this version has no words for it."""
    words = REASONS.get(reason)
    return printable(reason) if words is None else words.format(most=plan.options.max_ids_per_person)


def policy_meaning(policy: str) -> str:
    """How final properties are combined with those of a live profile, in words."""
    name, _, prefix = policy.partition("=")
    return POLICIES.get(name, name).format(prefix=printable(prefix))


def unproved(plan: Plan) -> list[str]:
    """What this report cannot prove, each as a sentence; they need other evidence."""
    sentences = [
        "That the export is complete: only rows in the files that were named are counted here.",
        "That accepted events are stored: the service answers before it stores anything. `backcast verify` reads back"
        " what landed.",
        "That duplicates at the service disappear: it collapses events of one uuid, name, distinct_id and UTC day, but"
        " eventually, and without a guarantee.",
    ]
    if plan.options.zones and not plan.zone_evidence:
        sentences.append(
            f"That the times are in {plan.zone}: the zone comes from an option, and no receive times prove it."
        )
    elif plan.zone_evidence:
        sentences.append(
            "That the zone is right in months that are not listed under “Time zone”: too few of their rows have a"
            " receive time."
        )
    if plan.options.limit is not None:
        sentences.append(f"Anything about rows after the first {plan.options.limit:,}: the plan stops there.")
    if plan.events.phases.get("identities", 0):
        sentences.append(
            "That merges will be accepted: the service refuses a merge when the absorbed id is identified by then."
        )
    return sentences


HEADLINE_CHARACTERS = 140
"""The most of a check that stands on a line of its own."""


def headline(detail: str) -> str:
    """What a check found without its examples, which follow the first colon; all of it if that is longer."""
    begins = detail.partition(": ")[0]
    return begins if len(begins) <= HEADLINE_CHARACTERS else detail
