"""The blocks of two plans side by side: which are the same, which one plan alone has, and which have to be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from typing import BinaryIO, NamedTuple

from pipeline.plan.diff.compare import Pair
from pipeline.plan.diff.spill import Spill
from pipeline.plan.sealed.contents import PlannedBlock, planned_blocks, task_of, with_events
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import PartSeal, Plan
from pipeline.transform.tasks import Task


class Opened(NamedTuple):
    """A plan, its directory, and the name that a person gave it."""

    plan: Plan
    directory: Directory
    name: str


def part_pairs(a: Plan, b: Plan) -> list[tuple[int | None, int | None]]:
    """The files of both plans in their order: (index in A, index in B), one of them None where only one plan has it."""
    places: dict[tuple[object, ...], list[int]] = {}
    for index, part in enumerate(b.parts):
        places.setdefault(_content(part), []).append(index)
    found: list[tuple[int | None, int | None]] = []
    done = 0
    for index, part in enumerate(a.parts):
        same = next((place for place in places.get(_content(part), ()) if place >= done), None)
        if same is None:
            found.append((index, None))
            continue
        found += [(None, other) for other in range(done, same)]
        found.append((index, same))
        done = same + 1
    return found + [(None, other) for other in range(done, len(b.parts))]


def _content(part: PartSeal) -> tuple[object, ...]:
    """What makes two files give the same blocks and rows."""
    return part.digest, part.bytes, part.codecs, part.format, part.dialect, part.member, part.table


class BlockPairs:
    """The blocks of two plans, file by file; those that are the same in both are left out.

    A block is the same where both plans sealed the same events of it and decided the same on its duplicates.
    """

    def __init__(self, a: Opened, b: Opened) -> None:
        self.sides = a, b
        self.parts = part_pairs(a.plan, b.plan)
        self._same_tables = _identified(a.plan) == _identified(b.plan)

    def differing(
        self,
    ) -> Iterator[tuple[tuple[int | None, int | None], int, PlannedBlock | None, PlannedBlock | None]]:
        """(the files, the number of the block in its file, the block of A, the block of B)."""
        streams = [_by_part(one.directory) for one in self.sides]
        for pair in self.parts:
            planned = [stream(part) for stream, part in zip(streams, pair, strict=True)]
            for number, (first, second) in enumerate(zip_longest(*planned)):
                if not self._same(first, second):
                    yield pair, number, first, second

    def _same(self, a: PlannedBlock | None, b: PlannedBlock | None) -> bool:
        if a is None or b is None:
            one = a or b
            return one is not None and one.sealed.events == 0
        if not self._same_tables:
            return not a.sealed.events and not b.sealed.events
        return (a.sealed.digest, a.sealed.events, a.copies) == (b.sealed.digest, b.sealed.events, b.copies)

    def tasks(self, spill: Spill, *, values: bool) -> Iterator[Pair]:
        """The work."""
        first, second = self.sides
        with first.directory.events.open("rb") as of_a, second.directory.events.open("rb") as of_b:
            for count, (_, _, a, b) in enumerate(self.differing(), 1):
                yield Pair(count, _task(first, a, of_a), _task(second, b, of_b), spill, values)


def _task(side: Opened, planned: PlannedBlock | None, events: BinaryIO) -> Task | None:
    return None if planned is None else with_events(task_of(side.plan, planned), planned.sealed, events)


def _identified(plan: Plan) -> object:
    """The table of the ids that get a profile, None where all do."""
    return plan.files.get("identified.bin") if plan.options.persons == "identified" else None


def _by_part(directory: Directory) -> Callable[[int | None], Iterator[PlannedBlock]]:
    """A function of a file's number: its planned blocks. The files have to be asked for in their order."""
    every = planned_blocks(directory)
    waiting: list[PlannedBlock] = []

    def of_part(part: int | None) -> Iterator[PlannedBlock]:
        if part is None:
            return
        taken, waiting[:] = list(waiting), []
        for planned in chain(taken, every):
            if planned.sealed.part != part:
                waiting.append(planned)
                return
            yield planned

    return of_part
