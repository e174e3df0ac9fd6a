"""The blocks of an export while it is planned: scratch/blocks.jsonl has a line for each, scratch/copies.jsonl has the
decisions on their copies. Neither is needed once the requests are written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import msgspec

from pipeline.models import Block
from pipeline.plan.sealed.directory import Directory, read_lines
from pipeline.transform.tasks import DuplicateDecision, Task


class PlannedBlock(msgspec.Struct, frozen=True):
    """A line of blocks.jsonl. `first_row` counts from 1 in the part; `events` and `digest` cover all events of the
    block, copies included."""

    number: int
    part: int
    index: int
    offset: int
    length: int
    first_row: int
    rows: int
    events: int
    digest: str

    @property
    def block(self) -> Block:
        return Block(self.part, self.index, self.offset, self.length)


def read_blocks(directory: Directory) -> Iterator[PlannedBlock]:
    """Every block in order."""
    return read_lines(directory.blocks, PlannedBlock)


def read_copies(directory: Directory) -> Iterator[tuple[int, DuplicateDecision]]:
    """Every decision on a copy in order, with the number of its block."""
    for line in read_lines(directory.copies, tuple[int, int, int, int, str]):
        yield line[0], DuplicateDecision(*line[1:])


def planned_tasks(directory: Directory) -> Iterator[tuple[PlannedBlock, Task]]:
    """Every block in order, with a task of its events and the decisions on its copies. The two files are read in
    step."""
    tables = groupby(read_copies(directory), key=itemgetter(0))
    pending = next(tables, None)
    for one in read_blocks(directory):
        copies: tuple[DuplicateDecision, ...] = ()
        if pending is not None and pending[0] == one.number:
            copies = tuple(decision for _, decision in pending[1])
            pending = next(tables, None)
        yield one, Task(one.number, one.block, seal=one.digest, duplicates=copies)
