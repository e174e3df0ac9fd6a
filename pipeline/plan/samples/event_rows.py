"""The rows that events of a plan come from: found by transforming their blocks once more, or as lines of its files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pipeline.plan.sealed.contents import PlannedBlock, task_of, tasks
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.sealed.phases import line_blocks
from pipeline.transform.tasks import Task, TransformConfig


class Place(NamedTuple):
    """A row's number in its part, from 1 (0: unknown), its byte offset, and its text."""

    row: int = 0
    offset: int = 0
    text: str = ""


class BlockEvents(NamedTuple):
    """A block of the phase events: its number, its part, the events as they are sent, and the place of each."""

    number: int
    part: str
    events: list[bytes]
    place: Callable[[int], Place]


def find_rows(
    plan: Plan, directory: Directory, config: TransformConfig, numbers: Collection[int]
) -> Iterator[BlockEvents]:
    """The blocks of these numbers, in their order. Raises UnreadableExport, UnsafePlan."""
    from pipeline.extractors import rows as read_rows
    from pipeline.transform.block import BlockTransformer, rows_sent

    transformer = BlockTransformer(config)
    first_rows: dict[int, int] = {}

    def choose(planned: PlannedBlock) -> Task | None:
        if planned.sealed.number not in numbers:
            return None
        first_rows[planned.sealed.number] = planned.sealed.first_row
        return task_of(plan, planned)

    for task in tasks(plan, directory, config.parts, choose):
        events = transformer.transform_sealed(task)
        sent = rows_sent(events, task)
        rows = read_rows(config.parts[task.block.part], task.block, observe=False)
        deque(rows, maxlen=0)  # offsets are available once the rows were read
        first = first_rows.pop(task.number)
        yield BlockEvents(
            task.number,
            config.parts[task.block.part].path,
            transformer.apply_tables(events, task)[0],
            lambda event, sent=sent, rows=rows, first=first: Place(  # type: ignore[misc]
                first + sent[event], rows.offset(sent[event]), rows.text(sent[event])
            ),
        )


def find_lines(file: Path, events: Iterable[tuple[int, int]]) -> Iterator[Place]:
    """The lines of a sealed file for events (block, index), which have to be in their order."""
    row = offset = 0
    wanted = iter(events)
    event = next(wanted, None)
    for block, lines in enumerate(line_blocks(file)):
        for index, line in enumerate(lines):
            row += 1
            while event == (block, index):
                yield Place(row, offset, line.decode("utf-8", "backslashreplace").removesuffix("\n"))
                event = next(wanted, None)
            offset += len(line)
        if event is None:
            return
