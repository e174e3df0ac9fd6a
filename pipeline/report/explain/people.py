"""The ids that are one person after all merges of a plan, and the requests that carry merges, groups and profiles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat
from pathlib import Path

import msgspec
from msgspec import Raw

from pipeline.encoder.updates import SealedGroup, SealedLink
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database, file_at
from pipeline.ledger import EventRecord, read_batches, read_events_sent
from pipeline.plan.requests.query import add_ledger
from pipeline.plan.requests.store import read_requests
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, sealed_file
from pipeline.plan.sealed.freshness import read_ids
from pipeline.plan.sealed.phases import line_decoder
from pipeline.report.explain.names import ask
from pipeline.report.explain.result import Copy, InRequest, Person, Update
from pipeline.report.pairs import PairRow
from pipeline.timestamps import format_utc
from pipeline.uuids import uuid_text

MOST_IDS = 100
MOST_ROWS = 10
"""Rows of an id that are listed."""
STATES = {"": "not sent", "begun": "in doubt", "settled": "accepted", "refused": "refused", "waiting": "waiting"}
"""What the states of the ledger mean for an event."""
_JOINED = ("merge", "first_user")
_ID = re.compile(rb'"(?:distinct_id|other)":("(?:[^"\\]|\\.)*")')
_ASKED = "(SELECT id FROM asked)"
_PAIRS = """
SELECT decision, reason, anonymous_id, user_id, events, "where", epoch_us(first_seen), epoch_us(last_seen)
FROM read_parquet({file}) WHERE {those}
ORDER BY decision IN ('merge', 'first_user') DESC, decision, reason, anonymous_id, user_id LIMIT {most}
"""
_OF_ID = "FROM facts WHERE person = {person} AND distinct_id IN (SELECT id FROM asked)"
_BY_STATE = """
SELECT coalesce(state, ''), count(*) FROM (SELECT number, place {of_id} AND code IS NULL) AS own
LEFT JOIN ledger ON phase = 'events' AND own.number = ledger.number AND own.place BETWEEN first AND last
GROUP BY state ORDER BY ALL
"""


class People:
    """`ledger` is None if nothing was sent."""

    def __init__(self, directory: Directory, database: Database, paths: list[str], ledger: Path | None) -> None:
        self._directory, self._database, self._paths, self._ledger = directory, database, paths, ledger

    def of_id(self, id_: str) -> Person | None:
        """What the plan has of an id, with its events, None for nothing."""
        person, of_id = self.person(id_), _OF_ID.format(person=hash_id(id_))
        excluded = self._directory.excluded.exists() and id_ in read_ids(self._directory.excluded)
        ask(self._database, [id_])
        ((events, first, last),) = self._database.rows(f"SELECT count(*), min(time), max(time) {of_id}")
        if not events:
            known = person.pairs or person.updates or excluded
            return msgspec.structs.replace(person, excluded=excluded) if known else None
        left_out = self._database.rows(f"SELECT code, count(*) {of_id} AND code IS NOT NULL GROUP BY code ORDER BY ALL")
        states = [state for state in STATES if state and self._ledger]
        batches = ((key, state) for state in states if self._ledger for key in read_batches(self._ledger, state))
        add_ledger(self._database, batches)
        by_state = self._database.rows(_BY_STATE.format(of_id=of_id))
        rows = self._database.rows(f"SELECT part, row, hi, lo, code {of_id} ORDER BY time, part, row LIMIT {MOST_ROWS}")
        return msgspec.structs.replace(
            person, events={STATES[state]: count for state, count in by_state}, left_out=dict(left_out),
            first=format_utc(first), last=format_utc(last), excluded=excluded,
            rows=[Copy(self._paths[part], row, uuid_text(hi, lo), code or "") for part, row, hi, lo, code in rows],
        )  # fmt: skip

    def person(self, id_: str) -> Person:
        """The ids that are one person with this one, the pairs that have any of them, and what is sent of them."""
        ids, pairs, before = {id_: None}, list[PairRow](), 0
        while before < len(ids) < MOST_IDS:
            before = len(ids)
            pairs = self._pairs(f"anonymous_id IN {_ASKED} OR user_id IN {_ASKED}", [*ids], MOST_IDS)
            joined = (pair for pair in pairs if pair.decision in _JOINED)
            ids |= dict.fromkeys(one for pair in joined for one in (pair.anonymous_id, pair.user_id))
        encoded = {msgspec.json.encode(one) for one in ids}
        updates = self.updates(lambda line: not encoded.isdisjoint(_ID.findall(line)))
        return Person([*ids], pairs, [one for one in updates if one.distinct_id in ids or one.other in ids])

    def pairs_of(self, rows: list[str]) -> list[PairRow]:
        """The pairs of ids that these rows, each `FILE:ROW`, are the first to have."""
        return self._pairs(f'"where" IN {_ASKED}', rows, MOST_IDS * len(rows))

    def _pairs(self, those: str, asked: list[str], most: int) -> list[PairRow]:
        if not self._directory.pairs.exists():
            return []
        ask(self._database, asked)
        rows = self._database.rows(_PAIRS.format(file=file_at(self._directory.pairs), those=those, most=most))
        return [PairRow(*row[:6], *(None if time is None else format_utc(time) for time in row[6:])) for row in rows]

    def updates(self, wanted: Callable[[bytes], bool]) -> Iterator[Update]:
        """The first merges, groups and profiles whose lines are wanted, with their requests."""
        for phase in (one for one in PHASES if one != EVENTS):
            path = sealed_file(phase, self._directory)
            if not path.exists():
                continue
            with path.open("rb") as lines:
                found = dict(islice(((at, line) for at, line in enumerate(lines) if wanted(line)), MOST_IDS))
            places = {
                at: (one.number, at - one.first)
                for one in (read_requests(self._directory, phase) if found else ())
                for at in found
                if one.first <= at < one.first + one.events
            }
            requests = self.requests(phase, places.values())
            for at, line in found.items():
                yield _update(phase, path.name, at + 1, line, requests.get(places.get(at, (-1, -1))))

    def requests(self, phase: str, events: Iterable[tuple[int, int]]) -> dict[tuple[int, int], InRequest]:
        """The requests of some events of a phase, each a number and a place, with what the ledger has of them."""
        wanted = list(dict.fromkeys(events))
        names = {number for number, _ in wanted}
        known = {one.number: one for one in read_requests(self._directory, phase) if one.number in names}
        records: Iterable[EventRecord] = repeat(EventRecord(), len(wanted))
        if self._ledger is not None:
            records = read_events_sent(self._ledger, ((phase, *one) for one in wanted))
        return {
            (number, place): InRequest(
                phase, number, place, known[number].events, known[number].canary, STATES[record.state], record.status,
                record.detail, record.tries, record.ended or record.begun,
            )
            for (number, place), record in zip(wanted, records, strict=True)
        }  # fmt: skip


def _update(phase: str, file: str, number: int, line: bytes, request: InRequest | None) -> Update:
    record = line_decoder(phase)(line)
    other, names = "", list[str]()
    if isinstance(record, SealedLink):
        id_, other = record.distinct_id, record.other
    elif isinstance(record, SealedGroup):
        id_, names = f"{record.type} {record.key}", list(msgspec.json.decode(record.set))
    else:
        id_ = record.distinct_id
        written = (record.set, record.set_once, record.unset if isinstance(record.unset, Raw) else b"[]")
        names = [name for one in written for name in msgspec.json.decode(one)]
    return Update(phase, file, number, record.uuid, id_, other, format_utc(record.time), names, request)
