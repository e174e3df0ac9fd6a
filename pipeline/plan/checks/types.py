"""Properties whose values have several types, and numbers that are stored as text."""

from __future__ import annotations

import re

from pipeline.clock_offsets import month_name
from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of, found_in_values
from pipeline.plan.statistics.drift import PropertyDrift
from pipeline.plan.statistics.values import COMMA, NUMERIC
from pipeline.text import pluralize, printable

_LEAST = 10
"""Fewer values of another type than this say nothing yet."""
_LEAST_TEXTS = 20
_OF_FLAGS = "$feature"
"""The service's own feature-flag properties begin like this; their values are strings and booleans."""
_AMOUNTS = re.compile(
    r"(?:^|_)(?:amount|price|revenue|total|subtotal|cost|tax|discount|quantity|qty|duration|score|balance|fee|value)s?"
    r"(?:_(?:usd|eur|gbp|cents|total|value|net|gross|in|ms|sec|seconds|minutes))*$"
)
"""Words in the names of amounts that people add up. Codes, zip codes, versions and ids are numbers that are rightly
strings."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\s\-.$]+")


def _others(one: PropertyDrift) -> dict[str, int]:
    """Counts of the property's types except the most frequent one. Numbers stored as text count as text here."""
    families = one.families
    families["text"] = families.get("text", 0) + families.pop("number as text", 0)
    most = max(families, key=lambda family: families[family])
    return {family: count for family, count in families.items() if count and family != most}


def _changed(one: PropertyDrift, percent: float) -> bool:
    """Whether some events have the property as a number and others as a number in a string, each more than `percent` of
    all, with next to nothing else."""
    families = one.families
    rest = one.filled - families.get("number", 0) - families.get("number as text", 0)
    return all(
        _counts(families.get(family, 0), one, percent) for family in ("number", "number as text")
    ) and not _counts(rest, one, 1)


def _counts(values: int, one: PropertyDrift, percent: float) -> bool:
    return one.seen(values) >= _LEAST and values * 100 > percent * one.filled


@check("mixed_types", "warning")
def mixed_types(facts: PlanFacts) -> Finding | None:
    """A property has values of several types: filters and sums on it leave some of them out."""
    percent = facts.thresholds.mixed_types
    found = [
        (one, others)
        for one in facts.drift.properties
        if _counts(sum((others := _others(one)).values()), one, percent)
        and not _changed(one, percent)
        and not one.name.startswith(_OF_FLAGS)
    ]
    found.sort(key=lambda pair: (-sum(pair[1].values()), pair[0].event, pair[0].name))
    return found_in_values(
        facts,
        f"{pluralize(len(found), 'property')} with values of several types",
        [f"{_named(one)}: {_shares(one)}; the first {_first(facts, one, others)}" for one, others in found],
    )


def _shares(one: PropertyDrift) -> str:
    return ", ".join(f"{count / one.filled:.1%} {family}" for family, count in one.families.items())


def _first(facts: PlanFacts, one: PropertyDrift, others: dict[str, int]) -> str:
    family = max(others, key=lambda family: others[family])
    place = one.place(family)
    if family == "text":
        place = min(place, one.place("number as text"))
    return f"{family} is in {facts.row_at(place)}"


@check("unconverted", "stop")
def unconverted_values(facts: PlanFacts) -> Finding | None:
    """A property has values that cannot be converted to the type that the mapping requires (`else: stop`)."""
    found = sorted(facts.unconverted.items(), key=lambda one: (-one[1][0], one[0]))
    return finding_of(
        f"{pluralize(len(found), 'property')} with values that are not of the type that the mapping requires",
        [
            f"{pluralize(count, 'value')}, the first in row {first.row:,} of {first.part} ({first.detail})"
            for _, (count, first) in found
        ],
    )


@check("numbers_as_text", "warning")
def numbers_and_texts(facts: PlanFacts) -> Finding | None:
    """A property is a number in some events, and a number stored as text in others."""
    found = [one for one in facts.drift.properties if _changed(one, facts.thresholds.mixed_types)]
    found.sort(key=lambda one: (-one.filled, one.event, one.name))
    return found_in_values(
        facts,
        f"{pluralize(len(found), 'property')} with numbers in some events and numbers stored as text in others",
        [
            f"{_named(one)}: {one.of('number'):,} numbers ({_months(one, 'number')}), {one.of('number as text'):,}"
            f" as text ({_months(one, 'number as text')}), the first in {facts.row_at(one.place('number as text'))}"
            for one in found
        ],
    )


def _months(one: PropertyDrift, family: str) -> str:
    """`2021-03`, or `2021-03 to 2021-08`: the months that have values of this type."""
    months = one.months[one.by_month(family) > 0].tolist()
    first, last = month_name(months[0]), month_name(months[-1])
    return first if first == last else f"{first} to {last}"


@check("amounts_as_text", "notice")
def amounts_as_text(facts: PlanFacts) -> Finding | None:
    """A property is a string in all events although its name is that of an amount, or has a decimal comma in all of
    them whatever its name, so it cannot be added up."""
    found = [
        (one, comma)
        for one in facts.drift.properties
        if (comma := _nearly_all(one.whole.counts[COMMA], one))
        or (_nearly_all(one.of("number as text"), one) and _is_amount(one.name)
            and not _changed(one, facts.thresholds.mixed_types))
    ]  # fmt: skip
    found.sort(key=lambda pair: (-pair[0].filled, pair[0].event, pair[0].name))
    return found_in_values(
        facts,
        f"{pluralize(len(found), 'property')} with amounts stored as text",
        [
            f"{_named(one)} ({pluralize(one.filled, 'row')}{', with a decimal comma' if comma else ''}), the first in"
            f" {facts.row_at(one.whole.places[COMMA if comma else NUMERIC])}"
            for one, comma in found
        ],
    )


def _nearly_all(values: int, one: PropertyDrift) -> bool:
    return one.seen(values) >= _LEAST_TEXTS and values >= 0.99 * one.filled


def _is_amount(name: str) -> bool:
    return _AMOUNTS.search(_WORDS.sub("_", name).casefold()) is not None


def _named(one: PropertyDrift) -> str:
    return f"{printable(one.name, 60)} of {printable(one.event, 60)}"
