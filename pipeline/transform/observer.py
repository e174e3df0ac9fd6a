"""Collects what a plan needs in addition to a block's events. `pipeline.native` has `Observer` in C."""

from __future__ import annotations

from array import array
from typing import Any

from pipeline.models import Note, UnvalidatedEvent
from pipeline.native import AVAILABLE, native
from pipeline.transform.events import Events

OVERWRITES, GROUPS = 1, 2
"""What an observer leaves to its caller: the warning about `$set` in the event; and the event's `$groups`."""


class Observer:
    """Collects the names, ids, times and notes of a block's events; only a plan needs them.

    `names` and `distinct_ids` have an entry for each event, `notes` only for events that have notes.
    """

    def __init__(self, names: list[str], distinct_ids: list[str], notes: list[Note]) -> None:
        self._names = names
        self._distinct_ids = distinct_ids
        self._notes = notes
        self._times, self._received = array("q"), array("q")
        self._walls, self._walls_received = array("q"), array("q")
        self._noted = array("q")

    def __call__(self, event: UnvalidatedEvent, time: int, distinct_id: str, properties: Any) -> int:
        """Collect what a plan needs from one event. Returns the sum of OVERWRITES and GROUPS that is left to do."""
        self.add(event.event, distinct_id, time, event.received, event.wall, event.note)
        return OVERWRITES * ("$set" in properties) | GROUPS * ("$groups" in properties)

    def add(
        self,
        event: str | None,
        distinct_id: str,
        time: int,
        received: int | None,
        wall: int | None,
        note: Note | None,
    ) -> None:
        """Collect what a plan needs from an event that is given by its parts."""
        if note is not None:
            self._noted.append(len(self._times))
            self._notes.append(note)
        self._names.append(event)  # type: ignore[arg-type]
        self._distinct_ids.append(distinct_id)
        self._times.append(time)
        self._received.append(received or 0)
        if wall is not None and received:
            self._walls.append(wall)
            self._walls_received.append(received)

    def cut(self, events: int, walls: int) -> None:
        """Remove all events after the first `events` with their notes, and clock readings after the first `walls`."""
        for series in (self._names, self._distinct_ids, self._times, self._received):
            del series[events:]
        for series in (self._walls, self._walls_received):
            del series[walls:]
        while self._noted and self._noted[-1] >= events:
            self._noted.pop()
            self._notes.pop()

    @property
    def walls(self) -> int:
        """How many events have both a reading of the wall clock and a receive time."""
        return len(self._walls)

    def columns(self) -> tuple[bytes, ...]:
        """As int64: times, receive times (0: none), clock readings and their receive times, all in µs, and the numbers
        of the events with a note."""
        columns = (self._times, self._received, self._walls, self._walls_received, self._noted)
        return tuple(column.tobytes() for column in columns)


def observer(events: Events) -> Any:
    """An `Observer`, the one in C if it is available."""
    return (native.Observer if AVAILABLE else Observer)(events.names, events.distinct_ids, events.notes)
