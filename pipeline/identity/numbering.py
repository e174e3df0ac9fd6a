"""Ids as numbers: 0, 1, 2, … in the order of their strings, so that ties are resolved in the same way everywhere.

The strings are in a file and are read by number; in memory an id takes 13 bytes. A 64-bit hash leads from a string to
its number; if two ids share a hash, which is detected exactly, another seed is used.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.timestamps import lost_digits
from pipeline.uuids import SEPARATOR
from pipeline.validator.placeholder_ids import is_person_less, is_placeholder, trimmed
from pipeline.validator.rules import MAX_ID

if TYPE_CHECKING:
    from pipeline.identity.database import Database

T = TypeVar("T", bound=np.generic)

PLACEHOLDER, LONG, EMAIL, NUMBER = 1, 2, 4, 8
"""Flags of an id. PLACEHOLDER: it identifies no person. LONG: the service would change it. EMAIL: it looks like an
e-mail address. NUMBER: it is the tool's number of a person, after SEPARATOR; it occurs on no event, so it joins ids and
is never sent."""
_AT_ONCE = 50_000
_NEAR = 30
"""Reading up to this many ids in between costs less than a second read."""
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")


def hashes(ids: Iterable[str], seed: int = 0) -> NDArray[np.uint64]:
    """xxh3-64 of each id; with seed 0 it is `hash_id`."""
    short = xxhash.xxh3_64_intdigest
    return np.fromiter((short(one.encode(), seed) for one in ids), np.uint64)


def flags_of(ids: Sequence[str], per_event: bool = False) -> list[int]:
    """The flags of each id, added up. `per_event`: apply the rules of the per-event endpoint too."""
    return [
        (PLACEHOLDER if is_placeholder(one) or lost_digits(one) or (per_event and is_person_less(one)) else 0)
        | (LONG if len(one) > MAX_ID or "\0" in one or (per_event and _changed_per_event(one)) else 0)
        | (EMAIL if "@" in one and _EMAIL.fullmatch(one.strip()) else 0)
        | (NUMBER if one.startswith(SEPARATOR) else 0)
        for one in ids
    ]


def _changed_per_event(one: str) -> bool:
    return one != trimmed(one) or (not one.isascii() and len(one.encode()) > MAX_ID)


class Numbering:
    """The ids of table `pairs`. `hashed[n]` is the seedless hash of id n, `flags[n]` its flags."""

    def __init__(self, database: Database, directory: Path, per_event: bool = False) -> None:
        self._files = [directory / f"ids.{name}" for name in ("text", "ends", "hashed", "order", "seeded")]
        self._seed = 0
        parts: list[NDArray[np.uint64]] = []
        flags: list[NDArray[np.uint8]] = []
        end = 0
        with self._files[0].open("wb") as text, self._files[1].open("wb") as ends:
            for ids in _all_ids(database):
                parts.append(hashes(ids))
                flags.append(np.array(flags_of(ids, per_event), np.uint8))
                encoded = [one.encode() for one in ids]
                text.write(b"".join(encoded))
                upto = np.cumsum(np.fromiter(map(len, encoded), np.int64)) + end
                end = int(upto[-1])
                ends.write(upto.tobytes())
        self.hashed = _joined(parts, np.uint64)
        parts.clear()
        self.flags = _joined(flags, np.uint8)
        self._text, self._ends = (os.open(path, os.O_RDONLY) for path in self._files[:2])
        self._seeded = self.hashed
        self._order = np.argsort(self._seeded).astype(np.int32)
        while _collide(self._seeded, self._order):
            self._seed += 1
            self._seeded = _joined([hashes(ids, self._seed) for ids in self._all()], np.uint64)
            self._order = np.argsort(self._seeded).astype(np.int32)

    @property
    def order(self) -> NDArray[np.int32]:
        """The numbers of ids, sorted by `hashed`."""
        return np.argsort(self.hashed).astype(np.int32) if self._seed else self._order

    def move_to_disk(self) -> None:
        """Move the arrays to disk; the steps that decide do not need them."""
        self.hashed = _mapped(self._files[2], self.hashed)
        self._order = _mapped(self._files[3], self._order)
        self._seeded = _mapped(self._files[4], self._seeded) if self._seed else self.hashed

    def __len__(self) -> int:
        return len(self.hashed)

    def close(self) -> None:
        os.close(self._text)
        os.close(self._ends)
        for path in self._files:
            path.unlink(missing_ok=True)

    def of(self, ids: Sequence[str]) -> NDArray[np.int32]:
        """The numbers of ids that are all in the table."""
        where = np.searchsorted(self._seeded, hashes(ids, self._seed), sorter=self._order)
        return np.asarray(self._order[where])

    def find(self, ids: Sequence[str], among: NDArray[np.bool_] | None = None) -> NDArray[np.int32]:
        """The numbers of any ids; -1 if no pair names the id, or `among` does not mark its number."""
        numbers = np.full(len(ids), -1, np.int32)
        if not len(self):
            return numbers
        hashed = hashes(ids, self._seed)
        where = np.searchsorted(self._seeded, hashed, sorter=self._order)
        where[where == len(self)] = 0
        near = self._order[where]
        alike = np.flatnonzero((self._seeded[near] == hashed) & (True if among is None else among[near]))
        for index, number, text in zip(alike.tolist(), near[alike].tolist(), self.texts(near[alike]), strict=True):
            if text == ids[index]:
                numbers[index] = number
        return numbers

    def text(self, number: int) -> str:
        """The id with this number."""
        return self._between(number, number + 1)[0]

    def texts(self, numbers: NDArray[np.int32]) -> list[str]:
        """The ids with these numbers, in this order; ids that are close to each other are read together."""
        different, where = np.unique(numbers, return_inverse=True)
        breaks = np.flatnonzero(np.diff(different) > _NEAR) + 1
        near: list[str] = []
        for some in np.split(different, breaks) if len(different) else ():
            low = int(some[0])
            read = self._between(low, int(some[-1]) + 1)
            near += [read[number - low] for number in some.tolist()]
        return [near[place] for place in where.tolist()]

    def _between(self, start: int, stop: int) -> list[str]:
        before = 8 if start else 0
        raw = os.pread(self._ends, 8 * (stop - start) + before, 8 * start - before)
        ends = list(struct.unpack(f"<{len(raw) // 8}q", raw))
        ends = ends if start else [0, *ends]
        text = os.pread(self._text, ends[-1] - ends[0], ends[0])
        return [text[one - ends[0] : other - ends[0]].decode() for one, other in pairwise(ends)]

    def _all(self) -> Iterator[list[str]]:
        for start in range(0, len(self), _AT_ONCE):
            yield self._between(start, min(start + _AT_ONCE, len(self)))


def _collide(hashed: NDArray[np.uint64], order: NDArray[np.int32]) -> bool:
    """Whether any two hashes are equal; `order` sorts them."""
    ascending = hashed[order]
    return bool((ascending[1:] == ascending[:-1]).any())


def counts(numbers: NDArray[np.int32], size: int, among: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """How often each number below `size` occurs where `among` is true, in a third of the memory that bincount takes."""
    occurrences = np.zeros(size, np.uint32)
    for start in range(0, len(numbers), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        np.add.at(occurrences, numbers[some][among[some]], 1)
    return occurrences


def marked(numbers: NDArray[np.int32], size: int) -> NDArray[np.bool_]:
    """Which numbers below `size` occur."""
    there = np.zeros(size, bool)
    there[numbers] = True
    return there


def _all_ids(database: Database) -> Iterator[list[str]]:
    sql = "SELECT id FROM (SELECT anonymous AS id FROM pairs UNION SELECT owner FROM pairs) ORDER BY id"
    for batch in database.stream(sql):
        yield batch.column("id").to_pylist()


def _mapped(path: Path, values: NDArray[T]) -> NDArray[T]:
    values.tofile(path)
    return np.memmap(path, values.dtype, "r") if len(values) else values  # an empty file cannot be mapped


def _joined(parts: list[NDArray[T]], kind: type[T]) -> NDArray[T]:
    return np.concatenate(parts) if parts else np.zeros(0, kind)
