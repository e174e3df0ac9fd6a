"""The result of identity resolution: the table for people and the report, the links to send, the person of each id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.encoder.updates import SealedLink
from pipeline.identity.database import numbers, numbers_of, read_batches, release_memory, texts
from pipeline.identity.kinds import NEVER
from pipeline.identity.numbering import Numbering, counts, marked
from pipeline.identity.observed_pairs import EARLIER, NAMED_PART, PART_SHIFT, SETTLED, EarlierLink
from pipeline.identity.policies import SeveralUsersFound, shared_devices
from pipeline.identity.rules import Decision, PairArrays, Reason
from pipeline.identity.summary import Cluster, DecisionCount, MergeSummary, Partners
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
"""A merge is dated this long before the first event of the ids it joins, in µs: a merge that arrives after these events
leaves two persons (docs/know/service.md#merges)."""
_AT_ONCE = 50_000
_REASONS = len(Reason)


class PairDecisions(msgspec.Struct):
    """What was decided, by pair: a Decision, a Reason, and whether the two ids of the pair are one person.

    `path` is the Arrow file with the strings of the pairs (`ObservedPairs.move_to`).
    """

    path: Path
    pairs: PairArrays
    decisions: NDArray[np.uint8]
    reasons: NDArray[np.uint8]
    joined: NDArray[np.bool_]


class IdDecisions(msgspec.Struct):
    """What was decided, by the number of an id.

    `users` are the ids of users, `numbers` the tool's numbers of persons; `canonical` is the id that the person keeps,
    `owners` the id that receives a profile stored under this id; `earliest` is the first event (µs UTC), or NEVER if
    there is none. `joined_users` are the persons whom records make of several users.
    """

    users: NDArray[np.bool_]
    numbers: NDArray[np.bool_]
    canonical: NDArray[np.int32]
    owners: NDArray[np.int32]
    earliest: NDArray[np.int64]
    joined_users: SeveralUsersFound


class Identities:
    """The result of identity resolution. Use as a context manager.

    `in_doubt` are the links of earlier plans whose sending is in doubt, by (distinct_id, other).
    """

    def __init__(
        self,
        numbering: Numbering,
        pairs: PairDecisions,
        ids: IdDecisions,
        in_doubt: dict[tuple[str, str], EarlierLink],
    ) -> None:
        self._numbering = numbering
        self._by_pair = pairs
        self._by_id = ids
        self._in_doubt = in_doubt
        self._absorbed = self._find_absorbed()
        self._identified = ids.users.copy()
        for side in (pairs.pairs.anonymous, pairs.pairs.user):
            self._identified[side[pairs.joined]] = True

    def __enter__(self) -> Identities:
        return self

    def __exit__(self, *exc: object) -> None:
        self._numbering.close()
        self._by_pair.path.unlink()

    def _find_absorbed(self) -> NDArray[np.int32]:
        """The ids that a link absorbs: all ids of a person except the canonical one, those that earlier plans merged,
        and the tool's numbers, which occur on no event."""
        others = (self._by_id.canonical != np.arange(len(self._by_id.canonical), dtype=np.int32)) & ~self._by_id.numbers
        settled = (self._by_pair.pairs.kinds & SETTLED) != 0
        others[self._by_pair.pairs.anonymous[settled]] = False
        others[self._by_pair.pairs.user[settled]] = False
        return np.flatnonzero(others).astype(np.int32)

    def links(self, hasher: Hasher, as_of: int) -> Iterator[SealedLink]:
        """The links, sorted by the absorbed id. A link is dated MERGE_LEAD before the earliest event of either id.

        If neither id has an event, the link takes the time of the earliest row that pairs the absorbed id, but at the
        latest 49 hours before `as_of` (µs UTC).
        """
        release_memory()
        first_rows, rows = self._rows_of_pairs()
        for start in range(0, len(self._absorbed), _AT_ONCE):
            some = self._absorbed[start : start + _AT_ONCE]
            canonical = self._by_id.canonical[some]
            times = np.minimum(self._by_id.earliest[some], self._by_id.earliest[canonical])
            dateless = np.flatnonzero(times == NEVER)
            times[dateless] = np.minimum(first_rows[some[dateless]], as_of - WITHOUT_TIME)
            dated = np.maximum(0, times - MERGE_LEAD).tolist()
            kinds = self._by_id.users[canonical].tolist()
            users, others = self._numbering.texts(canonical), self._numbering.texts(some)
            for other, user, time, identify, count in zip(
                others, users, dated, kinds, rows[some].tolist(), strict=True
            ):
                yield self._link(hasher, "identify" if identify else "alias", user, other, time, count)

    def _link(self, hasher: Hasher, kind: str, user: str, other: str, time: int, rows: int) -> SealedLink:
        earlier = self._in_doubt.get((user, other))
        if earlier is not None:
            kind, time = earlier.kind, earlier.time
        return SealedLink(kind, user, other, time, hasher(SEPARATOR.join(("link", kind, user, other))), rows)

    def _rows_of_pairs(self) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """By id: the time of the earliest row of the pairs that join it, and how many rows these pairs have.

        The times are computed only if some link needs them; otherwise the array is empty.
        """
        alone = self._by_id.earliest[self._absorbed] == NEVER
        needed = bool((self._by_id.earliest[self._by_id.canonical[self._absorbed[alone]]] == NEVER).any())
        first = np.full(len(self._by_id.canonical) if needed else 0, NEVER, np.int64)
        rows = np.zeros(len(self._by_id.canonical), np.uint32)
        for start in range(0, len(self._by_pair.pairs), _AT_ONCE):
            joined = start + np.flatnonzero(self._by_pair.joined[start : start + _AT_ONCE])
            for side in (self._by_pair.pairs.anonymous[joined], self._by_pair.pairs.user[joined]):
                np.add.at(rows, side, self._by_pair.pairs.events[joined])
                if needed:
                    np.minimum.at(first, side, self._by_pair.pairs.first[joined])
        return first, rows

    def release(self) -> None:
        """Release what only links, the table and the summary need; `canonical` and the like still work."""
        none = np.zeros(0, np.int32)
        pairs = PairArrays(none, none, none.astype(np.uint16), none.astype(np.int64), none.astype(np.uint32))
        codes = none.astype(np.uint8)
        self._by_pair = PairDecisions(self._by_pair.path, pairs, codes, codes, none.astype(np.bool_))
        self._by_id.earliest, self._absorbed = none.astype(np.int64), none
        release_memory()

    # -- each id's person ----------------------------------------------------------------------------

    def canonical(self, ids: Sequence[str]) -> list[str]:
        """The canonical id of each id: the id itself if no pair joins it to another."""
        return self._texts_in(self._by_id.canonical, ids)

    def owners(self, ids: Sequence[str]) -> list[str]:
        """The id that receives a profile stored under each id: `canonical`, or, for an id that occurs only with a user,
        that user."""
        return self._texts_in(self._by_id.owners, ids)

    def _texts_in(self, table: NDArray[np.int32], ids: Sequence[str]) -> list[str]:
        if not len(table):
            return list(ids)
        numbers = self._numbering.find(ids, _moved(table))
        moved = np.flatnonzero(numbers >= 0)
        owners = list(ids)
        for index, text in zip(moved.tolist(), self._numbering.texts(table[numbers[moved]]), strict=True):
            owners[index] = text
        return owners

    def person_numbers(self, hashed: NDArray[np.uint64]) -> NDArray[np.int32]:
        """By xxh3-64 of an id: the number of its person's canonical id; -1 if no pair names the id."""
        if not len(self._by_id.canonical):
            return np.full(len(hashed), -1, np.int32)
        order = self._numbering.order
        where = np.searchsorted(self._numbering.hashed, hashed, sorter=order)
        where[where == len(order)] = 0
        number = order[where]
        return np.where(self._numbering.hashed[number] == hashed, self._by_id.canonical[number], np.int32(-1))

    def numbers(self) -> Iterator[dict[str, NDArray[Any]]]:
        """For every id that a pair names, some at a time: its xxh3-64, the number of its person's canonical id, and 1
        if the person has a user's id."""
        canonical = self._by_id.canonical
        known = marked(canonical[self._by_id.users], len(canonical))[canonical].view(np.uint8)
        for start in range(0, len(self._by_id.canonical), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            yield {"person": self._numbering.hashed[some], "number": canonical[some], "known": known[some]}

    @property
    def moves(self) -> bool:
        """Whether any profile belongs to an id other than the one it is stored under."""
        return bool(_moved(self._by_id.owners).any())

    def identified(self) -> NDArray[np.uint64]:
        """xxh3-64 of every id that a pair identifies: users, and ids that are joined to another."""
        return self._numbering.hashed[self._identified]

    # -- for people ----------------------------------------------------------------------------------

    def write(self, path: Path, parts: Sequence[str], named: str = "") -> None:
        """Write the table identities.parquet, sorted by (anonymous_id, user_id). Its columns:
        docs/change/architecture.md#plan-directory.

        `parts` are the paths of the source's parts, `named` that of the operator's file. Times are null if the rows of
        a pair have none. A pair that only an earlier plan has is left out.
        """
        release_memory()
        at = 0
        with pq.ParquetWriter(path, SCHEMA, compression="zstd", use_dictionary=["decision", "reason"]) as writer:
            for batch in read_batches(self._by_pair.path):
                ours = np.flatnonzero(numbers_of(batch, "kinds") & ~EARLIER)
                if len(ours):
                    some = batch if len(ours) == len(batch) else batch.take(numbers(ours))
                    writer.write_table(self._rows(some, at + ours, parts, named))
                at += len(batch)
                if at % (10 * _AT_ONCE) < len(batch):
                    release_memory()

    def _rows(self, batch: pa.RecordBatch, here: NDArray[np.int64], parts: Sequence[str], named: str) -> pa.Table:
        where = [
            f"{named if place >> PART_SHIFT == NAMED_PART else parts[place >> PART_SHIFT]}:{place % (1 << PART_SHIFT)}"
            for place in numbers_of(batch, "place").tolist()
        ]
        return pa.table(
            [
                _plain(batch.column("anonymous")),
                _plain(batch.column("owner")),
                _instants(numbers_of(batch, "first")),
                _instants(numbers_of(batch, "last")),
                batch.column("events"),
                texts(where),
                _names(Decision, self._by_pair.decisions[here]),
                _names(Reason, self._by_pair.reasons[here]),
            ],
            schema=SCHEMA,
        )

    def summary(self, most: int = 20) -> MergeSummary:
        """What merging would change: counts, and the `most` largest persons, most shared and most crowded ids."""
        release_memory()
        ours = (self._by_pair.pairs.kinds & ~np.uint16(EARLIER)) != 0
        codes = np.zeros(256, np.int64)
        for start in range(0, len(ours), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            both = self._by_pair.decisions[some] * np.uint8(_REASONS) + self._by_pair.reasons[some]
            codes += np.bincount(both[ours[some]], minlength=256)
        decisions = sorted(
            (Decision(code // _REASONS).name.lower(), Reason(code % _REASONS).name.lower(), int(codes[code]))
            for code in np.flatnonzero(codes).tolist()
        )
        sizes = counts(self._by_id.canonical, len(self._by_id.canonical), ~self._by_id.numbers)
        shared = shared_devices(self._by_pair.pairs, self._by_pair.decisions, self._by_id.users, self._numbering.text)
        joined = self._by_id.joined_users
        return MergeSummary(
            len(self._absorbed),
            int(ours.sum()),
            int((sizes > 1).sum()),
            [DecisionCount(*decision) for decision in decisions],
            [self._cluster(number, int(sizes[number])) for number in _greatest(sizes, most) if sizes[number] > 2],
            self._partners(self._by_pair.pairs.anonymous, ours, most),
            self._partners(self._by_pair.pairs.user, ours, most),
            shared.number,
            shared.largest,
            joined.number,
            joined.largest,
        )

    def _cluster(self, number: int, size: int) -> Cluster:
        some = np.flatnonzero((self._by_id.canonical == number) & ~self._by_id.numbers)
        others = [self._numbering.text(one) for one in some.tolist()[:6] if one != number]
        return Cluster(self._numbering.text(number), size, others[:5])

    def _partners(self, side: NDArray[np.int32], ours: NDArray[np.bool_], most: int) -> list[Partners]:
        degree = counts(side, len(self._by_id.canonical), ours)
        return [
            Partners(
                self._numbering.text(number).removeprefix(SEPARATOR),
                int(degree[number]),
                int(self._by_pair.pairs.events[ours & (side == number)].sum(dtype=np.int64)),
            )
            for number in _greatest(degree, most)
            if degree[number] > 1
        ]


def _moved(table: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which ids are replaced by another."""
    return np.asarray(table != np.arange(len(table), dtype=np.int32))


def _greatest(counted: NDArray[np.uint32], most: int) -> list[int]:
    """The numbers with the greatest counts; ties are sorted by number."""
    least = int(np.partition(counted, -most)[-most]) if len(counted) > most else 0
    candidates = np.concatenate((np.flatnonzero(counted > least), np.flatnonzero(counted == least)[:most]))
    ordered = candidates[np.lexsort((candidates, -counted[candidates].astype(np.int64)))]
    return [int(number) for number in ordered[:most]]


def _instants(times: NDArray[np.int64]) -> pa.Array:
    has_time = np.abs(times) < NEVER
    bits = pa.py_buffer(np.packbits(has_time, bitorder="little"))
    kind = SCHEMA.field("first_seen").type
    return pa.Array.from_buffers(kind, len(times), [bits, pa.py_buffer(np.ascontiguousarray(times))])


def _plain(ids: pa.Array) -> pa.Array:
    """The ids; the tool's numbers of persons without the SEPARATOR before them."""
    text = ids.buffers()[2]
    if text is None or ord(SEPARATOR) not in np.frombuffer(text, np.uint8):
        return ids
    import pyarrow.compute as pc  # takes a tenth of a second, and few exports need it

    return pc.utf8_ltrim(ids, SEPARATOR)


def _names(kind: type[Decision] | type[Reason], codes: NDArray[np.uint8]) -> pa.Array:
    """The name of each code. (`take` of Arrow would import `pyarrow.compute`.)"""
    names = [one.name.lower().encode() for one in kind]
    lengths = np.array([len(name) for name in names])
    padded = np.array(names).view(np.uint8).reshape(len(names), -1)
    filled = np.arange(padded.shape[1]) < lengths[:, None]
    offsets = np.concatenate(([0], np.cumsum(lengths[codes]))).astype(np.int32)
    text = padded[codes][filled[codes]]
    return pa.Array.from_buffers(pa.string(), len(codes), [None, pa.py_buffer(offsets), pa.py_buffer(text)])
