"""The drift of a plan: what the properties of its events are from month to month.

All events are counted as they are sent, duplicates included (`pipeline.transform.drift`). The properties with most
events are examined by the checks and written to drift.jsonl, a line for each event name, property and month; the others
are counted and named. plan.json has the most notable ones, with the months from which on something is different.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby, pairwise
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.clock_offsets import month_name
from pipeline.plan.sealed.directory import LinesWriter
from pipeline.plan.sealed.facts import Drift, LeftOut, Period, PropertySummary
from pipeline.plan.statistics.daily_counts import day_name
from pipeline.plan.statistics.spilled_counts import SpilledTable
from pipeline.text import printable
from pipeline.transform.drift import (
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
    NULL,
    NUMERIC,
    OBJECT,
    ROUNDED,
    TEXT,
    Packed,
    Taken,
    Values,
    distinct,
    entries_of,
    merged,
    unpacked,
)

MOST_MONTHS = 250_000
"""So many entries of event name, property and month are examined, those of the properties with most events."""
MOST_IN_MEMORY = 20_000
MOST_LISTED = 300
"""Properties in plan.json."""
MOST_PERIODS = 12
MOST_NAMED = 20
NAME_CHARACTERS = 200
SOME = 3
FEW = 3
"""A property in so many events or fewer is rare."""
_ENOUGH, _TYPED, _STEP, _SHARE = 20, 10, 0.1, 0.01
"""A period begins where a month of enough events has another share of empty values, by a step, or where enough values
are of other types, of those that have a share of them."""

FAMILIES = {
    "text": (TEXT, COMMA, ROUNDED),
    "number as text": (NUMERIC,),
    "number": (INTEGER, LARGE, DECIMAL),
    "boolean": (BOOLEAN,),
    "object": (OBJECT, LARGE_IN_OBJECT),
    "list": (LIST, LARGE_IN_LIST),
}
"""The types that people read, and the kinds of each."""
_Numbers = NDArray[np.int64]


class PropertyDrift(msgspec.Struct, frozen=True):
    """A property of an event name by month: `months` (since January 1970) are those from its first to its last that
    have events of the name, `events` counts these, `counts` has a row of KINDS for each, `distinct` the different
    values and `exact` whether they are counted, `empties` has the places of the first null or blank values. `whole` is
    that of all months."""

    event: str
    name: str
    months: _Numbers
    events: _Numbers
    counts: _Numbers
    distinct: _Numbers
    exact: NDArray[np.bool_]
    empties: NDArray[np.uint64]
    whole: Values

    @property
    def present(self) -> int:
        """The events that have the property, with null as well."""
        return sum(self.whole.counts)

    @property
    def filled(self) -> int:
        """The events in which it is neither null nor blank."""
        counts = self.whole.counts
        return sum(counts) - counts[NULL] - counts[BLANK]

    def of(self, family: str) -> int:
        """How many values are of one of FAMILIES."""
        return sum(self.whole.counts[kind] for kind in FAMILIES[family])

    @property
    def families(self) -> dict[str, int]:
        """How many values are of each of FAMILIES, the most frequent first."""
        counts = {family: self.of(family) for family in FAMILIES}
        return {family: count for family, count in sorted(counts.items(), key=lambda one: -one[1]) if count}

    def by_month(self, family: str) -> _Numbers:
        """The same in each month."""
        found: _Numbers = self.counts[:, list(FAMILIES[family])].sum(axis=1)
        return found

    @property
    def empty(self) -> _Numbers:
        """In each month, the events in which the property is missing, null or blank."""
        found: _Numbers = self.events - self.counts.sum(axis=1) + self.counts[:, [NULL, BLANK]].sum(axis=1)
        return found

    def place(self, family: str) -> int:
        """Where the first value of one of FAMILIES is: its block, shifted left by PLACE_SHIFT, plus its row in it."""
        places = self.whole.places
        return min(places[kind] for kind in FAMILIES[family])


class EventNames(NamedTuple):
    """How many properties an event name has, how many of these are in FEW events or fewer, some of these, and the place
    of one of them."""

    event: str
    events: int
    properties: int
    rare: int
    some: list[str]
    place: int


class DriftFacts(msgspec.Struct, frozen=True):
    """What the checks examine: `properties` in the order of their names, and the event names with most rare ones."""

    properties: Sequence[PropertyDrift] = ()
    names: Sequence[EventNames] = ()


class _Examined:
    """The properties with most events, whose months are no more than `most`."""

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


class DriftCollector:
    """Takes what workers counted, in any order."""

    def __init__(self, directory: Path, most: int = MOST_IN_MEMORY) -> None:
        self._values: SpilledTable[Packed] = SpilledTable(
            directory, "drift", tuple[str, str, int], Packed, merged, most
        )
        self._events: SpilledTable[int] = SpilledTable(directory, "drift-events", tuple[str, int], int, add)

    def add(self, taken: Sequence[Taken]) -> None:
        """Add what a worker took from its `Drift`."""
        for event, month, events, _ in taken:
            self._events.put((event, month), events)
        for event, month, name, packed in entries_of(taken):
            self._values.put((event, name, month), packed)

    def finish(self, path: Path, most: int = MOST_MONTHS) -> tuple[Drift, DriftFacts, str]:
        """The drift, what checks examine, and the sha256 of the file of all months, which is written. Called once."""
        examined = _Examined(most)
        rarest: list[EventNames] = []
        total = 0
        values = groupby(self._values.items(), key=lambda pair: pair[0][0])
        event, of_event = next(values, ("", iter(())))
        for name, counts in groupby(self._events.items(), key=lambda pair: pair[0][0]):
            months = {month: count for (_, month), count in counts}
            total += sum(months.values())
            if event == name:  # else no event of this name has a property
                one = _each_property(name, months, of_event, examined)
                if one.rare:
                    rarest = heapq.nlargest(MOST_NAMED, [*rarest, one], key=lambda one: one.rare)
                event, of_event = next(values, ("", iter(())))
        properties = examined.properties()
        with LinesWriter(path) as writer:
            for each in properties:
                writer.write_all(_lines(each))
            digest = writer.close()
        ranked = heapq.nsmallest(MOST_LISTED, map(_ranked, properties), key=lambda one: one[0])
        left_out = LeftOut(examined.left_out, examined.left_out_events, [name for _, name in examined.some])
        drift = Drift(total, len(properties), [_summary(each, periods) for _, each, periods in ranked], left_out)
        return drift, DriftFacts(properties, rarest), digest


def _each_property(
    event: str, months: Mapping[int, int], values: Iterable[tuple[Any, Packed]], examined: _Examined
) -> EventNames:
    """Examine each property of an event name, which has so many events in each month."""
    count = rare = 0
    some: list[str] = []
    place = NO_PLACE
    for name, of_name in groupby(values, key=lambda pair: pair[0][1]):
        one = _property(event, name, months, {month: unpacked(packed) for (_, _, month), packed in of_name})
        examined.add(one)
        count += 1
        if one.present <= FEW:
            rare += 1
            place = min(place, *one.whole.places)
            if len(some) < SOME:
                some.append(name)
    return EventNames(event, sum(months.values()), count, rare, some, place)


def _property(event: str, name: str, events: Mapping[int, int], of_month: Mapping[int, Values]) -> PropertyDrift:
    first, last = min(of_month), max(of_month)
    months = [month for month in sorted(events) if first <= month <= last]
    nothing = (0,) * len(KINDS)
    different = [
        distinct(of_month[month].hashes, sum(of_month[month].counts)) if month in of_month else (0, True)
        for month in months
    ]
    return PropertyDrift(
        event,
        name,
        np.array(months, np.int64),
        np.array([events[month] for month in months], np.int64),
        np.array([of_month[month].counts if month in of_month else nothing for month in months], np.int64),
        np.array([count for count, _ in different], np.int64),
        np.array([exact for _, exact in different], np.bool_),
        np.array([min(of_month[month].places[:2]) if month in of_month else NO_PLACE for month in months], np.uint64),
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
    """The months that are alike, together."""
    empty, total = one.empty, one.events
    families = np.stack([one.by_month(family) for family in FAMILIES], axis=1)
    starts = [0]
    for at in range(1, len(total)):
        start = starts[-1]
        if total[at] < _ENOUGH or total[start:at].sum() < _ENOUGH:
            continue
        step = abs(empty[at] / total[at] - empty[start:at].sum() / total[start:at].sum())
        known, found = families[start:at].sum(axis=0), families[at]
        retyped = min(known.sum(), found.sum()) >= _TYPED and set(_types(known)) != set(_types(found))
        if step >= _STEP or retyped:
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


def _types(counts: _Numbers) -> list[str]:
    """The families that have a share of these values, the most frequent first."""
    found = [(-count, family) for family, count in zip(FAMILIES, counts.tolist(), strict=True) if count]
    return [family for count, family in sorted(found) if -count >= _SHARE * counts.sum()]


def _ranked(one: PropertyDrift) -> tuple[tuple[Any, ...], PropertyDrift, list[Period]]:
    """The property, and what orders it among others: by changes of type and steps of the empty share, mixed types, and
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
