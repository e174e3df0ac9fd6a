"""Transforms the rows of a block into events: mapped, validated, encoded, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from pipeline.encoder.buffer import MICROSECONDS, MILLISECONDS, RUN_BYTES, SECONDS, EventBuffer
from pipeline.encoder.event import Encoder
from pipeline.extractors.changed_rows import ChangedRows
from pipeline.extractors.csv_rows import DelimitedRows
from pipeline.extractors.rows import Rows
from pipeline.mapper.compiler import Mapper
from pipeline.models import (
    BrokenRow,
    GroupUpdate,
    ItemOutcomes,
    Link,
    PersonUpdate,
    Reject,
    Skip,
    UnvalidatedEvent,
)
from pipeline.native import AVAILABLE, native
from pipeline.timestamps import DAY
from pipeline.transform.events import Events, contents
from pipeline.transform.field_counts import FieldCounts
from pipeline.transform.observer import GROUPS, OVERWRITES, observer
from pipeline.transform.rejection import RowRejected, check_number, require_sendable, require_sendable_update
from pipeline.uuids import SEPARATOR, content_key
from pipeline.validator.rules import (
    ValidationContext,
    event_too_large,
    fast_test,
    skip_code,
    warnings,
)

Members: Any = native.Members if AVAILABLE else None
OVERWRITES_PERSON = ("overwrites_person", "the event carries $set")
EMPTY_UPDATE = "empty_person_update"


class RowTransformer:
    """Transforms the rows of one block."""

    def __init__(
        self,
        rows: Rows,
        mapper: Mapper,
        encoder: Encoder,
        context: ValidationContext,
        part: str = "",
        fields: FieldCounts | None = None,
    ) -> None:
        self.rows = rows
        self.mapper = mapper
        self.encoder = encoder
        self.context = context
        self.part = part
        self.fields = fields
        self.events = Events()
        self.buffer = EventBuffer(mapper.hasher)
        self.observer: Any = observer(self.events)
        self.valid_heads: dict[Any, bytes] = {}
        """The encoded beginning of events, by event name: only names that break no rule, not even with a warning."""
        self.is_valid = None if context.leave_out else fast_test()
        self.newest = min(context.newest, context.as_of)
        self.max_bytes = context.surely_small - 256  # more than an event's time, uuid and closing brackets take
        self.keyless: set[int] = set()
        self.positions: dict[int, int] = {}
        self.content_of = contents(rows, mapper)
        self.content: tuple[int, str] = (-1, "")
        """The row whose canonical record was hashed last, and its digest: a row may be thousands of events."""
        self.journal: list[tuple[Counter[Any], Any]] | None = None

    def run(self, limit: int | None = None) -> Events:
        """Map, check and encode all rows, or those before number `limit`. Rejects count the rows of the block from 1.
        Every row is mapped, skipped or rejected: exactly one of them (docs/know/promises.md#balance).

        This is the hottest loop of all: `append` takes ordinary events, `transform` all others.
        """
        events, buffer = self.events, self.buffer
        map_row: Any = self.mapper.map_row
        map_members: Any = self.mapper.map_members
        append: Any = self.appender()
        fields = self.fields
        if fields is not None:
            fields.begin(self.rows.columns)
        text = buffer.open
        row, ordinary = -1, 0
        for row, record in enumerate(islice(self.rows, limit)):
            if record.__class__ is BrokenRow:
                self.reject(row, "read", record.code, record.detail)
                continue
            map_record = map_members if record.__class__ is Members else map_row
            result = map_record(record, fields)
            unobserved = append(text, row, result)
            if unobserved is None:
                self.transform(row, result)
            else:
                ordinary += 1
                if fields is not None:
                    fields.settle_event(result)
                if unobserved:
                    self.observe_remaining(unobserved, row, result)
            if len(text) > RUN_BYTES:
                buffer.close_run()
                text = buffer.open
        events.rows = row + 1
        events.mapped += ordinary
        self.finish()
        if fields is not None:
            events.fields = fields.end()
        return events

    def appender(self) -> Callable[[bytearray, int, Any], int | None]:
        """`append`, the one in C if it is available."""
        if not AVAILABLE or self.is_valid is None:
            return self.append
        buffer, heads = self.buffer, self.valid_heads
        writer: Any = self.encoder.write_members
        return native.Appender(
            self.append, UnvalidatedEvent, writer, heads, self.is_valid, self.newest, self.max_bytes,
            (SECONDS, MILLISECONDS, MICROSECONDS), buffer.ends, buffer.times, buffer.keys, self.events.row_of,
            buffer.own, self.observer,
        )  # fmt: skip

    def append(self, text: bytearray, row: int, result: Any) -> int | None:
        """Append an event with a valid name if one expression shows that it breaks no rule, and observe it. Returns
        what is left to `observe_remaining`; None if nothing was appended, as for any other event."""
        is_valid = self.is_valid
        if result.__class__ is not UnvalidatedEvent or is_valid is None or result.warnings:
            return None
        head = self.valid_heads.get(result.event)
        if head is None or not is_valid(result.time, result.distinct_id, self.newest):
            return None
        buffer, properties = self.buffer, result.properties
        time: Any = result.time
        write: Any = self.encoder.write_members if properties.__class__ is Members else self.encoder.write_usual
        ending = SECONDS if not time % 1_000_000 else MICROSECONDS if time % 1_000 else MILLISECONDS
        if not write(text, head, result.distinct_id, properties, ending, self.max_bytes):
            return None
        key = result.key
        if result.uuid is not None:
            buffer.own[len(buffer.ends)] = key = result.uuid
        elif key is None:
            self.keyless.add(len(self.events.row_of))
            key = content_key(self.content_of(row), 0)
        buffer.keys.append(key)
        buffer.ends.append(len(text))
        buffer.times.append(time)
        self.events.row_of.append(row)
        return self.observer(result, time, result.distinct_id, properties)  # type: ignore[no-any-return]

    def transform(self, row: int, result: Any) -> None:
        """Transform what the mapper returned for one row: mapped, skipped or rejected. Checks every rule."""
        first = len(self.events.names)
        try:
            if isinstance(result, list):
                check_number(result)
            if result.__class__ is UnvalidatedEvent:
                code = self.add(row, 0, result)
            elif result.__class__ is Skip:
                code = self.skip(row, result)
            elif result.__class__ is ItemOutcomes:
                code_of_items = self.transform_items(row, result)
                if code_of_items is None:
                    return
                code = code_of_items
                first = -1
            else:
                code = self.transform_several(row, result if isinstance(result, list) else [result])
        except RowRejected as rejected:
            code = rejected.reason.code
            header = isinstance(self.rows, DelimitedRows | ChangedRows) and self.rows.is_header(row)
            if header:
                code = "repeated_header"
                self.events.skips[code] += 1
            else:
                self.reject_event(row, rejected)
            if self.fields is not None:
                self.fields.settle(result, (), code, rejected=not header)
            return
        if self.fields is not None and first >= 0:
            self.fields.settle(result, self.events.names[first:], code, rejected=False)
        if code:
            self.events.skips[code] += 1
        else:
            self.events.mapped += 1

    def add(self, row: int, position: int, event: UnvalidatedEvent) -> str:
        """Check and encode one event, at this position in its row. Returns a skip's code, else "". Raises
        RowRejected."""
        events, context, buffer = self.events, self.context, self.buffer
        is_valid, properties = self.is_valid, event.properties
        usual = is_valid and event.event in self.valid_heads and is_valid(event.time, event.distinct_id, self.newest)
        members: Any = properties if properties.__class__ is Members else None
        if not usual:
            if members is not None:
                members, event.properties = None, members.as_dict()
            code = skip_code(event.time, (event.distinct_id, event.mapped_id), context)
            if code:
                if type(event.time) is int and event.event:
                    self.count(events.cells, (event.event, event.time // DAY, code))
                return code
            require_sendable(event, context)
        time: int = event.time  # type: ignore[assignment]
        key = event.key
        index = len(events.row_of)
        if key is None and event.uuid is None and self.content[0] != row:
            self.content = (row, self.content_of(row))
        text, start = buffer.open, len(buffer.open)
        ending = SECONDS if not time % 1_000_000 else MICROSECONDS if time % 1_000 else MILLISECONDS
        overwritten: Sequence[str] = ()
        write_members: Any = self.encoder.write_members
        arguments = (event.distinct_id, members, ending, self.max_bytes)
        if members is None or not write_members(text, self.valid_heads[event.event], *arguments):
            if members is not None:
                event.properties = members.as_dict()
            overwritten = self.encoder.write(event, text)
            text += ending
            reason = event_too_large(bytes(text[start:-1]), context)
            if reason is not None:
                del text[start:]
                raise RowRejected(reason, event)
        if event.uuid is not None:
            buffer.own[len(buffer.ends)] = key = event.uuid
        elif key is None:
            self.keyless.add(index)
            key = content_key(self.content[1], 0, position)
        elif position:
            key = f"{key}{SEPARATOR}{position}"
        buffer.ends.append(len(text))
        buffer.keys.append(key)
        buffer.times.append(time)
        for code, detail in event.warnings:
            self.warn(row, code, detail)
        for name in overwritten:
            self.warn(row, "replaced_property", f"an import property overwrote the row's {name!r}")
        if position:
            self.positions[index] = position
        events.row_of.append(row)
        if "$set" in event.properties:
            self.warn(row, *OVERWRITES_PERSON)
        found = () if usual else warnings(event, context)
        for code, detail in found:
            self.warn(row, code, detail)
        if not usual and not found:
            self.valid_heads[event.event] = self.encoder.head(event.event)  # type: ignore[arg-type]
        self.observer.add(event.event, event.distinct_id, time, event.received, event.wall, event.note)
        if "$groups" in event.properties:
            events.named.append((index, event.properties["$groups"]))
        return ""

    def transform_several(self, row: int, outcomes: list[Any]) -> str:
        """Transform a row of many events, updates, links and skips, all of it or nothing.

        Returns the first skip's code if nothing of the row is sent or stated, else "". Raises RowRejected.
        """
        accepted, skips = self.accept(row, 0, outcomes)
        if accepted and skips and self.fields is not None:
            self.fields.skip_items(skips)
        return "" if accepted else (*skips, "empty_row")[0]

    def transform_items(self, row: int, outcomes: ItemOutcomes) -> str | None:
        """Transform a row of items, each of them all or nothing. Returns what `transform_several` returns, or None if
        an item is rejected and nothing of the row is sent or stated: the row is then rejected."""
        accepted: list[UnvalidatedEvent | Link | PersonUpdate | GroupUpdate] = []
        skips: list[str] = []
        settled: list[tuple[Any, Sequence[str], str, bool]] = []
        rejected = start = 0
        for item, end in enumerate(outcomes.ends, 1):
            of_item = outcomes[start:end]
            first = len(self.events.names)
            try:
                taken, skipped = self.accept(row, start, of_item)
            except RowRejected as reason:
                self.reject_event(row, reason, item)
                rejected += 1
                settled.append((of_item, (), reason.reason.code, True))
            else:
                accepted += taken
                skips += skipped
                settled.append((of_item, self.events.names[first:], "" if taken else (*skipped, "empty_row")[0], False))
            start = end
        if self.fields is not None:
            self.fields.settle_items(settled)
            if accepted:
                self.fields.skip_items(skips)
        if accepted or not rejected:
            return "" if accepted else (*skips, "empty_row")[0]
        self.events.rejected += 1
        return None

    def accept(
        self, row: int, start: int, outcomes: Sequence[Any]
    ) -> tuple[list[UnvalidatedEvent | Link | PersonUpdate | GroupUpdate], list[str]]:
        """Check all these outcomes, of which the first is at this position in its row, and add their events.

        Returns what is sent or stated, and the codes of the skips. Raises RowRejected; then nothing is added.
        """
        events, buffer = self.events, self.buffer
        first = len(events.row_of)
        walls = self.observer.walls
        accepted: list[UnvalidatedEvent | Link | PersonUpdate | GroupUpdate] = []
        ends = len(buffer.ends)
        journal: list[tuple[Counter[Any], Any]] = []
        self.journal = journal
        skips: list[str] = []
        try:
            for position, outcome in enumerate(outcomes, start):
                if type(outcome) is UnvalidatedEvent:
                    code = self.add(row, position, outcome)
                elif type(outcome) is Link:
                    code = skip_code(outcome.time, (outcome.distinct_id, outcome.other), self.context)
                elif type(outcome) is PersonUpdate or type(outcome) is GroupUpdate:
                    code = self.check_update(row, outcome)
                elif type(outcome) is Skip:
                    code = self.skip(row, outcome)
                else:
                    raise RowRejected(outcome, None)
                if code:
                    skips.append(code)
                else:
                    accepted.append(outcome)
            if first == len(events.row_of) and (accepted or EMPTY_UPDATE in skips):
                events.add_keyed(row, start, accepted, outcomes)
            events.state(row, start, accepted, outcomes)
        except RowRejected:
            for index in range(first, len(events.row_of)):
                self.keyless.discard(index)
                self.positions.pop(index, None)
            buffer.cut_back(ends)
            del events.row_of[first:]
            self.observer.cut(first, walls)
            while events.named and events.named[-1][0] >= first:
                events.named.pop()
            for counter, key in journal:
                counter[key] -= 1
            raise
        finally:
            self.journal = None
        return accepted, skips

    def check_update(self, row: int, update: PersonUpdate | GroupUpdate) -> str:
        """Check the update of a person or a group. Returns a skip's code, else "". Raises RowRejected."""
        person = update if type(update) is PersonUpdate else None
        code = skip_code(update.time, (update.distinct_id,), self.context)
        if code:
            return code
        require_sendable_update(update, self.context)
        for code, detail in update.warnings:
            self.warn(row, code, detail)
        return EMPTY_UPDATE if person is not None and person.note is None else ""

    def observe_remaining(self, unobserved: int, row: int, event: UnvalidatedEvent) -> None:
        """Observe what an observer leaves to its caller: a sum of OVERWRITES and GROUPS."""
        if unobserved & OVERWRITES:
            self.warn(row, *OVERWRITES_PERSON)
        if unobserved & GROUPS:
            self.events.named.append((len(self.events.row_of) - 1, event.properties.get("$groups")))

    def reject_event(self, row: int, rejected: RowRejected, item: int = 0) -> None:
        event = rejected.event
        if event is not None and event.event and type(event.time) is int:
            self.events.cells[event.event, event.time // DAY, rejected.reason.code] += 1
        stage = "map" if event is None else "validate"
        self.reject(row, stage, rejected.reason.code, rejected.reason.detail, item)

    def reject(self, row: int, stage: str, code: str, detail: str, item: int = 0) -> None:
        """Record a reject: of a row, which then counts as rejected, or of one item of a row, which does not."""
        rows, events = self.rows, self.events
        events.rejected += not item
        events.rejects.append(Reject(self.part, row + 1, rows.offset(row), stage, code, detail, rows.text(row), item))

    def count(self, counter: Counter[Any], key: Any) -> None:
        """Count one. Inside a row of several events, remember it, so that it can be undone if the row is rejected."""
        counter[key] += 1
        if self.journal is not None:
            self.journal.append((counter, key))

    def warn(self, row: int, code: str, detail: str) -> None:
        self.count(self.events.warnings, code)
        if code not in self.events.examples:
            self.events.examples[code] = (row, self.rows.offset(row), detail)

    def skip(self, row: int, skip: Skip) -> str:
        """The code of a skip. A skip with a detail is also counted as a warning."""
        if skip.detail:
            self.warn(row, skip.code, skip.detail)
        return skip.code

    def finish(self) -> None:
        events, buffer = self.events, self.buffer
        events.content = self.content_of
        buffer.close_run()
        events.count, events.digest, events.hashes = buffer.count, buffer.seal, buffer.hashes
        events.runs, events.sizes, events.uuids = buffer.runs, buffer.sizes, buffer.uuids
        events.keyless = frozenset(self.keyless)
        events.positions = [0] * events.count
        for index, position in self.positions.items():
            events.positions[index] = position
        for row, code, detail in self.rows.warnings:
            if row < events.rows:
                self.warn(row, code, detail)
        events.take_columns(self.observer.columns())
