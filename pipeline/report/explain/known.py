"""What a plan and its ledger have of events and their requests, of merges, groups and profiles, and of people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec import Raw

from pipeline.encoder.updates import SealedGroup, SealedLink
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database, file_at
from pipeline.ledger import read_batches, read_events_sent, was_ever_applied
from pipeline.plan.requests.query import add_ledger
from pipeline.plan.requests.store import PackedRequest, read_requests
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, sealed_file
from pipeline.plan.sealed.freshness import read_ids
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.sealed.phases import line_decoder
from pipeline.report.explain.result import Copy, InRequest, Person, Update
from pipeline.report.pairs import PairRow
from pipeline.report.rejects import refusing
from pipeline.timestamps import format_utc
from pipeline.uuids import uuid_text

MOST_IDS = 100
MOST_ROWS = 10
"""Rows of an id that are listed."""
STATES = {"": "not sent", "begun": "in doubt", "settled": "accepted", "refused": "refused", "waiting": "waiting"}
"""What the states of the ledger mean for an event."""
SENT_FIRST = "code NULLS FIRST, ordinal, part, row, position"
_JOINED = ("merge", "first_user")
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
ORDER BY decision IN ('merge', 'first_user') DESC, decision, reason, anonymous_id, user_id LIMIT $3
"""


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
    def key(self) -> tuple[int, int]:
        return self.key_hi, self.key_lo

    @property
    def uuid(self) -> str:
        return uuid_text(self.hi, self.lo)


class Known:
    """`of` has the ledger: the plan, or its rehearsal until the plan was applied. `stage` is `send` or `rehearse`, ""
    without a ledger."""

    def __init__(self, plan: Plan, directory: Directory, database: Database) -> None:
        self.plan, self.directory, self.database = plan, directory, database
        self.of, stage = refusing(directory)
        self.stage = stage if was_ever_applied(self.of.ledger) else ""

    def facts(self, ones: Sequence[object], others: Sequence[object], by: str, order: str, most: int) -> list[Fact]:
        """The events in whose two columns `by` are one of `ones` and the other of the same place: of each such two, at
        most this many, the first in this order."""
        one, other = by.split(", ")
        columns = ", ".join(Fact._fields[:-1])
        query = _FACTS.format(columns=columns, by=by, one=one, other=other, order=order, most=most)
        return [Fact(*row) for row in self.database.rows(query, ones, others)] if ones else []

    def copy(self, fact: Fact) -> Copy:
        return Copy(self.plan.parts[fact.part].path, fact.row, fact.uuid, fact.code or "")

    def sent(self, events: Sequence[tuple[PackedRequest, int]]) -> Iterator[InRequest]:
        """The state of some events, each a request and the place in it."""
        keys = ((request.phase, request.number, place) for request, place in events)
        for (one, place), record in zip(events, read_events_sent(self.of.ledger, keys), strict=True):
            yield InRequest(
                one.phase, one.number, place, one.events, one.canary, STATES[record.state], record.status,
                record.detail, record.tries, record.ended or record.begun,
            )  # fmt: skip

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
        person = msgspec.structs.replace(self.person(id_), excluded=excluded)
        batches = ((key, state) for state in STATES if state for key in read_batches(self.of.ledger, state))
        add_ledger(self.database, batches)
        counts = self.database.rows(_BY_STATE, hash_id(id_), id_)
        if not counts:
            return person if person.pairs or person.updates or excluded else None
        rows = self.facts([hash_id(id_)], [id_], "person, distinct_id", "time, part, row", MOST_ROWS)
        return msgspec.structs.replace(
            person,
            events={STATES[state]: count for state, code, count, *_ in counts if code is None},
            left_out={code: count for _, code, count, *_ in counts if code is not None},
            first=format_utc(min(first for *_, first, _ in counts)),
            last=format_utc(max(last for *_, last in counts)),
            rows=[
                *map(self.copy, self.facts([hash_id(id_)], [id_], "person, distinct_id", "time, part, row", MOST_ROWS))
            ],
        )
