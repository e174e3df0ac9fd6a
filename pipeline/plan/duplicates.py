"""Finds duplicates exactly, however many rows there are, in bounded memory.

Each event of the source leaves one key record (`pipeline.transform.event_keys.KEY`). `pipeline.plan.key_records` cuts
them into pieces by their uuid, and each is decided on its own, in any process (`pipeline.plan.deduplication`). Nothing
is hashed down: two records are duplicates only if all 128 bits agree.

The decisions (docs/change/architecture.md#uuids):

* Rows with one source key are one event: the latest receive time wins (the earliest, where the mapping says so), then
  the latest time, then the greatest digest of what the row says, however it is written. The others are skips:
  `duplicate_event` when their content equals the winner's, else `superseded`.
  Rows whose event name or UTC day differs from the winner's are different events, whatever their key: each is counted
  as a *clash*, and a check of the plan stops on any. So are rows of another person. The distinct_id may differ, because
  an export made after a merge shows the merged id: whose it is, identity resolution tells (STRANGER).
* Identical rows without a source key stay separate events, distinguished by an ordinal, unless `collapse` makes them
  one event (the others are duplicates then, even where they write the same record differently). It does not matter
  which row gets which ordinal: the rows are interchangeable and the set of uuids is the same.
* In a plan that is one of a series, or that replays another one, events that an earlier plan settled are left out:
  `already_settled`. They retain the number of their copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.plan.decisions import (
    CHANGED,
    CODES,
    DECISION,
    DUPLICATE,
    NO_EVENT,
    ORDINAL,
    SETTLED,
    SUPERSEDED,
    cells_of,
)
from pipeline.plan.key_records import chunks_of
from pipeline.timestamps import DAY
from pipeline.transform.event_keys import KEY, KEYLESS, NAME, UPDATE


class Found(NamedTuple):
    """Which of some uuids are settled, and of each of those, in their order: the first half of the content digest that
    it was sent with and, in a series, `person` (KEY) and `cells_of` what was sent."""

    settled: NDArray[np.bool_]
    content: NDArray[np.uint64]
    person: NDArray[np.uint64] | None = None
    cell: NDArray[np.uint64] | None = None


class Settled(Protocol):
    """The events that earlier plans settled."""

    def find(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64], ordinals: NDArray[np.uint32] | None = None) -> Found:
        """Which of these uuids, ascending, are settled.

        `ordinals` number the copies of a row without a source key, which have one uuid here.
        """
        ...


class Clash(NamedTuple):
    """Two rows with one source key that are different events, by name and day, or only by person. Rows are (block,
    row), names indices of event names. The winner is EARLIER where an earlier plan of the series sent it."""

    row: tuple[int, int]
    winner: tuple[int, int]
    name: int
    winner_name: int
    time: int
    winner_time: int


STRANGER = np.dtype([(name, "<u4") for name in ("block", "row", "winner_block", "winner_row", "name")] + [
    ("time", "<i8"), ("winner_time", "<i8"), ("person", "<u8"), ("winner", "<u8"),
])  # fmt: skip
"""A row and the winner of its key, which differ in the distinct_id: `person` and `winner` are their hashes (KEY)."""
EARLIER = (-1, -1)
_NOWHERE = np.uint32((1 << 32) - 1)
"""The `winner_block` of a STRANGER whose winner is EARLIER."""


class Replaced(NamedTuple):
    """A superseded event and the one that is sent in its place, both (block, row, position), and why that one."""

    event: tuple[int, int, int]
    winner: tuple[int, int, int]
    reason: str


_NO_CLASH: tuple[Clash, ...] = ()
_NO_STRANGERS = np.zeros(0, STRANGER)
_NONE = np.zeros(0, KEY)
MAX_CLASHES = 3
"""This many clashes are examples, the first in the source."""


class Decided(NamedTuple):
    """The decisions on some key records. `events` are sent, from `first` to `last` (µs UTC).

    `decisions` are DECISION records of those that are left out or get an ordinal; `sent` are the key records of those
    that are sent, with their `ordinals`.
    `other_copies` counts those with a key that are left out for a row that differs in content or a time: it may state
    other things about people, too.
    `tied` are the key records that are not decided on: only what they say can tell which of them stands.
    `dropped` counts what was left out: (index of the event name, days since 1970, skip code). `changed` of them were
    settled with another content. `identical` are sent although an earlier row is identical; the first of these
    is at `first_identical`, (block, row). `clashes` counts rows left out for a different event; the first are in
    `clashing`. `strangers` are rows left out for one of another distinct_id (STRANGER). `replaced` is the first
    superseded row.
    """

    decisions: NDArray[np.void]
    sent: NDArray[np.void]
    ordinals: NDArray[np.uint32]
    events: int
    first: int
    last: int
    dropped: Counter[tuple[int, int, str]]
    changed: int = 0
    identical: int = 0
    first_identical: tuple[int, int] | None = None
    clashes: int = 0
    clashing: tuple[Clash, ...] = ()
    strangers: NDArray[np.void] = _NO_STRANGERS
    replaced: Replaced | None = None
    other_copies: int = 0
    tied: NDArray[np.void] = _NONE


def decide(
    run: NDArray[np.void],
    *,
    collapse: bool,
    settled: Settled | None = None,
    names: NDArray[np.uint64] | None = None,
    canonical: bool = False,
) -> Decided:
    """Decide on sorted key records, of which each uuid has all of its own. Events that `settled` finds are left out.

    `names` are hashes of the event names, in a series. Without `canonical` the content of a record is a hash of how it
    is written, and records of one time that differ only in this are `tied`.
    """
    kinds = np.full(len(run), ORDINAL, np.uint32)
    ordinals = np.zeros(len(run), np.uint32)
    same = (run["hi"][1:] == run["hi"][:-1]) & (run["lo"][1:] == run["lo"][:-1])
    copies = winners = run[:0]
    if same.any():
        follows = np.concatenate(([False], same))
        member = np.flatnonzero(follows | np.concatenate((same, [False])))
        group = np.cumsum(~follows[member]) - 1
        copies = run[member]
        if not canonical and len(open_ := _tied(copies, group)):
            stays = np.ones(len(run), bool)
            stays[member[open_]] = False
            rest = decide(run[stays], collapse=collapse, settled=settled, names=names, canonical=True)
            return rest._replace(tied=copies[open_])
        kinds[member], ordinals[member], chosen = _judge(copies, group, collapse)
        winners = copies[chosen]
    return _decided(run, kinds, ordinals, settled, names, copies, winners)


def _tied(copies: NDArray[np.void], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The records with a key of groups (`_judge`) in which only the content decides which of several stands."""
    some = np.flatnonzero((copies["name"] & KEYLESS) == 0)
    some = some[np.lexsort((copies["time"][some], copies["received"][some], group[some]))]
    last = some[np.searchsorted(group[some], group[some], side="right") - 1]
    one, best = copies[some], copies[last]
    equal = (one["received"] == best["received"]) & (one["time"] == best["time"])
    groups = group[some][equal & ~_same_content(one, best)]
    return np.flatnonzero(np.isin(group, groups)) if len(groups) else groups


