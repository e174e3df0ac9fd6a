"""What a plan does to ids, groups and persons, in sentences and rows that the terminal and the page share.

Ids are shown unmasked, since they identify a person; values of properties are not shown.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pipeline.identity.summary import SeveralUsers
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import Report, code_counts, not_merged
from pipeline.report.registry import Values, on_page, on_terminal
from pipeline.report.terminal.tables import bounded
from pipeline.report.wording import DECISIONS, USER_POLICIES, decided_because, policy_meaning
from pipeline.text import are, pluralize, printable, were

MOST_ON_TERMINAL = 5
"""Rows of each table of ids."""
MOST_NAMES = 10
ID_CHARACTERS = 80
MOST_ON_PAGE = 20
"""Rows of each table of ids, and of names of properties; the others are in plan.json."""
NO_CHANGES = "No merges, no groups, no profiles to send."
"""Shown for a plan that changes no person and no group, instead of empty tables."""


def has_no_people(plan: Plan) -> bool:
    """Whether the plan has no pair of ids, no group and no person property."""
    people = plan.people
    groups, persons = people.groups, people.persons
    return not (
        people.identities.pairs or merges(plan) or groups.groups or groups.types or persons.persons or persons.left_out
    )


def decisions(plan: Plan) -> list[tuple[str, int, str]]:
    """The decisions on the pairs (decision, pairs, reason), merges first, then the reasons with most pairs."""
    order = {name: position for position, name in enumerate(DECISIONS)}
    counts = sorted(
        plan.people.identities.decisions,
        key=lambda count: (order.get(count.decision, len(order)), -count.pairs, count.reason),
    )
    return [
        (DECISIONS.get(count.decision, count.decision), count.pairs, decided_because(count.reason, plan))
        for count in counts
    ]


def several_users(plan: Plan) -> list[tuple[str, int, str, list[SeveralUsers]]]:
    """Devices of several users, and users whom records make one person: (title, count, the policy, the largest)."""
    found, options = plan.people.identities, plan.options
    tables = (
        ("Devices of several users", found.shared_devices, "shared-devices", options.shared_devices,
         found.largest_shared),
        ("Users who are one person by records of the tool", found.joined_users, "joined-users", options.joined_users,
         found.largest_joined),
    )  # fmt: skip
    return [
        (title, count, f"--{option} {policy}: {USER_POLICIES[option, policy]}", largest[:MOST_ON_PAGE])
        for title, count, option, policy, largest in tables
        if count
    ]


def merges(plan: Plan) -> int:
    """How many merges `apply` sends: the number that `--approve-merges` asks for."""
    return plan.events.phases.get("identities", 0)


def identities_sentence(plan: Plan) -> str:
    identities = plan.people.identities
    if not identities.pairs and not merges(plan):
        return "No row pairs two ids: nothing is merged."
    return (
        f"{pluralize(identities.pairs, 'pair')} of ids {were(identities.pairs)} found."
        f" {pluralize(identities.persons, 'person')} will have several ids,"
        f" joined by {pluralize(merges(plan), 'merge')} to send."
    )


def approval(plan: Plan) -> str:
    """How the merges are approved; "" if there are none."""
    count = merges(plan)
    if not count:
        return ""
    return f"Merges cannot be undone. To approve them: apply --approve-merges {count}"


def groups_sentence(plan: Plan) -> str:
    groups = plan.people.groups
    if not groups.types and not groups.groups:
        return "No row names a group."
    return (
        f"{pluralize(groups.groups, 'group')} to send, with {pluralize(groups.properties, 'property')}, before all"
        " events. The service numbers the types in this order, for good."
    )


def group_types(plan: Plan) -> list[tuple[str, int, str]]:
    """The types in their order (type, rows, its number at the service or why it is not sent)."""
    from pipeline.identity.settings import MAX_TYPES

    rows = []
    for position, group_type in enumerate(plan.people.groups.types, 1):
        status = f"number {position}" if position <= MAX_TYPES else f"not sent: the service stores {MAX_TYPES} types"
        rows.append((group_type.type, group_type.rows, status if group_type.sent else "left out"))
    return rows


def persons_sentence(plan: Plan) -> str:
    persons = plan.people.persons
    if persons.kind == "none" and not persons.persons:
        return "No profiles are sent (person properties: none); events keep their own $set."
    if not persons.persons:
        return "No profiles are sent: the export has no person properties."
    updated = (
        f"{pluralize(persons.properties, 'profile property')} of {pluralize(persons.persons, 'person')}"
        f" {are(persons.properties)} updated, once and after all events."
    )
    policy = f"{printable(persons.policy)}: {policy_meaning(persons.policy)}"
    if persons.kind == "none":
        policy = "person properties: none"
    if plan.people.promotes:
        policy += "; but properties that the service copies from events are written as $set under every policy"
    return f"{updated} {policy}."


def profiles_sentences(plan: Plan) -> list[str]:
    """How many ids have a profile, and the effect of `--persons`."""
    profiles = plan.people.profiles
    if not profiles.identified_ids and not profiles.anonymous_ids:
        return []
    sentences = [
        f"{pluralize(profiles.identified_events, 'event')} of {pluralize(profiles.identified_ids, 'identified id')},"
        f" {pluralize(profiles.anonymous_events, 'event')} of {pluralize(profiles.anonymous_ids, 'anonymous id')}"
        " (duplicates included)."
    ]
    if profiles.one_day_people:
        share = profiles.one_day_people_events / (profiles.identified_events + profiles.anonymous_events)
        sentences.append(
            f"{pluralize(profiles.one_day_people_events, 'event')} ({share:.1%}) {are(profiles.one_day_people_events)}"
            f" of {pluralize(profiles.one_day_people, 'person')} of {profiles.people:,} seen on one UTC day alone,"
            f" {profiles.one_day_events:,} of {pluralize(profiles.one_day_ids, 'anonymous id')}."
        )
    if plan.options.persons == "identified":
        sentences.append(
            "--persons identified: the events of anonymous ids create no profile. The service then takes no"
            " person properties and no groups from them; merges and groups need profiles."
        )
    elif profiles.anonymous_ids:
        sentences.append(
            "--persons all: every id gets a profile. With --persons identified, anonymous ids would get none;"
            " but merges and groups need profiles, and the service takes neither groups nor person properties"
            " from events without one."
        )
    return sentences


def promoted_sentence(plan: Plan) -> str:
    """What the service writes to profiles by itself, "" if nothing."""
    profiles = plan.people.profiles
    initials = plan.people.initials
    if not profiles.promoted:
        return ""
    if plan.people.promotes:
        return (
            "By itself the service copies these event properties to their persons, in the order of arrival."
            f" --promoted-properties final: before all events {pluralize(initials, 'person')}"
            f" {'has' if initials == 1 else 'have'} the first values set once, as $initial_…, which leaves those"
            " of a live profile as they are; after all events the last values are set, over a live profile's too, as"
            f" the events themselves do. In a sample of {pluralize(profiles.looked_at, 'event')}:"
        )
    return (
        "By itself the service copies these event properties to their persons, whatever the policy: the last event"
        " that arrives wins, however old, and $initial_… keeps the first."
        f" In a sample of {pluralize(profiles.looked_at, 'event')}:"
    )


@on_terminal(20)
def show_people(console: Console, plan: Plan, directory: str) -> None:
    """What a plan does to people: merges, groups, profiles. Nothing if it does nothing."""
    people = plan.people
    if (refused := not_merged(plan)) or merges(plan):
        undone = f"{pluralize(merges(plan), 'merged identity')}, which cannot be undone." if merges(plan) else ""
        others = f"{pluralize(refused, 'pair')} of ids {are(refused)} not merged" if refused else ""
        if refused and not merges(plan):  # so a mapping may name the wrong columns
            others += f", mostly: {max(decisions(plan), key=lambda one: one[1])[2]}"
        words = " ".join(filter(None, (undone, others and f"{others}.", "Each with its row:")))
        console.print(Text(f"{words} {directory}/identities.parquet", style="yellow"))
    if people.groups.types or people.groups.groups:
        console.print(Text(groups_sentence(plan)))
    if left_out := [one for one in people.groups.types if not one.sent]:
        types = ", ".join(f"{printable(one.type)} ({pluralize(one.rows, 'row')})" for one in left_out)
        console.print(Text(f"--group-types leaves out {types}.", style="dim"))
    if people.persons.persons:
        console.print(Text(persons_sentence(plan)))
    profiles = people.profiles
    if plan.options.persons == "identified" and profiles.anonymous_ids:
        events = pluralize(profiles.anonymous_events, "event")
        ids = pluralize(profiles.anonymous_ids, "anonymous id")
        console.print(Text(f"--persons identified: {events} of {ids} {are(profiles.anonymous_events)} sent without a"
                           " profile.", style="dim"))  # fmt: skip


@on_page(40, "people")
def people(report: Report) -> Values:
    """Merges with their evidence, groups and profiles."""
    plan, summary = report.plan, report.plan.people
    shared = ("Shared devices", "users", summary.identities.shared)
    crowded = ("Users of several ids", "ids", summary.identities.crowded)
    examples = summary.persons.examples or {}
    values = {
        "nothing": NO_CHANGES if has_no_people(plan) else "",
        "identities": identities_sentence(plan),
        "merges": merges(plan),
        "not_merged": not_merged(plan),
        "approval": approval(plan),
        "decisions": decisions(plan),
        "largest": summary.identities.largest[:MOST_ON_PAGE],
        "largest_left": summary.identities.persons - min(MOST_ON_PAGE, len(summary.identities.largest)),
        "most": MOST_ON_PAGE,
        "several_users": several_users(plan),
        "partners": [(title, unit, rows[:MOST_ON_PAGE]) for title, unit, rows in (shared, crowded)],
        "pairs": [(pair, DECISIONS.get(pair.decision, pair.decision)) for pair in report.pairs],
        "groups": groups_sentence(plan) if summary.groups.groups or summary.groups.types else "",
        "types": group_types(plan)[:MOST_ON_PAGE],
        "types_left": max(0, len(summary.groups.types) - MOST_ON_PAGE),
        "groups_left_out": code_counts(summary.groups.left_out),
        "persons": persons_sentence(plan),
        "names": bounded(summary.persons.names, MOST_ON_PAGE, summary.persons.properties),
        "persons_left_out": code_counts(summary.persons.left_out),
        "left_out_examples": [
            f"{code}: {', '.join(printable(one, ID_CHARACTERS) for one in some)}" for code, some in examples.items()
        ],
        "profiles": profiles_sentences(plan),
        "promoted_sentence": promoted_sentence(plan),
        "promoted": bounded(summary.profiles.promoted, MOST_ON_PAGE),
    }
    return {"people": values}
