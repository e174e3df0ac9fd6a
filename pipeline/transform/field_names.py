"""Which of the names that a mapping requires occur in the rows of a source: a plan compares them.

Every row is scanned until all names were found, because what is reported of a source has to be true of all of it. Until
then a row of a table costs nothing, since its columns stand in the block's head; a row of JSON lines one call of the C
part, or in Python the tuple of its names; an object that is still a text a search for the names, and it is opened only
where they may be there.

Other names are kept beside them, so that the one that was meant can be suggested: those of rows with how many rows have
them, those of objects that are still texts from the first rows of each block; of very many, the first in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Any, TypeAlias

from msgspec import Raw

from pipeline.mapper.functions import decode_row
from pipeline.mapper.references import find
from pipeline.mapper.required_fields import Level, Wanted
from pipeline.mapper.runtime import members_of
from pipeline.native import AVAILABLE, native
from pipeline.values import NULL, BadValue, Record

Names: TypeAlias = Mapping[Level, Mapping[str, int]]
"""Of objects in rows, the names of their members and how many rows have each; 0 where they were not counted."""

MOST_NAMES = 2_000
"""So many names of one object are kept of a block, and of a source, beside the required ones."""
SAMPLE = 64
"""From so many objects of a block that are still texts other names are kept."""
ROW, OPENED = Level(False, ()), Level(True, ())
_Members: Any = native.Members if AVAILABLE else None


class _NameCounter:
    """Counts the names of dicts. Most rows have the names of one that was there before, so those are kept by number."""

    def __init__(self) -> None:
        self._usual: dict[int, tuple[tuple[str, ...], list[int]]] = {}
        self._names: Counter[str] = Counter()

    def add(self, found: Record) -> None:
        """Count the names of one row."""
        shape = tuple(found)
        usual = self._usual.get(len(shape))
        if usual is not None and usual[0] == shape:
            usual[1][0] += 1
            return
        if usual is not None:
            self._add_up(*usual)
        self._usual[len(shape)] = shape, [1]

    def take(self) -> Counter[str]:
        """How many rows had each name since the last time."""
        for usual in self._usual.values():
            self._add_up(*usual)
        self._usual = {}
        names, self._names = self._names, Counter()
        return names

    def _add_up(self, shape: tuple[str, ...], times: list[int]) -> None:
        for name in shape:
            self._names[name] += times[0]


class _NestedNames:
    """An object inside a row with required names, of its own or of the objects inside it."""

    def __init__(self, level: Level, wanted: Mapping[Level, Iterable[str]]) -> None:
        self.level = level
        self._wanted = frozenset(wanted.get(level, ()))
        depth = len(level.steps)
        below = {one for one in wanted if one.opened == level.opened and one.steps[:depth] == level.steps}
        steps = dict.fromkeys(one.steps[depth] for one in below if len(one.steps) > depth)
        self.inside = {step: _NestedNames(Level(level.opened, (*level.steps, step)), wanted) for step in steps}
        texts = {name for one in below for name in wanted[one]}
        self._texts = tuple(f'"{name}"' for name in sorted(texts))
        self._bytes = tuple(text.encode("utf-8", "surrogatepass") for text in self._texts)
        self._rows = 0
        self.names: dict[str, int] = {}

    def scan(self, value: Any, sample: bool = True) -> None:
        """Look at a member of a row, whatever it is; `sample` says whether other names are kept from what it is in."""
        sample = sample and self._rows < SAMPLE
        if not sample:
            # JSON without a backslash spells a name in one way: where that is missing, nothing has to be opened.
            if value.__class__ is Raw:
                text = bytes(value)
                if b"\\" not in text:
                    for one in self._bytes:  # written out: once for every row
                        if one in text:
                            break
                    else:
                        return
            elif value.__class__ is str and "\\" not in value and not any(name in value for name in self._texts):
                return
        found = value if value.__class__ is dict or value.__class__ is _Members else members_of(value)
        if found:
            self.scan_members(found, sample)

    def scan_members(self, found: Any, sample: bool) -> None:
        """The same of its members."""
        if sample:
            self._rows += 1
            self.names.update(dict.fromkeys(found, 0))
        for name in self._wanted:
            if name in found:
                self.names[name] = 0
        self.scan_nested(found, sample)

    def scan_nested(self, found: Any, sample: bool = True) -> None:
        """The same of the objects inside, where the names of the object itself are counted by others."""
        for step, one in self.inside.items():
            value = found.get(step)
            if value is not None:
                one.scan(value, sample)

    def take(self) -> Iterator[tuple[Level, dict[str, int]]]:
        """The names of this object and those inside, each with 0: that it is there, and not in how many rows."""
        names, self.names, self._rows = self.names, {}, 0
        if names:
            yield self.level, names
        for one in self.inside.values():
            yield from one.take()


class FieldNameScan:
    """The required names that one process has not found yet, block by block."""

    def __init__(self, wanted: Wanted) -> None:
        self._open = wanted.open
        self._column = wanted.open.given["ref"][1:] if wanted.open is not None and _is_column(wanted.open) else None
        self._decode = wanted.decode
        self._names: dict[Level, set[str]] = {}
        for reference in wanted.references:
            for level, name in path_of(reference.level, reference.name):
                self._names.setdefault(level, set()).add(name)
        self._named = {level: frozenset(names) for level, names in self._names.items()}
        self._columns: Sequence[str] | None = None
        self._rows, self._properties = _NameCounter(), _NameCounter()
        self._tally: Any = native.Tally() if AVAILABLE else None
        self._choose_scan()

    def _choose_scan(self) -> None:
        """Choose how rows are scanned for the names that are left."""
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
                self._rows.add(row)
        elif self._counts_row or self._counts_opened:
            self._tally(row)
        self._scan_nested(row)

    def _scan_nested(self, row: Any) -> None:
        for step, one in self._row.inside.items():
            value = row.get(step)
            if value is not None:
                one.scan(value)
        if self._within is not None:
            self._scan_opened(row.get(self._within))
        elif self._apart and self._open is not None:
            for call in self._open.given["first"] if self._open.verb == "first" else (self._open,):
                value = find(call, row)
                if value is not None and value != NULL:
                    self._scan_opened(value)
                    return

    def _scan_opened(self, value: Any) -> None:
        if value is None:
            return
        if value.__class__ is dict:
            if self._counts_opened:
                self._properties.add(value)
            self._opened.scan_nested(value)
        elif value.__class__ is _Members:  # the tally has its names
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
            self._scan(record)

    def end(self, rows: int) -> Names:
        """End a block of so many good rows; gives the names of the objects that have required ones."""
        counts: dict[Level, Counter[str]] = {ROW: self._rows.take(), OPENED: self._properties.take()}
        if self._columns is not None and rows:
            counts[ROW].update(dict.fromkeys(self._columns, rows))
        for level, name, times in self._tally.take() if self._tally is not None else ():
            counts[OPENED if level else ROW][name] += times
        for inside, names in (*self._row.take(), *self._opened.take()):
            counts.setdefault(inside, Counter()).update(names)
        kept = {level: _kept(count, self._named[level]) for level, count in counts.items() if level in self._names}
        left = {level: names - kept.get(level, {}).keys() for level, names in self._names.items()}
        left = {level: names for level, names in left.items() if names}
        if left != self._names:
            self._names = left
            self._choose_scan()
        return {level: names for level, names in kept.items() if names}


def path_of(level: Level, name: str) -> Iterator[tuple[Level, str]]:
    """The names on the way to a name, each with the object that has it, itself last."""
    for number, step in enumerate(level.steps):
        yield Level(level.opened, level.steps[:number]), step
    yield level, name


def _is_column(call: Any) -> bool:
    return bool(call.verb == "ref" and call.given["ref"].count("/") == 1 and call.given["ref"][0] == "/")


def _kept(count: Mapping[str, int], wanted: frozenset[str]) -> dict[str, int]:
    """The required names, and of the others the first in order."""
    others = nsmallest(MOST_NAMES, count.keys() - wanted) if len(count) > MOST_NAMES else sorted(count.keys() - wanted)
    return {name: count[name] for name in (*sorted(wanted & count.keys()), *others)}
