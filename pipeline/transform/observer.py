"""What a plan keeps of an event that is plainly good. `pipeline.native` has the same in C."""

from __future__ import annotations

from array import array
from typing import Any

from pipeline.identity.aggregator import IdentityAggregator
from pipeline.identity.property_updates import ABSENT
from pipeline.models import UnvalidatedEvent
from pipeline.native import AVAILABLE, native
from pipeline.transform.events import Events

OVERWRITES, GROUPS, NOTE = 1, 2, 4
"""What is left to do: tell that the event carries `$set`; hear its `$groups`; hear its note."""


class Observer:
    """Keeps names and times of a block's events, which only a plan asks for, and lets `ids` see their ids.

    `names` takes the names. `ids` is a fold of `IdentityAggregator`, None where nobody gathers.
    """

    def __init__(self, names: list[str], ids: Any, place: int) -> None:
        self._names = names
        self._ids = ids
        self._place = place
        self._times, self._received = array("q"), array("q")
        self._walls, self._walls_received = array("q"), array("q")

    def __call__(self, row: int, draft: UnvalidatedEvent, time: int, distinct_id: str, properties: Any) -> int:
        """Keep what counts of one event; what is left to do, added up."""
        note = draft.note
        self.add(draft.event, time, draft.received, draft.wall)
        if self._ids is not None:
            self._ids.add_id(distinct_id, time, note is not None and note.user == distinct_id, self._place + row)
        return OVERWRITES * ("$set" in properties) | GROUPS * ("$groups" in properties) | NOTE * (note is not None)

    def add(self, event: str | None, time: int, received: int | None, wall: int | None) -> None:
        """The same of an event whose id and note others hear."""
        self._names.append(event)  # type: ignore[arg-type]
        self._times.append(time)
        self._received.append(received or 0)
        if wall is not None and received:
            self._walls.append(wall)
            self._walls_received.append(received)

    def cut(self, events: int, walls: int) -> None:
        """Take all after so many out again."""
        for series in (self._names, self._times, self._received):
            del series[events:]
        for series in (self._walls, self._walls_received):
            del series[walls:]

    @property
    def walls(self) -> int:
        """How many of the events tell what the clock was and when they were received."""
        return len(self._walls)

    def columns(self) -> tuple[bytes, ...]:
        """Times, receive times (0: none), readings of the clock and the receive times beside those: int64, µs."""
        return tuple(one.tobytes() for one in (self._times, self._received, self._walls, self._walls_received))


def observer(made: Events, aggregator: IdentityAggregator | None) -> Any:
    """An `Observer`, in C where there is any, which then hears most notes by itself."""
    ids, pairs, properties = aggregator.accumulators if aggregator is not None else (None, None, None)
    place = aggregator.place if aggregator is not None else 0
    if not AVAILABLE:
        return Observer(made.names, ids, place)
    return native.Observer(made.names, ids, pairs, properties, place, ABSENT)
