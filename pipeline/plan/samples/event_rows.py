"""Where events of a plan come from: the file and row of each, or the line of a file of the plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pipeline.plan.sealed.contents import planned_blocks, task_of, tasks
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
    """The blocks of these numbers, in their order. The text of a place is that of its event."""
    from pipeline.transform.block import BlockTransformer, rows_sent

    transformer = BlockTransformer(config)
    first_rows = {one.sealed.number: one.sealed.first_row for one in planned_blocks(directory)}
    for task in tasks(directory, lambda one: task_of(plan, one) if one.sealed.number in numbers else None):
        events = transformer.planned(task)
        sent, rows = transformer.apply_tables(events, task)[0], rows_sent(events, task)
        yield BlockEvents(
            task.number,
            config.parts[task.block.part].path,
            sent,
            lambda at, sent=sent, rows=rows, first=first_rows[task.number]: Place(  # type: ignore[misc]
                first + rows[at], 0, sent[at].decode()
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
