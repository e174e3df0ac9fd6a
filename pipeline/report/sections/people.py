"""What a plan decided on ids, groups and persons, in the sentences and rows that the terminal and the page share.

Ids are shown unmasked, since a person is found again by them; values of properties are not shown at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from pipeline.identity.summary import DecisionCount, Partners
from pipeline.plan.manifest import Plan
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page, on_terminal
from pipeline.report.tables import number, table, text
from pipeline.report.wording import DECISIONS, decided_because, policy_meaning
from pipeline.text import are, pluralize, printable
from pipeline.validator.codes import meaning

MOST_ON_TERMINAL = 5
"""Rows of each table of ids."""
MOST_NAMES = 10
ID_CHARACTERS = 80
MOST_ON_PAGE = 20
"""Rows of each table of ids, and of names of properties; the others are in plan.json."""
NO_CHANGES = "No merges, no groups, no profiles to send."
"""Shown for a plan that changes no person and no group, instead of empty tables."""


class TopCounts(NamedTuple):
    """The first names of many with their counts; `more` tells of the others, which count `rest` together."""

    shown: list[tuple[str, int]]
    more: str
    rest: int


class DecisionRow(NamedTuple):
    """One line of the decisions on pairs: what, why, how many."""

    seal: DecisionCount
    what: str
    why: str


class GroupTypeRow(NamedTuple):
    """One group type, the rows that name it, and its place at the service in words."""

    type: str
    rows: int
    place: str


def changes_nobody(plan: Plan) -> bool:
    """Whether the plan has no pair of ids, no group and no person property."""
    people = plan.people
    groups, persons = people.groups, people.persons
    return not (
        people.identities.pairs
        or plan.events.phases.get("identities")
        or groups.groups
        or groups.types
        or persons.persons
        or persons.left_out
    )


def bounded(counts: Mapping[str, int], most: int, total: int | None = None) -> TopCounts:
    """The first `most` of the counts, in their order. `total` is what all count where `counts` has not every name."""
    every = list(counts.items())
    left, known = every[most:], sum(counts.values())
    total = known if total is None else max(known, total)
    more = f"and {len(left):,} more" if total == known else f"and more than {len(left):,} more"
    rest = total - sum(count for _, count in every[:most])
    return TopCounts(every[:most], more if rest else "", rest)


def more_persons(plan: Plan, shown: int) -> int:
    """How many persons of several ids there are beside so many."""
    return plan.people.identities.persons - shown


def decisions(plan: Plan) -> list[DecisionRow]:
    """What was decided on the pairs, merges first, then the reasons with most pairs."""
    order = {name: place for place, name in enumerate(DECISIONS)}
    seals = sorted(
        plan.people.identities.decisions,
        key=lambda one: (order.get(one.decision, len(order)), -one.pairs, one.reason),
    )
    return [
        DecisionRow(one, DECISIONS.get(one.decision, one.decision), decided_because(one.reason, plan)) for one in seals
    ]


def merges(plan: Plan) -> int:
    """How many merges `apply` sends: the number that `--approve-merges` asks for."""
    return plan.events.phases.get("identities", 0)


def identities_sentence(plan: Plan) -> str:
    """What merging would do, in one line."""
    found = plan.people.identities
    if not found.pairs and not merges(plan):
        return "No row pairs two ids: nothing is merged."
    return (
        f"{pluralize(found.pairs, 'pair')} of ids {_were(found.pairs)} found. {pluralize(found.persons, 'person')} will"
        f" have several ids, joined by {pluralize(merges(plan), 'merge')} to send."
    )


def approval(plan: Plan) -> str:
    """How the merges are approved; "" where there is none."""
    count = merges(plan)
    if not count:
        return ""
    return f"Merges cannot be undone. To approve them: apply --approve-merges {count}"


def groups_sentence(plan: Plan) -> str:
    """What is sent of groups, in one line."""
    found = plan.people.groups
    if not found.types and not found.groups:
        return "No row names a group."
    return (
        f"{pluralize(found.groups, 'group')} to send, with {pluralize(found.properties, 'property')}, before all"
        " events. The service numbers the types in this order, for good."
    )


def group_types(plan: Plan) -> list[GroupTypeRow]:
    """The types in their order, and the place that each has at the service."""
    from pipeline.identity.settings import MAX_TYPES

    shown = []
    for place, one in enumerate(plan.people.groups.types, 1):
        what = f"number {place}" if place <= MAX_TYPES else f"no place: the service keeps {MAX_TYPES} types"
        shown.append(GroupTypeRow(one.type, one.rows, what if one.sent else "left out"))
    return shown


def left_out(counts: Mapping[str, int]) -> list[tuple[str, int, str]]:
    """Codes of what is not sent, with their counts and meanings."""
    return [(code, count, meaning(code)) for code, count in counts.items()]


def persons_sentence(plan: Plan) -> str:
    """What is sent of profiles and how, in one line."""
    found = plan.people.persons
    if found.kind == "none" and not found.persons:
        return "No profiles are sent (person properties: none); events keep their own $set."
    if not found.persons:
        return "No profiles are sent: the export has no person properties."
    updated = (
        f"{pluralize(found.properties, 'profile property')} of {pluralize(found.persons, 'person')}"
        f" {are(found.properties)} updated, once and after all events."
    )
    policy = f"{printable(found.policy)}: {policy_meaning(found.policy)}"
    if found.kind == "none":
        policy = "person properties: none"
    if plan.people.promotes:
        policy += "; but properties that the service copies from events are written as $set under every policy"
    return f"{updated} {policy}."


def profiles_sentences(plan: Plan) -> list[str]:
    """Who has a profile, and what the switch `--persons` does about it."""
    found = plan.people.profiles
    if not found.identified_ids and not found.anonymous_ids:
        return []
    sentences = [
        f"{pluralize(found.identified_events, 'event')} of {pluralize(found.identified_ids, 'identified id')},"
        f" {pluralize(found.anonymous_events, 'event')} of {pluralize(found.anonymous_ids, 'anonymous id')}"
        " (duplicates included)."
    ]
    if plan.options.persons == "identified":
        sentences.append(
            "--persons identified: the events of anonymous ids create no profile. The service then takes no"
            " person properties and no groups from them; merges and groups need profiles."
        )
    elif found.anonymous_ids:
        sentences.append(
            "--persons all: every id gets a profile. With --persons identified, anonymous ids would get none;"
            " but merges and groups need profiles, and the service takes neither groups nor person properties"
            " from events without one."
        )
    return sentences


def promoted_sentence(plan: Plan) -> str:
    """What the service writes to profiles by itself, "" where it is nothing."""
    found = plan.people.profiles
    initials = plan.people.initials
    if not found.promoted:
        return ""
    if plan.people.promotes:
        return (
            "By itself the service copies these event properties to their persons, in the order of arrival."
            f" --promoted-properties final: before all events {pluralize(initials, 'person')}"
            f" {'has' if initials == 1 else 'have'} the first values set once, as $initial_…, which leaves those"
            " of a live profile as they are; after all events the last values are set, over a live profile's too, as"
            f" the events themselves do. In a sample of {pluralize(found.looked_at, 'event')}:"
        )
    return (
        "By itself the service copies these event properties to their persons, whatever the policy: the last event"
        " that arrives wins, however old, and $initial_… keeps the first."
        f" In a sample of {pluralize(found.looked_at, 'event')}:"
    )


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


@on_terminal(40)
def show_people(console: Console, plan: Plan, directory: str) -> None:
    """What a plan does to people: merges, groups, profiles. One line where it does nothing."""
    if changes_nobody(plan):
        console.print(Text(" ".join((NO_CHANGES, *profiles_sentences(plan)))))
    else:
        _identities(console, plan, directory)
        _groups(console, plan)
        _persons(console, plan)
        for sentence in profiles_sentences(plan):
            console.print(Text(sentence))
    _promoted(console, plan)


def _identities(console: Console, plan: Plan, directory: str) -> None:
    console.print(Text(identities_sentence(plan)))
    found = plan.people.identities
    if found.decisions:
        shown = table("pairs of ids", "#count", "why")
        for one in decisions(plan):
            shown.add_row(text(one.what, 80), number(one.seal.pairs), Text(one.why, style="dim"))
        console.print(shown)
    if found.largest:
        shown = table("largest persons", "#ids", "some of the others")
        for cluster in found.largest[:MOST_ON_TERMINAL]:
            some = ", ".join(text(one, ID_CHARACTERS).plain for one in cluster.some)
            more = cluster.ids - 1 - len(cluster.some)
            others = f"{some} and {more:,} more" if more > 0 else some
            shown.add_row(text(cluster.canonical, ID_CHARACTERS), number(cluster.ids), Text(others, overflow="fold"))
        console.print(shown)
        if more := more_persons(plan, min(MOST_ON_TERMINAL, len(found.largest))):
            console.print(Text(f"and {pluralize(more, 'more person')} of several ids", style="dim"))
    _partners(console, "ids of several users", "users", found.shared)
    _partners(console, "users of several ids", "ids", found.crowded)
    if sentence := approval(plan):
        console.print(Text(f"{sentence}.", style="bold yellow"))
        console.print(Text(f"Each pair with its place: {directory or 'DIR'}/identities.parquet", style="dim"))


def _partners(console: Console, what: str, unit: str, found: Sequence[Partners]) -> None:
    if not found:
        return
    shown = table(what, f"#{unit}", "#rows")
    for one in found[:MOST_ON_TERMINAL]:
        shown.add_row(text(one.id, ID_CHARACTERS), number(one.partners), number(one.events))
    console.print(shown)
    if len(found) > MOST_ON_TERMINAL:
        console.print(Text(f"and {len(found) - MOST_ON_TERMINAL:,} more in the report", style="dim"))


def _groups(console: Console, plan: Plan) -> None:
    found = plan.people.groups
    console.print(Text(groups_sentence(plan)))
    if found.types:
        shown = table("group type", "#rows", "")
        for one in group_types(plan)[:MOST_NAMES]:
            shown.add_row(text(one.type, ID_CHARACTERS), number(one.rows), one.place)
        console.print(shown)
        if len(found.types) > MOST_NAMES:
            console.print(Text(f"and {len(found.types) - MOST_NAMES:,} more", style="dim"))
    _left_out(console, "groups left out", found.left_out)


def _persons(console: Console, plan: Plan) -> None:
    found = plan.people.persons
    console.print(Text(persons_sentence(plan)))
    if found.names:
        _names(console, "person property", "persons", bounded(found.names, MOST_NAMES, found.properties))
    _left_out(console, "profiles left out", found.left_out)


def _promoted(console: Console, plan: Plan) -> None:
    if sentence := promoted_sentence(plan):
        console.print(Text(sentence))
        found = bounded(plan.people.profiles.promoted, MOST_NAMES)
        _names(console, "property of events", "events", found)


def _names(console: Console, title: str, unit: str, found: TopCounts) -> None:
    shown = table(title, f"#{unit}")
    for name, count in found.shown:
        shown.add_row(text(name, 120), number(count))
    if found.more:
        shown.add_row(Text(found.more, style="dim"), number(found.rest))
    console.print(shown)


def _left_out(console: Console, title: str, counts: Mapping[str, int]) -> None:
    if not counts:
        return
    shown = table(title, "#count", "what it means")
    for code, count, why in left_out(counts):
        shown.add_row(text(code, 80), number(count), Text(why, style="dim"))
    console.print(shown)


@on_page(50, "people")
def people(report: Report) -> Values:
    """Merges with their evidence, groups and profiles."""
    plan, found = report.plan, report.plan.people
    shared = ("Shared devices (ids of several users)", "users", found.identities.shared)
    crowded = ("Users of several ids", "ids", found.identities.crowded)
    values = {
        "nothing": NO_CHANGES if changes_nobody(plan) else "",
        "identities": identities_sentence(plan),
        "approval": approval(plan),
        "decisions": decisions(plan),
        "largest": found.identities.largest[:MOST_ON_PAGE],
        "largest_left": more_persons(plan, min(MOST_ON_PAGE, len(found.identities.largest))),
        "most": MOST_ON_PAGE,
        "partners": [(title, unit, some[:MOST_ON_PAGE]) for title, unit, some in (shared, crowded)],
        "pairs": [(one, DECISIONS.get(one.decision, one.decision)) for one in report.pairs],
        "groups": groups_sentence(plan),
        "types": group_types(plan)[:MOST_ON_PAGE],
        "types_left": max(0, len(found.groups.types) - MOST_ON_PAGE),
        "groups_left_out": left_out(found.groups.left_out),
        "persons": persons_sentence(plan),
        "names": bounded(found.persons.names, MOST_ON_PAGE, found.persons.properties),
        "persons_left_out": left_out(found.persons.left_out),
        "profiles": profiles_sentences(plan),
        "promoted_sentence": promoted_sentence(plan),
        "promoted": bounded(found.profiles.promoted, MOST_ON_PAGE),
    }
    return {"people": values}
