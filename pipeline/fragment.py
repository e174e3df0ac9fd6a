"""The events of a request as a deflate fragment, and the gzip body around it.

A fragment ends with a full flush, so it ends at a byte and refers to nothing before it. To send it, frame it: a gzip
header, the head of the JSON (with the capture key) as a stored block, the fragment, the tail as a last stored block,
and a checksum that is combined from those of the three. So a body costs 26 µs, whatever its size, and the key is added
only when a request leaves (docs/know/performance.md#codecs).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

try:
    from isal import isal_zlib

    _combine = isal_zlib.crc32_combine
except ImportError:  # pragma: no cover - a platform without isa-l
    isal_zlib = zlib  # type: ignore[misc]
    _combine = None  # type: ignore[assignment]

codec = isal_zlib
_RAW = -15
LEVEL = 1
"""ISA-L's level 1 packs ten times faster than zlib's default, for 14 % more bytes (docs/know/performance.md#codecs)."""
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""The header of a gzip member without a name and a time, so that the member depends only on its content."""
_MOST_STORED = 0xFFFF
_BROKEN = (zlib.error, codec.error) if hasattr(codec, "error") else (zlib.error,)


class Fragment(NamedTuple):
    """The deflated events of a request, separated by commas, with their size before deflate and the CRC-32 of that."""

    data: bytes
    length: int
    crc: int


def deflate(events: bytes | memoryview) -> Fragment:
    """A fragment of encoded events, which are separated by commas."""
    stream = codec.compressobj(LEVEL, zlib.DEFLATED, _RAW)
    data = stream.compress(events) + stream.flush(zlib.Z_FULL_FLUSH)
    return Fragment(data, len(events), codec.crc32(events))


def inflate(fragment: bytes) -> list[bytes]:
    """The events of a fragment, byte for byte. Raises ValueError for bytes that are not a fragment."""
    try:
        text = codec.decompressobj(_RAW).decompress(fragment)
        return [bytes(event) for event in _read(b"[%b]" % text)]
    except (*_BROKEN, msgspec.MsgspecError) as error:
        raise ValueError(f"not the events of a request: {error}") from error


_read = msgspec.json.Decoder(list[msgspec.Raw]).decode


def frame(fragment: Fragment, head: bytes, tail: bytes) -> bytes:
    """The gzipped body of a request: `head`, the events, `tail`."""
    data, length, crc = fragment
    if _combine is None:  # pragma: no cover - a platform without isa-l
        whole = zlib.crc32(head + zlib.decompressobj(_RAW).decompress(data) + tail)
    else:
        whole = _combine(_combine(codec.crc32(head), crc, length), codec.crc32(tail), len(tail))
    size = (len(head) + length + len(tail)) & 0xFFFFFFFF
    return b"".join((*_stored(head), data, _last(tail), struct.pack("<II", whole, size)))


def _stored(head: bytes) -> Sequence[bytes]:
    """The gzip header, and `head` as stored blocks."""
    pieces = [_HEADER]
    for start in range(0, len(head), _MOST_STORED):
        some = head[start : start + _MOST_STORED]
        pieces += (struct.pack("<BHH", 0, len(some), len(some) ^ _MOST_STORED), some)
    return pieces


def _last(tail: bytes) -> bytes:
    return struct.pack("<BHH", 1, len(tail), len(tail) ^ _MOST_STORED) + tail
