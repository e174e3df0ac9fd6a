"""Ids with more events than the service takes of one id in a minute.

Above about 5,000 events a minute of one distinct_id the service takes an event all the same, but leaves its person
alone and does not keep the order (docs/know/service.md#answers). A sending is so much faster than the history was that
the whole of an id can arrive within a minute; `apply --rate` slows it down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.identity.aggregator import PLACE_SHIFT
from pipeline.identity.event_ids import EventIds

EVENTS_PER_MINUTE = 5_000
"""Events of one id a minute that are processed whole (docs/know/service.md#answers: roughly so many)."""


class HotIds(NamedTuple):
    """How many ids have more than A_MINUTE events, and the one with most: its events, block, and row in it from 0."""

    ids: int
    events: int
    block: int
    row: int

    def rate(self, total: int) -> int:
        """Events a second of a sending of `total` in which the id with most has A_MINUTE a minute, evenly spread."""
        return max(1, EVENTS_PER_MINUTE * total // (60 * self.events))


def hot_ids(ids: EventIds) -> HotIds | None:
    """The ids above A_MINUTE. Copies, which are not sent, count too."""
    count, most, place = 0, 0, 0
    for some in ids.chunks():
        hot = some[some["events"] > EVENTS_PER_MINUTE]
        if not len(hot):
            continue
        count += len(hot)
        first = hot[np.lexsort((hot["place"], -hot["events"].astype(np.int64)))[0]]
        found = int(first["events"]), int(first["place"])
        if (-found[0], found[1]) < (-most, place):
            most, place = found
    return HotIds(count, most, place >> PLACE_SHIFT, place & ((1 << PLACE_SHIFT) - 1)) if count else None
