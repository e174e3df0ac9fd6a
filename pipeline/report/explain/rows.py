"""Rows of an export by the facts of a plan: their events, why some are left out, their copies and requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Raw
from msgspec.structs import replace

from pipeline.encoder.encoded import decode_event
from pipeline.identity.database import Database, numbers
from pipeline.ledger import read_summary, was_ever_applied
from pipeline.mask import IDS, MASK, SHOWN, masked
from pipeline.models import Reject
from pipeline.options import ExplainOptions
from pipeline.plan.requests.values import EventValues
from pipeline.plan.samples.examples import shown_value
from pipeline.plan.samples.source_pairs import MOST_FIELDS, SentProperty, Shown, SourcePair
from pipeline.plan.sealed.directory import EVENTS, Directory, read_lines
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.explain.names import RowPlace
from pipeline.report.explain.people import People
from pipeline.report.explain.result import Copy, ExplainedEvent, ExplainedRow, Explanation, InRequest, Person, Update
from pipeline.report.pairs import PairRow
from pipeline.report.rejects import refusing
from pipeline.report.state import read_status
from pipeline.text import quoted
from pipeline.timestamps import format_utc
from pipeline.uuids import uuid_text

MOST_EVENTS = 50
"""Events of a row that are shown; a row of lists may make thousands."""
MOST_COPIES = 20
MOST_PERSONS = 3
"""People of the events of one row whose ids are shown."""
_FOUND = f"""
CREATE TABLE found AS
SELECT part, row, position, number, place, name, distinct_id, time, hi, lo, code, coalesce(key_hi, hi) AS key_hi,
    coalesce(key_lo, lo) AS key_lo, count(*) OVER (PARTITION BY part, row) AS of_row
FROM facts SEMI JOIN wanted USING (part, row)
QUALIFY row_number() OVER (PARTITION BY part, row ORDER BY position) <= {MOST_EVENTS}
"""
_COPIES = f"""
SELECT key_hi, key_lo, part, row, position, hi, lo, code, of_key FROM (
    SELECT keys.*, part, row, position, hi, lo, code, ordinal, count(*) OVER (PARTITION BY keys.key_hi, keys.key_lo)
        AS of_key
    FROM facts JOIN (SELECT DISTINCT key_hi, key_lo FROM found) AS keys
    ON coalesce(facts.key_hi, hi) = keys.key_hi AND coalesce(facts.key_lo, lo) = keys.key_lo
)
WHERE of_key > 1 QUALIFY row_number() OVER (
    PARTITION BY key_hi, key_lo ORDER BY code NULLS FIRST, ordinal, part, row, position) <= {MOST_COPIES}
ORDER BY code NULLS FIRST, ordinal, part, row, position
"""
_OF_PART = """
SELECT count(*) FILTER (sent), count(*) FILTER (NOT sent) FROM (
    SELECT row, bool_or(code IS NULL) AS sent FROM facts WHERE part = {part} GROUP BY row)
