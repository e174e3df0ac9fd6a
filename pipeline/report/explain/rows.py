"""What a plan and its ledger have of rows, events and their requests, of merges, groups and profiles, and of people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import asdict, replace

from pipeline import storage
from pipeline.encoder.encoded import decode_event
from pipeline.encoder.updates import SealedGroup, SealedLink
from pipeline.errors import UnreadableExport
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database, file_at
from pipeline.ledger import read_batches, read_events_sent, was_ever_applied
from pipeline.mapper.inspection.origins import BACKCAST
from pipeline.mask import IDS, MASK, SHOWN, masked
from pipeline.models import Part, Reject
from pipeline.option_types import MARKS
from pipeline.plan.requests.query import add_ledger
from pipeline.plan.requests.store import PackedRequest, read_events, read_requests
from pipeline.plan.samples.examples import shown_value
from pipeline.plan.samples.source_pairs import MOST_FIELDS, SentProperty, Shown, SourcePair
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, read_lines, sealed_file
from pipeline.plan.sealed.freshness import read_ids
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.sealed.phases import line_decoder
from pipeline.report.explain.result import Copy, ExplainedEvent, ExplainedRow, InRequest, Person, Update
from pipeline.report.pairs import PairRow
from pipeline.report.rejects import refusing
from pipeline.text import quoted
from pipeline.timestamps import format_utc
from pipeline.uuids import uuid_text

MOST_IDS = 100
MOST_ROWS = 10
"""Rows of an id that are listed."""
MOST_EVENTS = 50
"""Events of a row that are shown; a row of lists may make thousands."""
MOST_COPIES = 20
MOST_PERSONS = 3
"""People of the events of one row whose ids are shown."""
STATES = {"": "not sent", "begun": "in doubt", "settled": "accepted", "refused": "refused", "waiting": "waiting"}
"""What the states of the ledger mean for an event."""
SENT_FIRST = "code NULLS FIRST, ordinal, part, row, position"
_JOINED = ("merge", "first_user", "last_user")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_FACTS = """
SELECT {columns}, count(*) OVER (PARTITION BY {by}) AS alike
FROM (SELECT * REPLACE (coalesce(key_hi, hi) AS key_hi, coalesce(key_lo, lo) AS key_lo) FROM facts)
SEMI JOIN (SELECT unnest($1) AS {one}, unnest($2) AS {other}) USING ({by})
QUALIFY row_number() OVER (PARTITION BY {by} ORDER BY {order}) <= {most} ORDER BY {order}
"""
_BY_STATE = """
SELECT coalesce(state, ''), code, count(*), min(time), max(time)
FROM (FROM facts WHERE person = $1 AND distinct_id = $2) AS own LEFT JOIN ledger
ON phase = 'events' AND own.code IS NULL AND own.number = ledger.number AND own.place BETWEEN first AND last
GROUP BY state, code ORDER BY ALL
"""
_PAIRS = """
SELECT decision, reason, anonymous_id, user_id, events, "where", epoch_us(first_seen), epoch_us(last_seen)
FROM read_parquet({file}) WHERE list_contains($1, anonymous_id) OR list_contains($1, user_id)
    OR list_contains($2, "where")
ORDER BY decision IN ('merge', 'first_user', 'last_user') DESC, decision, reason, anonymous_id, user_id LIMIT $3
"""
_OF_PART = """
SELECT count(*) FILTER (sent), count(*) FILTER (NOT sent) FROM (
    SELECT row, bool_or(code IS NULL) AS sent FROM facts WHERE part = $1 GROUP BY row)
