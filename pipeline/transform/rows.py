"""Transforms the rows of a block into events: mapped, validated, encoded, counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from pipeline.encoder.buffer import MICROSECONDS, MILLISECONDS, RUN_BYTES, SECONDS, EventBuffer
from pipeline.encoder.event import Encoder
from pipeline.extractors.rows import Rows
from pipeline.models import BrokenRow, GroupUpdate, Link, PersonUpdate, Reject, RejectReason, Skip, UnvalidatedEvent
from pipeline.native import AVAILABLE, native
from pipeline.timestamps import DAY
from pipeline.transform.events import Events, Mapper
from pipeline.transform.observer import GROUPS, NOTE, NOTHING_MORE, OVERWRITES, Observation, observer
from pipeline.uuids import SEPARATOR, content_key
from pipeline.validator.rules import (
    ValidationContext,
    check,
    check_update,
    event_too_large,
    fast_test,
    skip_code,
    warnings,
)

_TAIL_ROOM = 256
"""More than an event's time, uuid and closing brackets take."""
Members: Any = native.Members if AVAILABLE else None
OVERWRITES_PERSON = ("overwrites_person", "the event carries $set")
NO_NOTE = "empty_person_update"


class RowRejected(Exception):
    """One event of a row cannot be sent, so the row is not."""

    def __init__(self, reason: RejectReason, event: UnvalidatedEvent | None) -> None:
        self.reason = reason
        self.event = event


