"""Transforms one block: extractor → mapper → validator → encoder.

Everything here is pure: it depends on the block and on the `TransformConfig`, which is sealed in the plan.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import NamedTuple

import numpy as np
import xxhash
from msgspec import Raw

from pipeline.clock_offsets import count_offsets
from pipeline.encoder.encoded import replace_uuid, without_profiles
from pipeline.encoder.event import Encoder
from pipeline.encoder.identified_ids import IdentifiedIds
from pipeline.errors import StalePlan
from pipeline.extractors import rows as read_rows
from pipeline.identity.promotion import count_promoted, promoted_by
from pipeline.mapper.compiler import Mapper
from pipeline.mapper.own_code import Cost
from pipeline.mapper.program.lookup_table import AskedTable
from pipeline.models import Part
from pipeline.transform.events import Events
from pipeline.transform.field_counts import FieldCounts
from pipeline.transform.rows import RowTransformer
from pipeline.transform.sample import Sampler
from pipeline.transform.staged import events_file, is_whole, keep_unit, stage, unstage, write_whole
from pipeline.transform.tasks import BlockStats, Task, TransformConfig, Unit
from pipeline.transform.unsafe_integers import unsafe_of
from pipeline.uuids import content_key
from pipeline.validator.rules import WITHOUT_TIME, ValidationContext
from pipeline.values import canonical


class BlockTransformer:
    """The blocks of one source in one process. The mapper is compiled once, if rows are read at all."""

    def __init__(self, config: TransformConfig) -> None:
        self.config = config
        self._mappers: dict[str, Mapper] = {}
        self.identified: IdentifiedIds | None = None
        self.sampler = Sampler(config.sampled)
        self.fields = FieldCounts(config.counted) if config.counted is not None else None

    @cached_property
    def mapper(self) -> Mapper:
        """The mapper for rows of no table."""
        mapper = self._mappers[""] = self.config.compile(self.config.options)
        return mapper

    @cached_property
    def encoder(self) -> Encoder:
        return Encoder(self.mapper.tool, self.config.options)

    @cached_property
    def context(self) -> ValidationContext:
        return ValidationContext.of(self.config.options, self.config.limits, self.config.excluded)

    def mapper_of(self, part: Part) -> Mapper:
        """The mapper for a part's rows."""
        if not part.table:
            return self.mapper
        mapper = self._mappers.get(part.table)
        if mapper is None:
            mapper = self._mappers[part.table] = self.config.compile(self.config.options.of_table(part.table))
        return mapper

    def take_cost(self) -> Cost:
        """What the mapping's own code has cost since the last call."""
        taken = Cost()
        for mapper in self._mappers.values():
            cost: Cost | None = getattr(mapper, "cost", None)
            if cost is not None:
                taken.events, taken.nanoseconds = taken.events + cost.events, taken.nanoseconds + cost.nanoseconds
                cost.events = cost.nanoseconds = 0
        return taken

    def transform(self, task: Task) -> Events:
        """The encoded events of a block, before the plan's tables are applied."""
        part = self.config.parts[task.block.part]
        mapper = self.mapper_of(part)
        members = mapper.map_members is not None
        rows = read_rows(
            part, task.block, opens=mapper.opens, members=members, blanks=mapper.blanks,
            layout_of=mapper.layout, unread=mapper.unread,
        )  # fmt: skip
        return RowTransformer(rows, mapper, self.encoder, self.context, part.path, self.fields).run(task.limit)

    def staged(self, task: Task) -> bytes | memoryview:
        """A block's events in the form that `unstage` reads: from the task's content, or from the file a worker
        left."""
        content, staging = task.block.content, self.config.staging
        if content is None and staging is not None:
            return events_file(staging, task.number).read_bytes()
        return content or b""

    def planned(self, task: Task, *, observe: bool = False) -> Events:
        """The events of a block as the plan holds them. Raises StalePlan if the bytes are different."""
        try:
            events = unstage(self.staged(task), observe=observe)
        except (OSError, ValueError):
            events = Events()
        if events.digest != task.seal:
            raise StalePlan(
                f"the events of block {task.number} are not the planned ones",
                differences=[f"block {task.number}: changed since it was mapped"],
                hint="run the same command again: it makes the block anew",
            )
        return events

    def apply_tables(self, events: Events, task: Task) -> tuple[list[bytes], Counter[str]]:
        """The events with the plan's tables applied, and how many were left out, by code.

        Duplicates are skipped or get their own uuid, and events of ids without an identity get the profile flag.
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


class ObservedBlock(NamedTuple):
    """What a plan makes of a block: its counts, its events (`staged`), and the content of its tables, by the names of
    their folders."""

    stats: BlockStats
    events: bytes
    tables: dict[str, bytes]


def observe_unit(transformer: BlockTransformer, unit: Unit) -> int:
    """Do a plan's work on a few blocks: write their events, their facts, what their rows state about people, and their
    counts to the plan's directory. Returns how many events were made."""
    from pipeline.transform.facts import keep  # loads Arrow

    staging = transformer.config.staging
    assert staging is not None
    if is_whole(staging, unit):  # from a plan that was stopped
        return 0
    found: list[BlockStats] = []
    for task in unit.tasks:
        stats, events, tables = observe_block(transformer, task)
        write_whole(events_file(staging, task.number), events)
        for name, content in tables.items():
            keep(content, staging / name, task.number)
        found.append(stats)
    found[-1] = found[-1]._replace(cost=transformer.take_cost())
    keep_unit(staging, unit, found)
    return sum(stats.events for stats in found)