def _decided(
    run: NDArray[np.void],
    kinds: NDArray[np.uint32],
    ordinals: NDArray[np.uint32],
    settled: Settled | None,
    names: NDArray[np.uint64] | None,
    copies: NDArray[np.void],
    winners: NDArray[np.void],
) -> Decided:
    """The decisions on some records whose kinds and ordinals are known. `copies` are those of one uuid with others, and
    `winners` the ones that stand, in the same order."""
    clashes, clashing, strangers = _clashes(copies, winners)
    replaced = _first_replaced(copies, winners)
    changed = 0
    if settled is not None:
        changed, more, examples, apart = _mark_settled(run, kinds, ordinals, settled, names)
        clashes, clashing, strangers = clashes + more, clashing + examples, np.concatenate((strangers, apart))
    stays = kinds == ORDINAL
    events = (run["name"] & UPDATE) == 0
    some = np.flatnonzero(~stays | (ordinals > 0))
    decisions = _decisions(run.take(some), kinds[some], np.where(events, ordinals, NO_EVENT)[some])
    dropped = _dropped(run, kinds, events)
    stays &= events
    sent = run if stays.all() else run.take(np.flatnonzero(stays))
    again = run.take(np.flatnonzero(stays & (ordinals > 0)))
    first = min(zip(again["block"].tolist(), again["row"].tolist(), strict=True)) if len(again) else None
    bounds = (int(sent["time"].min()), int(sent["time"].max())) if len(sent) else (2**62, -(2**62))
    return Decided(
        decisions, sent, ordinals[stays], len(sent), *bounds, dropped, changed, len(again), first,
        clashes, clashing, strangers, replaced, _other_copies(copies, winners),
    )  # fmt: skip


def _other_copies(copies: NDArray[np.void], winners: NDArray[np.void]) -> int:
    equal = (copies["received"] == winners["received"]) & (copies["time"] == winners["time"])
    other = ~(equal & _same_content(copies, winners)) & ((copies["name"] & KEYLESS) == 0)
    return int(other.sum())


