"""What a changed mapping or export changes: two sealed plans compared, event by event (`backcast diff`).

A plan stores no events, so they are made again from both exports, as an apply makes them, and each block is compared
with its seal. Blocks of which both plans sealed the same events are not read at all. The others are compared by uuid
within the block, and what does not match there is written to disk and matched file by file, so memory does not grow
with the export. Merges, groups and profile updates come from the sealed files and are matched by their ids.
"""

from __future__ import annotations

import heapq
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import xxhash

from pipeline.engines.local import Workers
from pipeline.files import private
from pipeline.mapper import Compile
from pipeline.mask import MASK
from pipeline.models import Block
from pipeline.plan.diff.compare import SpillPair, compare_block, match_spilled
from pipeline.plan.diff.result import (
    KINDS,
    CodeChange,
    Consequences,
    DayChange,
    Diff,
    NameChange,
    PersonChange,
    Persons,
    PhaseChange,
    PropertyChange,
    Renamed,
    Shift,
    Side,
)
from pipeline.plan.diff.settings import settings_of
from pipeline.plan.diff.spill import SIDES, Entry, RowTags, Spill
from pipeline.plan.diff.tally import Tally
from pipeline.plan.diff.tally import read as read_event
from pipeline.plan.diff.walk import BlockPairs, Opened
from pipeline.plan.lookups import load_lookups
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, read_lines, sealed_file
from pipeline.plan.sealed.freshness import transform_config_for, workers_for
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.sealed.phases import phase_blocks
from pipeline.plan.statistics.spilled_counts import SpilledCounts
from pipeline.timestamps import format_utc
from pipeline.transform.tasks import TransformConfig
from pipeline.validator.rules import WITHOUT_TIME

K = TypeVar("K")
MOST_LISTED = 100
Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


class _Cell(msgspec.Struct):
    event: str
    day: str
    outcome: str
    count: int


