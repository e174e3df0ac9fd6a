"""Compares encoded events of two plans one by one, and counts what differs. It runs in worker processes."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import TypeVar

import msgspec
from msgspec import Raw

from pipeline.encoder.encoded import read_event
from pipeline.mask import masked_value
from pipeline.plan.diff.result import EventExample
from pipeline.plan.sealed.directory import EVENTS
from pipeline.text import printable

MOST_PROPERTIES = 2_000
MOST_PAIRS = 500
MOST_EXAMPLES = 3
OTHERS = ""
VALUE_CHARACTERS = 80
_ID = "distinct_id"
_OPENED = ("$set", "$set_once", "$unset", "$group_set")
"""Properties whose members are compared one by one, as `$set.plan`."""


class Whole(msgspec.Struct):
    """An encoded event; its distinct_id is one of the properties."""

    event: str
    properties: dict[str, Raw]
    timestamp: str
    uuid: str

    @property
    def distinct_id(self) -> str:
        return _text(self.properties[_ID])

    @property
    def day(self) -> str:
        return self.timestamp[:10]


K = TypeVar("K")
read = msgspec.json.Decoder(Whole).decode
_text = msgspec.json.Decoder(str).decode
_object = msgspec.json.Decoder(dict[str, Raw]).decode


class PropertyTally(msgspec.Struct):
    """What became of one property, see `result.PropertyChange`; an example begins with the uuid of its event."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    examples: list[tuple[str, str, str]] = msgspec.field(default_factory=list)

    def add(self, other: PropertyTally) -> None:
        self.added += other.added
        self.removed += other.removed
        self.changed += other.changed
        self.examples = sorted(self.examples + other.examples)[:MOST_EXAMPLES]