def _mark_settled(
    run: NDArray[np.void],
    kinds: NDArray[np.uint32],
    ordinals: NDArray[np.uint32],
    settled: Settled,
    names: NDArray[np.uint64] | None,
) -> tuple[int, int, tuple[Clash, ...], NDArray[np.void]]:
    """Mark the events of a run that were settled before, and return how many of them have another content now.

    In a series, those with a key that have another content get the ordinal CHANGED, and the clashes and strangers among
    them (`_clashes`) are returned, too.
    """
    sent = np.flatnonzero((kinds == ORDINAL) & ((run["name"] & UPDATE) == 0))
    found = settled.find(run["hi"][sent], run["lo"][sent], ordinals[sent])
    at = sent[found.settled]
    kinds[at] = SETTLED
    copies = run[at]
    changed = copies["content_hi"] != found.content
    if found.cell is None or found.person is None or names is None:
        return int(changed.sum()), 0, _NO_CLASH, _NO_STRANGERS
    ordinals[at] |= np.where(changed & ((copies["name"] & KEYLESS) == 0), CHANGED, 0).astype(np.uint32)
    others = changed & (cells_of(copies, names) != found.cell)
    winners = copies.copy()
    winners["block"], winners["person"] = _NOWHERE, found.person
    return int(changed.sum()), *_clashing(copies, winners, others, changed)


