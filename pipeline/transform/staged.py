"""The events of a block as a plan holds them, so that nothing after the plan has to make them again.

A block is one deflated MessagePack: the bytes of its events as they are encoded, and what each has beside them. What
the plan decides on duplicates is applied when they are read, by row and position (`BlockTransformer.apply_tables`).
"""

from __future__ import annotations

import zlib
from typing import cast

import msgspec
import numpy as np
import xxhash

from pipeline.encoder.encoded import uuid_of
from pipeline.encoder.fingerprints import hash_events
from pipeline.transform.events import Events

try:
    from isal import isal_zlib as _deflate
except ImportError:  # isal has no wheel for a few machines
    _deflate = zlib  # type: ignore[misc]

_BROKEN = cast("type[Exception]", _deflate.error)
_LEVEL = 1


class _Staged(msgspec.Struct, array_like=True):
    """`text` has the events, each followed by a comma. Columns are little-endian: `sizes` uint32 without the comma,
    `rows` uint32, `positions` uint16, `times` and `received` int64 in µs UTC, `name_of` uint32, an index of `names`.
    `contents` are the digests of rows without a source key, by row."""

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


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Staged).decode


def stage(events: Events) -> bytes:
    """The events of a block, of which a plan observed everything, as `unstage` reads them."""
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
    )
    data: bytes = _deflate.compress(_encode(staged), _LEVEL)
    return data


def unstage(data: bytes | memoryview, *, observe: bool = False) -> Events:
    """The events of a block. `observe`: with their uuids, hashes, names and times. Raises ValueError where the bytes
    are not those of a block."""
    try:
        staged = _decode(_deflate.decompress(data))
    except (zlib.error, _BROKEN, msgspec.MsgspecError) as error:
        raise ValueError(f"no block of events: {error}") from error
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
    )
    if observe:
        events.uuids = uuids_of(events.events)
        hashes = hash_events(staged.text, np.cumsum(sizes + 1)) if len(sizes) else b""
        events.hashes = np.frombuffer(hashes, np.uint64).reshape(-1, 4)
        events.name_of = np.frombuffer(staged.name_of, np.uint32)
        events.distinct_names = staged.names
        events.names = [staged.names[number] for number in events.name_of.tolist()]
        events.times, events.received = (np.frombuffer(one, np.int64) for one in (staged.times, staged.received))
    return events


def uuids_of(events: list[bytes]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """The uuids of encoded events, 16 bytes each."""
    digits = "".join(uuid_of(event) for event in events).replace("-", "")
    return np.frombuffer(bytes.fromhex(digits), np.uint8).reshape(-1, 16)