@private()
def compare_plans(
    a: Opened,
    b: Opened,
    *,
    workers: int | None = None,
    counts_only: bool = False,
    values: bool = False,
    ids: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Diff:
    """Compare two plans. `counts_only`: only what they recorded, for exports that are gone.

    `values` and `ids` show values of properties and distinct_ids, which are masked otherwise. Raises StalePlan,
    UnsafePlan, UnreadableExport.
    """
    if counts_only:
        return _diff(a, b, None)
    try:
        scratch = Path(tempfile.mkdtemp(prefix="diff-", dir=b.directory.path))
    except OSError:  # a plan that was copied to where nothing can be written
        scratch = Path(tempfile.mkdtemp(prefix="backcast-diff-"))
    try:
        return _Comparison(a, b, scratch, values=values, ids=ids).run(workers, progress)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class _Comparison:
    """The events of two plans compared, with its files in `scratch`."""

    def __init__(self, a: Opened, b: Opened, scratch: Path, *, values: bool, ids: bool) -> None:
        self.sides = a, b
        self.ids = ids
        self._values = values
        self._scratch = scratch
        self.tally = Tally(values)
        self.cells = SpilledCounts(scratch, "cells", tuple[str, str, str])
        self.persons = SpilledCounts(scratch, "persons", tuple[str])
        self._tags = RowTags(scratch)
        self.rekeyed = 0
        self._pairs = BlockPairs(a, b)

    def run(self, workers: int | None, progress: Progress) -> Diff:
        blocks = [(first, second) for _, _, first, second in self._pairs.differing()]
        total = sum(max(one.sealed.length for one in pair if one is not None) for pair in blocks)
        configs = self._configs() if blocks else None
        del blocks
        spill = Spill.of(self._scratch, max(side.plan.event_bytes for side in self.sides))
        parts = [part for one in configs or () for part in one.parts]
        with Workers(workers_for(workers, parts), configs[0]) if configs else nullcontext() as started:
            if configs is not None and started is not None:
                done = 0
                pairs = self._pairs.tasks(spill, values=self._values)
                for pair, tally in started.walk(compare_block, pairs):
                    self._add(tally)
                    done += sum(task.block.length for task in (pair.a or pair.b,) if task is not None)
                    progress("Comparing", done, total)
            for side, opened in zip(SIDES, self.sides, strict=True):
                for entries in _updates(opened):
                    spill.write(side, entries)
            self._meet(started, spill, progress)
        self.rekeyed = self._tags.common()
        return _diff(*self.sides, self)

    def _configs(self) -> tuple[TransformConfig, TransformConfig]:
        """Both plans on this machine, the second one inside the first."""
        first, second = (transform_config_for(side.plan, side.directory) for side in self.sides)
        return replace(first, other=second), second

    def _meet(self, workers: Workers | None, spill: Spill, progress: Progress) -> None:
        """Match what a block left over, one file of each side after the other."""
        numbers = list(spill.numbers())
        a, b = (format_utc(side.plan.options.as_of - WITHOUT_TIME) for side in self.sides)
        block = Block(0, 0, 0, 0)
        pairs = (SpillPair(number, block, spill, (a, b), self._values) for number in numbers)
        matched = (
            workers.walk(match_spilled, pairs)
            if workers is not None
            else ((one, match_spilled(None, one)) for one in pairs)
        )
        for done, (_, (tally, tags)) in enumerate(matched, 1):
            self._add(tally)
            for side in SIDES:
                self._tags.add(side, np.frombuffer(tags[side], np.uint64))
            progress("Matching", done, len(numbers))

    def _add(self, tally: Tally) -> None:
        """Take the counts of a block; those with many keys go to disk."""
        self.cells.add(tally.cells)
        self.persons.add({(person,): count for person, count in tally.persons.items()})
        tally.cells, tally.persons = Counter(), Counter()
        self.tally.add(tally)


def _updates(side: Opened) -> Iterator[list[Entry]]:
    """The events of the phases other than events, by keys that are made of their ids."""
    plan, directory = side.plan, side.directory
    if not any(plan.events.phases.get(phase) for phase in PHASES if phase != EVENTS):
        return
    lookups = load_lookups(plan, directory)
    mapper = Compile(plan.mapping.name, plan.mapping.text, lookups, plan.mapping.python or None)(plan.options)
    for phase in PHASES:
        if phase != EVENTS:
            for _, events in phase_blocks(phase, plan, directory, mapper, plan.options):
                yield [Entry(_key_of_update(event), phase, 0, event) for event in events]


def _key_of_update(event: bytes) -> bytes:
    """16 bytes that are equal for the merge of the same ids, and for updates of the same group or profile."""
    one = read_event(event)
    ids = [one.properties.get(name, b"") for name in _IDS]
    return xxhash.xxh3_128_digest(b"\x1f".join(bytes(value) for value in ids))


_IDS = ("distinct_id", "$anon_distinct_id", "alias", "$group_type")


def _diff(a: Opened, b: Opened, found: _Comparison | None) -> Diff:
    """The object of two plans and of what their comparison found; None where only their counts are compared."""
    plans = a.plan, b.plan
    tally = found.tally if found is not None else Tally()
    phases = {phase: _phase(phase, plans, tally) for phase in PHASES}
    skips, rejects = (_codes(getattr(plans[0], name), getattr(plans[1], name)) for name in ("skips", "rejects"))
    settings = settings_of(*plans)
    names, days, totals = _cells(a, b, found)
    persons, people = _persons(found)
    properties = sorted(
        (
            PropertyChange(phase, name, one.added, one.removed, one.changed, [(a, b) for _, a, b in one.examples])
            for (phase, name), one in tally.properties.items()
        ),
        key=lambda one: (PHASES.index(one.phase) if one.phase != EVENTS else -1, -_weight(one), one.name),
    )
    renamed = [Renamed(*pair, events) for pair, events in _worst(tally.renamed)]
    shifts = [Shift(seconds, events) for seconds, events in _worst(tally.shifts)]
    what = {name: count for (phase, name), count in tally.what.items() if phase == EVENTS and name != "duplicated"}
    counted = any((one.changed, one.only_a, one.only_b) != (0, 0, 0) for one in phases.values())
    differ = counted or (found is None and _recorded(*plans) != _recorded(*reversed(plans)))
    return Diff(
        equal=not differ and not skips and not rejects,
        compared=found is not None,
        a=_side(a),
        b=_side(b),
        settings=settings,
        skips=skips,
        rejects=rejects,
        phases=phases,
        changed={name: what.get(name, 0) for name in _WHAT},
        properties=properties[:MOST_LISTED],
        names=names,
        days=days,
        renamed=renamed,
        shifts=shifts,
        persons=persons,
        examples=[one for kind in KINDS for one in tally.examples.get(kind, ())],
        consequences=_consequences(phases[EVENTS], tally, found.rekeyed) if found is not None else None,
        totals={**totals, "persons": people, "properties": len(properties), "settings": len(settings)},
    )


_WHAT = ("event", "distinct_id", "timestamp", "day", "properties", "order")


def _worst(counts: Counter[K]) -> list[tuple[K, int]]:
    """The first of the counts, the largest first, in an order that does not depend on how they were counted."""
    return sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:MOST_LISTED]


