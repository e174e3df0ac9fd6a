"""What a worker does with one block: `observe_block` for a plan, `make_batches` for an apply.

Both call `make_events` once on the same rows, so plan and apply cannot drift apart
(docs/know/promises.md#plan-equals-apply). Everything here is pure: it depends on the block and on the
`TransformConfig`, which is sealed in the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.batcher import Batch, Envelope, pack, pack_runs
from pipeline.clock_offsets import count_offsets
from pipeline.encoder.encoded import replace_uuid, without_profiles
from pipeline.encoder.event import Encoder
from pipeline.encoder.identified_ids import IdentifiedIds
from pipeline.errors import StalePlan
from pipeline.extractors import rows as read_rows
from pipeline.identity.aggregator import IdentityAggregator, IdentityColumns
from pipeline.identity.promotion import PromotedUpdate, PromotionAggregator, count_promoted
from pipeline.mapper.required_fields import Wanted
from pipeline.models import Block, Limits, Part, Reject
from pipeline.options import SealedOptions
from pipeline.transform.events import Events, Mapper
from pipeline.transform.field_names import FieldNameScan, Names
from pipeline.transform.observer import NOTHING_MORE, Observation
from pipeline.transform.rows import make_events
from pipeline.uuids import content_key
from pipeline.validator.rules import WITHOUT_TIME, ValidationContext

KEY = np.dtype(
    [
        ("hi", "<u8"),
        ("lo", "<u8"),
        ("received", "<i8"),
        ("time", "<i8"),
        ("content_hi", "<u8"),
        ("content_lo", "<u8"),
        ("name", "<u4"),
        ("block", "<u4"),
        ("row", "<u4"),
        ("nth", "<u2"),
        ("of", "<u2"),
    ]
)
"""A key record: what the plan keeps of each event to find copies. 64 bytes.

`hi`, `lo`: the uuid. `received`, `time`: µs UTC. `content_*`: xxh3-128 of the encoded event. `name`: index
of the event name, with KEYLESS set where the row has no source key.
`block`: the block's number in the whole source; `row` in its block; `nth` of the row's `of` events.
"""
KEYLESS = np.uint32(1 << 31)
NAME = np.uint32((1 << 31) - 1)
"""The bits of `name` that are the index."""


@dataclass(frozen=True, slots=True)
class TransformConfig:
    """All that decides what events a source becomes. `compile` gives the mapper for the options.

    `identified` is the plan's table of ids that get a profile; without it all do. `wanted` are references that a plan
    looks for, and decide nothing.
    """

    compile: Callable[[SealedOptions], Mapper]
    options: SealedOptions
    limits: Limits
    parts: tuple[Part, ...]
    excluded: frozenset[str] = frozenset()
    identified: Path | None = None
    wanted: Wanted | None = None


class Task(NamedTuple):
    """One block for one worker. `number` counts the blocks of the whole source from 0.

    `limit` reads only so many of its rows. `seal` is the planned digest, "" while planning.
    `copies` are the plan's decisions on events of this block (see `DuplicateDecision`).
    `ended` are the ranges of events that need no batch any more, `doubtful` those to be sent again just as they were:
    what earlier runs left in the ledger. Ranges are (first, last), counted from 0 after the tables. `most` is the
    largest request that the service was found to take, in bytes; None where it refused none for its size.
    """

    number: int
    block: Block
    limit: int | None = None
    seal: str = ""
    copies: Sequence[DuplicateDecision] = ()
    ended: Sequence[tuple[int, int]] = ()
    doubtful: Sequence[tuple[int, int]] = ()
    most: int | None = None


class DuplicateDecision(NamedTuple):
    """What the plan decided about one event that has copies: leave it out, or give it an ordinal.

    `ordinal` is 0 for an event left out with skip code `code`; else the uuid is made again with that ordinal.
    """

    row: int
    nth: int
    ordinal: int
    code: str


class BlockStats(NamedTuple):
    """What a plan learns of one block. `keys` are KEY records, sorted by uuid, names indexing `names`.

    `group_types` counts rows that name a group, by type; `promoted` is what `identity.promotion.count_promoted` counts.
    `identities` is what the rows of this block and others before it say beside their events, None while the worker
    keeps it.
    `found` are the names that its `good_rows` have (`transform.field_names`).
    """

    rows: int
    mapped: int
    events: int
    event_bytes: int
    digest: str
    skips: Counter[str]
    rejects: list[Reject]
    warnings: Counter[str]
    examples: dict[str, tuple[int, int, str]]
    cells: Counter[tuple[str, int, str]]
    zone: Counter[tuple[int, int]]
    names: list[str]
    keys: bytes
    group_types: Counter[str]
    promoted: Counter[str]
    identities: IdentityColumns | None
    good_rows: int
    found: Names


@dataclass(frozen=True, slots=True)
class BatchedBlock:
    """One block ready to send. `skipped` counts what the plan's tables took out."""

    digest: str
    rows: int
    events: int
    batches: list[Batch] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


