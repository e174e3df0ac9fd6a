"""uuids.bin of a plan that is one of a series: the uuid of each event, in the order in which they are sent.

A later plan of the series has to know which events were settled without transforming their files again, which may be
gone or changed. A place in the ledger (block, first to last event) is a place in this file.
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
from pipeline.plan.directory import Directory
from pipeline.plan.duplicates import Decisions
from pipeline.plan.phases import EVENTS, PHASES, line_blocks, sealed_file

SENT = np.dtype([("block", "<u4"), ("hi", ">u8"), ("lo", ">u8"), ("content", "<u8")])
"""One event: its block, the 16 bytes of its uuid, and the first half of its content digest. 28 bytes."""
AT_ONCE = 200_000


class _Sealed(msgspec.Struct):
    uuid: str


_decode = msgspec.json.Decoder(_Sealed).decode


def write_uuids(path: Path, remaining: Decisions) -> str:
    """Write the events to send, block by block, durably. Returns the sha256 of the file."""
    digest = hashlib.sha256()
    with path.open("wb", buffering=1 << 18) as file:
        for _, found in remaining.by_block():
            sent = np.empty(len(found), SENT)
            for name in ("block", "hi", "lo", "content"):
                sent[name] = found[name]
            content = sent.tobytes()
            digest.update(content)
            file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def settled_uuids(directory: Directory, places: Iterable[BatchKey]) -> Iterator[NDArray[np.void]]:
    """The SENT records at these places of the ledger, which come in the order of phase, block and event."""
    by_phase: dict[str, list[BatchKey]] = {}
    for place in places:
        by_phase.setdefault(place.phase, []).append(place)
    for phase, mine in by_phase.items():
        yield from _events_at(directory.uuids, mine) if phase == EVENTS else _lines_at(phase, directory, mine)


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


def _events_at(path: Path, places: Iterable[BatchKey]) -> Iterator[NDArray[np.void]]:
    ahead = iter(places)
    place = next(ahead, None)
    block, passed = -1, 0  # events of this block in earlier chunks
    for chunk in _chunks(path):
        keep = np.zeros(len(chunk), bool)
        numbers, starts = np.unique(chunk["block"], return_index=True)
        stops = [*starts[1:].tolist(), len(chunk)]
        for number, start, stop in zip(numbers.tolist(), starts.tolist(), stops, strict=True):
            first = passed if number == block else 0
            block, passed = number, first + stop - start
            while place is not None and (place.block, place.first) < (block, passed):
                if place.block == block:
                    keep[start + max(place.first - first, 0) : min(start + place.last - first + 1, stop)] = True
                    if place.last >= passed:
                        break  # it goes on in the next chunk
                place = next(ahead, None)
        yield chunk[keep]


def _lines_at(phase: str, directory: Directory, places: Iterable[BatchKey]) -> Iterator[NDArray[np.void]]:
    settled: dict[int, list[BatchKey]] = {}
    for place in places:
        settled.setdefault(place.block, []).append(place)
    for number, chunk in enumerate(_blocks(sealed_file(phase, directory))):
        keep = np.zeros(len(chunk), bool)
        for place in settled.get(number, ()):
            keep[place.first : place.last + 1] = True
        yield chunk[keep]


def _blocks(path: Path) -> Iterator[NDArray[np.void]]:
    """SENT records of a phase other than events, in its blocks."""
    if not path.exists():
        return
    for lines in line_blocks(path):
        chunk = np.zeros(len(lines), SENT)
        uuids = np.frombuffer(b"".join(UUID(_decode(line).uuid).bytes for line in lines), ">u8").reshape(-1, 2)
        chunk["hi"], chunk["lo"] = uuids[:, 0], uuids[:, 1]
        yield chunk