def observe_block(transformer: BlockTransformer, task: Task) -> ObservedBlock:
    """Map a block and count everything."""
    mapper = transformer.mapper_of(transformer.config.parts[task.block.part])
    _asked(mapper)  # from here on they are noted
    events = transformer.transform(task)
    stats = BlockStats(
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
        count_promoted(events),
        events.fields,
        transformer.sampler.choose(events),
        unsafe_of(events),
        Cost(),
    )
    tables = _tables(transformer.config, events, task.number) | _asked(mapper)
    return ObservedBlock(stats, stage(events), tables)


def _asked(mapper: Mapper) -> dict[str, bytes]:
    """The keys of joined rows that were looked up since the last call, by their hashes; nothing if there are none."""
    program = getattr(mapper, "program", None)  # None for a mapper written by hand
    tables = program.tables.values() if program is not None else ()
    asked = [key for table in tables if isinstance(table, AskedTable) for key in table.take_asked()]
    if not asked:
        return {}
    import pyarrow as pa

    from pipeline.transform.facts import encode_table, numbers

    return {"asked": encode_table(pa.table({"hash": numbers(np.array(asked, np.uint64), pa.uint64())}))}


def _tables(config: TransformConfig, events: Events, number: int) -> dict[str, bytes]:
    """The facts of a block, and what its rows state, if anything."""
    from pipeline.transform.facts import encode_table, facts_of  # these load Arrow
    from pipeline.transform.statements import StatementSettings, statements_of

    wanted = config.options.person_properties == "final"
    settings = StatementSettings(config.options.as_of - WITHOUT_TIME, wanted, config.excluded)
    users, pairs, updates = statements_of(events, number, settings)
    tables = {"facts": facts_of(events, number, users), "pairs": pairs, "updates": updates}
    return {name: encode_table(table) for name, table in tables.items() if len(table) or name == "facts"}


def canonical_digests(transformer: BlockTransformer, task: Task) -> bytes:
    """The xxh3-128 of each row at the places of `task.duplicates`, in canonical form, 16 bytes each."""
    events = transformer.planned(task)
    said = dict(zip(zip(events.row_of, events.positions, strict=True), events.events, strict=True)) | events.said
    places = ((one.row, one.position) for one in task.duplicates)
    return b"".join(xxhash.xxh3_128_digest(canonical({"": Raw(said[place])})) for place in places)


def observe_promoted(transformer: BlockTransformer, task: Task) -> None:
    """Write the properties that the events of a block promote, once its duplicates are decided."""
    from pipeline.transform.facts import encode_table, keep  # these load Arrow
    from pipeline.transform.statements import update_table

    assert transformer.config.staging is not None
    events = transformer.planned(task, observe=True)
    left_out = {(decision.row, decision.position) for decision in task.duplicates if decision.code}
    promoted = update_table(task.number, list(promoted_by(events, left_out)))
    if len(promoted):
        keep(encode_table(promoted), transformer.config.staging / "promoted", task.number)
