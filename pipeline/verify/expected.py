"""What should have arrived: the planned events transformed once more, those that are settled or in doubt.

Each becomes a fingerprint of fixed size, computed from the encoded event as it was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xxhash

from pipeline.encoder.encoded import read_event
from pipeline.transform.block import BlockTransformer
from pipeline.transform.tasks import Task

FINGERPRINT = np.dtype(
    [("hi", "<u8"), ("lo", "<u8"), ("what_hi", "<u8"), ("what_lo", "<u8"), ("block", "<i4"), ("cell", "<u4")]
)
"""An event: its uuid (`hi`, `lo`), a hash of (event, distinct_id, timestamp), the block it was planned in, and the
index of its cell (event × UTC day). `block` is LANDED for one that was read back, IN_DOUBT - block for one in doubt."""
LANDED = -1
IN_DOUBT = -2


class Expected(NamedTuple):
    """The events of one block that were sent: FINGERPRINT records, whose `cell` is an index of `cells`."""

    fingerprints: bytes
    cells: list[tuple[str, str]]


def expect_block(transformer: BlockTransformer, task: Task) -> Expected:
    """The events of a block that were sent. `task.ended` are the settled ranges, `task.doubtful` those in doubt."""
    return fingerprints_of(transformer.sent_events(task), task.ended, task.doubtful, task.number)


def fingerprints_of(
    events: Sequence[bytes], settled: Sequence[tuple[int, int]], in_doubt: Sequence[tuple[int, int]], block: int
) -> Expected:
    """The fingerprints of some encoded events of one block."""
    rows: list[tuple[int, int, int, int, int, int]] = []
    cells: dict[tuple[str, str], int] = {}
    for ranges, mark in ((settled, block), (in_doubt, IN_DOUBT - block)):
        for first, last in ranges:
            for index in range(first, last + 1):
                sent = read_event(events[index])
                cell = cells.setdefault((sent.event, sent.timestamp[:10]), len(cells))
                rows.append(
                    (*fingerprint(sent.uuid, sent.event, sent.properties.distinct_id, sent.timestamp), mark, cell)
                )
    return Expected(np.array(rows, FINGERPRINT).tobytes(), list(cells))


def fingerprint(uuid: str, event: str, distinct_id: str, timestamp: str) -> tuple[int, int, int, int]:
    """The first four fields of a fingerprint, equal for equal events."""
    digits = uuid.replace("-", "")
    what = xxhash.xxh3_128_intdigest(
        f"{event}\x1f{distinct_id}\x1f{spelled(timestamp)}".encode("utf-8", "surrogatepass")
    )
    return int(digits[:16], 16), int(digits[16:], 16), what >> 64, what & 0xFFFFFFFFFFFFFFFF


def spelled(timestamp: str) -> str:
    """The canonical spelling of an instant in UTC: no trailing zeros in the fraction, `Z` at the end."""
    text = timestamp.replace(" ", "T", 1).removesuffix("Z").removesuffix("+00:00")
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "Z"
