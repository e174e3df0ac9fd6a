"""What should have landed: the planned events made once more, those that the ledger calls settled or in doubt.

Each leaves a record of fixed size; what was sent is read back out of the encoded event itself, so that the check does
not lean on what the making remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xxhash

from pipeline.encoder.encoded import read_event
from pipeline.transform.block import BlockTransformer, Task

SIGHT = np.dtype(
    [("hi", "<u8"), ("lo", "<u8"), ("what_hi", "<u8"), ("what_lo", "<u8"), ("block", "<i4"), ("cell", "<u4")]
)
"""One event seen: its uuid, a hash of (event, distinct_id, timestamp), the block it was made in, and the number of its
cell (event × UTC day). `block` is LANDED for one read back, and DOUBTED - block for one that is in doubt."""
LANDED = -1
DOUBTED = -2


class Expected(NamedTuple):
    """What one block should have left behind: SIGHT records whose `cell` counts in `cells`, (event, UTC day) pairs."""

    sights: bytes
    cells: list[tuple[str, str]]


def expect_block(transformer: BlockTransformer, task: Task) -> Expected:
    """The events of a block that were sent. `task.ended` holds the settled ranges, `task.doubtful` those in doubt."""
    _, kept, _ = transformer.tabled(task)
    return sights_of(kept, task.ended, task.doubtful, task.number)


def sights_of(
    events: Sequence[bytes], settled: Sequence[tuple[int, int]], doubted: Sequence[tuple[int, int]], block: int
) -> Expected:
    """The sights of some encoded events of one block."""
    rows: list[tuple[int, int, int, int, int, int]] = []
    cells: dict[tuple[str, str], int] = {}
    for ranges, mark in ((settled, block), (doubted, DOUBTED - block)):
        for first, last in ranges:
            for index in range(first, last + 1):
                sent = read_event(events[index])
                cell = cells.setdefault((sent.event, sent.timestamp[:10]), len(cells))
                rows.append((*sight(sent.uuid, sent.event, sent.properties.distinct_id, sent.timestamp), mark, cell))
    return Expected(np.array(rows, SIGHT).tobytes(), list(cells))


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
