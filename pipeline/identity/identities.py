"""What came of the pairs: the table for people and the report, the links to send, and each id's person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.encoder.updates import SealedLink
from pipeline.identity.accumulators import NEVER
from pipeline.identity.database import numbers, numbers_of, read_batches, release_memory, texts
from pipeline.identity.numbering import Numbering, counts
from pipeline.identity.observed_pairs import EARLIER, NAMED_PART, PART_SHIFT, SETTLED, EarlierLink
from pipeline.identity.rules import Decision, PairArrays, Reason
from pipeline.uuids import SEPARATOR, Hasher
from pipeline.validator.rules import WITHOUT_TIME

SCHEMA = pa.schema(
    [
        ("anonymous_id", pa.string()),
        ("user_id", pa.string()),
        ("first_seen", pa.timestamp("us", "UTC")),
        ("last_seen", pa.timestamp("us", "UTC")),
        ("events", pa.int64()),
        ("where", pa.string()),
        ("decision", pa.string()),
        ("reason", pa.string()),
    ]
)
MERGE_LEAD = 1_000
"""A merge is dated this long before the first event that it concerns, in µs: one that arrives after the events it joins
leaves two persons (docs/know/service.md#merges)."""
_AT_ONCE = 50_000
_REASONS = len(Reason)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One person: the id that is kept, how many ids there are, and some of the others."""

    canonical: str
    ids: int
    some: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Partners:
    """An id, how many ids it is paired with, and on how many rows; whatever was decided."""

    id: str
    partners: int
    events: int


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """What merging would touch. `decisions` counts pairs by (decision, reason), `persons` those of several ids."""

    decisions: dict[tuple[str, str], int]
    links: int
    persons: int
    largest: tuple[Cluster, ...]
    shared: tuple[Partners, ...]
    crowded: tuple[Partners, ...]


class Identities:
    """Who is who, decided. Arrays are by pair or by the number of an id. Use as a context manager."""

    def __init__(
        self,
        told: Path,
        numbering: Numbering,
        pairs: PairArrays,
        decisions: NDArray[np.uint8],
        reasons: NDArray[np.uint8],
        joined: NDArray[np.bool_],
        users: NDArray[np.bool_],
        numbers: NDArray[np.bool_],
        canonical: NDArray[np.int32],
        owners: NDArray[np.int32],
        earliest: NDArray[np.int64],
        doubtful: dict[tuple[str, str], EarlierLink],
    ) -> None:
        self._told = told
        self._numbering = numbering
        self._pairs = pairs
        self._decisions = decisions
        self._reasons = reasons
        self._joined = joined
        self._users = users
        self._numbers = numbers
        self._canonical = canonical
        self._owners = owners
        self._earliest = earliest
        self._doubtful = doubtful
        self._absorbed = self._links()
        self._known = users.copy()
        for side in (pairs.anonymous, pairs.user):
            self._known[side[joined]] = True

    def __enter__(self) -> Identities:
        return self

    def __exit__(self, *exc: object) -> None:
        self._numbering.close()
        self._told.unlink()

    def _links(self) -> NDArray[np.int32]:
        """The ids that a link absorbs: all of a person but the kept one, those that earlier plans dealt with, and a
        tool's own numbers, which no event bears."""
        others = (self._canonical != np.arange(len(self._canonical), dtype=np.int32)) & ~self._numbers
        settled = (self._pairs.kinds & SETTLED) != 0
        others[self._pairs.anonymous[settled]] = False
        others[self._pairs.user[settled]] = False
        return np.flatnonzero(others).astype(np.int32)

    @property
    def count(self) -> int:
        """How many links there are to send."""
        return len(self._absorbed)

    def links(self, hasher: Hasher, as_of: int) -> Iterator[SealedLink]:
        """The links by the id that is absorbed. One is dated just before the earliest event of either id.

        Where neither has an event, the earliest row that pairs the absorbed id counts, but never under 49 hours
        before `as_of` (µs UTC).
        """
        release_memory()
        said, rows = self._said()
        for start in range(0, len(self._absorbed), _AT_ONCE):
            some = self._absorbed[start : start + _AT_ONCE]
            kept = self._canonical[some]
            times = np.minimum(self._earliest[some], self._earliest[kept])
            dateless = np.flatnonzero(times == NEVER)
            times[dateless] = np.minimum(said[some[dateless]], as_of - WITHOUT_TIME)
            dated = np.maximum(0, times - MERGE_LEAD).tolist()
            kinds = self._users[kept].tolist()
            users, others = self._numbering.texts(kept), self._numbering.texts(some)
            for other, user, time, identify, count in zip(
                others, users, dated, kinds, rows[some].tolist(), strict=True
            ):
                yield self._link(hasher, "identify" if identify else "alias", user, other, time, count)

    def _link(self, hasher: Hasher, kind: str, user: str, other: str, time: int, rows: int) -> SealedLink:
        begun = self._doubtful.get((user, other))
        if begun is not None:
            kind, time = begun.kind, begun.time
        return SealedLink(kind, user, other, time, hasher(SEPARATOR.join(("link", kind, user, other))), rows)

    def _said(self) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """By id: the earliest row of the pairs that join it, and how many rows those are.

        The first is looked for only where some link needs it.
        """
        alone = self._earliest[self._absorbed] == NEVER
        needed = bool((self._earliest[self._canonical[self._absorbed[alone]]] == NEVER).any())
        first = np.full(len(self._canonical) if needed else 0, NEVER, np.int64)
        rows = np.zeros(len(self._canonical), np.uint32)
        for start in range(0, len(self._pairs), _AT_ONCE):
            joined = start + np.flatnonzero(self._joined[start : start + _AT_ONCE])
            for side in (self._pairs.anonymous[joined], self._pairs.user[joined]):
                np.add.at(rows, side, self._pairs.events[joined])
                if needed:
                    np.minimum.at(first, side, self._pairs.first[joined])
        return first, rows

    def forget(self) -> None:
        """Let go of what only links, the table and the blast radius need; whose an id is can still be asked."""
        empty = np.zeros(0, np.int32)
        self._pairs = PairArrays(empty, empty, empty.astype(np.uint8), empty.astype(np.int64), empty.astype(np.uint32))
        self._decisions = self._reasons = empty.astype(np.uint8)
        self._joined = empty.astype(np.bool_)
        self._earliest, self._absorbed = empty.astype(np.int64), empty
        release_memory()

    # -- each id's person ----------------------------------------------------------------------------

    def canonical(self, ids: Sequence[str]) -> list[str]:
        """The id that each id's person keeps: itself where no pair joins it to another."""
        return self._texts_in(self._canonical, ids)

    def owners(self, ids: Sequence[str]) -> list[str]:
        """The id that a profile under each id is sent to: `canonical`, or the user of an id that is never alone."""
        return self._texts_in(self._owners, ids)

    def _texts_in(self, table: NDArray[np.int32], ids: Sequence[str]) -> list[str]:
        if not len(table):
            return list(ids)
        found = self._numbering.find(ids, _moved(table))
        moved = np.flatnonzero(found >= 0)
        owners = list(ids)
        for index, text in zip(moved.tolist(), self._numbering.texts(table[found[moved]]), strict=True):
            owners[index] = text
        return owners

    @property
    def moves(self) -> bool:
        """Whether any profile belongs to another id than its own."""
        return bool(_moved(self._owners).any())

    def identified(self) -> NDArray[np.uint64]:
        """xxh3-64 of every id that pairs make an identified one: users, and whoever is joined to another id."""
        return self._numbering.hashed[self._known]

    # -- for people ----------------------------------------------------------------------------------

    def write(self, path: Path, parts: Sequence[str], named: str = "") -> int:
        """Write the table, sorted by (anonymous_id, user_id); how many rows. The columns:
        docs/change/architecture.md#plan-directory.

        `parts` are the paths of the source's parts, `named` that of the operator's file. Times are empty where the
        rows of a pair have none. A pair that only an earlier plan knows is left out.
        """
        release_memory()
        rows = at = 0
        with pq.ParquetWriter(path, SCHEMA, compression="zstd", use_dictionary=["decision", "reason"]) as writer:
            for batch in read_batches(self._told):
                ours = np.flatnonzero(numbers_of(batch, "kinds") & ~EARLIER)
                if len(ours):
                    writer.write_table(self._rows(batch.take(numbers(ours)), at + ours, parts, named))
                    rows += len(ours)
                at += len(batch)
                if at % (10 * _AT_ONCE) < len(batch):
                    release_memory()
        return rows

    def _rows(self, batch: pa.RecordBatch, here: NDArray[np.int64], parts: Sequence[str], named: str) -> pa.Table:
        where = [
            f"{named if place >> PART_SHIFT == NAMED_PART else parts[place >> PART_SHIFT]}:{place % (1 << PART_SHIFT)}"
            for place in numbers_of(batch, "place").tolist()
        ]
        return pa.table(
            [
                pc.utf8_ltrim(batch.column("anonymous"), SEPARATOR),
                pc.utf8_ltrim(batch.column("owner"), SEPARATOR),
                _instants(numbers_of(batch, "first")),
                _instants(numbers_of(batch, "last")),
                batch.column("events"),
                texts(where),
                _names(Decision, self._decisions[here]),
                _names(Reason, self._reasons[here]),
            ],
            schema=SCHEMA,
        )

    def blast_radius(self, most: int = 20) -> BlastRadius:
        """What merging would touch: counts, and the `most` largest persons, most shared and most crowded ids."""
        release_memory()
        ours = (self._pairs.kinds & ~np.uint8(EARLIER)) != 0
        codes = np.zeros(256, np.int64)
        for start in range(0, len(ours), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            both = self._decisions[some] * np.uint8(_REASONS) + self._reasons[some]
            codes += np.bincount(both[ours[some]], minlength=256)
        decisions = {
            (Decision(code // _REASONS).name.lower(), Reason(code % _REASONS).name.lower()): int(codes[code])
            for code in np.flatnonzero(codes).tolist()
        }
        sizes = counts(self._canonical[~self._numbers], len(self._canonical))
        return BlastRadius(
            decisions,
            self.count,
            int((sizes > 1).sum()),
            tuple(self._cluster(number, int(sizes[number])) for number in _greatest(sizes, most) if sizes[number] > 2),
            self._partners(self._pairs.anonymous[ours], self._pairs.events[ours], most),
            self._partners(self._pairs.user[ours], self._pairs.events[ours], most),
        )

    def _cluster(self, number: int, size: int) -> Cluster:
        some = np.flatnonzero((self._canonical == number) & ~self._numbers)
        others = [self._numbering.text(one) for one in some.tolist()[:6] if one != number]
        return Cluster(self._numbering.text(number), size, tuple(others[:5]))

    def _partners(self, side: NDArray[np.int32], events: NDArray[np.uint32], most: int) -> tuple[Partners, ...]:
        degree = counts(side, len(self._canonical))
        return tuple(
            Partners(
                self._numbering.text(number).removeprefix(SEPARATOR),
                int(degree[number]),
                int(events[side == number].sum(dtype=np.int64)),
            )
            for number in _greatest(degree, most)
            if degree[number] > 1
        )


def _moved(table: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which ids another one stands for."""
    return np.asarray(table != np.arange(len(table), dtype=np.int32))


def _greatest(found: NDArray[np.uint32], most: int) -> list[int]:
    """The numbers with the greatest counts, equal ones by number."""
    least = int(np.partition(found, -most)[-most]) if len(found) > most else 0
    candidates = np.concatenate((np.flatnonzero(found > least), np.flatnonzero(found == least)[:most]))
    ordered = candidates[np.lexsort((candidates, -found[candidates].astype(np.int64)))]
    return [int(number) for number in ordered[:most]]


def _instants(times: NDArray[np.int64]) -> pa.Array:
    known = np.abs(times) < NEVER
    bits = pa.py_buffer(np.packbits(known, bitorder="little"))
    kind = SCHEMA.field("first_seen").type
    return pa.Array.from_buffers(kind, len(times), [bits, pa.py_buffer(np.ascontiguousarray(times))])


def _names(kind: type[Decision] | type[Reason], codes: NDArray[np.uint8]) -> pa.Array:
    return texts([one.name.lower() for one in kind]).take(numbers(codes))
