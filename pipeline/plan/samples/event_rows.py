"""The rows that events of a plan come from: found in the export, or as lines of its files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pipeline.plan.sealed.contents import planned_blocks, read_again, task_of, tasks
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.sealed.phases import line_blocks
from pipeline.transform.tasks import TransformConfig


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
    chosen = [planned for planned in planned_blocks(directory) if planned.sealed.number in numbers]
    events_of = tasks(directory, lambda planned: task_of(plan, planned) if planned.sealed.number in numbers else None)
    blocks = read_again(config.parts, [planned.sealed for planned in chosen])
    for task, (sealed, block) in zip(events_of, blocks, strict=True):
        events = transformer.planned(task)
        sent = rows_sent(events, task)
        rows = read_rows(config.parts[block.part], block, observe=False)
        deque(rows, maxlen=0)  # offsets are available once the rows were read
        first = sealed.first_row
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
