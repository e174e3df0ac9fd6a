"""What goes to a worker process and what comes back: the configuration, one task per block, its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pipeline.mapper.compiler import Mapper
from pipeline.mapper.own_code import Cost
from pipeline.models import Block, Part, Reject, SealedOptions
from pipeline.options import Limits
from pipeline.transform.field_counts import BlockFields, Counted
from pipeline.transform.sample import LEAST_EVENTS, Sampled
from pipeline.transform.unsafe_integers import Unsafe

SEALING_LIBRARIES = ("msgspec", "tzdata", "pyarrow", "ua-parser", "ua-parser-builtins")
"""Libraries whose version can change an event. A plan records them, and an error names them if a digest differs."""


@dataclass(frozen=True, slots=True)
class TransformConfig:
    """Everything that decides which events a source becomes. `compile` returns the mapper for the options.

    `counted` is what a plan counts of the fields of rows; it changes no event. `staging` is the folder of the plan in
    which workers leave their results (`pipeline.transform.staged`).
    """

    compile: Callable[[SealedOptions], Mapper]
    options: SealedOptions
    limits: Limits
    parts: tuple[Part, ...]
    excluded: frozenset[str] = frozenset()
    counted: Counted | None = None
    sampled: int = LEAST_EVENTS
    staging: Path | None = None


class Task(NamedTuple):
    """One block for one worker. `number` counts the blocks of the whole source from 0.

    Rows before number `limit` are read, all if it is None. `seal` is the planned digest, "" if not yet known.
    `duplicates` are the plan's decisions on events of this block.
    """

    number: int
    block: Block
    limit: int | None = None
    seal: str = ""
    duplicates: Sequence[DuplicateDecision] = ()


class Unit(NamedTuple):
    """What a worker does at once: a few consecutive blocks. `number` counts the units of the whole source from 0."""

    number: int
    tasks: Sequence[Task]


class DuplicateDecision(NamedTuple):
    """What the plan decided about one event that has duplicates: skip it, or send it as an event of its own.

    `row` counts from 0 in the block, `position` from 0 in the row. `ordinal` is 0 for an event that is skipped with
    `code`; otherwise the event gets a uuid with this ordinal in its key.
    """

    row: int
    position: int
    ordinal: int
    code: str


class BlockStats(NamedTuple):
    """What a plan keeps about one block.

    `zone` is the result of `clock_offsets.count_offsets`, `promoted` of `identity.promotion.count_promoted`. `sampled`
    has the events that may be in the sample, `unsafe` counts large integers. `cost` is the cost of the mapping's own
    code; the last block of a unit has it for the whole unit. The other fields are those of Events.
    """

    rows: int
    mapped: int
    events: int
    event_bytes: int
    digest: str
    skips: Counter[str]
    rejects: list[Reject]
    rejected: int
    warnings: Counter[str]
    examples: dict[str, tuple[int, int, str]]
    cells: Counter[tuple[str, int, str]]
    zone: Counter[tuple[int, int]]
    promoted: Counter[str]
    fields: BlockFields
    sampled: Sampled
    unsafe: Unsafe
    cost: Cost
