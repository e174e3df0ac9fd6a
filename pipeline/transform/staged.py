"""What workers make of the export's blocks, kept in a folder of the plan until its requests are made.

    events/00000012.pack       the events of block 12
    facts/00000012.parquet     its facts (`pipeline.transform.facts`)
    pairs/, updates/           what its rows state about people (`pipeline.transform.statements`), if anything
    asked/                     the keys of joined rows (`pipeline.plan.lookup_rows`) that it looks up, if any
    units/00000003             the counts of the blocks that a worker did together, and digests of their files;
                               written after everything else

Each file is there as a whole or not at all. The events of a block are one MessagePack object: their bytes as encoded,
and the other columns of each event. LZ4 packs it in less time than deflate would take, and it is deleted once the plan
is made. A checksum detects damage. The plan's decisions on duplicates are applied when events are read, by row and
position (`BlockTransformer.apply_tables`).
"""

from __future__ import annotations

import os
import pickle
import secrets
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import xxhash

from pipeline.encoder.buffer import hash_events
from pipeline.encoder.encoded import uuid_of
from pipeline.transform.events import Events
from pipeline.transform.tasks import BlockStats, Unit

if TYPE_CHECKING:
    import pyarrow as pa

_LEVEL = -5
"""Levels below zero take less time, for a few more bytes."""
_SIZE, _SUM, _MOST = 8, 16, 256
"""The end of the size, and of the checksum after it: xxh3-64 of the packed bytes. The size is the number of unpacked
bytes, less than this many times the packed ones."""


class _Staged(msgspec.Struct, array_like=True):
    """`text` has the events, each followed by a comma. Columns are little-endian: `sizes` uint32 without the comma,
    `rows` uint32, `positions` uint16, `times` and `received` int64 in µs UTC, `name_of` uint32, an index into `names`.
    `contents` are the digests of rows without a source key, by row; `keyed` have the row, the position and the content
    of each row that has a key and makes no event."""

    rows: int
    text: bytes
    sizes: bytes
    row_of: bytes
    positions: bytes
    times: bytes
    received: bytes
    name_of: bytes
    names: list[str]
    contents: dict[int, str]
    keyed: list[tuple[int, int, bytes]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Staged).decode


@cache
def _codec() -> pa.Codec:
    import pyarrow as pa  # most processes of a command have no events of blocks

    return pa.Codec("lz4", compression_level=_LEVEL)


def stage(events: Events) -> bytes:
    """The bytes that `unstage` reads: the events of a block, fully observed by a plan."""
    rows = {events.row_of[index] for index in events.keyless}
    staged = _Staged(
        events.rows,
        b"".join(events.runs),
        events.sizes.astype("<u4").tobytes(),
        np.array(events.row_of, "<u4").tobytes(),
        np.array(events.positions, "<u2").tobytes(),
        events.times.tobytes(),
        events.received.tobytes(),
        events.name_of.tobytes(),
        events.distinct_names,
        {row: events.content(row) for row in sorted(rows)},
        [(one.row, one.position, one.content) for one in events.keyed],
    )
    data = _encode(staged)
    packed: bytes = _codec().compress(data, asbytes=True)
    return len(data).to_bytes(_SIZE, "little") + xxhash.xxh3_64_digest(packed) + packed


def unstage(data: bytes | memoryview, *, observe: bool = False) -> Events:
    """The events of a block. `observe`: with their uuids, hashes, names and times. Raises ValueError if the bytes are
    not those of a block."""
    packed = data[_SUM:]
    if xxhash.xxh3_64_digest(packed) != data[_SIZE:_SUM]:
        raise ValueError("a block of events is damaged")
    try:
        size = min(int.from_bytes(data[:_SIZE], "little"), len(data) * _MOST)
        staged = _decode(_codec().decompress(packed, size, asbytes=False))
    except (OSError, msgspec.MsgspecError) as error:
        raise ValueError(f"not a block of events: {error}") from error
    sizes = np.frombuffer(staged.sizes, "<u4").astype(np.int64)
    events = Events(
        rows=staged.rows,
        count=len(sizes),
        digest=xxhash.xxh3_128_hexdigest(staged.text) if staged.text else "",
        runs=[staged.text] if staged.text else [],
        sizes=sizes,
        row_of=np.frombuffer(staged.row_of, "<u4").tolist(),
        positions=np.frombuffer(staged.positions, "<u2").tolist(),
        content=staged.contents.__getitem__,
        said={(row, position): content for row, position, content in staged.keyed},
    )
    if observe:
        events.uuids = uuids_of(events.events)
        events.name_of = np.frombuffer(staged.name_of, np.uint32)
        events.distinct_names = staged.names
        events.names = [staged.names[number] for number in events.name_of.tolist()]
        events.times, events.received = (np.frombuffer(one, np.int64) for one in (staged.times, staged.received))
        events.hashes = hash_events(staged.text, np.cumsum(sizes + 1), events.times)
    return events


def uuids_of(events: list[bytes]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """The uuids of encoded events, 16 bytes each."""
    digits = "".join(uuid_of(event) for event in events).replace("-", "")
    return np.frombuffer(bytes.fromhex(digits), np.uint8).reshape(-1, 16)


TABLES = ("facts", "pairs", "updates", "asked", "promoted")


def make_folders(folder: Path) -> None:
    """Make the folders, if they do not exist."""
    for name in (*TABLES, "events", "units"):
        (folder / name).mkdir(parents=True, exist_ok=True)


def events_file(folder: Path, block: int) -> Path:
    """The file of the events of a block."""
    return folder / "events" / f"{block:08d}.pack"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file as a whole or not at all."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    partial.replace(path)


def keep_unit(folder: Path, unit: Unit, stats: Sequence[BlockStats]) -> None:
    """Write the counts of some blocks, once their other files are there."""
    write_whole(_unit_file(folder, unit), pickle.dumps((_digests(folder, unit), stats), pickle.HIGHEST_PROTOCOL))


def read_unit(folder: Path, unit: Unit) -> list[BlockStats]:
    """The counts of each block of a unit."""
    stats: list[BlockStats] = pickle.loads(_unit_file(folder, unit).read_bytes())[1]
    return stats


def is_whole(folder: Path, unit: Unit) -> bool:
    """Whether all files of a unit are there as they were written: the plan may have been stopped after it removed
    copies from some."""
    try:
        digests, _ = pickle.loads(_unit_file(folder, unit).read_bytes())
        return bool(digests == _digests(folder, unit))
    except (OSError, EOFError, pickle.UnpicklingError):
        return False


def _unit_file(folder: Path, unit: Unit) -> Path:
    return folder / "units" / f"{unit.number:08d}"


def _digests(folder: Path, unit: Unit) -> list[str]:
    """The digest of each file of the unit's blocks, "" for a table that a block does not have."""
    found: list[str] = []
    for task in unit.tasks:
        tables = [folder / name / f"{task.number:08d}.parquet" for name in TABLES if name != "promoted"]
        for path in (events_file(folder, task.number), *tables):
            found.append(xxhash.xxh3_128_hexdigest(path.read_bytes()) if path.exists() else "")
    return found
