"""Rows of an export by the facts of a plan: their events, why some are left out, their copies and requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import asdict, replace

from pipeline.encoder.encoded import decode_event
from pipeline.mask import IDS, MASK, SHOWN, masked
from pipeline.models import Reject
from pipeline.plan.requests.store import read_events
from pipeline.plan.samples.examples import shown_value
from pipeline.plan.samples.source_pairs import MOST_FIELDS, SentProperty, Shown, SourcePair
from pipeline.plan.sealed.directory import EVENTS, read_lines
from pipeline.report.explain.known import SENT_FIRST, Fact, Known
from pipeline.report.explain.names import RowPlace
from pipeline.report.explain.result import ExplainedEvent, ExplainedRow, InRequest, Person
from pipeline.text import quoted
from pipeline.timestamps import format_utc
from pipeline.uuids import uuid_text

MOST_EVENTS = 50
"""Events of a row that are shown; a row of lists may make thousands."""
MOST_COPIES = 20
MOST_PERSONS = 3
"""People of the events of one row whose ids are shown."""
_OF_PART = """
SELECT count(*) FILTER (sent), count(*) FILTER (NOT sent) FROM (
    SELECT row, bool_or(code IS NULL) AS sent FROM facts WHERE part = $1 GROUP BY row)
"""
_LEFT_OUT = """
SELECT code, count(*) FROM (
    SELECT min(code) AS code FROM facts GROUP BY part, row HAVING bool_and(code IS NOT NULL)
) GROUP BY code
"""
Sampled = Mapping[RowPlace, Sequence[SourcePair]]
"""The rows of which the plan has the fields and rules, with their events."""
T = TypeVar("T")
K = TypeVar("K")


def sampled_rows(known: Known) -> Sampled:
    index = {part.path: number for number, part in enumerate(known.plan.parts)}
    path = known.directory.source_pairs
    pairs = read_lines(path, SourcePair) if path.exists() else ()
    return _grouped((RowPlace(index[pair.file], pair.row), pair) for pair in pairs)


class Rows:
    """Some rows, explained. What is known of all of them is read once."""

    def __init__(self, known: Known, shown: Shown, sampled: Sampled, places: Sequence[RowPlace]) -> None:
        self._known, self._shown, self._sampled, self._places = known, shown, sampled, places
        columns = [place.part for place in places], [place.row for place in places]
        facts = known.facts(*columns, "part, row", "part, row, position", MOST_EVENTS)
        self._facts = _grouped((RowPlace(one.part, one.row), one) for one in facts)
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
            names = {event.event for event in events} if place not in self._sampled else set()
            others = (one for own in self._sampled.values() for one in own if one.event in names)
            yield ExplainedRow(
                self._known.plan.parts[place.part].path, place.row, outcome, codes, place in self._sampled,
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
        """A command that prints a row of JSON lines, if its file is on this machine."""
        part = self._known.plan.parts[place.part]
        if part.format != "jsonl" or part.member or part.codecs not in ((), ("gzip",)) or not Path(part.file).exists():
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
        for pair in self._sampled.get(RowPlace(fact.part, fact.row), ()):
            if any(member.value == uuid for member in pair.members):
                return pair
        return SourcePair(fact.name, int(format_utc(fact.time)[:4]), file, fact.row, "", [], 0, [], [], 0)

    def _properties(self, encoded: bytes, pair: SourcePair) -> list[SentProperty]:
        """The properties as they are sent, with the rules that the pair has."""
        event, known = decode_event(encoded), {one.name: one for one in pair.properties}
        return [
            replace(known.get(name, SentProperty(name, "", [], "", 0)), value=shown_value(event, name, self._shown))
            for name in event.properties
            if name != "distinct_id"
        ]

    def _read_rejects(self) -> Iterator[tuple[RowPlace, Reject]]:
        """The rejects of the rows, masked unless both values and ids are shown."""
        plan, known = self._known.plan, SHOWN if self._shown.ids else SHOWN - IDS
        wanted = {(plan.parts[place.part].path, place.row): place for place in self._places}
        rows = re.compile(rb'"row":(?:%b),' % b"|".join(b"%d" % row for row in {place.row for place in self._places}))
        with self._known.directory.rejects.open("rb") as lines:
            for line in filter(rows.search, lines):
                one = msgspec.json.decode(line, type=Reject)
                if place := wanted.get((one.part, one.row)):
                    text = one.record if all(self._shown) else masked(one.record, plan.parts[place.part].dialect, known)
                    yield place, replace(one, record=text)

    def _read_differences(self, uuids: set[str]) -> dict[str, str]:
        """What the last verification found of these events."""
        path = self._known.of.differences
        found = (one for one in read_lines(path, dict[str, Any]) if one.get("uuid") in uuids) if path.exists() else ()
        return {one["uuid"]: ", ".join([one["kind"], *one.get("changed", ())]) for one in found}


def _grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """The second of each pair by the first, in their order."""
    found: dict[K, list[T]] = {}
    for key, one in pairs:
        found.setdefault(key, []).append(one)
    return found
