"""Transforms one block: extractor → mapper → validator → encoder → batcher.

`observe_block` is what a plan does with a block, `make_batches` what an apply does. Both transform the same rows by
`BlockTransformer.transform`, so plan and apply cannot drift apart (docs/know/promises.md#plan-equals-apply). Everything
here is pure: it depends on the block and on the `TransformConfig`, which is sealed in the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
import xxhash
from msgspec import Raw

from pipeline.batcher import Envelope, pack, pack_runs, with_people
from pipeline.clock_offsets import count_offsets
from pipeline.encoder.encoded import replace_uuid, without_profiles
from pipeline.encoder.event import Encoder
from pipeline.encoder.fingerprints import fingerprints
from pipeline.encoder.identified_ids import IdentifiedIds
from pipeline.errors import StalePlan
from pipeline.extractors import rows as read_rows
from pipeline.extractors.rows import Rows
from pipeline.identity.aggregator import IdentityAggregator
from pipeline.identity.columns import IdentityColumns, PropertyColumns
from pipeline.identity.promotion import PromotionAggregator, count_promoted
from pipeline.mapper.own_code import Cost
from pipeline.models import Part
from pipeline.transform.drift import DriftAggregator
from pipeline.transform.event_keys import key_records
from pipeline.transform.events import Events, Mapper
from pipeline.transform.field_counts import FieldCounts
from pipeline.transform.observer import NOTHING_MORE, Observation
from pipeline.transform.rows import RowTransformer
from pipeline.transform.staged import stage, unstage
from pipeline.transform.tasks import BatchedBlock, BlockStats, PeopleStats, Retained, Task, TransformConfig
from pipeline.uuids import content_key
from pipeline.validator.rules import WITHOUT_TIME, ValidationContext
from pipeline.values import canonical


class BlockTransformer:
    """The blocks of one source in one process. The mapper is compiled once, if rows are read at all."""

    def __init__(self, config: TransformConfig, envelope: Envelope | None = None) -> None:
        self.config = config
        self._mappers: dict[str, Mapper] = {}
        self.envelope = envelope or Envelope("")
        self.identified = IdentifiedIds(config.identified) if config.identified is not None else None
        self.promotion = PromotionAggregator()
        self.drift = DriftAggregator()
        self.fields = FieldCounts(config.counted) if config.counted is not None else None
        self.other = BlockTransformer(config.other) if config.other is not None else None

    @cached_property
    def mapper(self) -> Mapper:
        """The mapper of rows of no table."""
        mapper = self._mappers[""] = self.config.compile(self.config.options)
        return mapper

    @cached_property
    def encoder(self) -> Encoder:
        return Encoder(self.mapper.tool, self.config.options)

    @cached_property
    def context(self) -> ValidationContext:
        return ValidationContext.of(self.config.options, self.config.limits, self.config.excluded)

    @cached_property
    def aggregator(self) -> IdentityAggregator:
        """What a plan gathers of ids, persons and groups."""
        return IdentityAggregator(
            self.config.options.as_of - WITHOUT_TIME,
            persons=self.config.options.person_properties == "final",
            unsets=self.mapper.unsets,
            excluded=self.config.excluded,
        )

    def mapper_of(self, part: Part) -> Mapper:
        """The mapper for a part's rows. Rows of a table are mapped as with `--set table=NAME`."""
        if not part.table:
            return self.mapper
        mapper = self._mappers.get(part.table)
        if mapper is None:
            options = self.config.options
            settings = {**options.settings, "table": part.table}
            mapper = self._mappers[part.table] = self.config.compile(replace(options, settings=settings))
        return mapper

    def take_cost(self) -> Cost:
        """What the mapping's own code cost since this was asked last."""
        taken = Cost()
        for mapper in self._mappers.values():
            cost: Cost | None = getattr(mapper, "cost", None)
            if cost is not None:
                taken.events, taken.nanoseconds = taken.events + cost.events, taken.nanoseconds + cost.nanoseconds
                cost.events = cost.nanoseconds = 0
        return taken

    def transform(
        self,
        task: Task,
        *,
        observe: bool,
        aggregator: IdentityAggregator | None = None,
        left_out: Mapping[int, Container[int]] = MappingProxyType({}),
    ) -> Events:
        """The encoded events of a block, before the plan's tables are applied, but of copies at places `left_out`.

        `observe` also collects what a plan needs; with an `aggregator` the rows' ids and updates are added to it.
        """
        part = self.config.parts[task.block.part]
        mapper = self.mapper_of(part)
        members = mapper.map_members is not None
        rows = read_rows(
            part, task.block, observe=observe, opens=mapper.opens, members=members, blanks=mapper.blanks,
            layout_of=mapper.layout, unread=mapper.unread,
        )  # fmt: skip
        observation = NOTHING_MORE if observe else None
        if aggregator is not None:
            aggregator.start_block(task.number)
            observation = Observation(aggregator, None if left_out else self.fields, left_out)
        return make_events(
            rows, mapper, self.encoder, self.context,
            part=part.path, limit=task.limit, first=task.first, observation=observation,
        )  # fmt: skip

    def planned(self, task: Task, *, observe: bool = False) -> Events:
        """The events of a block as the plan holds them, in the task's content. Raises StalePlan for other bytes."""
        try:
            events = unstage(task.block.content or b"", observe=observe)
        except ValueError:
            events = Events()
        if events.digest != task.seal:
            raise StalePlan(
                f"the events of block {task.number} are not those that were planned",
                differences=[f"events.pack, block {task.number}: not as it was sealed"],
                hint="bring the plan's directory back as it was; plan again only if nothing was sent",
            )
        return events

    def sent_events(self, task: Task) -> list[bytes]:
        """The events of a block as they are sent. Raises StalePlan."""
        return self.apply_tables(self.planned(task), task)[0]

    def apply_tables(self, events: Events, task: Task) -> tuple[list[bytes], Counter[str]]:
        """The events with the plan's tables applied, and how many were left out, by code.

        Duplicates are skipped or get a uuid of their own, and events of ids without an identity get the profile flag.
        """
        sent, skipped = self._without_duplicates(events, task)
        return sent if self.identified is None else without_profiles(sent, self.identified), skipped

    def _without_duplicates(self, events: Events, task: Task) -> tuple[list[bytes], Counter[str]]:
        if not task.duplicates:
            return events.events, Counter()
        decisions = {(decision.row, decision.position): decision for decision in task.duplicates}
        sent: list[bytes] = []
        skipped: Counter[str] = Counter()
        for event, row, position in zip(events.events, events.row_of, events.positions, strict=True):
            decision = decisions.get((row, position))
            if decision is None:
                sent.append(event)
            elif decision.code:
                skipped[decision.code] += 1
            else:
                key = content_key(events.content(row), decision.ordinal, position)
                sent.append(replace_uuid(event, self.mapper.hasher(key)))
        return sent, skipped


