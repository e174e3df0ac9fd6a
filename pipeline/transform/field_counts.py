"""Counts the rows in which each field occurs and what became of these rows, for the coverage of a plan.

A field is a member of the row, of its opened properties, or of an object inside them that the mapping reads into. It
occurs in a row that has its name, even with null. A blank cell of a table has no value, so its column does not occur.
The counts are exact: every row is counted as it was before the mapping changes it, under its outcome once that is
known. If a decoder makes several rows out of one, these are counted (`unit` items).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from pipeline.mapper.codegen.runtime import members_of
from pipeline.mapper.program.references import Level
from pipeline.mask import masked_value
from pipeline.models import UnvalidatedEvent
from pipeline.native import AVAILABLE, native

ROW, OPENED = Level(False, ()), Level(True, ())
"""The first levels; the levels of `Counted.nested` follow."""
EVENT, OTHER, SKIP, REJECT = "event:", "other:", "skip:", "reject:"
"""The beginnings of outcomes: the row is an event by the rule with a number (0: none); it is not an event but a merge
or update, by the rule of an event's name; it is skipped or rejected with a code."""
COLUMN = "column:"
"""The outcome under which the columns of a table are counted once per block, whether or not a cell has a value."""
EXAMPLES = 3
_MOST_COMPLETE = 2_000
_Members: Any = native.Members if AVAILABLE else None
_OF_ROW, _OF_OPENED = -2, -1
Shape: TypeAlias = tuple[tuple[int, tuple[str, ...]], ...]
"""The names in a row: those of the row itself, of its opened properties and of the objects inside that the mapping
reads into, each with its level."""


class Counted(NamedTuple):
    """What a plan counts: `nested` are the objects inside rows that the mapping reads into, `ruled` the event names
    that have a rule, and `changing` the numbers of the rules that change properties. `code`: the mapping has its own
    code, which may give an event another name. `decoded`: a decoder makes the rows, so their fields are not the columns
    of the table."""

    nested: tuple[Level, ...] = ()
    ruled: frozenset[str] = frozenset()
    changing: frozenset[int] = frozenset()
    code: bool = False
    decoded: bool = False


@dataclass(slots=True)
class BlockFields:
    """What the rows of one block have. `fields` counts rows by (level, name, outcome), levels numbered from ROW and
    OPENED on; `events` counts them by (name as read, name as sent or "", outcome), `rows` by outcome. `examples` are
    masked values from the first three rows with a field, equal ones once. `skipped_items` counts, by code, what was
    left out of rows that are sent in part."""

    fields: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    events: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    examples: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    skipped_items: Counter[str] = field(default_factory=Counter)


class _Examples:
    """Masked values of each field, from the first rows of a block that have it."""

    def __init__(self, nested: Sequence[Level]) -> None:
        self._nested = nested
        self._rows: dict[tuple[int, str], int] = {}
        self._complete: set[tuple[int, tuple[str, ...]]] = set()
        self._values: dict[tuple[int, str], list[str]] = {}

    def show(self, row: Any, opened: Any = None) -> None:
        """Take the values of a native row, and of its opened properties if these are not members of the row."""
        self._add(0, row.items())
        if opened is not None:
            self._add(1, opened.items())
        for _, value in row.items():
            if value.__class__ is _Members:
                self._add(1, value.items())
                opened = value
        for number, level in enumerate(self._nested, 2):
            inside = _inside(opened if level.opened else row, level)
            if inside:
                self._add(number, inside.items())

    def show_level(self, level: int, record: Any, names: tuple[str, ...]) -> None:
        """Take the values of one object of a row, unless all its fields have enough of them."""
        if (level, names) in self._complete:
            return
        self._add(level, ((name, record[name]) for name in names))
        if all(self._rows[level, name] == EXAMPLES for name in names) and len(self._complete) < _MOST_COMPLETE:
            self._complete.add((level, names))

    def _add(self, level: int, members: Any) -> None:
        for name, value in members:
            key = level, name
            rows = self._rows.get(key, 0)
            if rows == EXAMPLES:
                continue
            self._rows[key] = rows + 1
            values = self._values.setdefault(key, [])
            if value.__class__ is dict or value.__class__ is _Members:
                continue  # its members have values
            shown = masked_value(value)
            if shown not in values:
                values.append(shown)

    def take(self) -> dict[tuple[int, str], list[str]]:
        values, self._values = self._values, {}
        self._rows.clear()
        self._complete.clear()
        return values