"""
_LEFT_OUT = """
SELECT code, count(*) FROM (
    SELECT min(code) AS code FROM facts GROUP BY part, row HAVING bool_and(code IS NOT NULL)
) GROUP BY code
"""
T = TypeVar("T")
K = TypeVar("K")


class RowPlace(NamedTuple):
    """The number of a file of the export, and of a row in it, from 1."""

    part: int
    row: int


class Fact(NamedTuple):
    """An event of the plan. `key_hi` and `key_lo` are the uuid before it was changed, `alike` counts the events that
    were looked for in the same way."""

    part: int
    row: int
    position: int
    number: int | None
    place: int
    name: str
    distinct_id: str
    time: int
    hi: int
    lo: int
    code: str | None
    key_hi: int
    key_lo: int
    alike: int

    @property
    def at(self) -> RowPlace:
        return RowPlace(self.part, self.row)

    @property
    def key(self) -> tuple[int, int]:
        return self.key_hi, self.key_lo

    @property
    def uuid(self) -> str:
        return uuid_text(self.hi, self.lo)


class Known:
    """`of` has the ledger: the plan, or its rehearsal until the plan was applied. `stage` is `send` or `rehearse`, ""
    without a ledger. `sampled` are the rows of which the plan has the fields and rules, with their events."""

    def __init__(self, plan: Plan, directory: Directory, database: Database) -> None:
        self.plan, self.directory, self.database = plan, directory, database
        self.of, stage = refusing(directory)
        self.stage = stage if was_ever_applied(self.of.ledger) else ""
        index = {part.path: number for number, part in enumerate(plan.parts)}
        pairs = read_lines(directory.source_pairs, SourcePair) if directory.source_pairs.exists() else ()
        self.sampled = _grouped((RowPlace(index[pair.file], pair.row), pair) for pair in pairs)

    def facts(self, ones: Sequence[object], others: Sequence[object], by: str, order: str, most: int) -> list[Fact]:
        """The events in whose two columns `by` are one of `ones` and the other of the same place: of each such two, at
        most this many, the first in this order."""
        one, other = by.split(", ")
        columns = ", ".join(Fact._fields[:-1])
        query = _FACTS.format(columns=columns, by=by, one=one, other=other, order=order, most=most)
        return [Fact(*row) for row in self.database.rows(query, ones, others)] if ones else []

    def with_uuid(self, uuid: str) -> list[RowPlace]:
        """The row of the event with this uuid: of several, the one that is sent."""
        digits = uuid.replace("-", "")
        found = self.facts([int(digits[:16], 16)], [int(digits[16:], 16)], "hi, lo", SENT_FIRST, 1)
        return [one.at for one in found]

    def copy(self, fact: Fact) -> Copy:
        return Copy(self.plan.parts[fact.part].path, fact.row, fact.uuid, fact.code or "")

    def sent(self, events: Sequence[tuple[PackedRequest, int]]) -> Iterator[InRequest]:
        """The state of some events, each a request and the place in it."""
        keys = ((request.phase, request.number, place) for request, place in events)
        for (one, place), record in zip(events, read_events_sent(self.of.ledger, keys), strict=True):
            own = asdict(record) | {"state": STATES[record.state]}
            yield InRequest(
                **own, phase=one.phase, request=one.number, place=place, events=one.events, canary=one.canary
            )

    def updates(self, named: Iterable[str]) -> list[Update]:
        """The merges, groups and profiles with one of these uuids or ids, the first MOST_IDS of each phase."""
        texts, found = set(named), list[Update]()
        wanted = {msgspec.json.encode(text) for text in texts}
        for phase in PHASES:
            if phase == EVENTS or not (path := sealed_file(phase, self.directory)).exists():
                continue
            with path.open("rb") as lines:
                places = (
                    (request, place, line)
                    for request in read_requests(self.directory, phase)
                    for place, line in enumerate(islice(lines, request.events))
                    if not wanted.isdisjoint(_STRING.findall(line))
                )
                of_phase = (self._update(path.name, *place) for place in places)
                about = (one for one in of_phase if not texts.isdisjoint((one.uuid, one.distinct_id, one.other)))
                found += islice(about, MOST_IDS)
        return found

    def _update(self, file: str, request: PackedRequest, place: int, line: bytes) -> Update:
        record = line_decoder(request.phase)(line)
        other, names = "", list[str]()
        if isinstance(record, SealedLink):
            id_, other = record.distinct_id, record.other
        elif isinstance(record, SealedGroup):
            id_, names = f"{record.type} {record.key}", list(msgspec.json.decode(record.set))
        else:
            id_ = record.distinct_id
            written = (record.set, record.set_once, record.unset if isinstance(record.unset, Raw) else b"[]")
            names = [name for one in written for name in msgspec.json.decode(one)]
        number, (state,) = request.first + place + 1, self.sent([(request, place)])
        return Update(request.phase, file, number, record.uuid, id_, other, format_utc(record.time), names, state)

    def pairs(self, ids: Sequence[str] = (), places: Sequence[str] = ()) -> list[PairRow]:
        """The pairs with any of these ids, or that any of these places, each `FILE:ROW`, is the first to have."""
        if not self.directory.pairs.exists():
            return []
        query, most = _PAIRS.format(file=file_at(self.directory.pairs)), MOST_IDS * max(1, len(places))
        rows = self.database.rows(query, ids, places, most)
        return [PairRow(*row[:6], *(None if time is None else format_utc(time) for time in row[6:])) for row in rows]

    def person(self, id_: str) -> Person:
        """The ids that are one person with this one, the pairs that have any of them, and what is sent of them."""
        ids, pairs, before = {id_: None}, list[PairRow](), 0
        while before < len(ids) < MOST_IDS:
            before = len(ids)
            pairs = self.pairs([*ids])
            joined = (pair for pair in pairs if pair.decision in _JOINED)
            ids |= dict.fromkeys(one for pair in joined for one in (pair.anonymous_id, pair.user_id))
        return Person([*ids], pairs, self.updates(ids))

    def person_with_events(self, id_: str) -> Person | None:
        """The same with what became of the events of this id; None if the plan has nothing of it."""
        excluded = self.directory.excluded.exists() and id_ in read_ids(self.directory.excluded)
        person = replace(self.person(id_), excluded=excluded)
        batches = ((key, state) for state in STATES if state for key in read_batches(self.of.ledger, state))
        add_ledger(self.database, batches)
        counts = self.database.rows(_BY_STATE, hash_id(id_), id_)
        if not counts:
            return person if person.pairs or person.updates or excluded else None
        rows = self.facts([hash_id(id_)], [id_], "person, distinct_id", "time, part, row", MOST_ROWS)
        return replace(
            person,
            events={STATES[state]: count for state, code, count, *_ in counts if code is None},
            left_out={code: count for _, code, count, *_ in counts if code is not None},
            first=format_utc(min(first for *_, first, _ in counts)),
            last=format_utc(max(last for *_, last in counts)),
            rows=[*map(self.copy, rows)],
        )


class Rows:
    """Some rows, explained. What is known of all of them is read once."""

    def __init__(self, known: Known, shown: Shown, places: Sequence[RowPlace]) -> None:
        self._known, self._shown, self._places = known, shown, places
        columns = [place.part for place in places], [place.row for place in places]
        facts = known.facts(*columns, "part, row", "part, row, position", MOST_EVENTS)
        self._facts = _grouped((one.at, one) for one in facts)
        columns = [one.key_hi for one in facts], [one.key_lo for one in facts]
        copies = known.facts(*columns, "key_hi, key_lo", SENT_FIRST, MOST_COPIES)
        self._copies = _grouped((one.key, one) for one in copies)
        self._sent: dict[tuple[int, ...], tuple[InRequest, bytes]] = {}
        by_request = _grouped((one.number, one) for one in facts if one.number is not None)
        for request, events in read_events(known.directory, EVENTS, by_request):
            own = by_request[request.number]
            states = known.sent([(request, one.place) for one in own])
            self._sent |= {one[:3]: (state, events[one.place]) for one, state in zip(own, states, strict=True)}
        self._differences = self._read_differences({one.uuid for one in facts})
        self._rejects = _grouped(self._read_rejects())
        self._pairs = _grouped((pair.where, pair) for pair in known.pairs(places=[*map(self._name, places)]))

    def persons(self) -> Iterator[Person]:
        """The people of the events, and of the pairs of ids that the rows are the first to have."""
        ids = [one.distinct_id for own in self._facts.values() for one in own]
        ids += [one.user_id for own in self._pairs.values() for one in own]
        found: list[Person] = []
        for id_ in dict.fromkeys(ids):
            if len(found) < MOST_PERSONS and not any(id_ in person.ids for person in found):
                found.append(self._known.person(id_))
        return (one for one in found if one.pairs or one.updates)

    def __iter__(self) -> Iterator[ExplainedRow]:
        for place in self._places:
            facts, pairs = self._facts.get(place, []), self._pairs.get(self._name(place), [])
            events, rejects = [*map(self._event, facts)], self._rejects.get(place, [])
            outcome, codes = "rejected" if rejects else "update", dict[str, int]()
            if events:
                outcome = "left out" if all(event.code for event in events) else "planned"
            elif not rejects and not pairs:
                outcome, codes = self._without_event(place)
            names = {event.event for event in events} if place not in self._known.sampled else set()
            others = (one for own in self._known.sampled.values() for one in own if one.event in names)
            yield ExplainedRow(
                self._known.plan.parts[place.part].path, place.row, outcome, codes, place in self._known.sampled,
                next((f"{one.file}:{one.row}" for one in others), ""), events,
                facts[0].alike - len(facts) if facts else 0, rejects, pairs, self._look(place),
            )  # fmt: skip

    def _name(self, place: RowPlace) -> str:
        return f"{self._known.plan.parts[place.part].path}:{place.row}"

    def _without_event(self, place: RowPlace) -> tuple[str, dict[str, int]]:
        """What became of a row without an event, and the codes of which it has one if it is skipped.

        A plan counts skipped rows by file and code and names none, so this is known only if all rows of the file that
        have no event became the same.
        """
        plan, database = self._known.plan, self._known.database
        seal, ((sent, left_out),) = plan.parts[place.part], database.rows(_OF_PART, place.part)
        if seal.skipped == left_out:
            return "update", {}
        counted = dict(database.rows(_LEFT_OUT))
        codes = {code: count for code, count in plan.skips.items() if count > counted.get(code, 0)}
        return ("skipped" if seal.mapped == sent else "no event"), codes

    def _look(self, place: RowPlace) -> str:
        """A command that prints a row of JSON lines, or the row of a workbook's sheet, if the file is here."""
        part = self._known.plan.parts[place.part]
        if part.member or not Path(part.file).exists():
            return ""
        if part.format == "excel" and place not in self._rejects:
            return _row_of_sheet(part.part(place.part), place.row)
        if part.format != "jsonl" or part.codecs not in ((), ("gzip",)):
            return ""
        rows = f"grep -a '[^[:space:]]' | sed -n {place.row}p"  # blank lines are not rows
        return f"{'gzip -dc' if part.codecs else 'cat'} {quoted(part.file)} | {rows}"

    def _event(self, fact: Fact) -> ExplainedEvent:
        code, copies = fact.code or "", self._copies[fact.key]
        others = [self._known.copy(one) for one in copies if one[:3] != fact[:3]]
        request, encoded = self._sent.get(fact[:3], (None, None))
        own = self._known.copy(fact)
        example = self._known.plan.examples.get(code)
        here = example is not None and (example.part, example.row) == (own.file, own.row)
        pair, shown_id = self._pair(fact, own.file), fact.distinct_id if self._shown.ids else MASK
        given = {"distinct_id": shown_id, "uuid": own.uuid}
        properties = [] if encoded is None else self._properties(encoded, pair)
        pair = replace(
            pair, members=[replace(one, value=given.get(one.name, one.value)) for one in pair.members],
            properties=properties[:MOST_FIELDS], more_properties=max(0, len(properties) - MOST_FIELDS),
        )  # fmt: skip
        return ExplainedEvent(
            **asdict(pair), position=fact.position, distinct_id=shown_id, timestamp=format_utc(fact.time),
            uuid=own.uuid, code=code, detail=example.detail if here and example else "", request=request,
            copies=others, more_copies=copies[0].alike - 1 - len(others),
            difference=self._differences.get(own.uuid, ""),
            sent=Raw(encoded) if encoded is not None and all(self._shown) else UNSET,
        )  # fmt: skip

    def _pair(self, fact: Fact, file: str) -> SourcePair:
        """The event in the sample of the plan, or one without fields and rules."""
        uuid = uuid_text(*fact.key)
        for pair in self._known.sampled.get(fact.at, ()):
            if any(member.value == uuid for member in pair.members):
                return pair
        return SourcePair(fact.name, int(format_utc(fact.time)[:4]), file, fact.row, "", [], 0, [], [], 0)

    def _properties(self, encoded: bytes, pair: SourcePair) -> list[SentProperty]:
        """The properties as they are sent, with the rules that the pair has."""
        event, known = decode_event(encoded), {one.name: one for one in pair.properties}
        for mark in map(MARKS.__getitem__, self._known.plan.options.marks):
            known[mark] = SentProperty(mark, "", [], BACKCAST, 0)
        return [
            replace(known.get(name, SentProperty(name, "", [], "", 0)), value=shown_value(event, name, self._shown))
            for name in event.properties
            if name != "distinct_id"
        ]

    def _read_rejects(self) -> Iterator[tuple[RowPlace, Reject]]:
        """The rejects of the rows, masked unless both values and ids are shown. They are in the order of the export, so
        reading ends behind the last of the rows."""
        plan, known = self._known.plan, SHOWN if self._shown.ids else SHOWN - IDS
        index = {part.path: number for number, part in enumerate(plan.parts)}
        wanted = set(self._places)
        last = max(wanted, default=RowPlace(-1, 0))
        for one in read_lines(self._known.directory.rejects, Reject):
            place = RowPlace(index.get(one.part, -1), one.row)
            if place > last:
                return
            if place in wanted:
                text = one.record if all(self._shown) else masked(one.record, plan.parts[place.part].dialect, known)
                yield place, replace(one, record=text)

    def _read_differences(self, uuids: set[str]) -> dict[str, str]:
        """What the last verification found of these events."""
        path = self._known.of.differences
        found = (one for one in read_lines(path, dict[str, Any]) if one.get("uuid") in uuids) if path.exists() else ()
        return {one["uuid"]: ", ".join([one["kind"], *one.get("changed", ())]) for one in found}


def _row_of_sheet(part: Part, row: int) -> str:
    """The row that a sheet shows, "" if the workbook has changed since."""
    from pipeline.extractors.excel_reader import row_of_sheet

    with suppress(OSError, UnreadableExport):
        if storage.status(part.file) == part.status:
            return f"row {row_of_sheet(part, row):,} of the sheet {part.dialect.sheet!r}"
    return ""


def _grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """The second of each pair by the first, in their order."""
    found: dict[K, list[T]] = {}
    for key, one in pairs:
        found.setdefault(key, []).append(one)
    return found
