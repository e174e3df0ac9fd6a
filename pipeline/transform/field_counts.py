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
_NO_RULE = f"{EVENT}0"
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


@dataclass(slots=True, eq=False)
class _Known:
    """A shape of native rows, and how many of them were shown for examples."""

    names: Shape
    shown: int = 0


class FieldCounts:
    """Counts the rows of one block after another in this process. It is the `scan` of a mapper, which shows it each row
    before it changes it, and each plain row that a decoder makes of it.

    `row` and `opened` get the members of a row and those of its opened properties; `members` gets a native row and, if
    they are not among its members, its opened properties. `event` is set to the event's name as the mapping reads it,
    before the rules of `events`. Rows are counted when the block ends, those of one shape together; a native row's
    shape is known by its hash.
    """

    __slots__ = (
        "_columns", "_counted", "_examples", "_inner", "_item_events", "_known", "_nested", "_outcomes",
        "_reads_opened", "_scanned", "_settled", "_skipped_items", "_sparse", "event",
    )  # fmt: skip

    def __init__(self, counted: Counted) -> None:
        nested = counted.nested
        self._counted = counted
        self.event: str | None = None
        self._item_events: list[str | None] = []
        self._scanned: list[Shape | _Known] = []
        """The latest row, or the items of the latest row; `_item_events` are the events of all but the last."""
        self._known: dict[Hashable, _Known] = {}
        self._nested = tuple(enumerate(nested, 2))
        self._inner = _inner(nested) if AVAILABLE else ()
        self._reads_opened = any(level.opened for level in nested)
        self._examples = _Examples(nested)
        self._outcomes = {rule: f"{EVENT}{rule}" for rule in counted.changing}
        self._sparse = False
        self._columns: Sequence[str] = ()
        self._settled: list[tuple[Shape | _Known, str | None, str | None, str]] = []
        """For each row or item: its shape, its event's name as read and as sent ("" if it is not an event), and its
        outcome."""
        self._skipped_items: Counter[str] = Counter()

    def begin(self, columns: Sequence[str] | None) -> None:
        """Begin a block whose rows all have these columns, or each row its own if None."""
        self._sparse = columns is not None
        self._columns = () if columns is None or self._counted.decoded else columns

    # -- what the mapper calls

    def row(self, row: Any) -> None:
        """Scan a row that is a dict, or one of several."""
        self._begin_row(())
        self._scan(0, row)
        for number, level in self._nested:
            if not level.opened:
                self._scan_nested(number, level, row)

    def _begin_row(self, shape: Shape | _Known) -> None:
        if self._scanned:
            self._item_events.append(self.event)
        self.event = None
        self._scanned.append(shape)

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
        self._scanned[-1] += ((number, names),)  # type: ignore[operator]
        self._examples.show_level(number, record, names)

    def _scan_nested(self, number: int, level: Level, record: Any) -> None:
        inside = _inside(record, level)
        if inside:
            names = tuple(inside)
            self._scanned[-1] += ((number, names),)  # type: ignore[operator]
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
        self._begin_row(known)

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

    # -- what became of the rows

    def settle_event(self, event: UnvalidatedEvent) -> None:
        """Settle the latest row as an ordinary one: one event and nothing else."""
        outcome = self._outcomes.get(event.rule, _NO_RULE)
        self._settled.append((self._scanned[0] if self._scanned else (), self.event, event.event, outcome))
        self._end_row()

    def settle(self, result: Any, sent: Sequence[str], code: str, *, rejected: bool) -> None:
        """Settle the latest row, or the first of its items for all: `sent` are the names of its events. Otherwise
        `code` is that of a skip or reject, or "" for a merge or an update."""
        shape = self._scanned[0] if self._scanned else ()
        self._settle(shape, self.event, result, sent, code, rejected)
        self._end_row()

    def settle_items(self, items: Sequence[tuple[Any, Sequence[str], str, bool]]) -> None:
        """Settle the items of the latest row, each as in `settle`."""
        for shape, event, item in zip(self._scanned, [*self._item_events, self.event], items, strict=True):
            self._settle(shape, event, *item)
        self._end_row()

    def _settle(
        self,
        shape: Shape | _Known,
        event: str | None,
        result: Any,
        sent: Sequence[str],
        code: str,
        rejected: bool,
    ) -> None:
        if code:
            outcome = (REJECT if rejected else SKIP) + code
        elif not sent:
            outcome = OTHER + (event if event in self._counted.ruled else "")
        else:
            events = result if isinstance(result, list) else [result]
            rule = next((one.rule for one in events if one.__class__ is UnvalidatedEvent), 0)
            outcome = self._outcomes.get(rule, _NO_RULE)
        self._settled.append((shape, event, sent[0] if sent else "", outcome))

    def _end_row(self) -> None:
        self._scanned.clear()
        self._item_events.clear()

    def skip_items(self, codes: Sequence[str]) -> None:
        """Count what was left out of a row that is sent in part."""
        self._skipped_items.update(codes)

    def end(self) -> BlockFields:
        """End a block."""
        block = BlockFields(examples=self._examples.take(), skipped_items=self._skipped_items)
        for (shape, event, sent, outcome), rows in Counter(self._settled).items():
            block.rows[outcome] += rows
            if event is not None:
                block.events[event, sent or "", outcome] += rows
            for number, names in shape.names if isinstance(shape, _Known) else shape:
                for name in names:
                    block.fields[number, name, outcome] += rows
        if block.rows:
            block.fields.update((0, name, COLUMN) for name in self._columns)
        self._known, self._settled, self._skipped_items = {}, [], Counter()
        return block


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
