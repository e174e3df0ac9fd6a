"""Counts in which rows each field occurs and what became of these rows, for the coverage of a plan.

A field is a member of the row, of its opened properties, or of an object inside them that the mapping reads into. It
occurs in a row that has its name, with null as well; a blank cell of a table is no value, so its column does not occur.
The counts are exact: every row is counted as it came, before the mapping changes it, and settled under its outcome when
that is known. Of rows with a decoder, the plain rows that it makes are counted (`unit` items).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from pipeline.mapper.codegen.runtime import members_of
from pipeline.mapper.program.required_fields import Level
from pipeline.mask import masked_value
from pipeline.models import UnvalidatedEvent
from pipeline.native import AVAILABLE, native

ROW, OPENED = Level(False, ()), Level(True, ())
EVENT, OTHER, SKIP, REJECT = "event:", "other:", "skip:", "reject:"
"""How an outcome begins: the row is an event by the rule of a number (0: none); it is no event but a merge or update,
by the rule of an event's name; it is skipped or rejected with a code."""
COLUMN = "column:"
"""The outcome under which the columns of a table are counted once for each block, whether a cell has a value or not."""
EXAMPLES = 3
_MOST_COMPLETE = 2_000
_MOST_LEVELS = 62
"""Levels inside rows that the C part counts."""
_Members: Any = native.Members if AVAILABLE else None
Shapes: TypeAlias = list[tuple[int, tuple[str, ...]]]


class Counted(NamedTuple):
    """What a plan counts: `nested` are the objects inside rows that the mapping reads into, `ruled` the events' names
    that have a rule, and `changing` the numbers of the rules that change properties. `code`: the mapping has code of
    its own, which may give an event another name. `decoded`: a decoder makes the rows, so the columns of a table are
    not theirs."""

    nested: tuple[Level, ...] = ()
    ruled: frozenset[str] = frozenset()
    changing: frozenset[int] = frozenset()
    code: bool = False
    decoded: bool = False


@dataclass(slots=True)
class BlockFields:
    """What one block's rows have. `fields` counts rows by (level, name, outcome), levels numbered as in `levels` of
    FieldCounts; `events` counts them by (name as read, name as sent or "", outcome), `rows` by outcome. `examples` are
    masked values of the first three rows with a field, equal ones once. `skipped_items` counts, by code, what was left
    out of rows of which something is sent."""

    fields: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    events: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    examples: dict[tuple[int, str], list[str]] = field(default_factory=dict)
    skipped_items: Counter[str] = field(default_factory=Counter)


class _Examples:
    """Masked values of the first rows of a block with each field."""

    def __init__(self, nested: Sequence[Level]) -> None:
        self._nested = nested
        self._rows: dict[tuple[int, str], int] = {}
        self._complete: set[tuple[int, tuple[str, ...]]] = set()
        self._values: dict[tuple[int, str], list[str]] = {}

    def show(self, row: Any, opened: Any = None) -> None:
        """Take the values of a native row, and of its opened properties where they are none of its members."""
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
        """Take the values of one object of a row, unless each of its fields has enough of them."""
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
    """The object of a level inside a row or its opened properties; None or an empty one where it has none."""
    for step in level.steps:
        record = record.get(step) if record is not None else None
        if record is not None and record.__class__ is not dict and record.__class__ is not _Members:
            record = members_of(record)
    return record


