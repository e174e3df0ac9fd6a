"""The interface of a mapper, and the events of one block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from pipeline.encoder.buffer import split_events
from pipeline.extractors.rows import Rows
from pipeline.mapper.compiler import RowScan
from pipeline.models import GroupUpdate, Layout, Link, PersonUpdate, Reject, UnvalidatedEvent
from pipeline.native import AVAILABLE, native
from pipeline.timestamps import DAY
from pipeline.transform.field_counts import BlockFields
from pipeline.uuids import Hasher, content_digest
from pipeline.values import Record, bare


class Mapper(Protocol):
    """What a mapping compiles to, or a mapper written by hand. `opens` and `layout` are for
    `pipeline.extractors.rows`.

    `map_row` and `map_members` take a row, whether a plan observes it, and what the row is shown to as it came: when it
    is observed, the events, which are the same, carry their notes. `unsets` says whether a note may remove a property,
    `blanks` whether a blank cell of a delimited file is a value, `unread` which columns decide nothing,
    `keeps_earliest` whether of rows with one key the one received earliest counts, `equal_by_values` whether rows
    without a key are equal by their values alone.
    """

    @property
    def tool(self) -> str: ...

    @property
    def hasher(self) -> Hasher: ...

    @property
    def opens(self) -> tuple[str, ...]: ...

    @property
    def map_row(self) -> Callable[[Record, bool, RowScan | None], Any]: ...

    @property
    def map_members(self) -> Callable[[Any, bool, RowScan | None], Any] | None: ...

    @property
    def layout(self) -> Callable[[tuple[str, ...]], Layout | None] | None: ...

    @property
    def unsets(self) -> bool: ...

    @property
    def blanks(self) -> bool: ...

    @property
    def unread(self) -> Container[str]: ...

    @property
    def keeps_earliest(self) -> bool: ...

    @property
    def equal_by_values(self) -> bool: ...


_KINDS: dict[Any, str] = {Link: "merge", PersonUpdate: "person", GroupUpdate: "group"}
_encode = msgspec.json.Encoder(enc_hook=dict).encode


class KeyedRow(NamedTuple):
    """A row, or an item at a position of one, that has a key and a time and makes no event, but pairs, or updates a
    person or a group: `kind` is the word for it. Times are in µs UTC, `received` 0 for none. `skipped`: it states
    nothing, but it may stand in place of one that does."""

    row: int
    position: int
    kind: str
    key: str
    time: int
    received: int
    distinct_id: str
    content: bytes
    skipped: bool

    @classmethod
    def of(cls, row: int, position: int, outcomes: Sequence[Any], *, skipped: bool) -> KeyedRow | None:
        """The row of these outcomes (Link, PersonUpdate, GroupUpdate), None without a key or a time."""
        first = outcomes[0]
        if first.row_key is None or type(first.time) is not int:
            return None
        content = _encode([replace(one, received=None, row_key=None) for one in outcomes])
        words, times = (_KINDS[type(first)], first.row_key), (first.time, first.received or 0)
        return cls(row, position, *words, *times, first.distinct_id or "", content, skipped)


@dataclass(slots=True)
class Events:
    """The events of one block, before the plan's tables are applied.

    `runs` are the encoded events, each followed by a comma, some hundreds in each run; `sizes` their bytes without the
    comma; `events` splits them. `digest` is xxh3-128 of all of them, the block's seal. Of the other fields some have
    one entry for each event: `row_of` (from 0), `positions` (in its row), `uuids` (16 bytes each), and, filled
    only when observing, `hashes` (`hash_events`), `names`, `name_of` (an index of `distinct_names`, which
    `name_counts` counts), `times` and `received`
    (µs UTC, 0 for none). `keyless` are the indices of events without a source key. `content(row)` is the digest
    of what makes a row equal to others without a source key.

    `rejects` are complete, of rows and of items of rows, and `rejected` counts the rows of which nothing is sent;
    `skips` and `warnings` count by code, and `examples` has one (row from 0, byte offset, detail) for each warning.
    `cells` counts (event name, days since 1970, outcome), the outcome being `mapped` or the code of a skip or
    reject. `keyed` are the rows without an event that have a key. `walls` are local clock readings and
    `walls_received` their receive times (µs), for the check of the time zone. `fields` is the coverage of the block.
    """

    rows: int = 0
    mapped: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)
    rejected: int = 0
    digest: str = ""
    count: int = 0

    runs: list[bytes] = field(default_factory=list)
    sizes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    row_of: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    uuids: NDArray[np.uint8] = field(default_factory=lambda: np.empty((0, 16), np.uint8))
    keyless: frozenset[int] = frozenset()

    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty((0, 4), np.uint64))
    names: list[str] = field(default_factory=list)
    distinct_names: list[str] = field(default_factory=list)
    name_counts: dict[str, int] = field(default_factory=dict)
    name_of: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    times: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    received: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    warnings: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    cells: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    walls: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    walls_received: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    fields: BlockFields = field(default_factory=BlockFields)
    keyed: list[KeyedRow] = field(default_factory=list)
    content: Callable[[int], str] = str

    @property
    def events(self) -> list[bytes]:
        """Each event by itself, as it would be sent."""
        return split_events(self.runs, self.sizes)

    def add_keyed(self, row: int, position: int, accepted: Sequence[Any], outcomes: Sequence[Any]) -> None:
        """Add a row of these outcomes, none of which is an event, if it has a key; some of them are `accepted`."""
        stated = accepted or [one for one in outcomes if type(one) is PersonUpdate]
        keyed = KeyedRow.of(row, position, stated, skipped=not accepted)
        if keyed is not None:
            self.keyed.append(keyed)

    def take_columns(self, columns: tuple[bytes, bytes, bytes, bytes]) -> None:
        """Take the columns of an observer, and count the events of each name and day in `cells`."""
        names, numbers = (native.number_names if AVAILABLE else number_names)(self.names)
        self.distinct_names = names
        self.name_of = np.frombuffer(numbers, np.uint32)
        self.name_counts = dict(zip(names, np.bincount(self.name_of, minlength=len(names)).tolist(), strict=True))
        self.times, self.received, self.walls, self.walls_received = (
            np.frombuffer(column, np.int64) for column in columns
        )
        days = self.times // DAY
        cells, counts = np.unique(days * len(names) + self.name_of, return_counts=True)
        for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
            day, name = divmod(cell, len(names))
            self.cells[self.distinct_names[name], day, "mapped"] += count


def are_copies(start: int, outcomes: Sequence[Any], out: Container[int]) -> bool:
    """Whether these outcomes, the first at a position of its row, are of copies, whose positions are `out`."""
    places = [place for place, one in enumerate(outcomes, start) if one.__class__ is UnvalidatedEvent] or [start]
    return all(place in out for place in places)


def number_names(names: list[str]) -> tuple[list[str], bytes]:
    """The different names in the order of their first, and the number of each among them; `pipeline.native` has the
    same."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return list(numbers), np.fromiter(map(numbers.__getitem__, names), np.uint32, len(names)).tobytes()


def contents(rows: Rows, mapper: Mapper) -> Callable[[int], str]:
    """A function of a row's number: the digest of what makes the row equal to others without a source key. It remembers
    them, since the rows of a block are asked for twice."""

    @cache
    def content(row: int) -> str:
        record = rows.canonical(row)
        return content_digest(bare(record) if mapper.equal_by_values else record)

    return content