def _inside(record: Any, level: Level) -> Any:
    """The object of a level inside a row or its opened properties; None or an empty one if there is none."""
    for step in level.steps:
        record = record.get(step) if record is not None else None
        if record is not None and record.__class__ is not dict and record.__class__ is not _Members:
            record = members_of(record)
    return record


@dataclass(slots=True)
class _Known:
    """A shape of native rows: how many were shown for examples, and how many were counted as ordinary events."""

    names: Shape
    shown: int = 0
    ordinary: int = 0


class FieldCounts:
    """Counts the rows of one block after another in this process; it is the mapper's `RowScan`.

    Rows of one shape are counted together; a native row's shape is known by its hash. A native row is counted as an
    event without a rule when it is scanned, and under its own outcome when that is settled. `pending` are other rows
    that were scanned but not settled: one, or the items of a row.
    """

    __slots__ = (
        "_columns", "_counted", "_events", "_examples", "_explicit", "_inner", "_items", "_known", "_latest",
        "_names_of_rules", "_nested", "_numbers", "_ordinary", "_outcomes", "_reads_opened", "_rows", "_ruled",
        "_settled", "_shapes", "_skipped_items", "_sparse", "event", "item_events", "pending",
    )  # fmt: skip

    def __init__(self, counted: Counted) -> None:
        nested = counted.nested
        self._counted = counted
        self.event: str | None = None
        self.item_events: list[str | None] = []
        self.pending: list[Shape] = []
        self._latest: _Known | None = None
        self._known: dict[Hashable, _Known] = {}
        self._nested = tuple(enumerate(nested, 2))
        self._inner = _inner(nested) if AVAILABLE else ()
        self._reads_opened = any(level.opened for level in nested)
        self._examples = _Examples(nested)
        self._numbers: dict[str, int] = {f"{EVENT}0": 0}
        self._settled: dict[int, int] = {}
        self._outcomes = [f"{EVENT}0"]
        self._sparse = self._items = False
        self._columns: Sequence[str] = ()
        self._ordinary = 0
        self._ruled: dict[int, int] = {}
        self._names_of_rules: dict[int, tuple[str, str]] = {}
        self._shapes: Counter[tuple[str, Shape]] = Counter()
        self._rows: Counter[str] = Counter()
        self._events: Counter[tuple[str, str, str]] = Counter()
        self._explicit: Counter[str] = Counter()
        self._skipped_items: Counter[str] = Counter()

    def begin(self, columns: Sequence[str] | None) -> None:
        """Begin a block whose rows all have these columns, or each row its own if None."""
        self._sparse = columns is not None
        self._columns = () if columns is None or self._counted.decoded else columns

    # -- what the mapper calls

    def row(self, row: Any) -> None:
        """Scan a row that is a dict, or one of several."""
        if self.pending:
            self.item_events.append(self.event)
        self._latest = self.event = None
        self.pending.append(())
        self._scan(0, row)
        for number, level in self._nested:
            if not level.opened:
                self._scan_nested(number, level, row)

    def opened(self, properties: Any) -> None:
        """Scan the opened properties of the latest row."""
        self._scan(1, properties)
        for number, level in self._nested:
            if level.opened:
                self._scan_nested(number, level, properties)

    def _scan(self, number: int, record: Any) -> None:
        names = tuple(record)
        if (self._sparse or number) and isinstance(record, dict) and None in record.values():
            names = tuple([name for name in names if record[name] is not None])
        self.pending[-1] += ((number, names),)
        self._examples.show_level(number, record, names)

    def _scan_nested(self, number: int, level: Level, record: Any) -> None:
        inside = _inside(record, level)
        if inside:
            names = tuple(inside)
            self.pending[-1] += ((number, names),)
            self._examples.show_level(number, inside, names)

    def members(self, row: Any, opened: Any = None) -> None:
        """Scan a native row."""
        inside = self._open_inner(row, opened) if self._inner else ()
        shape: Hashable = row.shape() if opened is None else (row.shape(), opened.shape())
        if inside:
            shape = shape, *map(_shape_of, inside)
        known = self._known.get(shape)
        if known is None:
            known = self._known[shape] = _Known(self._names_of(row, opened, inside))
        if known.shown < EXAMPLES:
            known.shown += 1
            self._examples.show(row, opened)
        if not self._items and not self._counted.code:
            known.ordinary += 1
            self._latest = known
            return
        if self.pending:
            self.item_events.append(self.event)
        self._latest = None
        self.pending.append(known.names)

    def _open_inner(self, row: Any, opened: Any) -> list[Any]:
        """The objects inside a native row that the mapping reads into, None for each that is absent."""
        if self._reads_opened and opened is None:
            opened = next((value for value in row.values() if value.__class__ is _Members), None)
        found: list[Any] = []
        for parent, step, opener, _ in self._inner:
            record = found[parent] if parent >= 0 else opened if parent == _OF_OPENED else row
            value = None if record is None else record.get(step)
            if value is not None and value.__class__ is not _Members:
                inside = opener(value)
                value = members_of(value) if inside is None else inside
            found.append(value)
        return found

    def _names_of(self, row: Any, opened: Any, inside: Sequence[Any]) -> Shape:
        names = [(0, tuple(row))]
        names += [(1, tuple(value)) for value in (*row.values(), opened) if value.__class__ is _Members]
        names += [
            (number, tuple(one))
            for (_, _, _, number), one in zip(self._inner, inside, strict=bool(inside))
            if number and one
        ]
        return tuple(names)

    def begin_items(self) -> None:
        """Begin a row that a decoder turned into several."""
        self._items = True

    # -- what became of the rows

    def settle_event(self, event: UnvalidatedEvent) -> None:
        """Settle the latest row as an ordinary one: one event and nothing else. Without a rule it need not be counted
        here, because `end` knows how many such rows there are, unless the mapping's own code may have changed the
        name."""
        rule = event.rule
        if self._counted.code:
            self._ordinary += 1
            self._explicit[event.event or ""] += 1
            outcome = self._event_outcome(rule)
            self._rows[outcome] += 1
            self._events[self.event or "", event.event or "", outcome] += 1
        elif rule:  # which stands for both names
            try:
                self._ruled[rule] += 1
            except KeyError:
                self._ruled[rule] = 1
                self._names_of_rules[rule] = self.event or "", event.event or ""
        outcome = self._outcomes[0]
        if rule:
            try:
                number = self._settled[rule]
            except KeyError:
                number = self._settled[rule] = self._number(self._event_outcome(rule))
            outcome = self._outcomes[number]
        self._settle_shape(outcome)

    def settle(self, result: Any, sent: Sequence[str], code: str, *, rejected: bool) -> None:
        """Settle the latest row: `sent` are the names of its events. Otherwise `code` is that of a skip or reject, or
        "" for a merge or an update."""
        outcome = self._outcome(result, sent, code, rejected)
        self._count(outcome, self.event, sent[0] if sent else "")
        self._settle_shape(outcome)
        self._explicit.update(sent)

    def settle_items(self, items: Sequence[tuple[Any, Sequence[str], str, bool]]) -> None:
        """Settle the items of the latest row, each as in `settle`."""
        events = [*self.item_events, self.event]
        for shape, event, (result, sent, code, rejected) in zip(self.pending, events, items, strict=True):
            outcome = self._outcome(result, sent, code, rejected, event)
            self._count(outcome, event, sent[0] if sent else "")
            self._shapes[outcome, shape] += 1
            self._explicit.update(sent)
        self._end_row()

    def _settle_shape(self, outcome: str) -> None:
        """Count the shape of the latest row, or of the first of its items, under its outcome."""
        if self.pending:
            self._shapes[outcome, self.pending[0]] += 1
            self._end_row()
        elif self._latest is not None:
            if outcome != self._outcomes[0]:
                self._latest.ordinary -= 1
                self._shapes[outcome, self._latest.names] += 1
            self._latest = None

    def _end_row(self) -> None:
        self.pending.clear()
        self.item_events.clear()
        self._items = False

    def skip_items(self, codes: Sequence[str]) -> None:
        """Count what was left out of a row that is sent in part."""
        self._skipped_items.update(codes)

    def _outcome(self, result: Any, sent: Sequence[str], code: str, rejected: bool, event: str | None = None) -> str:
        if code:
            return (REJECT if rejected else SKIP) + code
        if not sent:
            name = event or self.event or ""
            return OTHER + (name if name in self._counted.ruled else "")
        events = result if isinstance(result, list) else [result]
        return self._event_outcome(next((one.rule for one in events if one.__class__ is UnvalidatedEvent), 0))

    def _event_outcome(self, rule: int) -> str:
        return f"{EVENT}{rule}" if rule in self._counted.changing else self._outcomes[0]

    def _number(self, outcome: str) -> int:
        number = self._numbers.get(outcome)
        if number is None:
            number = self._numbers[outcome] = len(self._outcomes)
            self._outcomes.append(outcome)
        return number

    def _count(self, outcome: str, event: str | None, sent: str) -> None:
        self._rows[outcome] += 1
        if event is not None:
            self._events[event, sent, outcome] += 1

    def end(self, ordinary: int, names: dict[str, int]) -> BlockFields:
        """End a block in which `ordinary` rows are ordinary and `names` counts the events of each name."""
        block = BlockFields(self._fields(), self._events, self._rows, self._examples.take(), self._skipped_items)
        for rule, count in self._ruled.items():
            name, sent = self._names_of_rules[rule]
            outcome = self._event_outcome(rule)
            block.events[name, sent, outcome] += count
            block.rows[outcome] += count
            self._explicit[sent] += count
            self._ordinary += count
        block.rows[self._outcomes[0]] += ordinary - self._ordinary
        self._ordinary = 0
        if block.rows.total():
            block.fields.update((0, name, COLUMN) for name in self._columns)
        self._ruled.clear()
        for name, count in names.items():
            if unsettled := count - self._explicit[name]:
                block.events[name, name, self._outcomes[0]] += unsettled
        self._events, self._rows, self._skipped_items, self._explicit = Counter(), Counter(), Counter(), Counter()
        return block

    def _fields(self) -> Counter[tuple[int, str, str]]:
        fields: Counter[tuple[int, str, str]] = Counter()
        for known in self._known.values():
            self._shapes[self._outcomes[0], known.names] += known.ordinary
        for (outcome, shape), rows in self._shapes.items():
            for number, names in shape if rows else ():
                for name in names:
                    fields[number, name, outcome] += rows
        self._known, self._shapes, self._latest = {}, Counter(), None
        return fields


def _shape_of(inside: Any) -> Hashable:
    if inside is None:
        return None
    return inside.shape() if inside.__class__ is _Members else tuple(inside)


def _inner(nested: Sequence[Level]) -> tuple[tuple[int, str, Any, int], ...]:
    """The objects inside native rows in the order in which they can be opened. Each has the index of the object it is
    in (or _OF_ROW or _OF_OPENED), its name there, what opens it, and its level, which is 0 if its names are not
    counted."""
    levels = {(level.opened, level.steps): number for number, level in enumerate(nested, 2)}
    paths = sorted({(opened, steps[:end]) for opened, steps in levels for end in range(1, len(steps) + 1)})
    index = {path: number for number, path in enumerate(paths)}
    return tuple(
        (
            index.get((opened, steps[:-1]), _OF_OPENED if opened else _OF_ROW),
            steps[-1],
            native.Opener(True),
            levels.get((opened, steps), 0),
        )
        for opened, steps in paths
    )
