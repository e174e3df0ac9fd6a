"""The events of one block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from pipeline.encoder.buffer import split_events
from pipeline.extractors.rows import Rows
from pipeline.mapper.compiler import Mapper
from pipeline.models import GroupUpdate, Link, Note, PersonUpdate, Reject, UnvalidatedEvent
from pipeline.transform.field_counts import BlockFields
from pipeline.uuids import content_digest
from pipeline.values import bare

_KINDS: dict[Any, str] = {Link: "merge", PersonUpdate: "person", GroupUpdate: "group"}
_encode = msgspec.json.Encoder(enc_hook=dict).encode


class KeyedRow(NamedTuple):
    """A row, or an item at a position in a row, that has a key and a time and makes no event, but a pair or an update
    of a person or a group: `kind` says which. Times are in µs UTC, `received` is 0 if unknown. `skipped`: it states
    nothing, but it may replace one that does."""

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
        """The row with these outcomes (Link, PersonUpdate, GroupUpdate), None without a key or a time."""
        first = outcomes[0]
        if first.row_key is None or type(first.time) is not int:
            return None
        content = _encode([_as_stated(one) for one in outcomes])
        words, times = (_KINDS[type(first)], first.row_key), (first.time, first.received or 0)
        return cls(row, position, *words, *times, first.distinct_id or "", content, skipped)


def _as_stated(outcome: Any) -> Any:
    """An outcome in the form that is compared with those of other rows, without its receive time and key.

    A placeholder id counts only as present or absent, as in earlier versions: the digest of the statement decides which
    of two copies of equal rank is sent, and another spelling would change the decision.
    """
    stated = replace(outcome, received=None, row_key=None)
    if type(stated) is PersonUpdate:
        stated.placeholder_id = bool(stated.placeholder_id)  # type: ignore[assignment]
    return stated


class Stated(NamedTuple):
    """What a row states in addition to its events. It has no effect if `events` of the events at positions `first` to
    `last` of the row are copies."""

    row: int
    first: int
    last: int
    events: int
    outcome: Link | PersonUpdate | GroupUpdate


@dataclass(slots=True)
class Events:
    """The events of one block, before the plan's tables are applied.

    `runs` are the encoded events, each followed by a comma, some hundreds in each run; `sizes` their bytes without the
    comma; `events` splits them. `digest` is xxh3-128 of all of them, the block's seal. These fields have one entry per
    event: `row_of` (from 0), `positions` (in its row), `uuids` (16 bytes each), and, filled only when observing,
    `hashes` (`hash_events`), `names`, `distinct_ids`, `name_of` (an index into `distinct_names`), `times` and
    `received` (µs UTC, 0 if unknown). `keyless` are the indices of events without a source key. `content(row)` is the
    digest of what makes a row equal to others without a source key.

    `rejects` are complete, of rows and of items of rows, and `rejected` counts the rows of which nothing is sent;
    `skips` and `warnings` count by code, and `examples` has one (row from 0, byte offset, detail) for each warning.
    `cells` counts (event name, days since 1970, code of a skip or reject). `keyed` are the rows with a key and without
    an event; `said` has, for events that a plan holds, their content by row and position. `walls` are local clock
    readings and `walls_received` their receive times (µs), for the check of the time zone. `fields` is the coverage of
    the block. `notes` are the notes of the events whose numbers are in `noted`, `named` what is in `$groups`, by the
    number of the event, and `stated` what rows state in addition to their events.
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

    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty((0, 3), np.uint64))
    names: list[str] = field(default_factory=list)
    distinct_ids: list[str] = field(default_factory=list)
    distinct_names: list[str] = field(default_factory=list)
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
    said: dict[tuple[int, int], bytes] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    noted: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    named: list[tuple[int, Any]] = field(default_factory=list)
    stated: list[Stated] = field(default_factory=list)
    content: Callable[[int], str] = str

    @property
    def events(self) -> list[bytes]:
        """Each event by itself, as it would be sent."""
        return split_events(self.runs, self.sizes)

    def add_keyed(self, row: int, position: int, accepted: Sequence[Any], outcomes: Sequence[Any]) -> None:
        """Add a row with these outcomes, none of which is an event, if it has a key; some of them are `accepted`."""
        stated = accepted or [one for one in outcomes if type(one) is PersonUpdate]
        keyed = KeyedRow.of(row, position, stated, skipped=not accepted)
        if keyed is not None:
            self.keyed.append(keyed)

    def state(self, row: int, position: int, accepted: Sequence[Any], outcomes: Sequence[Any]) -> None:
        """Add the `accepted` ones of these outcomes, which begin at this position of their row."""
        events = sum(one.__class__ is UnvalidatedEvent for one in outcomes)
        last = position + len(outcomes) - 1 if events else position
        for outcome in accepted:
            if outcome.__class__ is not UnvalidatedEvent:
                self.stated.append(Stated(row, position, last, max(events, 1), outcome))

    def take_columns(self, columns: tuple[bytes, bytes, bytes, bytes, bytes]) -> None:
        """Take the columns of an observer."""
        self.distinct_names, numbers = number_texts(self.names)
        self.name_of = np.frombuffer(numbers, np.uint32)
        self.times, self.received, self.walls, self.walls_received, self.noted = (
            np.frombuffer(column, np.int64) for column in columns
        )


def number_texts(texts: list[str]) -> tuple[list[str], bytes]:
    """The different strings in the order of their first use, and each string's index among them, as uint32."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(numbers), np.fromiter(map(numbers.__getitem__, texts), np.uint32, len(texts)).tobytes()


def contents(rows: Rows, mapper: Mapper) -> Callable[[int], str]:
    """A function that takes a row's number and returns the digest of what makes the row equal to others without a
    source key. It remembers the digests, since they are asked for twice."""

    @cache
    def content(row: int) -> str:
        record = rows.canonical(row)
        return content_digest(bare(record) if mapper.equal_by_values else record)

    return content