class RowTransformer:
    """Transforms the rows of one block. `run` is the hottest loop there is, so what could be a call is written out."""

    def __init__(
        self,
        rows: Rows,
        mapper: Mapper,
        encoder: Encoder,
        context: ValidationContext,
        part: str,
        first_row: int,
        observation: Observation | None,
    ) -> None:
        self.rows = rows
        self.field_names = observation.field_names if observation is not None else None
        self.part = part
        self.first_row = first_row
        self.mapper = mapper
        self.encoder = encoder
        self.context = context
        self.observe = observation is not None
        self.aggregator = observation.aggregator if observation is not None else None
        self.events = Events()
        self.buffer = EventBuffer(mapper.hasher, digest_each=self.observe)
        self.keyless: set[int] = set()
        self.nth: dict[int, int] = {}
        self.journal: list[tuple[Counter[Any], Any]] | None = None
        self.observed: Any = observer(self.events, self.aggregator)

    def run(self, limit: int | None) -> Events:
        events, context, observe, buffer, encoder = self.events, self.context, self.observe, self.buffer, self.encoder
        mapper = self.mapper
        map_row: Any = mapper.map_row
        map_members: Any = mapper.map_members
        write_usual: Any = encoder.write_usual
        write_members: Any = encoder.write_members
        row_of = events.row_of
        observed = self.observed
        # The open parts of the buffer; closing a run replaces `open`.
        text, ends, text_times, keys = buffer.open, buffer.ends, buffer.times, buffer.keys
        usual = None if context.leave_out else fast_test()
        newest = min(context.newest, context.as_of)
        small = context.surely_small - _TAIL_ROOM
        heads: dict[str | None, bytes] = {}
        time: Any
        look = self.field_names.begin(self.rows.columns) if self.field_names is not None else None
        broken = 0
        mapped = 0
        row = -1
        for record in self.rows:
            row += 1
            if row == limit:
                row -= 1
                break
            if record.__class__ is BrokenRow:
                self.reject(row, "read", record.code, record.detail)
                broken += 1
                continue
            if look is not None:
                look(record)
            result = map_members(record, observe) if record.__class__ is Members else map_row(record, observe)
            if (
                result.__class__ is UnvalidatedEvent
                and usual
                and not result.warnings
                and (head := heads.get(result.event))
            ):
                # Valid in every respect by fast tests; otherwise the rules below decide.
                time, distinct_id, key, properties = result.time, result.distinct_id, result.key, result.properties
                if (key is not None or result.uuid is not None) and usual(time, distinct_id, newest):
                    ending = SECONDS if not time % 1_000_000 else MICROSECONDS if time % 1_000 else MILLISECONDS
                    write = write_members if properties.__class__ is Members else write_usual
                    if write(text, head, distinct_id, properties, ending, small):
                        if result.uuid is not None:
                            buffer.own[len(ends)] = result.uuid
                            key = ""
                        ends.append(len(text))
                        keys.append(key)  # type: ignore[arg-type]
                        text_times.append(time)
                        row_of.append(row)
                        mapped += 1
                        if observe:
                            left = observed(row, result, time, distinct_id, properties)
                            if left:
                                self.observe_left(left, row, result)
                        if len(text) > RUN_BYTES:
                            buffer.close_run()
                            text = buffer.open
                        continue
            try:
                if result.__class__ is UnvalidatedEvent:
                    code = self.add(row, 0, result)
                    if code:
                        events.skips[code] += 1
                    else:
                        mapped += 1
                        if not (observe and warnings(result, context)):
                            # The fast test does not look at names: those that it may see have passed every rule.
                            heads[result.event] = encoder.head(result.event)  # type: ignore[arg-type]
                        self.aggregate(row, result)
                elif result.__class__ is Skip:
                    self.skip(row, result)
                    events.skips[result.code] += 1
                else:
                    mapped += self.several(row, result if isinstance(result, list) else [result])
            except RowRejected as rejected:
                self.reject_event(row, rejected)
            if len(text) > RUN_BYTES:
                buffer.close_run()
                text = buffer.open
        events.rows = row + 1
        events.good_rows = events.rows - broken
        if self.field_names is not None:
            events.found = self.field_names.end(events.good_rows)
        events.mapped = mapped
        self.finish()
        return events

    def add(self, row: int, nth: int, event: UnvalidatedEvent) -> str:
        """Encode one event; a skip's code if it stays out, "" if it is kept."""
        events, context, buffer = self.events, self.context, self.buffer
        properties: Any = event.properties
        if properties.__class__ is Members:
            event.properties = properties.as_dict()
        code = skip_code(event.time, (event.distinct_id,), context)
        if code:
            if type(event.time) is int and event.event:
                self.count(events.cells, (event.event, event.time // DAY, code))
            return code
        reason = check(event, context)
        if reason is not None:
            raise RowRejected(reason, event)
        time: int = event.time  # type: ignore[assignment]
        key = event.key
        index = len(events.row_of)
        content = self.rows.canonical(row) if key is None and event.uuid is None else b""
        text = buffer.open
        start = len(text)
        overwritten = self.encoder.write(event, text)
        text += SECONDS if not time % 1_000_000 else MICROSECONDS if time % 1_000 else MILLISECONDS
        reason = event_too_large(bytes(text[start:-1]), context)
        if reason is not None:
            del text[start:]
            raise RowRejected(reason, event)
        if event.uuid is not None:
            buffer.own[len(buffer.ends)] = event.uuid
            key = ""
        elif key is None:
            self.keyless.add(index)
            key = content_key(content, 0, nth)
        elif nth:
            key = f"{key}{SEPARATOR}{nth}"
        buffer.ends.append(len(text))
        buffer.keys.append(key)
        buffer.times.append(time)
        for code, detail in event.warnings:
            self.warn(row, code, detail)
        for name in overwritten:
            self.warn(row, "replaced_property", f"{name!r} of the row was overwritten by an import property")
        if nth:
            self.nth[index] = nth
        events.row_of.append(row)
        if self.observe:
            if "$set" in event.properties:
                self.warn(row, *OVERWRITES_PERSON)
            for code, detail in warnings(event, context):
                self.warn(row, code, detail)
            self.observed.add(event.event, time, event.received, event.wall)
        return ""

    def several(self, row: int, outcomes: list[Any]) -> int:
        """A row of many events, updates, links and skips: all of it or nothing. 1 if the row counts as mapped."""
        events, buffer = self.events, self.buffer
        first = len(events.row_of)
        walls = self.observed.walls
        keeping: list[UnvalidatedEvent | Link | PersonUpdate | GroupUpdate] = []
        ends = len(buffer.ends)
        journal: list[tuple[Counter[Any], Any]] = []
        self.journal = journal
        first_skip = ""
        try:
            for nth, outcome in enumerate(outcomes):
                if type(outcome) is UnvalidatedEvent:
                    code = self.add(row, nth, outcome)
                elif type(outcome) is Link:
                    code = skip_code(outcome.time, (outcome.distinct_id, outcome.other), self.context)
                elif type(outcome) is PersonUpdate or type(outcome) is GroupUpdate:
                    code = self.update(row, outcome)
                elif type(outcome) is Skip:
                    code = self.skip(row, outcome)
                else:
                    raise RowRejected(outcome, None)
                first_skip = first_skip or code
                if not code:
                    keeping.append(outcome)
        except RowRejected:
            for index in range(first, len(events.row_of)):
                self.keyless.discard(index)
                self.nth.pop(index, None)
            buffer.cut_back(ends)
            del events.row_of[first:]
            if self.observe:
                self.observed.cut(first, walls)
            for counter, key in journal:
                counter[key] -= 1
            raise
        finally:
            self.journal = None
        for outcome in keeping:
            self.aggregate(row, outcome)
        if keeping:
            return 1
        events.skips[first_skip or "empty_row"] += 1
        return 0

    def update(self, row: int, update: PersonUpdate | GroupUpdate) -> str:
        """Check the update of a person or a group; a skip's code if it stays out, "" if it is kept."""
        person = update if type(update) is PersonUpdate else None
        code = skip_code(update.time, (person.distinct_id if person is not None else None,), self.context)
        if code:
            return code
        reason = check_update(update, self.context)
        if reason is not None:
            raise RowRejected(
                reason, None if person is None else UnvalidatedEvent(None, person.distinct_id, update.time, {})
            )
        for code, detail in update.warnings:
            self.warn(row, code, detail)
        return NO_NOTE if person is not None and person.note is None else ""

    def aggregate(self, row: int, outcome: UnvalidatedEvent | Link | PersonUpdate | GroupUpdate) -> None:
        """Pass on what a row that is kept states beside its events."""
        aggregator = self.aggregator
        if aggregator is None:
            return
        if isinstance(outcome, Link):
            aggregator.add_link(row, outcome)
        elif isinstance(outcome, GroupUpdate):
            aggregator.add_group(outcome)
        else:
            time: int | None = outcome.time  # type: ignore[assignment]
            who: str = outcome.distinct_id  # type: ignore[assignment]
            note = outcome.note
            if note is not None:
                aggregator.add_note(row, who, time, outcome.received, note)
            if isinstance(outcome, UnvalidatedEvent):
                aggregator.add_id(row, who, time, note is not None and note.user == who)  # type: ignore[arg-type]
                if "$groups" in outcome.properties:
                    aggregator.add_groups(outcome.properties["$groups"], time)  # type: ignore[arg-type]

    def observe_left(self, left: int, row: int, event: UnvalidatedEvent) -> None:
        """Do what an observer left to do."""
        if left & OVERWRITES:
            self.warn(row, *OVERWRITES_PERSON)
        if self.aggregator is None:
            return
        time: int = event.time  # type: ignore[assignment]
        if left & GROUPS:
            self.aggregator.add_groups(event.properties.get("$groups"), time)
        if left & NOTE:
            self.aggregator.add_note(row, event.distinct_id, time, event.received, event.note)  # type: ignore[arg-type]

    def reject_event(self, row: int, rejected: RowRejected) -> None:
        event = rejected.event
        if event is not None and event.event and type(event.time) is int:
            self.events.cells[event.event, event.time // DAY, rejected.reason.code] += 1
        stage = "map" if event is None else "validate"
        self.reject(row, stage, rejected.reason.code, rejected.reason.detail)

    def reject(self, row: int, stage: str, code: str, detail: str) -> None:
        rows = self.rows
        self.events.rejects.append(
            Reject(self.part, self.first_row + row, rows.offset(row), stage, code, detail, rows.text(row))
        )

    def count(self, counter: Counter[Any], key: Any) -> None:
        """Count one; inside a row of several events, so that it can be taken back if the row is rejected."""
        counter[key] += 1
        if self.journal is not None:
            self.journal.append((counter, key))

    def warn(self, row: int, code: str, detail: str) -> None:
        self.count(self.events.warnings, code)
        if code not in self.events.examples:
            self.events.examples[code] = (row, self.rows.offset(row), detail)

    def skip(self, row: int, skip: Skip) -> str:
        """The code of a skip, which is a warning too where it has a detail."""
        if skip.detail:
            self.warn(row, skip.code, skip.detail)
        return skip.code

    def finish(self) -> None:
        events, buffer = self.events, self.buffer
        buffer.close_run()
        events.count, events.digest, events.digests = buffer.count, buffer.seal, buffer.digests
        events.runs, events.sizes, events.uuids = buffer.runs, buffer.sizes, buffer.uuids
        events.keyless = frozenset(self.keyless)
        events.nth = [0] * events.count
        for index, nth in self.nth.items():
            events.nth[index] = nth
        if not self.observe:
            return
        for row, code, detail in self.rows.warnings:
            if row < events.rows:
                self.warn(row, code, detail)
        names = {name: number for number, name in enumerate(dict.fromkeys(events.names))}
        events.distinct_names = list(names)
        events.name_of = np.fromiter(map(names.__getitem__, events.names), np.uint32, events.count)
        events.times, events.received, events.walls, events.walls_received = (
            np.frombuffer(column, np.int64) for column in self.observed.columns()
        )
        days = events.times // DAY
        cells, counts = np.unique(days * len(names) + events.name_of, return_counts=True)
        for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
            day, name = divmod(cell, len(names))
            events.cells[events.distinct_names[name], day, "mapped"] += count


def make_events(
    rows: Rows,
    mapper: Mapper,
    encoder: Encoder,
    context: ValidationContext,
    *,
    part: str = "",
    first_row: int = 1,
    limit: int | None = None,
    observation: Observation | None = NOTHING_MORE,
) -> Events:
    """Map, check and encode the rows of one block.

    `first_row` is the number of the block's first row in its part, from 1. `limit` reads only so many rows.
    `observation` is what a plan takes note of beside the events, and None for a sender; the events are the same.
    Every row ends in exactly one of mapped, skipped and rejected (docs/know/promises.md#balance).
    """
    return RowTransformer(rows, mapper, encoder, context, part, first_row, observation).run(limit)
