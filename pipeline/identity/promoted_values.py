"""The values that events promote to persons (`pipeline.identity.promotion`), collected and resolved for each person.

A dozen properties of nearly every person are more than memory has room for. They are spread over files by the hash of
the id; each file is resolved by itself and written back in order, and all files are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from operator import attrgetter
from pathlib import Path

import msgspec

from pipeline.id_hash import hash_id
from pipeline.identity.last_values import LastValues, OwnerLookup, last_values_of
from pipeline.identity.promotion import PromotedUpdate

FAN = 256
MAX_BYTES = 16 * 1024 * 1024
"""Records of this size are buffered before they are written to disk."""
_LENGTH_BYTES = 4
_encode = msgspec.msgpack.encode
_decode_updates = msgspec.msgpack.Decoder(tuple[str, list[PromotedUpdate]]).decode
_final = msgspec.msgpack.Decoder(LastValues).decode


class PromotedValues:
    """Collects promoted updates in `folder`, which must not exist. `moves` gives the canonical id of each person."""

    def __init__(self, folder: Path, moves: OwnerLookup | None) -> None:
        folder.mkdir()
        self._folder = folder
        self._moves = moves
        self._buffer: dict[int, list[bytes]] = {}
        self._bytes = 0

    def add(self, updates: list[tuple[str, list[PromotedUpdate]]]) -> None:
        """Add the updates that events promote, by distinct_id, in any order."""
        owners = [owner for owner, _ in updates]
        if self._moves is not None:
            owners = list(self._moves(owners))
        for owner, (_, of_one) in zip(owners, updates, strict=True):
            record = _framed((owner, of_one))
            self._buffer.setdefault(hash_id(owner) % FAN, []).append(record)
            self._bytes += len(record)
        if self._bytes > MAX_BYTES:
            self._flush()

    def aggregate(self) -> None:
        """Find the last values of each person. Nothing is added after this."""
        self._flush()
        for path in sorted(self._folder.iterdir()):
            by_owner: dict[str, list[PromotedUpdate]] = {}
            for record in _records(path):
                owner, updates = _decode_updates(record)
                by_owner.setdefault(owner, []).extend(updates)
            with path.open("wb") as file:
                file.writelines(
                    _framed(last_values_of(owner, ((owner, *one) for one in by_owner[owner])))
                    for owner in sorted(by_owner)
                )

    def last_values(self) -> Iterator[LastValues]:
        """Each person once, sorted. May be called repeatedly, after `aggregate`."""
        runs = (map(_final, _records(path)) for path in sorted(self._folder.iterdir()))
        return merge(*runs, key=attrgetter("owner"))

    def _flush(self) -> None:
        for number, records in self._buffer.items():
            with (self._folder / f"{number:03d}").open("ab") as file:
                file.writelines(records)
        self._buffer.clear()
        self._bytes = 0


def _framed(value: object) -> bytes:
    record = _encode(value)
    return len(record).to_bytes(_LENGTH_BYTES, "little") + record


def _records(path: Path) -> Iterable[bytes]:
    with path.open("rb", buffering=1 << 14) as file:
        while length := file.read(_LENGTH_BYTES):
            yield file.read(int.from_bytes(length, "little"))
