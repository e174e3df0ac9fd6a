"""The drift of a plan: how the properties of its events change from month to month.

The events are those of the plan's sample, as they are sent, duplicates included. If the sample has only some events of
a month, the numbers of values are estimates for all of them. The checks examine the properties with the most events.
drift.jsonl has a line of each of these for each event name, property and month; the others are counted and named.
plan.json has the most notable ones, with the months in which something changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from pipeline.clock_offsets import month_name
from pipeline.plan.sealed.directory import LinesWriter
from pipeline.plan.sealed.facts import Drift, LeftOut, Period, PropertySummary, SampleSize
from pipeline.plan.statistics.daily_counts import day_name
from pipeline.plan.statistics.sample import EventSample, Month, Size
from pipeline.plan.statistics.values import (
    BLANK,
    BOOLEAN,
    COMMA,
    DECIMAL,
    INTEGER,
    KINDS,
    LARGE,
    LARGE_IN_LIST,
    LARGE_IN_OBJECT,
    LIST,
    NO_PLACE,
    NO_VALUES,
    NULL,
    NUMERIC,
    OBJECT,
    ROUNDED,
    TEXT,
    Values,
    distinct,
    values_of,
)
from pipeline.text import printable

MOST_MONTHS = 250_000
"""At most this many entries of event name, property and month are examined: the properties with the most events."""
MOST_PROPERTIES = 100_000
"""At most this many properties of one event name are examined: the first ones."""
MOST_LISTED = 300
"""At most this many properties are in plan.json."""
MOST_PERIODS = 12
MOST_NAMED = 20
NAME_CHARACTERS = 200
SOME = 3
FEW = 3
"""A property in at most this many events of the sample is rare."""
_ENOUGH, _TYPED, _STEP, _SHARE, _SURE = 20, 10, 0.1, 0.01, 5
"""A period begins when the share of empty values changes by a step in a month with enough events, or when enough values
have other types. A type counts if it has a share of the values; in a sample, if it has at least _SURE values."""

FAMILIES = {
    "text": (TEXT, COMMA, ROUNDED),
    "number as text": (NUMERIC,),
    "number": (INTEGER, LARGE, DECIMAL),
    "boolean": (BOOLEAN,),
    "object": (OBJECT, LARGE_IN_OBJECT),
    "list": (LIST, LARGE_IN_LIST),
}
"""The types as people read them, and the kinds that belong to each."""
_Numbers = NDArray[np.int64]


class PropertyDrift(msgspec.Struct, frozen=True):
    """A property of an event name by month. `months` (since January 1970) run from its first to its last, as far as
    they have events of the name. `events` counts these events, and `sampled` those in the sample. `counts` has a row of
    KINDS for each month, `distinct` the number of different values and `exact` whether it is counted exactly; `empties`
    has the places of the first null or blank values. `whole` covers all months."""

    event: str
    name: str
    months: _Numbers
    events: _Numbers
    sampled: _Numbers
    counts: _Numbers
    distinct: _Numbers
    exact: NDArray[np.bool_]
    empties: NDArray[np.uint64]
    whole: Values

    @property
    def present(self) -> int:
        """The events that have the property, null included."""
        return sum(self.whole.counts)

    @property
    def filled(self) -> int:
        """The events in which the property is neither null nor blank."""
        counts = self.whole.counts
        return sum(counts) - counts[NULL] - counts[BLANK]

    def of(self, family: str) -> int:
        """How many values belong to one of FAMILIES."""
        return sum(self.whole.counts[kind] for kind in FAMILIES[family])

    def seen(self, values: int) -> int:
        """How many of these values are in the sample, if all events have `values` of them."""
        return round(values * self.whole.seen / max(self.present, 1))

    @property
    def families(self) -> dict[str, int]:
        """How many values belong to each of FAMILIES, the most frequent first."""
        counts = {family: self.of(family) for family in FAMILIES}
        return {family: count for family, count in sorted(counts.items(), key=lambda one: -one[1]) if count}

    def by_month(self, family: str) -> _Numbers:
        """How many values belong to one of FAMILIES in each month."""
        found: _Numbers = self.counts[:, list(FAMILIES[family])].sum(axis=1)
        return found

    @property
    def empty(self) -> _Numbers:
        """The events of each month in which the property is missing, null or blank."""
        found: _Numbers = self.events - self.counts.sum(axis=1) + self.counts[:, [NULL, BLANK]].sum(axis=1)
        return found

    def place(self, family: str) -> int:
        """The place of the first value of one of FAMILIES: its block, shifted left by PLACE_SHIFT, plus its row
        there."""
        places = self.whole.places
        return min(places[kind] for kind in FAMILIES[family])


class EventNames(NamedTuple):
    """How many properties the sampled events of a name have, how many of these are rare, some of the rare ones, and the
    place of one."""

    event: str
    events: int
    properties: int
    rare: int
    some: list[str]
    place: int


class DriftFacts(msgspec.Struct, frozen=True):
    """What the checks examine: `properties` in the order of their names, and the event names with the most rare ones.
    `in_sample` says in words that these come from a sample; "" if all events were examined."""

    properties: Sequence[PropertyDrift] = ()
    names: Sequence[EventNames] = ()
    in_sample: str = ""


class _Examined:
    """The properties with the most events, limited to `most` months in total."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._months = 0
        self._heap: list[tuple[int, int, PropertyDrift]] = []
        self._count = 0
        self.left_out = self.left_out_events = 0
        self.some: list[tuple[int, str]] = []

    def add(self, one: PropertyDrift) -> None:
        self._count += 1
        heapq.heappush(self._heap, (one.present, -self._count, one))
        self._months += len(one.months)
        while self._months > self._most and len(self._heap) > 1:
            events, _, least = heapq.heappop(self._heap)
            self._months -= len(least.months)
            self.left_out += 1
            self.left_out_events += events
            name = f"{printable(least.name, 60)} of {printable(least.event, 60)}"
            self.some = heapq.nsmallest(MOST_NAMED, [*self.some, (-events, name)])

    def properties(self) -> list[PropertyDrift]:
        return sorted((one for _, _, one in self._heap), key=lambda one: (one.event, one.name))