def _judge(
    copies: NDArray[np.void], group: NDArray[np.int64], collapse: bool
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
    """The kind, the ordinal and the winner of each record; `group` numbers those of one uuid alike, ascending.

    The one that stays, and every keyless row that stays an event of its own, is ORDINAL with its number from 0, and
    its own winner. Winners are indices of `copies`.
    """
    kinds = np.full(len(copies), ORDINAL, np.uint32)
    ordinals = np.zeros(len(copies), np.uint32)
    winner = np.arange(len(copies))
    keyless = (copies["name"] & KEYLESS) != 0
    apart = np.zeros(len(copies), bool) if collapse else keyless
    some = np.flatnonzero(apart)
    separate = copies[some]
    some = some[np.lexsort((separate["position"], separate["row"], separate["block"], group[some]))]
    ordinals[some] = np.arange(len(some)) - np.searchsorted(group[some], group[some])
    some = np.flatnonzero(~apart)
    some = some[_ranking(copies[some], group[some])]
    if len(some):
        winners = some[np.searchsorted(group[some], group[some], side="right") - 1]
        equal = keyless[some] | _same_content(copies[some], copies[winners])
        kinds[some] = np.where(equal, DUPLICATE, SUPERSEDED)
        kinds[winners] = ORDINAL
        winner[some] = winners
    return kinds, ordinals, winner


def _ranking(copies: NDArray[np.void], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Group by group, the winner last. Ties go to the first row in the source: they are equal events."""
    back = [~copies[name] for name in ("position", "row", "block")]
    content = [copies[name] for name in ("content_lo", "content_hi", "time", "received")]
    return np.lexsort((*back, *content, group))


def _same_content(records: NDArray[np.void], others: NDArray[np.void]) -> NDArray[np.bool_]:
    return np.asarray((records["content_hi"] == others["content_hi"]) & (records["content_lo"] == others["content_lo"]))


def _clashes(copies: NDArray[np.void], winners: NDArray[np.void]) -> tuple[int, tuple[Clash, ...], NDArray[np.void]]:
    """How many records with a source key have another event name or UTC day than the winner beside them, the first of
    those, and the STRANGER records of others."""
    others = (copies["name"] != winners["name"]) | (copies["time"] // DAY != winners["time"] // DAY)
    return _clashing(copies, winners, others, np.ones(len(copies), bool))


def _clashing(
    copies: NDArray[np.void], winners: NDArray[np.void], others: NDArray[np.bool_], asked: NDArray[np.bool_]
) -> tuple[int, tuple[Clash, ...], NDArray[np.void]]:
    """`_clashes` of records of which it is known which are `others`, of those `asked` for."""
    keyed = asked & ((copies["name"] & KEYLESS) == 0)
    clashing = np.flatnonzero(others & keyed)
    apart = np.flatnonzero(keyed & ~others & (copies["person"] != winners["person"]))
    strangers = np.empty(len(apart), STRANGER)
    for name in ("block", "row", "name", "time", "person"):
        strangers[name] = copies[name][apart]
    for name, of in (("winner_block", "block"), ("winner_row", "row"), ("winner_time", "time"), ("winner", "person")):
        strangers[name] = winners[of][apart]
    some = clashing[np.lexsort((copies["row"][clashing], copies["block"][clashing]))[:MAX_CLASHES]]
    fields = ["block", "row", "name", "time"]
    sides = zip(*(side[fields][some].tolist() for side in (copies, winners)), strict=True)
    return len(clashing), tuple(_clash(*one, *other) for one, other in sides), strangers


def _clash(
    block: int, row: int, name: int, time: int, other_block: int, other_row: int, other_name: int, other_time: int
) -> Clash:
    winner = EARLIER if other_block == _NOWHERE else (other_block, other_row)
    return Clash((block, row), winner, name, other_name, time, other_time)


def first_strangers(apart: NDArray[np.void]) -> list[Clash]:
    """The first of some STRANGER records as clashes."""
    first = apart[np.lexsort((apart["row"], apart["block"]))[:MAX_CLASHES]]
    return [
        _clash(block, row, name, time, winner_block, winner_row, name, winner_time)
        for block, row, winner_block, winner_row, name, time, winner_time, _, _ in first.tolist()
    ]


def _first_replaced(copies: NDArray[np.void], winners: NDArray[np.void]) -> Replaced | None:
    """The first superseded event in the source, with the winner beside it."""
    some = np.flatnonzero(~_same_content(copies, winners) & ((copies["name"] & (KEYLESS | UPDATE)) == 0))
    if not len(some):
        return None
    first = some[np.lexsort(tuple(copies[name][some] for name in ("position", "row", "block")))[0]]
    one, winner = copies[first], winners[first]
    if one["received"] != winner["received"]:
        reason = "its receive time decides"
    elif one["time"] != winner["time"]:
        reason = "its time is later"
    else:
        reason = "both have the same times, so the greater digest of the values decides"
    place, other = ((int(at["block"]), int(at["row"]), int(at["position"])) for at in (one, winner))
    return Replaced(place, other, reason)


def _decisions(copies: NDArray[np.void], kinds: NDArray[np.uint32], ordinals: NDArray[np.uint32]) -> NDArray[np.void]:
    decided = np.empty(len(copies), DECISION)
    for name in ("block", "row", "position", "row_events"):
        decided[name] = copies[name]
    decided["kind"] = kinds
    decided["ordinal"] = ordinals
    return decided


def _dropped(
    copies: NDArray[np.void], kinds: NDArray[np.uint32], events: NDArray[np.bool_]
) -> Counter[tuple[int, int, str]]:
    out = (kinds != ORDINAL) & events
    if not out.any():
        return Counter()
    names = (copies["name"][out] & NAME).astype(np.int64)
    cells = np.stack([names, copies["time"][out] // DAY, kinds[out].astype(np.int64)], axis=1)
    distinct, counts = np.unique(cells, axis=0, return_counts=True)
    return Counter(
        {(name, day, CODES[kind]): n for (name, day, kind), n in zip(distinct.tolist(), counts.tolist(), strict=True)}
    )


def decide_one(
    path: Path,
    most: int,
    *,
    collapse: bool,
    settled: Settled | None = None,
    names: NDArray[np.uint64] | None = None,
    canonical: bool = False,
) -> Iterator[Decided]:
    """`decide` for a file of one uuid, `most` records at a time: first find the winner, then compare each record with
    it."""
    best = None
    for chunk in chunks_of(path, most):
        some = chunk if best is None else np.concatenate((best, chunk))
        best = some[_ranking(some, np.zeros(len(some), np.int64))[-1:]]
    if best is None:
        return
    chunks = (np.concatenate((best, chunk)) for chunk in chunks_of(path, most))
    tied = not canonical and any(len(_tied(some, np.zeros(len(some), np.int64))) for some in chunks)
    ordinal = 0
    for chunk in chunks_of(path, most):
        if tied:
            yield decide(chunk[:0], collapse=collapse)._replace(tied=chunk)
            continue
        kinds = np.full(len(chunk), ORDINAL, np.uint32)
        ordinals = np.zeros(len(chunk), np.uint32)
        keyless = bool(chunk["name"][0] & KEYLESS)
        if keyless and not collapse:
            ordinals += np.arange(ordinal, ordinal + len(chunk), dtype=np.uint32)
            ordinal += len(chunk)
        else:
            stays = (
                (chunk["block"] == best["block"])
                & (chunk["row"] == best["row"])
                & (chunk["position"] == best["position"])
            )
            kinds[~stays] = np.where(keyless | _same_content(chunk, best), DUPLICATE, SUPERSEDED)[~stays]
        winners = best[np.zeros(len(chunk), np.int64)]
        yield _decided(chunk, kinds, ordinals, settled, names, chunk, winners)
