"""What a plan keeps of an event that is plainly good. `pipeline.native` has the same in C."""

from __future__ import annotations

from typing import Any

from pipeline.events.gathering import Gathering
from pipeline.events.made import Events
from pipeline.events.sayings import ABSENT
from pipeline.native import AVAILABLE, native
from pipeline.schema import Draft

OVERWRITES, GROUPS, NOTE = 1, 2, 4
"""What is left to do: tell that the event carries `$set`; hear its `$groups`; hear its note."""


class Observer:
    """Fills the lists of a block's `Events` that only a plan asks for."""

    def __init__(self, made: Events) -> None:
        self._made = made

    def __call__(self, row: int, index: int, draft: Draft, time: int, distinct_id: str, properties: Any) -> int:
        """Keep what counts of one event, the `index`-th of its block; what is left to do, added up."""
        made, received, note = self._made, draft.received, draft.note
        made.names.append(draft.event)  # type: ignore[arg-type]
        made.ids.append(distinct_id)
        made.times.append(time)
        made.received.append(received or 0)
        if draft.wall is not None and received:
            made.walls.append(draft.wall)
            made.walls_received.append(received)
        left = OVERWRITES * ("$set" in properties) | GROUPS * ("$groups" in properties)
        if note is None:
            return left
        if note.user == distinct_id:
            made.users.append(index)
        return left | NOTE


def observer(made: Events, gathering: Gathering | None) -> Any:
    """An `Observer`, in C where there is any, which then hears most notes by itself."""
    if not AVAILABLE:
        return Observer(made)
    pairs, properties = gathering.folds if gathering is not None else (None, None)
    place = gathering.place if gathering is not None else 0
    lists = (made.names, made.ids, made.times, made.received, made.users, made.walls, made.walls_received)
    return native.Observer(lists, pairs, properties, place, ABSENT)
