"""Read a sealed plan back as work: its config, its blocks with their tables, its links."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

import msgspec

from pipeline.errors import StalePlan
from pipeline.models import Block, Part, SealedOptions
from pipeline.plan.sealed.directory import Directory, digest_file, read_lines
from pipeline.plan.sealed.manifest import Plan, SealedBlock
from pipeline.transform.events import Mapper
from pipeline.transform.tasks import DuplicateDecision, Task, TransformConfig


class PlannedBlock(msgspec.Struct, frozen=True):
    """A sealed block with the decisions on its duplicates. `events` counts the events that are sent."""

    sealed: SealedBlock
    copies: tuple[DuplicateDecision, ...]

    @property
    def events(self) -> int:
        return self.sealed.events - sum(bool(copy.code) for copy in self.copies)


def check_tables(plan: Plan, directory: Directory, names: Collection[str] | None = None) -> None:
    """Raise StalePlan if a file of the plan (or one of these names) is not the one that was sealed."""
    for name, digest in plan.files.items():
        if names is not None and name not in names:
            continue
        path = directory.path / name
        try:
            current = digest_file(path)
        except FileNotFoundError:
            raise StalePlan(
                f"{path} is missing from the plan", differences=[f"{name}: missing"],
                hint="plan again, or copy the whole directory",
            ) from None  # fmt: skip
        if current != digest:
            raise StalePlan(
                f"{path} was changed after it was sealed",
                differences=[f"{name}: sealed {digest[:12]}, now {current[:12]}"],
                hint="plan again; a plan is never edited",
            )


def planned_blocks(directory: Directory) -> Iterator[PlannedBlock]:
    """Every block in order, with the decisions on its duplicates; two files are read side by side."""
    tables = groupby(read_lines(directory.copies, tuple[int, int, int, int, str]), key=itemgetter(0))
    pending = next(tables, None)
    for sealed in read_lines(directory.blocks, SealedBlock):
        copies: tuple[DuplicateDecision, ...] = ()
        if pending is not None and pending[0] == sealed.number:
            copies = tuple(DuplicateDecision(*line[1:]) for line in pending[1])
            pending = next(tables, None)
        yield PlannedBlock(sealed, copies)


def tasks(directory: Directory, choose: Callable[[PlannedBlock], Task | None]) -> Iterator[Task]:
    """The tasks of the events phase, each with the block's events. `choose` returns the task of a planned block, None
    where nothing is left to do."""
    with directory.events.open("rb") as events:
        for planned in planned_blocks(directory):
            task = choose(planned)
            if task is not None:
                yield with_events(task, planned.sealed, events)


def with_events(task: Task, sealed: SealedBlock, events: BinaryIO) -> Task:
    """The task with the events of its block, from the open events.pack."""
    offset, length = sealed.packed
    events.seek(offset)
    return task._replace(block=msgspec.structs.replace(task.block, content=events.read(length)))


def task_of(plan: Plan, planned: PlannedBlock) -> Task:
    """A block as a task, without its content."""
    sealed = planned.sealed
    return Task(
        sealed.number,
        Block(sealed.part, sealed.index, sealed.offset, sealed.length),
        sealed.rows if plan.options.limit is not None else None,
        sealed.digest,
        planned.copies,
    )


def config_of(
    plan: Plan,
    parts: tuple[Part, ...],
    compile_: Callable[[SealedOptions], Mapper],
    excluded: frozenset[str],
    directory: Directory,
) -> TransformConfig:
    """The config that the plan was built with, and its table of identified persons."""
    identified = directory.identified if plan.options.persons == "identified" else None
    tables = opened_tables(directory, plan.files)
    return TransformConfig(compile_, plan.options, plan.limits, parts, excluded, identified, tables=tables)


def opened_tables(directory: Directory, files: Mapping[str, str]) -> dict[Path, str]:
    """Of the files of a plan, with their digests by name, those that a process opens when it makes events."""
    paths = (directory.identified, directory.lookup_entries, directory.lookup_slots)
    return {path: files[path.name] for path in paths if path.name in files}