def _weight(one: PropertyChange) -> int:
    return one.added + one.removed + one.changed


def _recorded(plan: Plan, other: Plan) -> object:
    """What a plan recorded of its events: counts, and the digests of its files.

    The digest of blocks.jsonl covers those of all events. Updates can have the plan's own instant as their time, so
    they are compared by their number alone where the instants differ.
    """
    left_out = {"identities.parquet", "source-pairs.jsonl"}  # which say where rows are
    if plan.options.as_of != other.options.as_of:
        left_out |= {sealed_file(phase, _ANYWHERE).name for phase in PHASES if phase != EVENTS}
    files = {name: digest for name, digest in plan.files.items() if name not in left_out}
    return plan.rows, plan.events, plan.names, files


_ANYWHERE = Directory(Path())


def _side(opened: Opened) -> Side:
    plan = opened.plan
    return Side(
        opened.name, plan.digest, plan.tool, plan.mapping.name, plan.zone, plan.first, plan.last,
        msgspec.to_builtins(plan.rows), {phase: plan.events.phases.get(phase, 0) for phase in PHASES},
    )  # fmt: skip


def _phase(phase: str, plans: tuple[Plan, Plan], tally: Tally) -> PhaseChange:
    a, b = (plan.events.phases.get(phase, 0) for plan in plans)
    changed, only_a, only_b = (tally.kinds[phase, kind] for kind in KINDS)
    return PhaseChange(a, b, a - changed - only_a, changed, only_a, only_b)


def _codes(a: Mapping[str, int], b: Mapping[str, int]) -> list[CodeChange]:
    """The codes whose counts differ, the largest difference first."""
    changes = [CodeChange(code, a.get(code, 0), b.get(code, 0)) for code in dict.fromkeys([*a, *b])]
    return sorted((one for one in changes if one.a != one.b), key=lambda one: -abs(one.a - one.b))


def _cells(a: Opened, b: Opened, found: _Comparison | None) -> tuple[list[NameChange], list[DayChange], dict[str, int]]:
    """Differences by event name and by UTC day, the worst first (days in their order), and how many there are."""
    if found is None:
        return [], [], {"names": 0, "days": 0}
    days: dict[str, Counter[str]] = {}
    worst: list[tuple[int, str, dict[str, int]]] = []
    names = 0
    for name, cells in groupby(found.cells.items(), key=lambda item: item[0][0]):
        counts: Counter[str] = Counter()
        for (_, day, kind), count in cells:
            counts[kind] += count
            days.setdefault(day, Counter())[kind] += count
        names += 1
        heapq.heappush(worst, (counts.total(), name, dict(counts)))
        if len(worst) > MOST_LISTED:
            heapq.heappop(worst)
    listed = [NameChange(name, *(one.get(kind, 0) for kind in KINDS)) for _, name, one in sorted(worst, reverse=True)]
    in_a, in_b = _days(a), _days(b)
    by_day = [
        DayChange(day, one["changed"], one["only_a"], one["only_b"], in_a[day], in_b[day])
        for day, one in sorted(days.items())
    ]
    return listed, by_day, {"names": names, "days": len(days)}


def _days(side: Opened) -> Counter[str]:
    """Events to send by UTC day."""
    days: Counter[str] = Counter()
    if side.directory.cells.exists():
        for cell in read_lines(side.directory.cells, _Cell):
            if cell.outcome == "mapped":
                days[cell.day] += cell.count
    return days


def _persons(found: _Comparison | None) -> tuple[Persons, int]:
    if found is None:
        return Persons(0, []), 0
    count = 0

    def counted() -> Iterator[tuple[int, str]]:
        nonlocal count
        for (person,), events in found.persons.items():
            count += 1
            yield events, person

    most = heapq.nlargest(MOST_LISTED // 5, counted())
    return Persons(count, [PersonChange(person if found.ids else MASK, events) for events, person in most]), count


def _consequences(events: PhaseChange, tally: Tally, rekeyed: int) -> Consequences:
    duplicated = tally.what[EVENTS, "duplicated"]
    replaced = events.changed - duplicated
    return Consequences(
        collapse=events.same + replaced,
        replaced=replaced,
        duplicated=duplicated,
        rekeyed=rekeyed,
        new=events.only_b - rekeyed,
        left=events.only_a - rekeyed,
    )