class BlockTransformer:
    """A config made ready once per process."""

    def __init__(self, config: TransformConfig, project_key: str = "") -> None:
        self.config = config
        self.mapper = config.compile(config.options)
        self._mappers = {"": self.mapper}
        self.encoder = Encoder(self.mapper.tool, config.options)
        self.rules = ValidationContext.of(config.options, config.limits, config.excluded)
        self.envelope = Envelope(project_key)
        self.identified = IdentifiedIds(config.identified) if config.identified is not None else None
        self.aggregator = IdentityAggregator(
            config.options.as_of - WITHOUT_TIME,
            persons=config.options.person_properties == "final",
            unsets=self.mapper.unsets,
            excluded=config.excluded,
        )
        self.promoting = PromotionAggregator()
        self.field_names = FieldNameScan(config.wanted) if config.wanted is not None else None

    def mapper_of(self, part: Part) -> Mapper:
        """The mapper for a part's rows: those of a table are read as `--set table=NAME` would have them read."""
        mapper = self._mappers.get(part.table)
        if mapper is None:
            options = self.config.options
            settings = {**options.settings, "table": part.table}
            mapper = self._mappers[part.table] = self.config.compile(replace(options, settings=settings))
        return mapper

    def events(
        self, task: Task, *, observe: bool, aggregator: IdentityAggregator | None = None
    ) -> tuple[Events, Callable[[int], bytes]]:
        """The events of a block before the tables, and a way to a row's canonical content."""
        part = self.config.parts[task.block.part]
        mapper = self.mapper_of(part)
        members = mapper.map_members is not None
        rows = read_rows(part, task.block, observe=observe, opens=mapper.opens, members=members, blanks=mapper.blanks)
        observation = NOTHING_MORE if observe else None
        if aggregator is not None:
            aggregator.start_block(task.number)
            observation = Observation(aggregator, self.field_names)
        made = make_events(
            rows, mapper, self.encoder, self.rules,
            part=part.path, limit=task.limit, observation=observation,
        )  # fmt: skip
        return made, rows.canonical

    def sealed(self, task: Task, *, observe: bool = False) -> tuple[Events, Callable[[int], bytes]]:
        """`events`, held against the plan's seal. Raises StalePlan on a drift."""
        made, canonical = self.events(task, observe=observe)
        if task.seal and made.digest != task.seal:
            part = self.config.parts[task.block.part]
            raise StalePlan(
                f"block {task.block.index} of {part.path} gives other events than were planned",
                differences=[f"{part.path}, block {task.block.index}: sealed {task.seal}, now {made.digest}"],
                hint="plan again: the file, a library or the program changed since",
            )
        return made, canonical

    def tabled(self, task: Task, *, observe: bool = False) -> tuple[Events, list[bytes], Counter[str]]:
        """The events of a block with the plan's tables applied: what is sent. Raises StalePlan on a drift."""
        made, canonical = self.sealed(task, observe=observe)
        kept, skipped = self._without_copies(task, made, canonical)
        return made, kept if self.identified is None else without_profiles(kept, self.identified), skipped

    def _without_copies(
        self, task: Task, made: Events, canonical: Callable[[int], bytes]
    ) -> tuple[list[bytes], Counter[str]]:
        if not task.copies:
            return made.events, Counter()
        decided = {(copy.row, copy.nth): copy for copy in task.copies}
        kept: list[bytes] = []
        skipped: Counter[str] = Counter()
        for event, row, nth in zip(made.events, made.row_of, made.nth, strict=True):
            copy = decided.get((row, nth))
            if copy is None:
                kept.append(event)
            elif copy.code:
                skipped[copy.code] += 1
            else:
                uuid = self.mapper.hasher(content_key(canonical(row), copy.ordinal, nth))
                kept.append(replace_uuid(event, uuid))
        return kept, skipped