def make_events(
    rows: Rows,
    mapper: Mapper,
    encoder: Encoder,
    context: ValidationContext,
    *,
    part: str = "",
    limit: int | None = None,
    first: int = 0,
    observation: Observation | None = NOTHING_MORE,
) -> Events:
    """Map, check and encode the rows of one block, or of the first `limit` those from number `first`.

    `observation` is what a plan collects beside the events, and None for a sender; the events are the same. Rejects
    count rows from 1 in the block. Every row ends in exactly one of mapped, skipped and rejected
    (docs/know/promises.md#balance).
    """
    return RowTransformer(rows, mapper, encoder, context, part, observation).run(limit, first)


def rows_sent(events: Events, task: Task) -> list[int]:
    """The row in its block, from 0, of each event that is sent, once the plan's tables were applied."""
    if not task.duplicates:
        return events.row_of
    left_out = {(decision.row, decision.position) for decision in task.duplicates if decision.code}
    return [
        row for row, position in zip(events.row_of, events.positions, strict=True) if (row, position) not in left_out
    ]


def observe_block(transformer: BlockTransformer, task: Task) -> BlockStats:
    """What a plan does with a block: count everything, and retain of the events only their key records.

    Ids and updates stay in the transformer's aggregator until it is full, and so does what the properties of the events
    are (see `take_retained`).
    """
    aggregator = transformer.aggregator
    events = transformer.transform(task, observe=True, aggregator=aggregator)
    drift = transformer.drift
    drift.add(events, task.number)
    keys = key_records(events, task.number, earliest=transformer.mapper.keeps_earliest)
    return BlockStats(
        events.rows,
        events.mapped,
        events.count,
        int(events.sizes.sum()),
        events.digest,
        events.skips,
        events.rejects,
        events.rejected,
        events.warnings,
        events.examples,
        events.cells,
        count_offsets(events.walls, events.walls_received),
        events.distinct_names,
        keys.tobytes(),
        aggregator.finish_block(),
        count_promoted(events),
        aggregator.take() if aggregator.full else None,
        events.fields,
        drift.take() if drift.full else None,
        stage(events),
    )


