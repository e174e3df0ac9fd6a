"""What became of a row of the export, of an event, or of a person: by what a plan and its ledger hold, nothing else.

A plan has a row of facts for each event, so rows are looked up there. It has the text of a row only if the row is in
the sample of `plan --pairs`, or was rejected; what it does not have is stated, never computed again.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Raw, UnsetType

from pipeline.encoder.encoded import DecodedEvent, decode_event
from pipeline.encoder.updates import SealedGroup, SealedLink
from pipeline.errors import UsageError
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database, file_at, numbers, texts
from pipeline.ledger import EventRecord, read_batches, read_events_sent, read_summary, was_ever_applied
from pipeline.mask import IDS, MASK, SHOWN, masked
from pipeline.models import Reject
from pipeline.options import ExplainOptions
from pipeline.plan.requests.query import add_ledger, opened
from pipeline.plan.requests.store import PackedRequest, read_requests
from pipeline.plan.requests.values import EventValues
from pipeline.plan.samples.examples import shown_value
from pipeline.plan.samples.source_pairs import MOST_FIELDS, SentProperty, Shown, SourceField, SourcePair
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, read_lines, sealed_file
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.sealed.phases import line_decoder
from pipeline.report.pairs import PairRow
from pipeline.report.rejects import refusing
from pipeline.report.state import read_status
from pipeline.text import pluralize, quoted
from pipeline.timestamps import format_utc
from pipeline.uuids import uuid_text

FORMAT = "backcast.explain/1"
MOST_EVENTS = 50
"""Events of a row that are shown; a row of lists may make thousands."""
MOST_COPIES = 20
MOST_IDS = 100
MOST_ROWS = 10
"""Rows of an id that are listed."""
MOST_PERSONS = 3
"""People of the events of one row whose ids are shown."""
STATES = {"": "not sent", "begun": "in doubt", "settled": "accepted", "refused": "refused", "waiting": "waiting"}
"""What the states of the ledger mean for an event."""
_JOINED = ("merge", "first_user")
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ID = re.compile(rb'"(?:distinct_id|other)":("(?:[^"\\]|\\.)*")')
_KEY = "coalesce({0}.key_hi, {0}.hi), coalesce({0}.key_lo, {0}.lo)"
_FOUND = f"""
CREATE TABLE found AS SELECT facts.*, count(*) OVER (PARTITION BY facts.part, facts.row) AS of_row
FROM facts SEMI JOIN wanted ON facts.part = wanted.part AND facts.row = wanted.row
QUALIFY row_number() OVER (PARTITION BY facts.part, facts.row ORDER BY position) <= {MOST_EVENTS}
"""
_EVENTS = """
SELECT part, row, position, number, place, name, distinct_id, time, hi, lo, code, of_row, coalesce(key_hi, hi),
    coalesce(key_lo, lo) FROM found ORDER BY part, row, position
"""
_COPIES = f"""
SELECT key_hi, key_lo, part, row, position, hi, lo, code, of_key FROM (
    SELECT keys.key_hi, keys.key_lo, part, row, position, hi, lo, code, ordinal, count(*) OVER (
        PARTITION BY keys.key_hi, keys.key_lo) AS of_key
    FROM facts JOIN (SELECT DISTINCT coalesce(key_hi, hi) AS key_hi, coalesce(key_lo, lo) AS key_lo FROM found) AS keys
    ON coalesce(facts.key_hi, hi) = keys.key_hi AND coalesce(facts.key_lo, lo) = keys.key_lo
)
WHERE of_key > 1 QUALIFY row_number() OVER (
    PARTITION BY key_hi, key_lo ORDER BY code NULLS FIRST, ordinal, part, row, position) <= {MOST_COPIES}
ORDER BY code NULLS FIRST, ordinal, part, row, position
"""
_PAIRS = """
SELECT decision, reason, anonymous_id, user_id, events, "where", epoch_us(first_seen), epoch_us(last_seen)
FROM read_parquet({file}) WHERE {those} ORDER BY ALL LIMIT {most}
"""
_WITHOUT_EVENT = """
SELECT count(*) FILTER (sent), count(*) FILTER (NOT sent) FROM (
    SELECT row, bool_or(code IS NULL) AS sent FROM facts WHERE part = {part} GROUP BY row)