class FieldCounts:
    """Counts the rows of one block after the other in this process; it is the `RowScan` of the mapper.

    `levels` are the row, its opened properties, and the objects inside that the mapping reads into. `pending` are the
    rows of dicts that were scanned and not settled: one, or the items of a row.
    """

    __slots__ = (
        "_columns", "_counted", "_events", "_examples", "_explicit", "_items", "_members", "_names_of_rules",
        "_nested", "_numbers", "_ordinary", "_outcomes", "_remaining", "_rows", "_ruled", "_settled", "_shapes",
        "_skipped_items", "_sparse", "_tally", "event", "item_events", "levels", "members", "pending",
    )  # fmt: skip

    def __init__(self, counted: Counted) -> None:
        nested = counted.nested
        self._counted = counted
        self.levels = (ROW, OPENED, *nested)
        self.event: str | None = None
        self.item_events: list[str | None] = []
        self.pending: list[Shapes] = []
        self._nested = tuple(enumerate(nested, 2))
        self._examples = _Examples(nested)
        natively = nested if len(nested) <= _MOST_LEVELS else ()
        self._remaining = () if natively else self._nested
        self._tally: Any = native.Tally(self._examples.show, natively, members_of) if AVAILABLE else None
        self._members: Any = self._scan_members if self._remaining or counted.code else self._tally
        self.members = self._members
        self._numbers: dict[str, int] = {f"{EVENT}0": 0}
        self._settled: dict[int, int] = {}
        self._outcomes = [f"{EVENT}0"]
        self._sparse = self._items = False
        self._columns: Sequence[str] = ()
        self._ordinary = 0
        self._ruled: dict[int, int] = {}
        self._names_of_rules: dict[int, tuple[str, str]] = {}
        self._shapes: dict[tuple[str, int, tuple[str, ...]], int] = {}
        self._rows: Counter[str] = Counter()
        self._events: Counter[tuple[str, str, str]] = Counter()
        self._explicit: Counter[str] = Counter()
        self._skipped_items: Counter[str] = Counter()

    def begin(self, columns: Sequence[str] | None) -> None:
        """Begin a block whose rows all have these columns, or each its own."""
        self._sparse = columns is not None
        self._columns = () if columns is None or self._counted.decoded else columns

    # -- what the mapper calls

    def row(self, row: Any) -> None:
        """Scan a row that is a dict, or one of several."""
        if self.pending:
            self.item_events.append(self.event)
        elif self._tally is not None:
            self._tally.settle(0)  # the row before this one, which the outcome of this one is not of
        if self._items and self._tally is not None:
            self._tally.begin_item()
        self.event = None
        names = tuple(row)
        if self._sparse and row.__class__ is dict and None in row.values():
            names = tuple([name for name in names if row[name] is not None])
        shapes: Shapes = [(0, names)]
        self.pending.append(shapes)
        self._examples.show_level(0, row, names)
        for number, level in self._nested:
            if not level.opened:
                self._scan_nested(number, level, row, shapes)

    def opened(self, properties: Any) -> None:
        """Scan the opened properties of the latest row."""
        shapes = self.pending[-1]
        names = tuple(properties)
        if properties.__class__ is dict and None in properties.values():
            names = tuple([name for name in names if properties[name] is not None])
        shapes.append((1, names))
        self._examples.show_level(1, properties, names)
        for number, level in self._nested:
            if level.opened:
                self._scan_nested(number, level, properties, shapes)

    def begin_items(self) -> None:
        """Begin a row that a decoder made several of."""
        self._items = True
        self.members = self._scan_item

    def _scan_item(self, row: Any, *opened: Any) -> None:
        """Scan one native row of several."""
        if self._members is not self._tally:
            self.row(row)
            if opened:
                self.opened(*opened)
            return
        if self.pending:
            self.item_events.append(self.event)
        else:
            self._tally.settle(0)
        self.pending.append([])
        self._tally.begin_item()
        self._tally(row, *opened)

    def _scan_members(self, row: Any, *opened: Any) -> None:
        """Scan a native row, and the objects inside it that are too many for the C part."""
        self._tally(row, *opened)
        shapes: Shapes = []
        self.pending.append(shapes)
        properties = next((value for value in (*opened, *row.values()) if value.__class__ is _Members), None)
        for number, level in self._remaining:
            self._scan_nested(number, level, properties if level.opened else row, shapes)

    def _scan_nested(self, number: int, level: Level, record: Any, shapes: Shapes) -> None:
        inside = _inside(record, level)
        if inside:
            names = tuple(inside)
            shapes.append((number, names))
            self._examples.show_level(number, inside, names)

    # -- what became of the rows

    def settle_event(self, event: UnvalidatedEvent) -> None:
        """The latest row is an ordinary one: one event and nothing else. Without a rule it need not be counted here,
        because `end` knows how many such rows there are, unless code of the mapping may have changed the name."""
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
        number = 0
        if rule:
            try:
                number = self._settled[rule]
            except KeyError:
                number = self._settled[rule] = self._number(self._event_outcome(rule))
            if number and self._tally is not None:
                self._tally.settle(number)
        if self.pending:
            outcome = self._outcomes[number]
            counts = self._shapes
            for level, names in self.pending[0]:
                key = outcome, level, names
                counts[key] = counts.get(key, 0) + 1
            self.pending.clear()

    def settle(self, result: Any, sent: Sequence[str], code: str, *, rejected: bool) -> None:
        """The latest row came to this: `sent` are the names of its events, else it has the code of a skip or reject,
        or "" for a merge or an update."""
        outcome = self._outcome(result, sent, code, rejected)
        if outcome != self._outcomes[0]:
            self._tally_settled(outcome)
        self._settle(outcome, self.event, sent[0] if sent else "")
        self._explicit.update(sent)

    def settle_items(self, items: Sequence[tuple[Any, Sequence[str], str, bool]]) -> None:
        """The latest row has several items that came to these, as in `settle`."""
        events = [*self.item_events, self.event]
        outcomes = []
        for shapes, event, (result, sent, code, rejected) in zip(self.pending, events, items, strict=True):
            outcome = self._outcome(result, sent, code, rejected, event)
            self._count(outcome, event, sent[0] if sent else "", shapes)
            for name in sent:
                self._explicit[name] += 1
            outcomes.append(self._number(outcome))
        if self._tally is not None:
            self._tally.settle_items(outcomes)
        self._end_row()

    def _end_row(self) -> None:
        self.pending.clear()
        self.item_events.clear()
        self._items = False
        self.members = self._members

    def skip_items(self, codes: Sequence[str]) -> None:
        """Count what was left out of a row of which something is sent."""
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

    def _tally_settled(self, outcome: str) -> None:
        if self._tally is not None:
            self._tally.settle(self._number(outcome))

    def _number(self, outcome: str) -> int:
        number = self._numbers.get(outcome)
        if number is None:
            number = self._numbers[outcome] = len(self._outcomes)
            self._outcomes.append(outcome)
        return number

    def _settle(self, outcome: str, event: str | None, sent: str) -> None:
        self._count(outcome, event, sent, self.pending[0] if self.pending else [])
        self._end_row()

    def _count(self, outcome: str, event: str | None, sent: str, shapes: Shapes) -> None:
        self._rows[outcome] += 1
        if event is not None:
            self._events[event, sent, outcome] += 1
        counts = self._shapes
        for level, names in shapes:
            key = outcome, level, names
            counts[key] = counts.get(key, 0) + 1

    def end(self, ordinary: int, names: dict[str, int]) -> BlockFields:
        """End a block of which so many rows are ordinary, and so many events have each name."""
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
        for outcome, level, name, rows in self._tally.take() if self._tally is not None else ():
            fields[level, name, self._outcomes[outcome]] += rows
        for (settled, number, names), rows in self._shapes.items():
            for name in names:
                fields[number, name, settled] += rows
        self._shapes = {}
        return fields