def take_retained(transformer: BlockTransformer) -> Retained:
    """What this process retained of the blocks that it observed, and has not handed over yet."""
    return Retained(transformer.aggregator.take(), transformer.drift.take(), transformer.take_cost())


def canonical_digests(transformer: BlockTransformer, task: Task) -> bytes:
    """The xxh3-128 of what the rows at the places of `task.duplicates` say, in one spelling, 16 bytes each."""
    events = transformer.transform(task, observe=True)
    said = dict(zip(zip(events.row_of, events.positions, strict=True), events.events, strict=True))
    said |= {(row.row, row.position): row.content for row in events.keyed}
    places = ((one.row, one.position) for one in task.duplicates)
    return b"".join(xxhash.xxh3_128_digest(canonical({"": Raw(said[place])})) for place in places)


def observe_people(transformer: BlockTransformer, task: Task) -> PeopleStats:
    """Read a block of a plan again, once its copies are known, for what all other rows state about ids and people."""
    left_out: dict[int, set[int]] = {}
    for copy in task.duplicates:
        left_out.setdefault(copy.row, set()).add(copy.position)
    aggregator = transformer.aggregator
    events = transformer.transform(task, observe=True, aggregator=aggregator, left_out=left_out)
    types, promoted = aggregator.finish_block(), count_promoted(events)
    return PeopleStats(types, promoted, aggregator.take() if aggregator.full else None)


def take_identities(transformer: BlockTransformer) -> IdentityColumns:
    """What this process retained of the blocks that it observed again."""
    return transformer.aggregator.take()


def observe_promoted(transformer: BlockTransformer, task: Task) -> PropertyColumns | None:
    """Read a block of a plan again, once its duplicates are decided, and aggregate the promoted properties.

    Returns the aggregate of all blocks of this process when it is full, else None (see `take_promoted`).
    """
    events = transformer.planned(task, observe=True)
    transformer.promotion.add(
        events, {(decision.row, decision.position) for decision in task.duplicates if decision.code}
    )
    return transformer.promotion.take() if transformer.promotion.full else None


def take_promoted(transformer: BlockTransformer) -> PropertyColumns:
    """The promoted properties that this process has not handed over yet."""
    return transformer.promotion.take()


def make_batches(transformer: BlockTransformer, task: Task) -> BatchedBlock:
    """What an apply does with a block: its requests, as bytes. Raises StalePlan."""
    events = transformer.planned(task)
    envelope, limits = transformer.envelope, transformer.config.limits
    whole = not (task.duplicates or task.ended or task.doubtful or transformer.identified is not None)
    if whole and not envelope.per_event:
        batches = list(pack_runs(events.runs, events.sizes, envelope, limits, most=task.most))
        if transformer.config.people:
            batches = list(with_people(batches, fingerprints(events.runs, events.sizes)[:, 0]))
        return BatchedBlock(events.digest, events.rows, events.count, batches)
    sent, skipped = transformer.apply_tables(events, task)
    batches = list(pack(sent, envelope, limits, task.ended, task.doubtful, most=task.most))
    if transformer.config.people and sent:
        sizes = np.fromiter(map(len, sent), np.int64, len(sent))
        batches = list(with_people(batches, fingerprints([b",".join((*sent, b""))], sizes)[:, 0]))
    return BatchedBlock(events.digest, events.rows, len(sent), batches, skipped)
