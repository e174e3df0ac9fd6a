"""Key records: what a plan retains of each event to find duplicates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.transform.events import Events

KEY = np.dtype(
    [
        ("hi", "<u8"),
        ("lo", "<u8"),
        ("received", "<i8"),
        ("time", "<i8"),
        ("content_hi", "<u8"),
        ("content_lo", "<u8"),
        ("name", "<u4"),
        ("block", "<u4"),
        ("row", "<u4"),
        ("position", "<u2"),
        ("row_events", "<u2"),
        ("person", "<u8"),
        ("same", "<u8"),
    ]
)
"""One key record, 80 bytes.

`hi`, `lo`: the uuid. `received`, `time`: µs UTC; of rows with one uuid the greatest `received` counts (`EARLIEST`).
`content_*`: xxh3-128 of the encoded event. `name`: index
of the event name, with KEYLESS set where the row has no source key.
`block`: the block's number in the whole source; `row` in its block, `position` in its row, both from 0; the
row has `row_events` events. `person`, `same`: hashes of the distinct_id, and of all of the event but its time and uuid.
"""
EARLIEST = np.int64(1 << 62)
"""Where the row received earliest counts, `received` is this number less the receive time, so that the greatest is the
earliest; 0 still means none."""
KEYLESS = np.uint32(1 << 31)
NAME = np.uint32((1 << 31) - 1)
"""The bits of `name` that are the index."""


def key_records(events: Events, number: int, *, earliest: bool = False) -> NDArray[np.void]:
    """The KEY records of the events of block `number`, sorted by the first half of the uuid. With `earliest`, the row
    received first counts of those with one key."""
    keys = np.zeros(events.count, KEY)
    if not len(keys):
        return keys
    raw = events.uuids
    hi = raw[:, :8].copy().view(">u8")[:, 0].astype("<u8")
    keys["hi"] = hi
    keys["lo"] = raw[:, 8:].copy().view(">u8")[:, 0]
    keys["received"] = np.where(events.received > 0, EARLIEST - events.received, 0) if earliest else events.received
    keys["time"] = events.times
    keys["content_hi"], keys["content_lo"], keys["person"], keys["same"] = events.hashes.T
    keys["name"] = events.name_of
    if events.keyless:
        keys["name"][list(events.keyless)] |= KEYLESS
    keys["block"] = number
    keys["row_events"] = 1
    several = any(events.positions)
    if events.count == events.rows and not several:
        keys["row"] = np.arange(events.count)
    else:
        keys["row"] = np.fromiter(events.row_of, np.uint32, events.count)
    if several:
        keys["position"] = events.positions
        _, inverse, counts = np.unique(keys["row"], return_inverse=True, return_counts=True)
        keys["row_events"] = counts[inverse]
    return keys.take(np.argsort(hi, kind="stable"))