def examine(sample: EventSample, path: Path, most_months: int = MOST_MONTHS) -> tuple[Drift, DriftFacts, str]:
    """The drift of a sample, what checks examine, and the sha256 of the file of all months, which this writes."""
    examined = _Examined(most_months)
    rarest: list[EventNames] = []
    for name, months in sample.names():
        one = _each_property(name, months, examined)
        if one.rare:
            rarest = heapq.nlargest(MOST_NAMED, [*rarest, one], key=lambda one: one.rare)
    properties = examined.properties()
    with LinesWriter(path) as writer:
        for each in properties:
            writer.write_all(_lines(each))
        digest = writer.close()
    ranked = heapq.nsmallest(MOST_LISTED, map(_ranked, properties), key=lambda one: one[0])
    left_out = LeftOut(examined.left_out, examined.left_out_events, [name for _, name in examined.some])
    size = sample.size()
    whole = size.events == size.of
    drift = Drift(
        size.of, len(properties), [_summary(each, periods) for _, each, periods in ranked], left_out,
        UNSET if whole else SampleSize(size.events, size.of_cell, _margin(size.of_cell)),
    )  # fmt: skip
    return drift, DriftFacts(properties, rarest, "" if whole else _in_words(size)), digest


def _margin(events: int) -> float:
    """The margin in percentage points: a share in a sample of `events` is that close to the share of all in 95 of 100
    cases."""
    return round(100 * 1.96 * sqrt(0.25 / events), 1)


def _in_words(size: Size) -> str:
    return (
        f" (in a sample of {size.events:,} of {size.of:,} events; the share in a month is accurate to"
        f" {_margin(size.of_cell):.1f} percentage points)"
    )


def _each_property(event: str, months: Iterable[Month], examined: _Examined) -> EventNames:
    """Examine each property of an event name."""
    sizes: dict[int, tuple[int, int]] = {}
    found: dict[str, dict[int, Values]] = {}
    for month, events, sampled, every in months:
        sizes[month] = events, sampled
        of_month: dict[str, Values] = {}
        for some in every:
            for name, values in values_of(some).items():
                of_month[name] = of_month[name].merged(values) if name in of_month else values
        for name in sorted(of_month):
            if name in found or len(found) < MOST_PROPERTIES:
                found.setdefault(name, {})[month] = of_month[name].scaled(events, sampled)
    count, rare = len(found), 0
    some_names: list[str] = []
    place = NO_PLACE
    for name in sorted(found):
        one = _property(event, name, sizes, found.pop(name))
        examined.add(one)
        if one.whole.seen <= FEW:
            rare += 1
            place = min(place, *one.whole.places)
            if len(some_names) < SOME:
                some_names.append(name)
    events = sum(events for events, _ in sizes.values())
    return EventNames(event, events, count, rare, some_names, place)


def _property(
    event: str, name: str, sizes: Mapping[int, tuple[int, int]], of_month: Mapping[int, Values]
) -> PropertyDrift:
    first, last = min(of_month), max(of_month)
    months = [month for month in sorted(sizes) if first <= month <= last]
    values = [of_month.get(month, NO_VALUES) for month in months]
    different = [distinct(one.hashes, sum(one.counts)) for one in values]
    return PropertyDrift(
        event,
        name,
        np.array(months, np.int64),
        np.array([sizes[month][0] for month in months], np.int64),
        np.array([sizes[month][1] for month in months], np.int64),
        np.array([one.counts for one in values], np.int64),
        np.array([count for count, _ in different], np.int64),
        np.array(
            [exact and sizes[month][0] == sizes[month][1] for month, (_, exact) in zip(months, different, strict=True)],
            np.bool_,
        ),
        np.array([min(one.places[:2]) for one in values], np.uint64),
        reduce(Values.merged, of_month.values()),
    )


