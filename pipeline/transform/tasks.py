"""What goes to a worker process and what comes back: the configuration, one task a block, its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipeline.batcher import Batch
from pipeline.identity.columns import IdentityColumns
from pipeline.mapper.own_code import Cost
from pipeline.models import Block, Part, Reject, SealedOptions
from pipeline.options import Limits
from pipeline.transform.drift import Taken
from pipeline.transform.events import Mapper
from pipeline.transform.field_counts import BlockFields, Counted

SEALING_LIBRARIES = ("msgspec", "tzdata", "pyarrow", "ua-parser", "ua-parser-builtins")
"""Libraries whose version can change an event; recorded in a plan, and named when a block's digest differs."""


@dataclass(frozen=True, slots=True)
class TransformConfig:
    """Everything that decides which events a source becomes. `compile` returns the mapper for the options.

    `identified` is the plan's table of ids that get a profile; without it all do. `counted` is what a plan counts
    of the fields of rows; it changes no event. `other` is the config
    of another plan, with which the events of this one are compared. With `people` each batch names whose events it has.
    `tables` are the files of the plan that each process opens, with their sha256.
    """

    compile: Callable[[SealedOptions], Mapper]
    options: SealedOptions
    limits: Limits
    parts: tuple[Part, ...]
    excluded: frozenset[str] = frozenset()
    identified: Path | None = None
    counted: Counted | None = None
    other: TransformConfig | None = None
    people: bool = False
    tables: Mapping[Path, str] = field(default_factory=dict)


class Task(NamedTuple):
    """One block for one worker. `number` counts the blocks of the whole source from 0.

    `limit` is the number of rows to read, None for all; of them those from number `first` are transformed. `seal` is
    the planned digest, "" while planning. `duplicates` are the plan's decisions on events of this block. `ended` are
    the ranges of events that need no batch any more, `doubtful` those in doubt, to be sent again just as they were;
    both are (first, last), counted from 0 after the tables were applied. `most` is the largest request that the service
    accepts, in bytes, None where it refused none.
    """

    number: int
    block: Block
    limit: int | None = None
    seal: str = ""
    duplicates: Sequence[DuplicateDecision] = ()
    ended: Sequence[tuple[int, int]] = ()
    doubtful: Sequence[tuple[int, int]] = ()
    most: int | None = None
    first: int = 0


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
    """What a plan retains of one block. `keys` are KEY records, their names indices of `names`.

    `zone` is what `clock_offsets.count_offsets` counts, `promoted` what `identity.promotion.count_promoted` does.
    `group_types` counts rows with a group, by type. `identities` are the pairs and updates of this block and of others
    before it, None while the worker retains them; so is `drift`. `staged` are its events (`staged`). The other fields
    are those of Events.
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
    names: list[str]
    keys: bytes
    group_types: Counter[str]
    promoted: Counter[str]
    identities: IdentityColumns | None
    fields: BlockFields
    drift: list[Taken] | None
    staged: bytes


class PeopleStats(NamedTuple):
    """The part of BlockStats that is about ids, persons and groups."""

    group_types: Counter[str]
    promoted: Counter[str]
    identities: IdentityColumns | None


class Retained(NamedTuple):
    """What a process retains of the blocks that it observes, until it is asked for it: see BlockStats."""

    identities: IdentityColumns
    drift: list[Taken]
    cost: Cost


class BatchedBlock(msgspec.Struct, frozen=True):
    """One block as requests. `skipped` counts the events that the plan's tables leave out, by code."""

    digest: str
    rows: int
    events: int
    batches: list[Batch] = msgspec.field(default_factory=list)
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