def observe_block(transformer: BlockTransformer, task: Task) -> BlockStats:
    """Walk a block for the plan: everything counted, nothing kept of the events but their key records.

    What the rows say beside their events stays with the transformer until there is enough of it (`take_aggregate`).
    """
    aggregator = transformer.aggregator
    made, _ = transformer.events(task, observe=True, aggregator=aggregator)
    keys = _keys(made, task.number)
    return BlockStats(
        made.rows,
        made.mapped,
        made.count,
        int(made.sizes.sum()),
        made.digest,
        made.skips,
        made.rejects,
        made.warnings,
        made.examples,
        made.cells,
        count_offsets(made.walls, made.walls_received),
        made.distinct_names,
        keys.tobytes(),
        aggregator.finish_block(),
        count_promoted(made),
        aggregator.take() if aggregator.full else None,
        made.good_rows,
        made.found,
    )


def take_aggregate(transformer: BlockTransformer) -> IdentityColumns:
    """What this process still holds of what the rows of its blocks say beside their events."""
    return transformer.aggregator.take()


def observe_promoted(transformer: BlockTransformer, task: Task) -> list[tuple[str, list[PromotedUpdate]]] | None:
    """Read a block of a plan once more, now that its copies are decided: what is sent of it promotes properties.

    Gives what this process heard of all its blocks where there is enough of it; the rest stays (`take_promoted`).
    """
    made, _ = transformer.sealed(task, observe=True)
    transformer.promoting.add(made, {(copy.row, copy.nth) for copy in task.copies if copy.code})
    return transformer.promoting.take() if transformer.promoting.full else None


def take_promoted(transformer: BlockTransformer) -> list[tuple[str, list[PromotedUpdate]]]:
    """What this process still holds of what it heard."""
    return transformer.promoting.take()


def make_batches(transformer: BlockTransformer, task: Task) -> BatchedBlock:
    """Make a block's requests: the events, the tables applied, packed to bytes. The one line of every apply."""
    if not (task.copies or task.ended or task.doubtful or transformer.identified is not None):
        made, _ = transformer.sealed(task)
        batches = list(
            pack_runs(made.runs, made.sizes, transformer.envelope, transformer.config.limits, most=task.most)
        )
        return BatchedBlock(made.digest, made.rows, made.count, batches)
    made, kept, skipped = transformer.tabled(task)
    batches = list(
        pack(kept, transformer.envelope, transformer.config.limits, task.ended, task.doubtful, most=task.most)
    )
    return BatchedBlock(made.digest, made.rows, len(kept), batches, skipped)


def _keys(made: Events, number: int) -> NDArray[np.void]:
    keys = np.zeros(made.count, KEY)
    if not len(keys):
        return keys
    raw = made.uuids
    hi = raw[:, :8].copy().view(">u8")[:, 0].astype("<u8")
    keys["hi"] = hi
    keys["lo"] = raw[:, 8:].copy().view(">u8")[:, 0]
    keys["received"] = made.received
    keys["time"] = made.times
    content = np.frombuffer(b"".join(made.digests), "<u8").reshape(-1, 2)
    keys["content_hi"] = content[:, 0]
    keys["content_lo"] = content[:, 1]
    keys["name"] = made.name_of
    if made.keyless:
        keys["name"][list(made.keyless)] |= KEYLESS
    keys["block"] = number
    keys["of"] = 1
    several = any(made.nth)
    if made.count == made.rows and not several:
        keys["row"] = np.arange(made.count)
    else:
        keys["row"] = np.fromiter(made.row_of, np.uint32, made.count)
    if several:
        keys["nth"] = made.nth
        _, inverse, counts = np.unique(keys["row"], return_inverse=True, return_counts=True)
        keys["of"] = counts[inverse]
    return keys.take(np.argsort(hi))