def _lines(one: PropertyDrift) -> Iterator[dict[str, object]]:
    """A line of drift.jsonl for each month."""
    for at, month in enumerate(one.months.tolist()):
        counts = one.counts[at].tolist()
        yield {
            "event": one.event,
            "property": one.name,
            "month": month_name(month),
            "events": int(one.events[at]),
            "missing": int(one.events[at]) - sum(counts),
            "null": counts[NULL],
            "blank": counts[BLANK],
            "types": {KINDS[kind]: count for kind, count in enumerate(counts) if count and kind not in (NULL, BLANK)},
            "distinct": int(one.distinct[at]),
            "exact": bool(one.exact[at]),
        }


def _periods(one: PropertyDrift) -> list[Period]:
    """The periods of a property: similar months, put together."""
    empty, total, sampled = one.empty, one.events, one.sampled
    families = np.stack([one.by_month(family) for family in FAMILIES], axis=1)
    starts = [0]
    for at in range(1, len(total)):
        start = starts[-1]
        if sampled[at] < _ENOUGH or sampled[start:at].sum() < _ENOUGH:
            continue
        step = abs(empty[at] / total[at] - empty[start:at].sum() / total[start:at].sum())
        known, found = families[start:at].sum(axis=0), families[at]
        share = max(_SHARE, 0 if sampled[at] == total[at] else _SURE / sampled[at])
        retyped = one.seen(min(known.sum(), found.sum())) >= _TYPED and _differ(known, found, share)
        if step >= max(_STEP, _error(one, at)) or retyped:
            starts.append(at)
    starts = starts[:MOST_PERIODS]
    return [
        Period(
            month_name(int(one.months[start])),
            month_name(int(one.months[end - 1])),
            _types(families[start:end].sum(axis=0)),
            round(float(empty[start:end].sum() / total[start:end].sum()), 4),
            int(total[start:end].sum()),
        )
        for start, end in pairwise([*starts, len(total)])
    ]


def _error(one: PropertyDrift, month: int) -> float:
    """How much the sample may change the share of empty values in a month; 0 if all events were examined."""
    events, sampled = int(one.events[month]), int(one.sampled[month])
    share = float(one.empty[month]) / events
    return 3 * sqrt(share * (1 - share) / sampled * (1 - sampled / events))


def _differ(counts: _Numbers, others: _Numbers, share: float) -> bool:
    """Whether one of them has families with this share of its values that the other lacks, or has too few of."""
    some, more = set(_types(counts)), set(_types(others))
    sure = set(_types(counts, share)) | set(_types(others, share))
    return bool((some ^ more) & sure)


def _types(counts: _Numbers, share: float = _SHARE) -> list[str]:
    """The families that have a share of these values, the most frequent first."""
    found = [(-count, family) for family, count in zip(FAMILIES, counts.tolist(), strict=True) if count]
    return [family for count, family in sorted(found) if -count >= share * counts.sum()]


def _ranked(one: PropertyDrift) -> tuple[tuple[Any, ...], PropertyDrift, list[Period]]:
    """The property with its rank: by changes of type and steps of the empty share, then mixed types, then
    events."""
    periods = _periods(one)
    steps = [abs(after.empty - before.empty) for before, after in pairwise(periods)]
    retyped = any(set(before.types) ^ set(after.types) for before, after in pairwise(periods) if after.types)
    mixed = sum(sorted(one.families.values())[:-1]) >= max(_SHARE * one.filled, 1)
    score = 2 * retyped + 2 * mixed + round(max(steps, default=0), 2)
    return (-score, -one.present, one.event, one.name), one, periods


def _summary(one: PropertyDrift, periods: list[Period]) -> PropertySummary:
    counts, total = one.whole.counts, int(one.events.sum())
    different, exact = distinct(one.whole.hashes, sum(counts))
    exact = exact and bool((one.sampled == one.events).all())
    return PropertySummary(
        printable(one.event, NAME_CHARACTERS),
        printable(one.name, NAME_CHARACTERS),
        total,
        total - sum(counts),
        counts[NULL],
        counts[BLANK],
        {KINDS[kind]: count for kind, count in enumerate(counts) if count and kind not in (NULL, BLANK)},
        different,
        exact,
        day_name(one.whole.first),
        day_name(one.whole.last),
        periods,
    )