class Tally(msgspec.Struct):
    """Differences counted. `kinds` counts by (phase, kind), `what` by (phase, what differs).

    The others are of events: `cells` counts by (name, day, kind), `persons` by distinct_id, `renamed` by (name in A, in
    B), `shifts` by seconds. `properties` has those of all phases, by (phase, name). Examples are those with the
    smallest uuids, so they do not depend on the number of processes; with `values` they are not masked.
    """

    values: bool = False
    kinds: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    what: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    cells: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    persons: Counter[str] = msgspec.field(default_factory=Counter)
    renamed: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    shifts: Counter[float | None] = msgspec.field(default_factory=Counter)
    properties: dict[tuple[str, str], PropertyTally] = msgspec.field(default_factory=dict)
    examples: dict[str, list[EventExample]] = msgspec.field(default_factory=dict)

    def only(self, phase: str, kind: str, event: bytes) -> None:
        """Count an event that one of the plans has; `kind` is only_a or only_b."""
        self.kinds[phase, kind] += 1
        if phase != EVENTS:
            return
        one = read_event(event)
        self.cells[one.event, one.timestamp[:10], kind] += 1
        self.persons[one.properties.distinct_id] += 1
        if self._is_example(kind, one.uuid):
            shown = one.event, one.timestamp
            a, b = (shown, None) if kind == "only_a" else (None, shown)
            self._example(EventExample(kind, one.uuid, a, b))

    def pair(self, phase: str, first: bytes, second: bytes, instants: tuple[str, str]) -> None:
        """Compare an event of A with that of B. `instants` are the times that stand for the plans' own instants, which
        are no difference."""
        if first == second:
            return
        a, b = read(first), read(second)
        renamed, moved = a.event != b.event, a.properties[_ID] != b.properties[_ID]
        shifted = a.timestamp != b.timestamp and (
            phase == EVENTS or (_bare(a.timestamp), _bare(b.timestamp)) != tuple(map(_bare, instants))
        )
        differing = a.properties != b.properties and self._compare(phase, a, b)
        order = not (renamed or moved or shifted or differing)
        if order and phase != EVENTS:
            return
        self.kinds[phase, "changed"] += 1
        what = self.what
        found = {"event": renamed, _ID: moved, "timestamp": shifted, "properties": differing, "order": order}
        for name, differs in found.items():
            what[phase, name] += differs
        if phase != EVENTS:
            return
        new_day = a.day != b.day
        what[phase, "day"] += new_day
        what[phase, "duplicated"] += renamed or moved or new_day
        self.cells[a.event, a.day, "changed"] += 1
        person = a.distinct_id
        self.persons[person] += 1
        if moved:
            self.persons[b.distinct_id] += 1
        if renamed:
            _count(self.renamed, (a.event, b.event), (OTHERS, OTHERS))
        if shifted:
            _count(self.shifts, _seconds(a.timestamp, b.timestamp), None)
        if self._is_example("changed", b.uuid):
            self._example(EventExample("changed", b.uuid, (a.event, a.timestamp), (b.event, b.timestamp)))

    def add(self, other: Tally) -> None:
        """Add the counts of another."""
        for name in ("kinds", "what", "cells", "persons"):
            getattr(self, name).update(getattr(other, name))
        for names, count in other.renamed.items():
            _count(self.renamed, names, (OTHERS, OTHERS), count)
        for seconds, count in other.shifts.items():
            _count(self.shifts, seconds, None, count)
        for key, one in other.properties.items():
            self._property(*key).add(one)
        for some in other.examples.values():
            for example in some:
                self._example(example)

    def _compare(self, phase: str, first: Whole, second: Whole) -> bool:
        """Count the properties that differ. Returns whether any does."""
        differs, uuid, a, b = False, second.uuid, first.properties, second.properties
        for name, value in a.items():
            other = b.get(name)
            if name != _ID and (other is None or other != value):
                differs = True
                self._differing(phase, uuid, name, value, other)
        for name, value in b.items():
            if name not in a:
                differs = True
                self._differing(phase, uuid, name, None, value)
        return differs

    def _differing(self, phase: str, uuid: str, name: str, a: Raw | None, b: Raw | None) -> None:
        if name in _OPENED:
            members, others = _members(a), _members(b)
            if members is not None and others is not None:
                for member in members.keys() | others.keys():
                    value, other = members.get(member), others.get(member)
                    if value is None or other is None or value != other:
                        self._one(phase, uuid, f"{name}.{member}", value, other)
                return
        self._one(phase, uuid, name, a, b)

    def _one(self, phase: str, uuid: str, name: str, a: Raw | None, b: Raw | None) -> None:
        tally = self._property(phase, name)
        if a is None:
            tally.added += 1
        elif b is None:
            tally.removed += 1
        else:
            tally.changed += 1
        examples = tally.examples
        if len(examples) < MOST_EXAMPLES or uuid < examples[-1][0]:
            insort(examples, (uuid, self._shown(a), self._shown(b)))
            del examples[MOST_EXAMPLES:]

    def _property(self, phase: str, name: str) -> PropertyTally:
        found = self.properties.get((phase, name))
        if found is None:
            if len(self.properties) >= MOST_PROPERTIES:
                name = OTHERS
            found = self.properties.setdefault((phase, name), PropertyTally())
        return found

    def _shown(self, value: Raw | None) -> str:
        if value is None:
            return ""
        if self.values:
            return printable(bytes(value).decode("utf-8", "replace"), VALUE_CHARACTERS)
        return masked_value(value)

    def _example(self, example: EventExample) -> None:
        if self._is_example(example.kind, example.uuid):
            some = self.examples.setdefault(example.kind, [])
            insort(some, example, key=attrgetter("uuid"))
            del some[MOST_EXAMPLES:]

    def _is_example(self, kind: str, uuid: str) -> bool:
        """Whether an event of this uuid is among those that are shown."""
        some = self.examples.get(kind, [])
        return len(some) < MOST_EXAMPLES or uuid < some[-1].uuid


def _count(counts: Counter[K], key: K, others: K, count: int = 1) -> None:
    """Count a key, or `others` where there are many keys already."""
    counts[key if key in counts or len(counts) < MOST_PAIRS else others] += count


def _members(value: Raw | None) -> Mapping[str, Raw] | None:
    """The members of an object, none of an absent one; None of a value that is no object."""
    if value is None:
        return {}
    try:
        return _object(value)
    except msgspec.MsgspecError:
        return None


def _bare(timestamp: str) -> str:
    """An instant in UTC without the zeros at the end of its fraction."""
    text = timestamp.removesuffix("Z")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _seconds(a: str, b: str) -> float | None:
    """How much later B's time is."""
    try:
        return (datetime.fromisoformat(b) - datetime.fromisoformat(a)).total_seconds()
    except ValueError:
        return None
