"""keys.bin of a plan that is one of a series: what identifies each event, in the order in which they are sent.

A later plan of the series has to know which events were settled without transforming their files again, which may be
gone or changed. A batch in the ledger (block, first to last event) is a range of this file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import UUID

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.ledger import BatchKey
from pipeline.plan.decisions import Decisions
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, sealed_file
from pipeline.plan.sealed.phases import line_blocks

_VALUES = ("content", "person", "cell")
SENT = np.dtype([("block", "<u4"), ("hi", ">u8"), ("lo", ">u8"), *((name, "<u8") for name in _VALUES)])
"""One event: its block, the 16 bytes of its uuid, and what REMAINING has of it. 44 bytes."""
AT_ONCE = 200_000


class _Sealed(msgspec.Struct):
    uuid: str


_decode = msgspec.json.Decoder(_Sealed).decode


def write_uuids(path: Path, remaining: Decisions) -> str:
    """Write the events to send, block by block, durably. Returns the sha256 of the file."""
    digest = hashlib.sha256()
    with path.open("wb", buffering=1 << 18) as file:
        for _, remaining_events in remaining.by_block():
            sent = np.empty(len(remaining_events), SENT)
            for name in ("block", "hi", "lo", *_VALUES):
                sent[name] = remaining_events[name]
            content = sent.tobytes()
            digest.update(content)
            file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def settled_uuids(directory: Directory, batches: Iterable[BatchKey]) -> Iterator[NDArray[np.void]]:
    """The SENT records of these batches of the ledger, which come in the order of phase, block and event."""
    by_phase: dict[str, list[BatchKey]] = {}
    for batch in batches:
        by_phase.setdefault(batch.phase, []).append(batch)
    for phase, of_phase in by_phase.items():
        if phase == EVENTS:
            yield from _events_at(directory.uuids, of_phase)
        else:
            yield from _lines_at(phase, directory, of_phase)


def all_uuids(directory: Directory) -> Iterator[NDArray[np.void]]:
    """The SENT records of everything that a plan sends."""
    yield from _chunks(directory.uuids)
    for phase in PHASES:
        if phase != EVENTS:
            yield from _blocks(sealed_file(phase, directory))


def _chunks(path: Path) -> Iterator[NDArray[np.void]]:
    with path.open("rb") as file:
        while len(chunk := np.fromfile(file, SENT, AT_ONCE)):
            yield chunk


def _events_at(path: Path, batches: Iterable[BatchKey]) -> Iterator[NDArray[np.void]]:
    ahead = iter(batches)
    batch = next(ahead, None)
    block, passed = -1, 0  # events of this block in earlier chunks
    for chunk in _chunks(path):
        selected = np.zeros(len(chunk), bool)
        numbers, starts = np.unique(chunk["block"], return_index=True)
        stops = [*starts[1:].tolist(), len(chunk)]
        for number, start, stop in zip(numbers.tolist(), starts.tolist(), stops, strict=True):
            first = passed if number == block else 0
            block, passed = number, first + stop - start
            while batch is not None and (batch.block, batch.first) < (block, passed):
                if batch.block == block:
                    selected[start + max(batch.first - first, 0) : min(start + batch.last - first + 1, stop)] = True
                    if batch.last >= passed:
                        break  # it goes on in the next chunk
                batch = next(ahead, None)
        yield chunk[selected]


def _lines_at(phase: str, directory: Directory, batches: Iterable[BatchKey]) -> Iterator[NDArray[np.void]]:
    settled: dict[int, list[BatchKey]] = {}
    for batch in batches:
        settled.setdefault(batch.block, []).append(batch)
    for number, chunk in enumerate(_blocks(sealed_file(phase, directory))):
        selected = np.zeros(len(chunk), bool)
        for batch in settled.get(number, ()):
            selected[batch.first : batch.last + 1] = True
        yield chunk[selected]


def _blocks(path: Path) -> Iterator[NDArray[np.void]]:
    """SENT records of a phase other than events, in its blocks."""
    if not path.exists():
        return
    for lines in line_blocks(path):
        chunk = np.zeros(len(lines), SENT)
        uuids = np.frombuffer(b"".join(UUID(_decode(line).uuid).bytes for line in lines), ">u8").reshape(-1, 2)
        chunk["hi"], chunk["lo"] = uuids[:, 0], uuids[:, 1]
        yield chunk
