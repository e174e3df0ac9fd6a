"""One walk over the rows of a block: mapped, checked, encoded, counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from pipeline.encoder.buffer import MICROSECONDS, MILLISECONDS, RUN_BYTES, SECONDS, EventBuffer
from pipeline.encoder.event import Encoder
from pipeline.extractors.rows import Rows
from pipeline.identity.aggregator import IdentityAggregator
from pipeline.models import BrokenRow, GroupUpdate, Link, PersonUpdate, Reject, RejectReason, Skip, UnvalidatedEvent
from pipeline.native import AVAILABLE, native
from pipeline.timestamps import DAY
from pipeline.transform.events import Events, Mapper
from pipeline.transform.field_names import Looking
from pipeline.transform.observer import GROUPS, NOTE, OVERWRITES, observer
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

    def __init__(self, reason: RejectReason, draft: UnvalidatedEvent | None) -> None:
        self.reason = reason
        self.draft = draft


class RowTransformer:
    """One walk over one block. `run` is the hottest loop there is: what could be a call in it is written out."""

    def __init__(
        self,
        rows: Rows,
        part: str,
        first_row: int,
        mapper: Mapper,
        encoder: Encoder,
        rules: ValidationContext,
        observe: bool,
        aggregator: IdentityAggregator | None,
        looking: Looking | None,
    ) -> None:
        self.rows = rows
        self.looking = looking
        self.part = part
        self.first_row = first_row
        self.mapper = mapper
        self.encoder = encoder
        self.rules = rules
        self.observe = observe
        self.aggregator = aggregator if observe else None
        self.made = Events()
        self.texts = EventBuffer(mapper.hasher, digest_each=observe)
        self.keyless: set[int] = set()
        self.nth: dict[int, int] = {}
        self.journal: list[tuple[Counter[Any], Any]] | None = None
        self.observed: Any = observer(self.made, self.aggregator)

    def run(self, limit: int | None) -> Events:
        made, rules, observe, texts, encoder = self.made, self.rules, self.observe, self.texts, self.encoder
        mapper = self.mapper
        map_row: Any = mapper.map_row
        map_members: Any = mapper.map_members
        write_usual: Any = encoder.write_usual
        write_members: Any = encoder.write_members
        row_of = made.row_of
        observed = self.observed
        # What the texts hold open: mind that closing a run gives them another buffer.
        text, ends, text_times, keys = texts.open, texts.ends, texts.times, texts.keys
        usual = None if rules.leave_out else fast_test()
        newest = min(rules.newest, rules.as_of)
        small = rules.surely_small - _TAIL_ROOM
        heads: dict[str | None, bytes] = {}
        time: Any
        look = self.looking.begin(self.rows.columns) if self.looking is not None else None
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
            draft = map_members(record, observe) if record.__class__ is Members else map_row(record, observe)
            if (
                draft.__class__ is UnvalidatedEvent
                and usual
                and not draft.warnings
                and (head := heads.get(draft.event))
            ):
                # Plainly good in every respect, or else the slow way below decides.
                time, distinct_id, key, properties = draft.time, draft.distinct_id, draft.key, draft.properties
                if (key is not None or draft.uuid is not None) and usual(time, distinct_id, newest):
                    ending = SECONDS if not time % 1_000_000 else MICROSECONDS if time % 1_000 else MILLISECONDS
                    write = write_members if properties.__class__ is Members else write_usual
                    if write(text, head, distinct_id, properties, ending, small):
                        if draft.uuid is not None:
                            texts.own[len(ends)] = draft.uuid
                            key = ""
                        ends.append(len(text))
                        keys.append(key)  # type: ignore[arg-type]
                        text_times.append(time)
                        row_of.append(row)
                        mapped += 1
                        if observe:
                            left = observed(row, draft, time, distinct_id, properties)
                            if left:
                                self.observe_left(left, row, draft)
                        if len(text) > RUN_BYTES:
                            texts.close_run()
                            text = texts.open
                        continue
            try:
                if draft.__class__ is UnvalidatedEvent:
                    code = self.add(row, 0, draft)
                    if code:
                        made.skips[code] += 1
                    else:
                        mapped += 1
                        heads[draft.event] = encoder.head(draft.event)  # type: ignore[arg-type]
                        self.hear(row, draft)
                elif draft.__class__ is Skip:
                    self.skip(row, draft)
                    made.skips[draft.code] += 1
                else:
                    mapped += self.several(row, draft if isinstance(draft, list) else [draft])
            except RowRejected as rejected:
                self.reject_event(row, rejected)
            if len(text) > RUN_BYTES:
                texts.close_run()
                text = texts.open
        made.rows = row + 1
        made.good_rows = made.rows - broken
        if self.looking is not None:
            made.found = self.looking.end(made.good_rows)
        made.mapped = mapped
        self.finish()
        return made

    def add(self, row: int, nth: int, draft: UnvalidatedEvent) -> str:
        """Encode one event; a skip's code if it stays out, "" if it is kept."""
        made, rules, texts = self.made, self.rules, self.texts
        properties: Any = draft.properties
        if properties.__class__ is Members:
            draft.properties = properties.as_dict()
        code = skip_code(draft.time, (draft.distinct_id,), rules)
        if code:
            if type(draft.time) is int and draft.event:
                self.count(made.cells, (draft.event, draft.time // DAY, code))
            return code
        reason = check(draft, rules)
        if reason is not None:
            raise RowRejected(reason, draft)
        time: int = draft.time  # type: ignore[assignment]
        key = draft.key
        index = len(made.row_of)
        content = self.rows.canonical(row) if key is None and draft.uuid is None else b""
        text = texts.open
        start = len(text)
        overwritten = self.encoder.write(draft, text)
        text += SECONDS if not time % 1_000_000 else MICROSECONDS if time % 1_000 else MILLISECONDS
        reason = event_too_large(bytes(text[start:-1]), rules)
        if reason is not None:
            del text[start:]
            raise RowRejected(reason, draft)
        if draft.uuid is not None:
            texts.own[len(texts.ends)] = draft.uuid
            key = ""
        elif key is None:
            self.keyless.add(index)
            key = content_key(content, 0, nth)
        elif nth:
            key = f"{key}{SEPARATOR}{nth}"
        texts.ends.append(len(text))
        texts.keys.append(key)
        texts.times.append(time)
        for code, detail in draft.warnings:
            self.warn(row, code, detail)
        for name in overwritten:
            self.warn(row, "replaced_property", f"{name!r} of the row was overwritten by an import property")
        if nth:
            self.nth[index] = nth
        made.row_of.append(row)
        if self.observe:
            if "$set" in draft.properties:
                self.warn(row, *OVERWRITES_PERSON)
            for code, detail in warnings(draft, rules):
                self.warn(row, code, detail)
            self.observed.add(draft.event, time, draft.received, draft.wall)
        return ""

    def several(self, row: int, outcomes: list[Any]) -> int:
        """A row of many events, updates, links and skips: all of it or nothing. 1 if the row counts as mapped."""
        made, texts = self.made, self.texts
        events = len(made.row_of)
        walls = self.observed.walls
        keeping: list[UnvalidatedEvent | Link | PersonUpdate | GroupUpdate] = []
        held = len(texts.ends)
        journal: list[tuple[Counter[Any], Any]] = []
        self.journal = journal
        first_skip = ""
        try:
            for nth, outcome in enumerate(outcomes):
                if type(outcome) is UnvalidatedEvent:
                    code = self.add(row, nth, outcome)
                elif type(outcome) is Link:
                    code = skip_code(outcome.time, (outcome.distinct_id, outcome.other), self.rules)
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
            for index in range(events, len(made.row_of)):
                self.keyless.discard(index)
                self.nth.pop(index, None)
            texts.cut_back(held)
            del made.row_of[events:]
            if self.observe:
                self.observed.cut(events, walls)
            for counter, key in journal:
                counter[key] -= 1
            raise
        finally:
            self.journal = None
        for outcome in keeping:
            self.hear(row, outcome)
        if keeping:
            return 1
        made.skips[first_skip or "empty_row"] += 1
        return 0

    def update(self, row: int, update: PersonUpdate | GroupUpdate) -> str:
        """Keep what a row says and nothing else; a skip's code if it stays out, "" if it is kept."""
        person = update if type(update) is PersonUpdate else None
        code = skip_code(update.time, (person.distinct_id if person is not None else None,), self.rules)
        if code:
            return code
        reason = check_update(update, self.rules)
        if reason is not None:
            raise RowRejected(
                reason, None if person is None else UnvalidatedEvent(None, person.distinct_id, update.time, {})
            )
        for code, detail in update.warnings:
            self.warn(row, code, detail)
        return NO_NOTE if person is not None and person.note is None else ""

    def hear(self, row: int, outcome: UnvalidatedEvent | Link | PersonUpdate | GroupUpdate) -> None:
        """Hand over what a row that is kept says beside its events."""
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

    def observe_left(self, left: int, row: int, draft: UnvalidatedEvent) -> None:
        """What an observer leaves to do."""
        if left & OVERWRITES:
            self.warn(row, *OVERWRITES_PERSON)
        if self.aggregator is None:
            return
        time: int = draft.time  # type: ignore[assignment]
        if left & GROUPS:
            self.aggregator.add_groups(draft.properties.get("$groups"), time)
        if left & NOTE:
            self.aggregator.add_note(row, draft.distinct_id, time, draft.received, draft.note)  # type: ignore[arg-type]

    def reject_event(self, row: int, rejected: RowRejected) -> None:
        draft = rejected.draft
        if draft is not None and draft.event and type(draft.time) is int:
            self.made.cells[draft.event, draft.time // DAY, rejected.reason.code] += 1
        stage = "map" if draft is None else "validate"
        self.reject(row, stage, rejected.reason.code, rejected.reason.detail)

    def reject(self, row: int, stage: str, code: str, detail: str) -> None:
        rows = self.rows
        self.made.rejects.append(
            Reject(self.part, self.first_row + row, rows.offset(row), stage, code, detail, rows.text(row))
        )

    def count(self, counter: Counter[Any], key: Any) -> None:
        """Count one; inside a row of several events, so that it can be taken back if the row falls."""
        counter[key] += 1
        if self.journal is not None:
            self.journal.append((counter, key))

    def warn(self, row: int, code: str, detail: str) -> None:
        self.count(self.made.warnings, code)
        if code not in self.made.examples:
            self.made.examples[code] = (row, self.rows.offset(row), detail)

    def skip(self, row: int, skip: Skip) -> str:
        """The code of a skip, which is told as a warning where there is something to tell."""
        if skip.detail:
            self.warn(row, skip.code, skip.detail)
        return skip.code

    def finish(self) -> None:
        made, texts = self.made, self.texts
        texts.close_run()
        made.count, made.digest, made.digests = texts.count, texts.seal, texts.digests
        made.runs, made.sizes, made.uuids = texts.runs, texts.sizes, texts.uuids
        made.keyless = frozenset(self.keyless)
        made.nth = [0] * made.count
        for index, nth in self.nth.items():
            made.nth[index] = nth
        if not self.observe:
            return
        for row, code, detail in self.rows.warnings:
            if row < made.rows:
                self.warn(row, code, detail)
        names = {name: number for number, name in enumerate(dict.fromkeys(made.names))}
        made.distinct_names = list(names)
        made.name_of = np.fromiter(map(names.__getitem__, made.names), np.uint32, made.count)
        made.times, made.received, made.walls, made.walls_received = (
            np.frombuffer(column, np.int64) for column in self.observed.columns()
        )
        days = made.times // DAY
        cells, counts = np.unique(days * len(names) + made.name_of, return_counts=True)
        for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
            day, name = divmod(cell, len(names))
            made.cells[made.distinct_names[name], day, "mapped"] += count


def make_events(
    rows: Rows,
    mapper: Mapper,
    encoder: Encoder,
    rules: ValidationContext,
    *,
    part: str = "",
    first_row: int = 1,
    limit: int | None = None,
    observe: bool = True,
    aggregator: IdentityAggregator | None = None,
    looking: Looking | None = None,
) -> Events:
    """Map, check and encode the rows of one block.

    `first_row` is the number of the block's first row in its part, from 1. `limit` reads only so many rows.
    `observe` also takes the notes that a plan needs and a sender does not; the events are the same. `aggregator` then
    hears what the rows say beside their events, and `looking` looks at the names that they have.
    Every row ends in exactly one of mapped, skipped and rejected (docs/know/promises.md#balance).
    """
    return RowTransformer(rows, part, first_row, mapper, encoder, rules, observe, aggregator, looking).run(limit)
