"""Ids with more events than the service takes of one id in a minute.

Above about 5,000 events a minute of one distinct_id the service takes an event all the same, but leaves its person
alone and does not keep the order (service-behaviour 1.5). A sending is so much faster than the history was that the
whole of an id can arrive within a minute; `apply --rate` slows it down.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

A_MINUTE = 5_000
"""Events of one id a minute that are processed whole (service-behaviour 1.5: roughly so many)."""
_BITS = 20
_SHIFT = np.uint64(64 - _BITS)


class HotIds(NamedTuple):
    """How many ids have more than A_MINUTE events, and the one with most: its events, block, and row in it from 0."""

    ids: int
    events: int
    block: int
    row: int

    def rate(self, total: int) -> int:
        """Events a second of a sending of `total` in which the id with most has A_MINUTE a minute, evenly spread."""
        return max(1, A_MINUTE * total // (60 * self.events))


class IdCounts:
    """Counts events by id in a fixed 4 MB: ids share a count, so only a few have to be counted one by one."""

    def __init__(self) -> None:
        self._counts = np.zeros(1 << _BITS, np.uint32)

    def add(self, keys: NDArray[np.void]) -> None:
        """Count some key records (`pipeline.make.KEY`)."""
        np.add.at(self._counts, keys["person"] >> _SHIFT, 1)

    def hot(self, keys: Iterable[NDArray[np.void]]) -> HotIds | None:
        """The ids above A_MINUTE among these key records, which are all that were added, in any order and pieces.

        They are read only where a count asks for it. Copies, which are not sent, count too.
        """
        suspects = self._counts > A_MINUTE
        if not suspects.any():
            return None
        found: dict[int, tuple[int, int, int]] = {}
        for some in keys:
            mine = some[suspects[some["person"] >> _SHIFT]]
            mine = mine[np.lexsort((mine["row"], mine["block"], mine["person"]))]
            ids, firsts, counts = np.unique(mine["person"], return_index=True, return_counts=True)
            places = mine[firsts]
            for id_, count, block, row in zip(
                ids.tolist(), counts.tolist(), places["block"].tolist(), places["row"].tolist(), strict=True
            ):
                known = found.get(id_)
                place = (block, row) if known is None else min(known[1:], (block, row))
                found[id_] = (count + (known[0] if known else 0), *place)
        hot = [(count, -block, -row) for count, block, row in found.values() if count > A_MINUTE]
        if not hot:
            return None
        events, block, row = max(hot)
        return HotIds(len(hot), events, -block, -row)
