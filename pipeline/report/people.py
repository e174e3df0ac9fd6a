"""What a plan decided on ids, groups and persons, in the sentences and rows that the terminal and the page share.

Ids are shown as they stand, since a person is found again by them; values of properties are not shown at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.plan.manifest import DecisionSeal, Plan
from pipeline.report.wording import DECISIONS, decided_because, policy_meaning
from pipeline.text import pluralize, printable
from pipeline.validator.codes import meaning

NOTHING = "No merges, no groups, no profiles to send."
"""What is said of a plan that does nothing to people, instead of empty tables."""


class Bounded(NamedTuple):
    """The first names of many with their counts; `more` tells of the others, which count `rest` together."""

    shown: list[tuple[str, int]]
    more: str
    rest: int


class Decided(NamedTuple):
    """One line of the decisions on pairs: what, why, how many."""

    seal: DecisionSeal
    what: str
    why: str


class TypeShown(NamedTuple):
    """One group type, the rows that name it, and its place at the service in words."""

    type: str
    rows: int
    place: str


def nothing(plan: Plan) -> bool:
    """Whether the plan holds no pair of ids, no group and no person's property."""
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


def bounded(counts: Mapping[str, int], most: int, total: int | None = None) -> Bounded:
    """The first `most` of the counts, in their order. `total` is what all count where `counts` has not every name."""
    every = list(counts.items())
    left, known = every[most:], sum(counts.values())
    total = known if total is None else max(known, total)
    more = f"and {len(left):,} more" if total == known else f"and more than {len(left):,} more"
    rest = total - sum(count for _, count in every[:most])
    return Bounded(every[:most], more if rest else "", rest)


def more_persons(plan: Plan, shown: int) -> int:
    """How many persons of several ids there are beside so many."""
    return plan.people.identities.persons - shown


def decisions(plan: Plan) -> list[Decided]:
    """What was decided on the pairs, merges first, then the reasons with most pairs."""
    order = {name: place for place, name in enumerate(DECISIONS)}
    seals = sorted(
        plan.people.identities.decisions,
        key=lambda one: (order.get(one.decision, len(order)), -one.pairs, one.reason),
    )
    return [Decided(one, DECISIONS.get(one.decision, one.decision), decided_because(one.reason, plan)) for one in seals]


def merges(plan: Plan) -> int:
    """How many merges `apply` sends: the number that `--approve-merges` asks for."""
    return plan.events.phases.get("identities", 0)


def identities_sentence(plan: Plan) -> str:
    """What merging would do, in one line."""
    found = plan.people.identities
    if not found.pairs and not merges(plan):
        return "No row or record pairs two ids: nothing is merged."
    return (
        f"{pluralize(found.pairs, 'pair')} of ids {_were(found.pairs)} found. {pluralize(found.persons, 'person')} will"
        f" have several ids, joined by {pluralize(merges(plan), 'merge')} to send."
    )


def approval(plan: Plan) -> str:
    """How the merges are approved; "" where there is none."""
    count = merges(plan)
    if not count:
        return ""
    return f"Merges cannot be undone. Where you agree with them, apply takes --approve-merges {count}"


def groups_sentence(plan: Plan) -> str:
    """What is sent of groups, in one line."""
    found = plan.people.groups
    if not found.types and not found.groups:
        return "No row names a group."
    return (
        f"{pluralize(found.groups, 'group')} to send, with {pluralize(found.properties, 'property')}, before all"
        " events. The service numbers the types in this order, for good."
    )


def group_types(plan: Plan) -> list[TypeShown]:
    """The types in their order, and the place that each has at the service."""
    from pipeline.identity.settings import MAX_TYPES

    shown = []
    for place, one in enumerate(plan.people.groups.types, 1):
        what = f"number {place}" if place <= MAX_TYPES else f"no place: the service keeps {MAX_TYPES} types"
        shown.append(TypeShown(one.type, one.rows, what if one.sent else "left out"))
    return shown


def left_out(counts: Mapping[str, int]) -> list[tuple[str, int, str]]:
    """Codes of what is not sent, with their counts and meanings."""
    return [(code, count, meaning(code)) for code, count in counts.items()]


def persons_sentence(plan: Plan) -> str:
    """What is sent of profiles and how, in one line."""
    found = plan.people.persons
    if found.kind == "none" and not found.persons:
        return "No profiles are sent (person properties: none); events keep what they set of their persons."
    if not found.persons:
        return "No profiles are sent: the export says nothing of persons."
    touched = (
        f"{pluralize(found.persons, 'person')} and {pluralize(found.properties, 'property')} of theirs are touched,"
        " once and after all events."
    )
    policy = f"{printable(found.policy)}: {policy_meaning(found.policy)}"
    if found.kind == "none":
        policy = "person properties: none"
    if plan.people.promotes:
        policy += "; but what the service copies from events is written as $set under every policy"
    return f"{touched} {policy}."


def profiles_sentences(plan: Plan) -> list[str]:
    """Who has a profile, and what the switch `--persons` does about it."""
    found = plan.people.profiles
    if not found.identified_ids and not found.anonymous_ids:
        return []
    sentences = [
        f"{pluralize(found.identified_events, 'event')} of {pluralize(found.identified_ids, 'id')} with identity,"
        f" {pluralize(found.anonymous_events, 'event')} of {pluralize(found.anonymous_ids, 'id')} without"
        " (copies included)."
    ]
    if plan.options.persons == "identified":
        sentences.append(
            "--persons identified: the events of ids without identity make no profile. The service then takes no"
            " properties of persons and no groups from them; merges and groups need profiles."
        )
    elif found.anonymous_ids:
        sentences.append(
            "--persons all: every id gets a profile. With --persons identified, those without identity would get none;"
            " but merges and groups need profiles, and the service takes neither groups nor properties of persons"
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
            "By itself the service copies these properties of events to their persons, in the order of arrival."
            f" --promoted-properties final: before all events {pluralize(initials, 'person')}"
            f" {'has' if initials == 1 else 'have'} the first values set once, as $initial_…, which leaves those"
            " of a live profile as they are; after all events the last values are set, over a live profile's too, as"
            f" the events themselves do. Of {pluralize(found.looked_at, 'event')} looked at, so many have them:"
        )
    return (
        "By itself the service copies these properties of events to their persons, whatever the policy: the last event"
        " it takes wins, however old, and $initial_… keeps the first."
        f" Of {pluralize(found.looked_at, 'event')} looked at, so many have them:"
    )


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
