"""Decides on the duplicates of a whole source: its key records in pieces, each decided in any process of the engine.

The process that plans spreads the records over files, hands out the pieces and adds up what comes back, so its own
share of an event is small. The pieces depend on the records alone, and so do the decisions: they are the same
whatever the engine.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.engines import Engine
from pipeline.engines.local import Workers
from pipeline.identity.event_ids import PersonNumbers
from pipeline.plan.decisions import REMAINING, Decisions, copies_of, hashes_of, remaining_of, rows_out, without_effect
from pipeline.plan.duplicates import (
    MAX_CLASHES,
    STRANGER,
    Clash,
    Replaced,
    Settled,
    decide,
    decide_one,
    first_strangers,
)
from pipeline.plan.event_uuids import write_uuids
from pipeline.plan.key_records import MAX_RECORDS, PIECE, KeyRange, KeyRecords, without_large
from pipeline.plan.piece_outcome import Outcome, decide_piece, outcome_of
from pipeline.plan.request import Request
from pipeline.plan.samples.pair_sample import PairSample
from pipeline.plan.sealed.directory import LinesWriter
from pipeline.plan.statistics.activity import Activity, ActivityRecords
from pipeline.plan.statistics.activity_facts import limits_of
from pipeline.plan.statistics.hours import HourHistory
from pipeline.plan.walk import Walk
from pipeline.transform.block import canonical_digests
from pipeline.transform.event_keys import KEY
from pipeline.transform.tasks import DuplicateDecision, Task

_NONE = np.zeros(0, KEY)
_PLACE = ["row", "position"]
T = TypeVar("T", Replaced, tuple[int, int])


def _first(one: T | None, other: T | None) -> T | None:
    """The lesser of two that may be missing."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class Deduplication:
    """Decides and writes copies.jsonl, and keys.bin where the plan is one of a series.

    After `run`: `events` are sent, from `first` to `last` (µs UTC), by quarter of an hour in `hours`. `clashes` counts
    rows left out for a different event, with the first of them in `clash_examples`; `replaced` is the first superseded
    event of the source, `identical` the first row that equals an earlier one, (block, row). `copies` counts the rows
    left out as duplicates by the number of their file, and `other_copies` those that may state other things than the
    row that stands.
    """

    def __init__(self, request: Request, source: Walk, settled: Settled | None) -> None:
        self._request = request
        self._source = source
        self._settled = settled
        scratch = request.directory.scratch
        self._decisions = Decisions(scratch / "decisions")
        self._remaining = (
            Decisions(scratch / "remaining", record=REMAINING) if request.series is not None else None
        )  # fmt: skip
        self.sample = PairSample() if request.document is not None else None
        self._hashes = np.zeros(0, np.uint64)
        self.hours = HourHistory(request.config.options.zones)
        self.activity = Activity()
        self.events = 0
        self.first, self.last = 2**62, -(2**62)
        self.clashes = 0
        self.clash_examples: list[Clash] = []
        self._strangers = scratch / "strangers"
        self.replaced: Replaced | None = None
        self.other_copies = 0
        self.identical: tuple[int, int] | None = None
        self.copies: Counter[int] = Counter()

    def run(self, files: dict[str, str]) -> None:
        """Decide on everything that the walk left. `files` receives the digests of the tables."""
        directory = self._request.directory
        engine = self._engine_for_files()
        names = list(self._source.names)
        self._hashes = hashes_of(names)
        activity = ActivityRecords(directory.scratch)
        with closing(activity):
            for outcome in self._outcomes(engine):
                self._add(outcome, names)
                activity.add(outcome.acts)
        with LinesWriter(directory.copies) as writer:
            for number, found in self._decisions.by_block():
                writer.write_all((number, *copy) for copy in copies_of(found))
                self._count_rows(number, found)
            files["copies.jsonl"] = writer.close()
        if self._remaining is not None:
            files["keys.bin"] = write_uuids(directory.uuids, self._remaining)
        self._source.keys.remove()
        self.activity = activity.finish(limits_of(self._request.thresholds), engine)

    def _engine_for_files(self) -> Engine:
        """The plan's engine where its processes can read the plan's files; elsewhere this process, because sending them
        the records would take it longer than deciding on them (measured)."""
        request = self._request
        if request.engine.reads(request.directory.blocks):
            return request.engine
        here = Workers(0)
        here.configure(request.config)
        return here

    def _outcomes(self, engine: Engine) -> Iterator[Outcome]:
        """All pieces, and then those of one uuid that are too large for memory.

        Where earlier plans settled events, their index is searched in this process alone, which also marks what it
        found.
        """
        tied = Decisions(self._request.directory.scratch / "tied", record=KEY)
        for outcome in self._outcomes_of(self._source.keys, engine, canonical=False):
            tied.add(outcome.decided.tied)
            yield outcome
        if tied.count:
            yield from self._outcomes_of(self._canonical(tied), engine, canonical=True)

    def _outcomes_of(self, keys: KeyRecords, engine: Engine, *, canonical: bool) -> Iterator[Outcome]:
        collapse, settled = self._request.config.options.collapse_identical, self._settled
        large: list[KeyRange] = []
        small = without_large(keys.pieces(), large)
        if settled is None:
            for piece, outcome in engine.walk(partial(decide_piece, collapse=collapse, canonical=canonical), small):
                yield outcome
                piece.delete()
        else:
            for piece in small:
                run, names = piece.sorted_as(KEY), self._hashes
                yield outcome_of(decide(run, collapse=collapse, settled=settled, names=names, canonical=canonical))
                piece.delete()
        for piece in large:
            decided = decide_one(
                piece.files[0], keys.most, collapse=collapse, settled=settled, names=self._hashes, canonical=canonical
            )
            yield from map(outcome_of, decided)
            piece.delete()

    def _canonical(self, tied: Decisions) -> KeyRecords:
        """These KEY records with hashes of what the rows say, for which their blocks are read again."""
        keys = KeyRecords(self._request.directory.scratch / "tied-keys", PIECE)
        blocks, open_ = tied.by_block(), deque[NDArray[np.void]]()

        def tasks() -> Iterator[Task]:
            number, records = next(blocks, (-1, _NONE))
            with closing(self._source.tasks()) as of_source:
                for task in of_source:
                    if task.number == number:
                        open_.append(records)
                        places = [DuplicateDecision(row, place, 0, "") for row, place in records[_PLACE].tolist()]
                        yield task._replace(limit=places[-1].row + 1, duplicates=places)
                        number, records = next(blocks, (-1, _NONE))
                    if number < 0:
                        return

        for _, digests in self._request.engine.walk(canonical_digests, tasks()):
            records = open_.popleft()
            halves = np.frombuffer(digests, np.uint64).reshape(-1, 2)
            records["content_hi"], records["content_lo"] = halves.T
            keys.add(records.take(np.argsort(records["hi"], kind="stable")))
        return keys

    def _add(self, outcome: Outcome, names: list[str]) -> None:
        decided, source = outcome.decided, self._source
        self._decisions.add(decided.decisions)
        if self._remaining is not None:
            self._remaining.add(remaining_of(decided.sent, self._hashes))
        if self.sample is not None:
            self.sample.add(outcome.kinds)
        self.events += decided.events
        self.first = min(self.first, decided.first)
        self.last = max(self.last, decided.last)
        self.hours.add(outcome.quarters)
        self.clashes += decided.clashes
        self.clash_examples = sorted([*self.clash_examples, *decided.clashing])[:MAX_CLASHES]
        if len(decided.strangers):
            with self._strangers.open("ab") as file:
                decided.strangers.tofile(file)
        self.other_copies += decided.other_copies + (decided.changed if self._request.series else 0)
        source.warnings["changed_since_settled"] += decided.changed
        source.warnings["identical_rows"] += decided.identical
        self.replaced = _first(self.replaced, decided.replaced)
        self.identical = _first(self.identical, decided.first_identical)
        for (name, day, code), count in decided.dropped.items():
            source.cells.move(names[name], day, code, count)

    def without_effect(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """The tasks with the places of which nothing counts that is stated there."""
        blocks = self._decisions.by_block()
        number, found = next(blocks, (-1, _NONE))
        for task in tasks:
            places: list[DuplicateDecision] = []
            if task.number == number:
                places = without_effect(found)
                number, found = next(blocks, (-1, _NONE))
            yield task._replace(duplicates=places)

    def judge_strangers(self, person_numbers: PersonNumbers) -> None:
        """Count rows with one key as clashes if they are different persons'."""
        if not self._strangers.exists():
            return
        with self._strangers.open("rb") as file:
            while len(some := np.fromfile(file, STRANGER, MAX_RECORDS)):
                one, other = person_numbers(some["person"]), person_numbers(some["winner"])
                apart = some[(one != other) | (one < 0)]
                self.clashes += len(apart)
                self.clash_examples = sorted([*self.clash_examples, *first_strangers(apart)])[:MAX_CLASHES]
        self._strangers.unlink()

    def _count_rows(self, number: int, found: NDArray[np.void]) -> None:
        """Count the rows of block `number` that are left out."""
        source = self._source
        out, partly = rows_out(found)
        part = source.block_parts[number]
        source.parts[part].mapped -= out.total()
        source.parts[part].skipped += out.total()
        source.skips.update(out)
        self.copies[part] += out["duplicate_event"]
        source.warnings["partly_duplicate_row"] += partly
