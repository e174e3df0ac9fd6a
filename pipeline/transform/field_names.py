"""Finds which of the field names that a mapping requires occur in the rows of a source.

Rows are scanned until every name occurred, because a report has to be true of the whole source. Until then a row of a
table costs nothing, since all rows of a block have the same columns; a row of JSON lines costs one call of the C part,
or in Python a count of its names; an object that is still JSON text costs a search for the names, and is decoded only
where they may be in it.

Other names are collected, too, so that the one that was meant can be suggested: those of rows with the number of rows
that have them, those of objects that are still text from the first rows of a block; of very many, the first in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Any, TypeAlias

from msgspec import Raw

from pipeline.mapper.codegen.runtime import members_of
from pipeline.mapper.program.functions import decode_row
from pipeline.mapper.program.references import find
from pipeline.mapper.program.required_fields import Level, Wanted
from pipeline.models import RejectReason
from pipeline.native import AVAILABLE, native
from pipeline.values import NULL, BadValue

Names: TypeAlias = Mapping[Level, Mapping[str, int]]
"""Of objects in rows, the names of their members and how many rows have each; 0 where they were not counted."""

MOST_NAMES = 2_000
"""Beside the required names, at most this many names of one object are collected from a block, and from a source."""
SAMPLE = 64
"""Other names are collected from this many objects of a block that are still text."""
ROW, OPENED = Level(False, ()), Level(True, ())
_Members: Any = native.Members if AVAILABLE else None


class _NestedNames:
    """An object inside a row with required names, of its own or of the objects inside it."""

    def __init__(self, level: Level, wanted: Mapping[Level, Iterable[str]]) -> None:
        self.level = level
        self._wanted = frozenset(wanted.get(level, ()))
        depth = len(level.steps)
        below = {other for other in wanted if other.opened == level.opened and other.steps[:depth] == level.steps}
        steps = dict.fromkeys(other.steps[depth] for other in below if len(other.steps) > depth)
        self.inside = {step: _NestedNames(Level(level.opened, (*level.steps, step)), wanted) for step in steps}
        texts = {name for other in below for name in wanted[other]}
        self._texts = tuple(f'"{name}"' for name in sorted(texts))
        self._bytes = tuple(text.encode("utf-8", "surrogatepass") for text in self._texts)
        self._rows = 0
        self.names: dict[str, int] = {}

    def scan(self, value: Any, sample: bool = True) -> None:
        """Scan a member of a row, whatever its type. With `sample`, other names may be collected, too."""
        sample = sample and self._rows < SAMPLE
        if not sample:
            # JSON without a backslash spells a name in one way: where that is missing, nothing has to be decoded.
            if value.__class__ is Raw:
                text = bytes(value)
                if b"\\" not in text:
                    for quoted in self._bytes:  # not any(): this runs once for every row
                        if quoted in text:
                            break
                    else:
                        return
            elif value.__class__ is str and "\\" not in value and not any(name in value for name in self._texts):
                return
        record = value if value.__class__ is dict or value.__class__ is _Members else members_of(value)
        if not record:
            return
        if sample:
            self._rows += 1
            self.names.update(dict.fromkeys(record, 0))
        for name in self._wanted:
            if name in record:
                self.names[name] = 0
        self.scan_nested(record, sample)

    def scan_nested(self, record: Any, sample: bool = True) -> None:
        """Scan the objects inside an object."""
        for step, nested in self.inside.items():
            value = record.get(step)
            if value is not None:
                nested.scan(value, sample)

    def take(self) -> Iterator[tuple[Level, dict[str, int]]]:
        """The names of this object and of those inside, each with 0, because rows are not counted."""
        names, self.names, self._rows = self.names, {}, 0
        if names:
            yield self.level, names
        for nested in self.inside.values():
            yield from nested.take()


class FieldNameScan:
    """Scans for the required names that have not occurred yet in this process, block by block."""

    def __init__(self, wanted: Wanted) -> None:
        self._open = wanted.open
        self._column = wanted.open.arguments["ref"][1:] if wanted.open is not None and _is_column(wanted.open) else None
        self._decode = wanted.decode
        self._names: dict[Level, set[str]] = {}
        for reference in wanted.references:
            for level, name in path_of(reference.level, reference.name):
                self._names.setdefault(level, set()).add(name)
        self._named = {level: frozenset(names) for level, names in self._names.items()}
        self._columns: Sequence[str] | None = None
        self._row_names: Counter[str] = Counter()
        self._opened_names: Counter[str] = Counter()
        self._tally: Any = native.Tally() if AVAILABLE else None
        self._choose_scan()

    def _choose_scan(self) -> None:
        """Choose how rows are scanned for the remaining names."""
        self._row, self._opened = _NestedNames(ROW, self._names), _NestedNames(OPENED, self._names)
        opened = any(level.opened for level in self._names)
        self._apart = opened and self._column is None
        self._within = self._column if opened else None
        self._counts_row, self._counts_opened = ROW in self._names, OPENED in self._names

    def begin(self, columns: Sequence[str] | None) -> Callable[[Any], None] | None:
        """The function to call with each good row of the next block before it is changed; None where none is needed.

        `columns` are those that all of its rows have, None where each has its own.
        """
        self._columns = columns if self._decode is None else None
        if not self._names:
            return None
        if self._decode is not None:
            return self._scan_decoded
        inside = self._row.inside or self._within or self._apart
        if columns is not None:
            return self._scan_nested if inside else None
        if self._tally is not None and not self._row.inside and not self._opened.inside and not self._apart:
            return self._scan_flat
        return self._scan

    def _scan_flat(self, row: Any) -> None:
        """Scan a row for names of its own and of the opened properties alone."""
        if row.__class__ is _Members:
            self._tally(row)
            if self._within is None or (value := row.get(self._within)) is None or value.__class__ is _Members:
                return
            self._opened.scan(value)
        else:
            self._scan(row)

    def _scan(self, row: Any) -> None:
        if row.__class__ is dict:
            if self._counts_row:
                self._row_names.update(row.keys())
        elif self._counts_row or self._counts_opened:
            self._tally(row)
        self._scan_nested(row)

    def _scan_nested(self, row: Any) -> None:
        self._row.scan_nested(row)
        if self._within is not None:
            self._scan_opened(row.get(self._within))
        elif self._apart and self._open is not None:
            for call in self._open.arguments["first"] if self._open.verb == "first" else (self._open,):
                value = find(call, row)
                if value is not None and value != NULL:
                    self._scan_opened(value)
                    return

    def _scan_opened(self, value: Any) -> None:
        if value is None:
            return
        if value.__class__ is dict:
            if self._counts_opened:
                self._opened_names.update(value.keys())
            self._opened.scan_nested(value)
        elif value.__class__ is _Members:  # the tally counts its names
            self._opened.scan_nested(value)
        else:
            self._opened.scan(value)

    def _scan_decoded(self, row: Any) -> None:
        assert self._decode is not None
        try:
            records = decode_row(self._decode, dict(row))
        except BadValue:
            return
        for record in records:
            if not isinstance(record, RejectReason):
                self._scan(record)

    def end(self, rows: int) -> Names:
        """End a block of so many good rows. Returns the names of the objects that have required names."""
        counts = {ROW: self._row_names, OPENED: self._opened_names}
        self._row_names, self._opened_names = Counter(), Counter()
        if self._columns is not None and rows:
            counts[ROW].update(dict.fromkeys(self._columns, rows))
        for _, level, name, times in self._tally.take() if self._tally is not None else ():
            counts[OPENED if level else ROW][name] += times
        for inside, names in (*self._row.take(), *self._opened.take()):
            counts.setdefault(inside, Counter()).update(names)
        block = {level: _bounded(count, self._named[level]) for level, count in counts.items() if level in self._names}
        remaining = {level: names - block.get(level, {}).keys() for level, names in self._names.items()}
        remaining = {level: names for level, names in remaining.items() if names}
        if remaining != self._names:
            self._names = remaining
            self._choose_scan()
        return {level: names for level, names in block.items() if names}


def path_of(level: Level, name: str) -> Iterator[tuple[Level, str]]:
    """The names on the way to a name, each with the object that has it, itself last."""
    for number, step in enumerate(level.steps):
        yield Level(level.opened, level.steps[:number]), step
    yield level, name


def _is_column(call: Any) -> bool:
    return bool(call.verb == "ref" and call.arguments["ref"].count("/") == 1 and call.arguments["ref"][0] == "/")


def _bounded(count: Mapping[str, int], wanted: frozenset[str]) -> dict[str, int]:
    """The required names, and of the others the first in order."""
    others = nsmallest(MOST_NAMES, count.keys() - wanted) if len(count) > MOST_NAMES else sorted(count.keys() - wanted)
    return {name: count[name] for name in (*sorted(wanted & count.keys()), *others)}
