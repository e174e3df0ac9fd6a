"""What should have landed: the planned events made once more, those that the ledger calls settled.

Each leaves a record of fixed size; what was sent is read back out of the encoded event itself, so that the check does
not lean on what the making remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash

from pipeline.make import Maker, Task

SIGHT = np.dtype(
    [("hi", "<u8"), ("lo", "<u8"), ("what_hi", "<u8"), ("what_lo", "<u8"), ("block", "<i4"), ("index", "<u4")]
)
"""One event seen: its uuid, a hash of (event, distinct_id, timestamp), and where it was made (block -1: landed)."""


class _Properties(msgspec.Struct):
    distinct_id: str


class SentEvent(msgspec.Struct):
    """The part of an event that identity and collapse depend on."""

    event: str
    properties: _Properties
    timestamp: str
    uuid: str


class Expected(NamedTuple):
    """What one block should have left behind. `cells` counts (event, UTC day as text)."""

    sights: bytes
    cells: Counter[tuple[str, str]]


_decode = msgspec.json.Decoder(SentEvent).decode


def expect_block(maker: Maker, task: Task) -> Expected:
    """The settled events of a block. `task.ended` holds the settled ranges."""
    _, kept, _ = maker.tabled(task)
    return sights_of(kept, task.ended, task.number)


def sights_of(events: Sequence[bytes], settled: Sequence[tuple[int, int]], block: int) -> Expected:
    rows: list[tuple[int, int, int, int, int, int]] = []
    cells: Counter[tuple[str, str]] = Counter()
    for first, last in settled:
        for index in range(first, last + 1):
            sent = _decode(events[index])
            rows.append((*sight(sent.uuid, sent.event, sent.properties.distinct_id, sent.timestamp), block, index))
            cells[sent.event, sent.timestamp[:10]] += 1
    return Expected(np.array(rows, SIGHT).tobytes(), cells)


def sight(uuid: str, event: str, distinct_id: str, timestamp: str) -> tuple[int, int, int, int]:
    """The four numbers that two sights of one event share."""
    digits = uuid.replace("-", "")
    what = xxhash.xxh3_128_intdigest(
        f"{event}\x1f{distinct_id}\x1f{spelled(timestamp)}".encode("utf-8", "surrogatepass")
    )
    return int(digits[:16], 16), int(digits[16:], 16), what >> 64, what & 0xFFFFFFFFFFFFFFFF


def spelled(timestamp: str) -> str:
    """One spelling of an instant in UTC: no zeros at the end of a fraction, `Z` at the end."""
    text = timestamp.replace(" ", "T", 1).removesuffix("Z").removesuffix("+00:00")
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "Z"
