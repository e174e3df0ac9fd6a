"""Key records: what a plan retains of each event, and of each row that has a key and no event, to find duplicates."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.encoder.fingerprints import person_hashes
from pipeline.timestamps import DAY
from pipeline.transform.events import Events, KeyedRow
from pipeline.uuids import SEPARATOR

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
row has `row_events` events, and none if it is skipped. `person`, `same`: hashes of the distinct_id, and of all of the
event but its time and uuid.
"""
EARLIEST = np.int64(1 << 62)
"""Where the row received earliest counts, `received` is this number less the receive time, so that the greatest is the
earliest; 0 still means none."""
KEYLESS = np.uint32(1 << 31)
UPDATE = np.uint32(1 << 30)
"""Set in `name`, which is 0 otherwise, where the record is of a row without an event (KeyedRow). `hi` and `lo` are a
hash of its kind, key and UTC day: exports of what a person is have the person's id as their key, and what each day's
row says counts. `position` is that of its first outcome."""
NAME = np.uint32((1 << 30) - 1)
"""The bits of `name` that are the index."""


def key_records(events: Events, number: int, *, earliest: bool = False) -> NDArray[np.void]:
    """The KEY records of block `number`, sorted by the first half of the uuid. With `earliest`, the row received first
    counts of those with one key."""
    keys = _of_events(events)
    if events.keyed:
        keys = np.concatenate((keys, _of_rows(events.keyed)))
    keys["block"] = number
    if earliest:
        keys["received"] = np.where(keys["received"] > 0, EARLIEST - keys["received"], 0)
    if events.keyed or any(events.positions):
        _, inverse, counts = np.unique(keys["row"], return_inverse=True, return_counts=True)
        keys["row_events"] = counts[inverse]
    else:
        keys["row_events"] = 1
    skipped = [row.row for row in events.keyed if row.skipped]
    if skipped:
        keys["row_events"][np.isin(keys["row"], skipped)] = 0
    return keys.take(np.argsort(keys["hi"], kind="stable"))


def _of_events(events: Events) -> NDArray[np.void]:
    keys = np.zeros(events.count, KEY)
    if not len(keys):
        return keys
    raw = events.uuids
    keys["hi"] = raw[:, :8].copy().view(">u8")[:, 0]
    keys["lo"] = raw[:, 8:].copy().view(">u8")[:, 0]
    keys["received"], keys["time"], keys["name"] = events.received, events.times, events.name_of
    keys["content_hi"], keys["content_lo"], keys["person"], keys["same"] = events.hashes.T
    if events.keyless:
        keys["name"][list(events.keyless)] |= KEYLESS
    keys["row"] = np.fromiter(events.row_of, np.uint32, events.count)
    keys["position"] = events.positions
    return keys


def _of_rows(rows: list[KeyedRow]) -> NDArray[np.void]:
    keys = np.zeros(len(rows), KEY)
    for name in ("row", "position", "time", "received"):
        keys[name] = [getattr(row, name) for row in rows]
    keys["name"] = UPDATE
    keys["person"] = person_hashes([row.distinct_id for row in rows])
    texts = (SEPARATOR.join((row.kind, row.key, str(row.time // DAY))) for row in rows)
    keys["hi"], keys["lo"] = _digests(text.encode("utf-8", "surrogatepass") for text in texts)
    keys["content_hi"], keys["content_lo"] = _digests(row.content for row in rows)
    return keys


def _digests(texts: Iterable[bytes]) -> NDArray[np.uint64]:
    """The two halves of the xxh3-128 of each text: shape (2, n)."""
    return np.frombuffer(b"".join(map(xxhash.xxh3_128_digest, texts)), np.uint64).reshape(-1, 2).T