"""
_OF_ID = "FROM facts WHERE person = {person} AND distinct_id IN (SELECT id FROM asked)"
_NEAREST = """
SELECT distinct_id FROM (SELECT DISTINCT distinct_id FROM facts), asked
WHERE jaro_winkler_similarity(lower(distinct_id), lower(id)) > 0.9
ORDER BY jaro_winkler_similarity(lower(distinct_id), lower(id)) DESC, distinct_id LIMIT 3
"""


class InRequest(msgspec.Struct, frozen=True):
    """The request that has an event, the event's place in it from 0, and the event's state: `not sent`, `waiting` (to
    be sent again), `in doubt`, `accepted` or `refused`; `status` and `detail` are those of the last answer."""

    phase: str
    request: int
    place: int
    events: int
    lane: int
    canary: bool
    state: str
    status: int | None
    detail: str
    tries: int
    begun: str
    ended: str | None


class Copy(msgspec.Struct, frozen=True):
    """An event of a row; `code` says why it is left out, "" if it is sent."""

    file: str
    row: int
    uuid: str
    code: str


class ExplainedEvent(msgspec.Struct, frozen=True):
    """An event that the mapping made of a row; `code` and `detail` say why it is left out, "" if it is sent.

    If it is in the sample of the plan, it has the `fields` of the row, its entry of `events` in the mapping, and the
    rule and line of each property. `copies` are the events of the same key. `difference` is what the last verification
    found. `sent` is the event byte for byte, with values and ids shown.
    """

    position: int
    event: str
    distinct_id: str
    timestamp: str
    uuid: str
    code: str
    detail: str
    event_rule: str
    fields: list[SourceField]
    more_fields: int
    members: list[SentProperty]
    properties: list[SentProperty]
    more_properties: int
    request: InRequest | None
    copies: list[Copy]
    more_copies: int
    difference: str
    sent: Raw | UnsetType = UNSET


class Update(msgspec.Struct, frozen=True):
    """A merge (`distinct_id` absorbs `other`), a group update or a profile update: its line in a file of the plan, and
    the names of the properties that it writes."""

    phase: str
    file: str
    line: int
    uuid: str
    distinct_id: str
    other: str
    timestamp: str
    names: list[str]
    request: InRequest | None


class Person(msgspec.Struct, frozen=True):
    """The ids of a person after all merges of the plan, and why: the pairs of ids, joined or not. At most MOST_IDS of
    each. Where an id was asked for: its events by state, those left out by code, and some of its rows."""

    ids: list[str]
    pairs: list[PairRow]
    updates: list[Update]
    events: Mapping[str, int] = {}
    left_out: Mapping[str, int] = {}
    first: str = ""
    last: str = ""
    rows: list[Copy] = []
    excluded: bool = False


class ExplainedRow(msgspec.Struct, frozen=True):
    """A row. `outcome` is `sent` (an event of it is planned), `left out`, `rejected`; without an event it is `skipped`,
    `update` (a merge, a profile or a group), or `no event` if the plan cannot tell these two apart.

    `codes` count the rows of the plan that the mapping skips: of these codes the row has one. `sampled`: the plan has
    an event of it beside its fields; `like` is a row in the sample with an event of the same name. `pairs` are pairs of
    ids that this row is the first to have, `look` a command that shows the row if its file is still there.
    """

    file: str
    row: int
    outcome: str
    codes: Mapping[str, int]
    sampled: bool
    like: str
    events: list[ExplainedEvent]
    more_events: int
    rejects: list[Reject]
    pairs: list[PairRow]
    look: str


class Explanation(msgspec.Struct, frozen=True):
    """What was asked for, a `kind` of `row`, `uuid`, `id` or `sample`, and what became of it. `ledger` is what states
    are of: `send`, `rehearse`, or "" if nothing was sent; `to` is where to."""

    plan: str
    digest: str
    state: str
    asked: str
    kind: str
    ledger: str
    to: str
    values: bool
    ids: bool
    rows: list[ExplainedRow]
    updates: list[Update]
    persons: list[Person]
    format: str = FORMAT


class _Place(NamedTuple):
    part: int
    row: int


def explain(plan: Plan, directory: Directory, asked: str, options: ExplainOptions) -> Explanation:
    """What became of `FILE:ROW`, of the event with a uuid, or of a distinct_id. Raises UsageError for one that the plan
    does not have, BrokenLedger, UnsafePlan."""
    with opened(directory) as database:
        return _Explainer(plan, directory, database, options).explain(asked)


def explain_sample(plan: Plan, directory: Directory, options: ExplainOptions) -> Explanation:
    """The same for the rows of which the plan has the text (`plan --pairs`), in the order of the sample."""
    if not directory.source_pairs.exists() or not directory.source_pairs.stat().st_size:
        raise UsageError(f"{directory.name} has no sample of rows", hint="name a row: FILE:ROW")
    with opened(directory) as database:
        return _Explainer(plan, directory, database, options).sample()


class _Explainer:
    def __init__(self, plan: Plan, directory: Directory, database: Database, options: ExplainOptions) -> None:
        self._plan, self._directory, self._database = plan, directory, database
        self._shown = Shown(options.show_values, options.show_ids)
        self._paths = [part.path for part in plan.parts]
        of, stage = refusing(directory)
        self._ledger = of.ledger
        self._stage = stage if was_ever_applied(self._ledger) else ""
        self._pairs: dict[_Place, list[SourcePair]] = {}
        if directory.source_pairs.exists():
            index = {path: number for number, path in enumerate(self._paths)}
            for pair in read_lines(directory.source_pairs, SourcePair):
                self._pairs.setdefault(_Place(index[pair.file], pair.row), []).append(pair)

    def explain(self, asked: str) -> Explanation:
        asked = asked.encode("utf-8", "replace").decode()  # bytes of a command line that are no text
        uuid = asked.lower() if _UUID.fullmatch(asked) else ""
        if uuid:
            digits = uuid.replace("-", "")
            those = f"hi = {int(digits[:16], 16)} AND lo = {int(digits[16:], 16)} ORDER BY code NULLS FIRST, part, row"
            found = self._database.rows(f"SELECT part, row, distinct_id FROM facts WHERE {those} LIMIT 1")
            if found:
                return self._of_rows(asked, "uuid", [_Place(*found[0][:2])])
            needle = f'"uuid":"{uuid}"'.encode()
            if updates := list(self._updates(lambda line: needle in line)):
                ids = dict.fromkeys(id_ for one in updates for id_ in (one.distinct_id, one.other) if id_)
                return self._result(asked, "uuid", [], updates, [self._person(id_) for id_ in islice(ids, 1)])
        if (place := self._place(asked)) is not None:
            return self._of_rows(asked, "row", [place])
        person = self._asked_person(asked)
        if person is None:
            raise self._unknown(asked)
        return self._result(asked, "id", [], [], [person])

    def sample(self) -> Explanation:
        return self._of_rows("", "sample", [*self._pairs], persons=False)

    def _of_rows(self, asked: str, kind: str, places: Sequence[_Place], *, persons: bool = True) -> Explanation:
        columns = {
            "part": numbers([one.part for one in places]),
            "row": numbers([one.row for one in places]),
        }
        self._database.run("CREATE TABLE wanted (part BIGINT, row BIGINT)")
        self._database.append("wanted", columns)
        self._database.run(_FOUND)
        found: dict[_Place, list[Any]] = {}
        for row in self._database.rows(_EVENTS):
            found.setdefault(_Place(*row[:2]), []).append(row)
        sent = [row for of_row in found.values() for row in of_row if row[3] is not None]
        requests = self._requests(EVENTS, ((row[3], row[4]) for row in sent))
        places_of = (np.array([row[at] for row in sent], np.int64) for at in (3, 4))
        with EventValues(self._directory, EVENTS) as values:
            encoded = dict(zip(((row[3], row[4]) for row in sent), values.at(*places_of), strict=True))
        copies: dict[tuple[int, int], list[Any]] = {}
        for row in self._database.rows(_COPIES):
            copies.setdefault((row[0], row[1]), []).append(row)
        differences = self._differences({uuid_text(row[8], row[9]) for row in sent})
        rejects = self._rejects(set(places))
        pairs: dict[str, list[PairRow]] = {}
        for pair in self._pairs_of_rows(places):
            pairs.setdefault(pair.where, []).append(pair)
        rows = []
        for place in places:
            of_row = found.get(place, [])
            events = [
                self._event(
                    row, encoded.get((row[3], row[4])), requests, copies.get((row[12], row[13]), []), differences
                )
                for row in of_row
            ]
            here = pairs.get(f"{self._paths[place.part]}:{place.row}", [])
            rows.append(self._row(place, events, of_row[0][11] if of_row else 0, rejects.get(place, []), here))
        ids = dict.fromkeys(row[6] for of_row in found.values() for row in of_row)
        ids |= dict.fromkeys(pair.user_id for of_pair in pairs.values() for pair in of_pair)
        known: list[Person] = []
        for id_ in ids if persons else ():
            if len(known) < MOST_PERSONS and not any(id_ in person.ids for person in known):
                known.append(self._person(id_))
        return self._result(asked, kind, rows, [], [one for one in known if one.pairs or one.updates])

    def _result(
        self, asked: str, kind: str, rows: list[ExplainedRow], updates: list[Update], persons: list[Person]
    ) -> Explanation:
        history = read_summary(self._ledger, most=0).history if self._stage else None
        return Explanation(
            self._directory.name, self._plan.digest, read_status(self._plan, self._directory).state, asked, kind,
            self._stage, history.to if history else "", *self._shown, rows, updates, persons,
        )  # fmt: skip

    # -- rows ------------------------------------------------------------------------------------------

    def _place(self, asked: str) -> _Place | None:
        """The place that `FILE:ROW` names; None if it names no file of the export. Raises UsageError."""
        file, colon, number = asked.rpartition(":")
        row = number.replace(",", "")
        if not colon or not row.isdecimal() or not row.isascii():
            if self._named(asked):
                raise UsageError(f"{asked!r} is a file of the export", hint=f"name a row of it: {quoted(f'{asked}:1')}")
            return None
        found = self._named(file)
        if len(found) > 1:
            some = ", ".join(self._paths[part] for part in found[:5])
            raise UsageError(f"{pluralize(len(found), 'file')} of the export end in {file!r}", hint=f"name one: {some}")
        if not found:
            return None
        rows = self._plan.parts[found[0]].rows
        if not 1 <= int(row) <= rows:
            hint = f"rows count from 1, without a header: 1 to {rows}" if rows else "name another file"
            raise UsageError(f"{self._paths[found[0]]} has {pluralize(rows, 'row')}, not a row {int(row)}", hint=hint)
        return _Place(found[0], int(row))

    def _named(self, file: str) -> list[int]:
        """The files with this path in the export, or this path on this machine, or else whose path ends so."""
        if exact := [number for number, path in enumerate(self._paths) if path == file]:
            return exact
        whole = str(Path(file).absolute())
        if here := [number for number, part in enumerate(self._plan.parts) if not part.member and part.file == whole]:
            return here
        return [number for number, path in enumerate(self._paths) if file and _ends_in(path, file)]

    def _row(
        self, place: _Place, events: list[ExplainedEvent], made: int, rejects: list[Reject], pairs: list[PairRow]
    ) -> ExplainedRow:
        sampled = self._pairs.get(place, [])
        outcome, codes = self._outcome(place, events, rejects, pairs)
        like = ""
        if events and not sampled:
            names = {event.event for event in events}
            others = (pair for of_row in self._pairs.values() for pair in of_row if pair.event in names)
            like = next((f"{pair.file}:{pair.row}" for pair in others), "")
        return ExplainedRow(
            self._paths[place.part], place.row, outcome, codes, bool(sampled), like, events, made - len(events),
            rejects, pairs, self._look(place),
        )  # fmt: skip

    def _outcome(
        self, place: _Place, events: list[ExplainedEvent], rejects: list[Reject], pairs: list[PairRow]
    ) -> tuple[str, Mapping[str, int]]:
        """What became of a row, and the codes of which it has one if it is skipped.

        A plan counts skipped rows by file and code. It names none of them, so what a row without an event became is
        known only if all such rows of its file became the same.
        """
        if any(not event.code for event in events):
            return "sent", {}
        if events:
            return "left out", {}
        if rejects:
            return "rejected", {}
        if pairs:
            return "update", {}
        part, seal = place.part, self._plan.parts[place.part]
        ((sent, left_out),) = self._database.rows(_WITHOUT_EVENT.format(part=part))
        counted = Counter(dict(self._database.rows(
            "SELECT code, count(*) FROM (SELECT part, row, min(code) AS code FROM facts GROUP BY part, row"
            " HAVING bool_and(code IS NOT NULL)) GROUP BY code"
        )))  # fmt: skip
        codes = {code: count for code, count in self._plan.skips.items() if count > counted[code]}
        if seal.mapped == sent:
            return "skipped", codes
        return ("update", {}) if seal.skipped == left_out else ("no event", codes)

    def _look(self, place: _Place) -> str:
        """A command that prints a row of JSON lines, if its file is on this machine."""
        part = self._plan.parts[place.part]
        if part.format != "jsonl" or part.member or part.codecs not in ((), ("gzip",)) or not Path(part.file).exists():
            return ""
        row = f"sed -n {place.row}p"
        return f"gzip -dc {quoted(part.file)} | {row}" if part.codecs else f"{row} {quoted(part.file)}"

    def _event(
        self, row: Any, encoded: bytes | None, requests: Mapping[Any, InRequest], copies: list[Any],
        differences: Mapping[str, str],
    ) -> ExplainedEvent:  # fmt: skip
        part, number, position, request, place, name, distinct_id, time, hi, lo, code, *_ = row
        uuid, code = uuid_text(hi, lo), code or ""
        own = next((p for p in self._pairs.get(_Place(part, number), []) if _value_of(p.members, "uuid") == uuid), None)
        properties = [] if encoded is None else self._properties(decode_event(encoded), own)
        example, detail = self._plan.examples.get(code), ""
        if example is not None and (example.part, example.row) == (self._paths[part], number):
            detail = example.detail
        others = [
            Copy(self._paths[one[2]], one[3], uuid_text(one[5], one[6]), one[7] or "")
            for one in copies
            if tuple(one[2:5]) != (part, number, position)
        ]
        return ExplainedEvent(
            position, name, distinct_id if self._shown.ids else MASK, format_utc(time), uuid, code, detail,
            *(("", [], 0, []) if own is None else (own.event_rule, own.fields, own.more_fields,
              self._members(own, distinct_id))),
            properties[:MOST_FIELDS], max(0, len(properties) - MOST_FIELDS), requests.get((request, place)), others,
            max(0, copies[0][8] - 1 - len(others)) if copies else 0, differences.get(uuid, ""),
            Raw(encoded) if encoded is not None and all(self._shown) else UNSET,
        )  # fmt: skip

    def _properties(self, event: DecodedEvent, pair: SourcePair | None) -> list[SentProperty]:
        """The properties as they are sent, with their rules if the pair has them."""
        known = {} if pair is None else {one.name: one for one in pair.properties}
        return [
            msgspec.structs.replace(known[name], value=shown_value(event, name, self._shown))
            if name in known
            else SentProperty(name, shown_value(event, name, self._shown), [], "", 0)
            for name in event.properties
            if name != "distinct_id"
        ]

    def _members(self, pair: SourcePair, distinct_id: str) -> list[SentProperty]:
        shown = distinct_id if self._shown.ids else MASK
        return [msgspec.structs.replace(one, value=shown) if one.name == "distinct_id" else one for one in pair.members]

    def _rejects(self, places: set[_Place]) -> dict[_Place, list[Reject]]:
        found: dict[_Place, list[Reject]] = {}
        wanted = {(self._paths[place.part], place.row): place for place in places}
        rows = re.compile(rb'"row":(?:%b),' % b"|".join(str(row).encode() for row in {one.row for one in places}))
        decode = msgspec.json.Decoder(Reject).decode
        with self._directory.rejects.open("rb") as lines:
            for line in lines:
                if rows.search(line):
                    reject = decode(line)
                    if place := wanted.get((reject.part, reject.row)):
                        found.setdefault(place, []).append(self._masked(place, reject))
        return found

    def _masked(self, place: _Place, reject: Reject) -> Reject:
        if all(self._shown):
            return reject
        dialect = self._plan.parts[place.part].dialect
        record = masked(reject.record, dialect, SHOWN if self._shown.ids else SHOWN - IDS)
        return msgspec.structs.replace(reject, record=record)

    def _differences(self, uuids: set[str]) -> dict[str, str]:
        """What the last verification found of these events."""
        if not self._directory.differences.exists():
            return {}
        found = (one for one in read_lines(self._directory.differences, dict[str, Any]) if one.get("uuid") in uuids)
        return {one["uuid"]: ", ".join([one["kind"], *one.get("changed", ())]) for one in found}

    def _requests(self, phase: str, events: Iterable[tuple[int, int]]) -> dict[tuple[int, int], InRequest]:
        """The requests of some events of a phase, each a number and a place, with what the ledger has of them."""
        wanted = list(dict.fromkeys(events))
        numbers_of = {number for number, _ in wanted}
        by_number = {one.number: one for one in read_requests(self._directory, phase) if one.number in numbers_of}
        records: Iterator[EventRecord] = iter([EventRecord()] * len(wanted))
        if self._stage:
            records = read_events_sent(self._ledger, ((phase, *one) for one in wanted))
        return {
            one: _in_request(by_number[one[0]], one[1], record) for one, record in zip(wanted, records, strict=True)
        }

    # -- people ----------------------------------------------------------------------------------------

    def _asked_person(self, id_: str) -> Person | None:
        """What the plan has of an id, None for nothing."""
        of_id = _OF_ID.format(person=hash_id(id_))
        self._ask([id_])
        ((events, first, last),) = self._database.rows(f"SELECT count(*), min(time), max(time) {of_id}")
        person = self._person(id_)
        excluded = self._directory.excluded.exists() and id_ in self._directory.excluded.read_text("utf-8-sig").split(
            "\n"
        )
        if not events:
            known = person.pairs or person.updates or excluded
            return msgspec.structs.replace(person, excluded=excluded) if known else None
        self._ask([id_])
        left_out = dict(
            self._database.rows(f"SELECT code, count(*) {of_id} AND code IS NOT NULL GROUP BY code ORDER BY ALL")
        )
        states = ("begun", "settled", "refused", "waiting") if self._stage else ()
        add_ledger(self._database, ((key, state) for state in states for key in read_batches(self._ledger, state)))
        by_state = self._database.rows(
            "SELECT coalesce(state, ''), count(*) FROM (SELECT number, place FROM facts WHERE code IS NULL AND person ="
            f" {hash_id(id_)} AND distinct_id IN (SELECT id FROM asked)) AS own LEFT JOIN ledger ON phase = 'events'"
            " AND own.number = ledger.number AND own.place BETWEEN first AND last GROUP BY state ORDER BY ALL"
        )
        rows = self._database.rows(f"SELECT part, row, hi, lo, code {of_id} ORDER BY time, part, row LIMIT {MOST_ROWS}")
        return msgspec.structs.replace(
            person, events={STATES[state]: count for state, count in by_state}, left_out=left_out,
            first=format_utc(first), last=format_utc(last), excluded=excluded,
            rows=[Copy(self._paths[part], row, uuid_text(hi, lo), code or "") for part, row, hi, lo, code in rows],
        )  # fmt: skip

    def _ask(self, ids: Iterable[str]) -> None:
        self._database.run("CREATE OR REPLACE TABLE asked (id VARCHAR)")
        self._database.append("asked", {"id": texts(list(ids))})

    def _person(self, id_: str) -> Person:
        """The ids that are one person with this one, the pairs that have any of them, and what is sent of them."""
        ids, pairs, before = {id_: None}, list[PairRow](), 0
        while len(ids) != before and len(ids) < MOST_IDS and self._directory.pairs.exists():
            before = len(ids)
            self._ask(ids)
            asked = "(SELECT id FROM asked)"
            pairs = self._pairs_where(f"anonymous_id IN {asked} OR user_id IN {asked}", MOST_IDS)
            joined = (pair for pair in pairs if pair.decision in _JOINED)
            ids |= dict.fromkeys(one for pair in joined for one in (pair.anonymous_id, pair.user_id))
        encoded = {msgspec.json.encode(one) for one in ids}
        updates = self._updates(lambda line: not encoded.isdisjoint(_ID.findall(line)))
        mine = (one for one in updates if one.distinct_id in ids or one.other in ids)
        return Person([*ids], pairs, list(islice(mine, MOST_IDS)))

    def _pairs_of_rows(self, places: Sequence[_Place]) -> list[PairRow]:
        if not self._directory.pairs.exists():
            return []
        self._ask(f"{self._paths[place.part]}:{place.row}" for place in places)
        return self._pairs_where('"where" IN (SELECT id FROM asked)', MOST_IDS * len(places))

    def _pairs_where(self, those: str, most: int) -> list[PairRow]:
        rows = self._database.rows(_PAIRS.format(file=file_at(self._directory.pairs), those=those, most=most))
        return [PairRow(*row[:6], *(None if time is None else format_utc(time) for time in row[6:])) for row in rows]

    def _updates(self, wanted: Any) -> Iterator[Update]:
        """The lines of the merges, groups and profiles that are wanted, by their bytes, with their requests."""
        for phase in PHASES:
            path = sealed_file(phase, self._directory) if phase != EVENTS else None
            if path is None or not path.exists():
                continue
            with path.open("rb") as lines:
                found = [(number, line) for number, line in enumerate(lines) if wanted(line)][: 2 * MOST_IDS]
            if not found:
                continue
            places = {}
            for request in read_requests(self._directory, phase):
                for number, _ in found:
                    if request.first <= number < request.first + request.events:
                        places[number] = request.number, number - request.first
            requests = self._requests(phase, places.values())
            for number, line in found:
                yield self._update(phase, path.name, number + 1, line, requests.get(places[number]))

    def _update(self, phase: str, file: str, number: int, line: bytes, request: InRequest | None) -> Update:
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

    def _unknown(self, asked: str) -> UsageError:
        """Nothing has this name; the nearest names of files or ids."""
        file, colon, row = asked.rpartition(":")
        if colon and row.isdecimal():
            near = difflib.get_close_matches(file, self._paths, n=3, cutoff=0.4) or self._paths[:3]
            problem = f"the export of {self._directory.name} has no file {file!r}, and the plan no id {asked!r}"
            return UsageError(problem, hint=f"its files: {', '.join(near)}" if near else "name a uuid or an id")
        self._ask([asked])
        near = [id_ for (id_,) in self._database.rows(_NEAREST)]
        files = difflib.get_close_matches(asked, self._paths, n=1)
        hint = f"the nearest: {', '.join(near)}" if near else "name FILE:ROW, the uuid of an event, or a distinct_id"
        hint = f"name a row of the file: {quoted(f'{files[0]}:1')}" if files and not near else hint
        return UsageError(f"{self._directory.name} has no row, uuid or id {asked!r}", hint=hint)


def _ends_in(path: str, file: str) -> bool:
    """Whether a path of the export ends in `file`, or `file` in it, at the border of a name."""
    one, other = path.replace("\\", "/"), file.replace("\\", "/").removeprefix("./")
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return longer == shorter or (longer.endswith(shorter) and longer[-len(shorter) - 1] in "/!")


def _value_of(members: Sequence[SentProperty], name: str) -> str:
    return next((one.value for one in members if one.name == name), "")


def _in_request(request: PackedRequest, place: int, record: EventRecord) -> InRequest:
    return InRequest(
        request.phase, request.number, place, request.events, request.lane, request.canary, STATES[record.state],
        record.status, record.detail, record.tries, record.begun, record.ended,
    )  # fmt: skip
