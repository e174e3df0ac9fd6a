"""What events promote to their persons (`events.promoted`), collected and folded for each person.

There is much of it, a dozen properties of nearly every person, so it never stands in memory whole: it is spread over
files by the hash of the id, each file is folded by itself and written back in order, and the files are read together.
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
MOST_BYTES = 16 * 1024 * 1024
"""So much is held before it goes to the disk."""
_LENGTH_BYTES = 4
_encode = msgspec.msgpack.encode
_said = msgspec.msgpack.Decoder(tuple[str, list[PromotedUpdate]]).decode
_final = msgspec.msgpack.Decoder(LastValues).decode


class PromotedValues:
    """What events promote. `moves` gives the id that each person keeps; `folder` is to be made."""

    def __init__(self, folder: Path, moves: OwnerLookup | None) -> None:
        folder.mkdir()
        self._folder = folder
        self._moves = moves
        self._held: dict[int, list[bytes]] = {}
        self._bytes = 0

    def add(self, said: list[tuple[str, list[PromotedUpdate]]]) -> None:
        """Add what some events promote, by their ids, in any order."""
        owners = [owner for owner, _ in said]
        if self._moves is not None:
            owners = list(self._moves(owners))
        for owner, (_, of_one) in zip(owners, said, strict=True):
            record = _framed((owner, of_one))
            self._held.setdefault(hash_id(owner) % FAN, []).append(record)
            self._bytes += len(record)
        if self._bytes > MOST_BYTES:
            self._flush()

    def aggregate(self) -> None:
        """Everything was added: find out what it comes to for each person."""
        self._flush()
        for path in sorted(self._folder.iterdir()):
            heard: dict[str, list[PromotedUpdate]] = {}
            for record in _records(path):
                owner, said = _said(record)
                heard.setdefault(owner, []).extend(said)
            with path.open("wb") as file:
                file.writelines(
                    _framed(last_values_of(owner, ((owner, *one) for one in heard[owner]))) for owner in sorted(heard)
                )

    def last_values(self) -> Iterator[LastValues]:
        """Each person once, sorted. To be asked after `fold`, as often as is needed."""
        runs = (map(_final, _records(path)) for path in sorted(self._folder.iterdir()))
        return merge(*runs, key=attrgetter("owner"))

    def _flush(self) -> None:
        for number, records in self._held.items():
            with (self._folder / f"{number:03d}").open("ab") as file:
                file.writelines(records)
        self._held.clear()
        self._bytes = 0


def _framed(value: object) -> bytes:
    record = _encode(value)
    return len(record).to_bytes(_LENGTH_BYTES, "little") + record


def _records(path: Path) -> Iterable[bytes]:
    with path.open("rb", buffering=1 << 14) as file:
        while length := file.read(_LENGTH_BYTES):
            yield file.read(int.from_bytes(length, "little"))
