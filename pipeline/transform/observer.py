"""Collects what a plan needs beside the events of a block. `pipeline.native` has `Observer` in C."""

from __future__ import annotations

from array import array
from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pipeline.identity.aggregator import IdentityAggregator
from pipeline.identity.property_updates import ABSENT
from pipeline.models import GroupUpdate, Link, PersonUpdate, UnvalidatedEvent
from pipeline.native import AVAILABLE, native
from pipeline.transform.events import Events
from pipeline.transform.field_counts import FieldCounts

OVERWRITES, GROUPS, NOTE = 1, 2, 4
"""What an observer leaves to its caller: to warn of `$set` in the event; to aggregate its `$groups`; or its note."""


class Observation(NamedTuple):
    """Where a plan gathers what rows state: their identities, and the counts of their fields. None: not gathered.

    The positions `left_out`, by row, are of copies: what they state has no effect.
    """

    aggregator: IdentityAggregator | None = None
    fields: FieldCounts | None = None
    left_out: Mapping[int, Container[int]] = MappingProxyType({})


NOTHING_MORE = Observation()
"""A plan's view of the events, and nothing gathered beside them."""


class Observer:
    """Collects the names and times of a block's events, which only a plan asks for, and adds their ids to `ids`.

    `names` takes the names. `ids` is an accumulator of `IdentityAggregator`, None where nothing is aggregated.
    """

    def __init__(self, names: list[str], ids: Any, place: int) -> None:
        self._names = names
        self._ids = ids
        self._place = place
        self._times, self._received = array("q"), array("q")
        self._walls, self._walls_received = array("q"), array("q")

    def __call__(self, row: int, event: UnvalidatedEvent, time: int, distinct_id: str, properties: Any) -> int:
        """Collect what a plan needs of one event. Returns the sum of OVERWRITES, GROUPS, NOTE that is left to do."""
        note = event.note
        self.add(event.event, time, event.received, event.wall)
        if self._ids is not None:
            self._ids.add_id(distinct_id, time, note is not None and note.user == distinct_id, self._place + row)
        return OVERWRITES * ("$set" in properties) | GROUPS * ("$groups" in properties) | NOTE * (note is not None)

    def add(self, event: str | None, time: int, received: int | None, wall: int | None) -> None:
        """The same of an event whose id and note are aggregated elsewhere."""
        self._names.append(event)  # type: ignore[arg-type]
        self._times.append(time)
        self._received.append(received or 0)
        if wall is not None and received:
            self._walls.append(wall)
            self._walls_received.append(received)

    def cut(self, events: int, walls: int) -> None:
        """Remove all events after the first `events`, and clock readings after the first `walls`."""
        for series in (self._names, self._times, self._received):
            del series[events:]
        for series in (self._walls, self._walls_received):
            del series[walls:]

    @property
    def walls(self) -> int:
        """How many of the events have both a reading of the wall clock and a receive time."""
        return len(self._walls)

    def columns(self) -> tuple[bytes, ...]:
        """Times, receive times (0: none), readings of the clock and the receive times beside those: int64, µs."""
        return tuple(column.tobytes() for column in (self._times, self._received, self._walls, self._walls_received))


def observer(events: Events, aggregator: IdentityAggregator | None) -> Any:
    """An `Observer`; the one in C, where it is available, aggregates most notes by itself."""
    ids, pairs, properties = aggregator.accumulators if aggregator is not None else (None, None, None)
    place = aggregator.place if aggregator is not None else 0
    if not AVAILABLE:
        return Observer(events.names, ids, place)
    return native.Observer(events.names, ids, pairs, properties, place, ABSENT)


def aggregate(
    aggregator: IdentityAggregator | None, row: int, outcome: UnvalidatedEvent | Link | PersonUpdate | GroupUpdate
) -> None:
    """Aggregate what an accepted row states about ids, persons and groups."""
    if aggregator is None:
        return
    if isinstance(outcome, Link):
        aggregator.add_link(row, outcome)
    elif isinstance(outcome, GroupUpdate):
        aggregator.add_group(outcome)
    else:
        time: int | None = outcome.time  # type: ignore[assignment]
        distinct_id: str = outcome.distinct_id  # type: ignore[assignment]
        note = outcome.note
        if note is not None:
            aggregator.add_note(row, distinct_id, time, outcome.received, note)
        if isinstance(outcome, UnvalidatedEvent):
            is_user = note is not None and note.user == distinct_id
            aggregator.add_id(row, distinct_id, time, is_user)  # type: ignore[arg-type]
            if "$groups" in outcome.properties:
                aggregator.add_groups(outcome.properties["$groups"], time)  # type: ignore[arg-type]


def aggregate_remaining(
    aggregator: IdentityAggregator | None, unobserved: int, row: int, event: UnvalidatedEvent
) -> None:
    """Aggregate what an observer leaves of an event: a sum of GROUPS and NOTE."""
    if aggregator is None:
        return
    time: int = event.time  # type: ignore[assignment]
    if unobserved & GROUPS:
        aggregator.add_groups(event.properties.get("$groups"), time)
    if unobserved & NOTE:
        aggregator.add_note(row, event.distinct_id, time, event.received, event.note)  # type: ignore[arg-type]