"""
_LEFT_OUT = """
SELECT code, count(*) FROM (
    SELECT min(code) AS code FROM facts GROUP BY part, row HAVING bool_and(code IS NOT NULL)
) GROUP BY code
"""
T = TypeVar("T")
K = TypeVar("K")


class _Found(NamedTuple):
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
    of_row: int


class _Context(NamedTuple):
    """What is known of the events of all rows: by request and place, by key, by uuid."""

    encoded: Mapping[tuple[Any, int], bytes]
    requests: Mapping[tuple[Any, int], InRequest]
    copies: Mapping[tuple[int, int], list[Any]]
    differences: Mapping[str, str]


class Explainer:
    """Explains rows of one plan. `sampled` are the rows of which the plan has the fields and rules."""

    def __init__(self, plan: Plan, directory: Directory, database: Database, options: ExplainOptions) -> None:
        self._plan, self._directory, self._database = plan, directory, database
        self._shown = Shown(options.show_values, options.show_ids)
        self._paths = [part.path for part in plan.parts]
        self._of, stage = refusing(directory)
        self._stage = stage if was_ever_applied(self._of.ledger) else ""
        self.people = People(directory, database, self._paths, self._of.ledger if self._stage else None)
        index = {path: number for number, path in enumerate(self._paths)}
        pairs = read_lines(directory.source_pairs, SourcePair) if directory.source_pairs.exists() else ()
        self.sampled = _grouped((RowPlace(index[pair.file], pair.row), pair) for pair in pairs)

    def of_uuid(self, asked: str, hi: int, lo: int) -> Explanation | None:
        """The row of the event with a uuid, the one that is sent if there are several; or a merge, a group or a
        profile."""
        those = (
            f"SELECT part, row FROM facts WHERE hi = {hi} AND lo = {lo} ORDER BY code NULLS FIRST, part, row LIMIT 1"
        )
        if found := self._database.rows(those):
            return self.of_rows(asked, "uuid", [RowPlace(*found[0])])
        needle = f'"uuid":"{uuid_text(hi, lo)}"'.encode()
        updates = [one for one in self.people.updates(lambda line: needle in line) if one.uuid == uuid_text(hi, lo)]
        persons = [self.people.person(one.distinct_id) for one in updates]
        return self.result(asked, "uuid", updates=updates, persons=persons) if updates else None

    def of_rows(self, asked: str, kind: str, places: Sequence[RowPlace], *, persons: bool = True) -> Explanation:
        columns = {name: numbers([getattr(one, name) for one in places]) for name in RowPlace._fields}
        self._database.run("CREATE TABLE wanted (part BIGINT, row BIGINT)")
        self._database.append("wanted", columns)
        self._database.run(_FOUND)
        found = [_Found(*one) for one in self._database.rows("FROM found ORDER BY part, row, position")]
        sent = [one for one in found if one.number is not None]
        at = [(int(one.number or 0), one.place) for one in sent]
        with EventValues(self._directory, EVENTS) as values:
            encoded = values.at(*(np.array([one[half] for one in at], np.int64) for half in (0, 1)))
        context = _Context(
            dict(zip(at, encoded, strict=True)),
            self.people.requests(EVENTS, at),
            _grouped(((one[0], one[1]), one) for one in self._database.rows(_COPIES)),
            self._differences({uuid_text(one.hi, one.lo) for one in sent}),
        )
        by_place = _grouped((RowPlace(one.part, one.row), one) for one in found)
        rejects = self._rejects(places)
        pairs = _grouped((pair.where, pair) for pair in self.people.pairs_of([*map(self._name, places)]))
        rows = [
            self._row(one, by_place.get(one, []), context, rejects.get(one, []), pairs.get(self._name(one), []))
            for one in places
        ]
        ids = [*(one.distinct_id for one in found), *(one.user_id for some in pairs.values() for one in some)]
        known: list[Person] = []
        for id_ in dict.fromkeys(ids if persons else ()):
            if len(known) < MOST_PERSONS and not any(id_ in person.ids for person in known):
                known.append(self.people.person(id_))
        return self.result(asked, kind, rows, persons=[one for one in known if one.pairs or one.updates])

    def result(
        self, asked: str, kind: str, rows: Sequence[ExplainedRow] = (), updates: Sequence[Update] = (),
        persons: Sequence[Person] = (),
    ) -> Explanation:  # fmt: skip
        summary = read_summary(self._of.ledger, most=0)
        history = summary.history if self._stage else None
        return Explanation(
            self._directory.name, self._plan.digest, read_status(self._plan, self._directory).state, asked, kind,
            self._stage, history.to if history else "", summary.totals.refused, *self._shown, [*rows], [*updates],
            [*persons],
        )  # fmt: skip

    def _name(self, place: RowPlace) -> str:
        return f"{self._paths[place.part]}:{place.row}"

    def _row(
        self, place: RowPlace, found: list[_Found], context: _Context, rejects: list[Reject], pairs: list[PairRow]
    ) -> ExplainedRow:
        events = [self._event(one, context) for one in found]
        names = {event.event for event in events}
        others = (one for some in self.sampled.values() for one in some if one.event in names)
        like = "" if place in self.sampled else next((f"{one.file}:{one.row}" for one in others), "")
        outcome, codes = "rejected" if rejects else "update", dict[str, int]()
        if events:
            outcome = "left out" if all(event.code for event in events) else "planned"
        elif not rejects and not pairs:
            outcome, codes = self._without_event(place)
        more = found[0].of_row - len(found) if found else 0
        return ExplainedRow(
            self._paths[place.part], place.row, outcome, codes, place in self.sampled, like, events, more, rejects,
            pairs, self._look(place),
        )  # fmt: skip

    def _without_event(self, place: RowPlace) -> tuple[str, dict[str, int]]:
        """What became of a row without an event, and the codes of which it has one if it is skipped.

        A plan counts skipped rows by file and code and names none, so this is known only if all rows of the file that
        have no event became the same.
        """
        seal = self._plan.parts[place.part]
        ((sent, left_out),) = self._database.rows(_OF_PART.format(part=place.part))
        if seal.skipped == left_out:
            return "update", {}
        counted = dict(self._database.rows(_LEFT_OUT))
        codes = {code: count for code, count in self._plan.skips.items() if count > counted.get(code, 0)}
        return ("skipped" if seal.mapped == sent else "no event"), codes

    def _look(self, place: RowPlace) -> str:
        """A command that prints a row of JSON lines, if its file is on this machine."""
        part = self._plan.parts[place.part]
        if part.format != "jsonl" or part.member or part.codecs not in ((), ("gzip",)) or not Path(part.file).exists():
            return ""
        rows = f"grep -a '[^[:space:]]' | sed -n {place.row}p"  # blank lines are not rows
        return f"{'gzip -dc' if part.codecs else 'cat'} {quoted(part.file)} | {rows}"

    def _event(self, found: _Found, context: _Context) -> ExplainedEvent:
        uuid, code, place = uuid_text(found.hi, found.lo), found.code or "", RowPlace(found.part, found.row)
        mapped = uuid_text(found.key_hi, found.key_lo)  # the uuid before it was changed
        pairs = (one for one in self.sampled.get(place, ()) if any(member.value == mapped for member in one.members))
        pair, shown_id = next(pairs, None), found.distinct_id if self._shown.ids else MASK
        example = self._plan.examples.get(code)
        here = example is not None and (example.part, example.row) == (self._paths[found.part], found.row)
        copies = context.copies.get((found.key_hi, found.key_lo), [])
        others = [
            Copy(self._paths[part], row, uuid_text(hi, lo), why or "")
            for _, _, part, row, position, hi, lo, why, _ in copies
            if (part, row, position) != found[:3]
        ]
        encoded = context.encoded.get((found.number, found.place))
        properties = [] if encoded is None else self._properties(encoded, pair)
        given = {"distinct_id": shown_id, "uuid": uuid}
        members = [replace(one, value=given.get(one.name, one.value)) for one in (pair.members if pair else ())]
        return ExplainedEvent(
            found.position, found.name, shown_id, format_utc(found.time), uuid, code,
            example.detail if here and example else "", pair.event_rule if pair else "", pair.fields if pair else [],
            pair.more_fields if pair else 0,
            members, properties[:MOST_FIELDS], max(0, len(properties) - MOST_FIELDS),
            context.requests.get((found.number, found.place)), others,
            copies[0][-1] - 1 - len(others) if copies else 0, context.differences.get(uuid, ""),
            Raw(encoded) if encoded is not None and all(self._shown) else UNSET,
        )  # fmt: skip

    def _properties(self, encoded: bytes, pair: SourcePair | None) -> list[SentProperty]:
        """The properties as they are sent, with their rules if the pair has them."""
        event, known = decode_event(encoded), {one.name: one for one in (pair.properties if pair else ())}
        return [
            replace(known.get(name, SentProperty(name, "", [], "", 0)), value=shown_value(event, name, self._shown))
            for name in event.properties
            if name != "distinct_id"
        ]

    def _rejects(self, places: Sequence[RowPlace]) -> dict[RowPlace, list[Reject]]:
        """The rejects of some rows."""
        wanted = {(self._paths[place.part], place.row): place for place in places}
        rows = re.compile(rb'"row":(?:%b),' % b"|".join(b"%d" % row for row in {place.row for place in places}))
        decode = msgspec.json.Decoder(Reject).decode
        with self._directory.rejects.open("rb") as lines:
            found = (decode(line) for line in lines if rows.search(line))
            named = ((wanted.get((one.part, one.row)), one) for one in found)
            return _grouped((place, self._masked(place, one)) for place, one in named if place is not None)

    def _masked(self, place: RowPlace, reject: Reject) -> Reject:
        if all(self._shown):
            return reject
        known = SHOWN if self._shown.ids else SHOWN - IDS
        return replace(reject, record=masked(reject.record, self._plan.parts[place.part].dialect, known))

    def _differences(self, uuids: set[str]) -> dict[str, str]:
        """What the last verification found of these events."""
        path = self._of.differences
        found = (one for one in read_lines(path, dict[str, Any]) if one.get("uuid") in uuids) if path.exists() else ()
        return {one["uuid"]: ", ".join([one["kind"], *one.get("changed", ())]) for one in found}


def _grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """The second of each pair by the first, in their order."""
    found: dict[K, list[T]] = {}
    for key, one in pairs:
        found.setdefault(key, []).append(one)
    return found
