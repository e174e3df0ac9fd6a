"""Rows of a block of JSON lines: one line, one JSON text, each value unchanged byte for byte.

Special rows, and their results (each has a test):

=======================================  ==========================================================
not JSON, NaN, Infinity, a bare value    reject `bad_json`
invalid UTF-8                            reject `bad_utf8`
more than 64 levels of nesting           reject `too_deep`
a lone surrogate escape, a number that   reject `bad_value`: one such value makes the service refuse
beyond a double (1E400, 400 digits)      the whole batch (docs/know/performance.md#exact-values, `pipeline.json_limits`)
several objects in a line                a row each
a key written twice                      the last value wins, warning `duplicate_key`
an integer beyond 2^53                   read exactly, warning `unsafe_integer`
blank line                               not a row
=======================================  ==========================================================

Warnings are of rows that are read; a rejected row has none. A duplicate key
*inside* a value that the mapping does not open is sent unchanged (docs/know/promises.md#exactness).
"""

from __future__ import annotations

import io
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from pipeline.extractors.joined_objects import apart
from pipeline.extractors.line_index import LineIndex, pieces
from pipeline.extractors.scan import Suspects, is_utf8, scan
from pipeline.json_limits import MAX_DEPTH, NAN_IS_NULL, beyond_double, depth, has_many_digits, unsafe_integers
from pipeline.models import BrokenRow
from pipeline.native import AVAILABLE, native
from pipeline.values import Record, canonical

PIECE_BYTES = 1 << 19
"""Rows are scanned and decoded in pieces of about this size: large enough for vector passes, and small enough that a
piece and its values fit the processor's cache."""
CUT_OFF = "terminated early"
"""How a row ends with which Mixpanel says that it gave up (docs/know/exports.md#mixpanel)."""
_HOLDERS = 16
"""At most so many members with objects inside are remembered, to count keys in them first."""

_unsafe_integers = native.unsafe_integers if AVAILABLE else unsafe_integers
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_UNSUITABLE = re.compile(r'["\\\x00-\x1f]').search
"""Names with these cannot be fields of a msgspec Struct."""
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89abcdefABCDEF][0-9a-fA-F]{2}")
_NAN = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')
_UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


class JsonlRows:
    """The rows of one block. `opens` names members whose objects are opened with the row. `joined`: several objects in
    a line are rows.

    With `members`, plain rows are `pipeline.native` Members where the C part is available.
    """

    def __init__(
        self,
        data: bytes,
        offset: int = 0,
        *,
        observe: bool = True,
        opens: Sequence[str] = (),
        members: bool = False,
        joined: bool = True,
        nan_is_null: bool = False,
        unread: Container[str] = (),
    ) -> None:
        self._data, self._added = apart(data) if joined else (data, [])
        self._members = members and AVAILABLE
        self._offset = offset
        self._observe = observe
        self._opens = tuple(opens)
        self._starts: list[int] | None = None
        self._holders: list[str] = []
        self._nan_is_null = nan_is_null
        self._unread = unread
        self.warnings: list[tuple[int, str, str]] = []

    @property
    def columns(self) -> None:
        return None

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        return self._natively() if self._members else self._rows(self._data, 0)

    def _natively(self) -> Iterator[Any]:
        """Plain rows as Members; runs of other rows by `_rows`."""
        row = 0
        others: list[bytes] = []
        for line in native.Lines(self._data, self._opens, self._observe):
            if line.__class__ is bytes:
                others.append(line)
                continue
            if others:
                for other in self._rows(b"".join(others), row):
                    yield other
                    row += 1
                others.clear()
            if line.__class__ is tuple:
                self._warn_integers(row, line[0])
                line = line[1]
            yield line
            row += 1
        yield from self._rows(b"".join(others), row)

    def _rows(self, data: bytes, first_row: int) -> Iterator[Record | BrokenRow]:
        """Every row of some lines, decoded in Python. `first_row` is the number of the first in the block."""
        opens = self._opens
        pair = _pair_of(data, opens) if len(opens) == 1 else None
        holders = self._holders
        row = first_row - 1
        for piece in pieces(data, PIECE_BYTES):
            lines = list(io.BytesIO(piece))
            broken, marks, large = self._check_piece(piece, max(map(len, lines)))
            line_number = -1
            for line in lines:
                if marks is not None or broken:
                    line_number += 1
                    if line_number in broken:
                        row += 1
                        yield broken[line_number]
                        continue
                if pair is not None:
                    # The most frequent case, written out; everything else is decoded below.
                    try:
                        both = pair.decode(line)
                    except _UNREADABLE:
                        pass
                    else:
                        row += 1
                        members = both.opened
                        record: Record = {pair.other: both.other, pair.opened: members}
                        if marks is not None and (surplus := marks[line_number] - len(members) - 2):
                            for name in holders:
                                if name in members:
                                    surplus -= bytes(members[name]).count(b'":')
                            if surplus:
                                self._check_keys(row, line, record, marks[line_number] - len(members) - 2)
                        if large and line_number in large:
                            self._warn_integers(row, line)
                        yield record
                        continue
                try:
                    record = _decode(line)  # type: ignore[assignment]
                except _UNREADABLE:
                    if line.isspace():
                        continue
                    changed = self._with_nulls(row + 1, line)
                    if changed is None:
                        row += 1
                        yield self._diagnose(line)
                        continue
                    line, record = changed
                row += 1
                count = len(record) + (self._open_each(record) if opens else 0)
                if marks is not None and marks[line_number] != count:
                    self._check_keys(row, line, record, marks[line_number] - count)
                if large and line_number in large:
                    self._warn_integers(row, line)
                yield record

    def offset(self, row: int) -> int:
        """Where row (from 0) begins, in bytes of the decompressed part."""
        start = self._row_starts()[row]
        return self._offset + start - bisect_left(self._added, start)

    def text(self, row: int) -> str:
        """The row as written; bytes that are not UTF-8 appear as `\\xff`."""
        return self._line(row).rstrip(b"\r\n").decode("utf-8", "backslashreplace")

    def canonical(self, row: int) -> bytes:
        """The row's record in one spelling (values.canonical)."""
        line = self._line(row)
        try:
            record: Record = _decode(line)  # type: ignore[assignment]
        except msgspec.MsgspecError:
            record = _decode(_NAN.sub(_null, line))  # type: ignore[assignment]
        return canonical(record)

    # -- checks of a piece ---------------------------------------------------------------------------

    def _check_piece(self, piece: bytes, longest: int) -> tuple[dict[int, BrokenRow], list[int] | None, frozenset[int]]:
        """Rows that cannot be sent, by line of the piece; when observing also how many `":` each line has, and the
        lines that may have a large integer.

        `longest` is the length of the longest line.
        """
        broken: dict[int, BrokenRow] = {}
        if not is_utf8(piece):
            _find_bad_utf8(piece, broken)
        suspects = scan(piece, observe=self._observe)
        lines = LineIndex(piece)
        _find_deep(lines, suspects, longest, broken)
        _find_beyond_double(piece, lines, suspects, broken, self._unread)
        if not self._observe:
            return broken, None, frozenset()
        marks = lines.count(suspects.keys)
        for number in lines.containing(suspects.loose_colons.tolist()):
            marks[number] = -1
        return broken, marks, frozenset(lines.containing(suspects.long_digits.tolist()))

    def _warn_integers(self, row: int, line: bytes) -> None:
        for digits in _unsafe_integers(line):
            self.warnings.append((row, "unsafe_integer", f"{digits} is beyond 2^53"))

    def _check_keys(self, row: int, line: bytes, record: Record, surplus: int) -> None:
        """Adds a warning for each repeated key, unless the surplus of `":` comes from inside values."""
        if surplus > 0 and self._is_inside(record, surplus):
            return
        for key in _repeated_keys(line, self._opens):
            self.warnings.append((row, "duplicate_key", f"{key!r} occurs more than once; the last value wins"))

    def _is_inside(self, record: Record, surplus: int) -> bool:
        """Whether that many `":` are inside the values of a record, opened members' values included.

        Members that have some are remembered: in most later rows they alone explain the surplus.
        """
        opened: list[Record] = [record[name] for name in self._opens if isinstance(record.get(name), dict)]  # type: ignore[misc]
        for members in opened:
            for name, value in members.items():
                if type(value) is Raw and (count := bytes(value).count(b'":')):
                    surplus -= count
                    if name not in self._holders and len(self._holders) < _HOLDERS:
                        self._holders.append(name)
        closed = [value for value in record.values() if type(value) is Raw]
        return surplus == b"\0".join(closed).count(b'":')

    # -- single rows ---------------------------------------------------------------------------------

    def _row_starts(self) -> list[int]:
        if self._starts is None:
            self._starts = LineIndex(self._data).row_starts()
        return self._starts

    def _line(self, row: int) -> bytes:
        start = self._row_starts()[row]
        end = self._data.find(b"\n", start) + 1
        return self._data[start : end or len(self._data)]

    def _open_each(self, record: Record) -> int:
        """Opens the members in `opens` that are objects; returns how many members these have."""
        count = 0
        for name in self._opens:
            value = record.get(name)
            if type(value) is Raw:
                try:
                    inner = _decode(value)
                except _UNREADABLE:
                    continue
                record[name] = inner  # type: ignore[assignment]
                count += len(inner)
        return count

    def _with_nulls(self, row: int, line: bytes) -> tuple[bytes, Record] | None:
        """A line with null for NaN and the infinities, which are not JSON, and its record; None if it has other
        faults."""
        changed = _NAN.sub(_null, line) if self._nan_is_null else b""
        try:
            record: Record = _decode(changed)  # type: ignore[assignment]
        except _UNREADABLE:
            return None
        for name in dict.fromkeys(match[1].decode() for match in _NAN.finditer(line) if match[1]):
            self.warnings.append((row, "nan_value", f"a value is {name}; read as null"))
        return changed, record

    def _diagnose(self, line: bytes) -> BrokenRow:
        """Why a line that could not be decoded cannot be a record."""
        line = line.rstrip(b"\r\n")
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            return BrokenRow("bad_utf8", f"byte {error.start} of the row: {error.reason}")
        if depth(line) > MAX_DEPTH:
            return BrokenRow("too_deep", f"{depth(line)} levels of nesting; the most is {MAX_DEPTH}")
        if text.rstrip().endswith(CUT_OFF):
            return BrokenRow("cut_off", f"the tool ended the export here, and wrote {CUT_OFF!r}")
        try:
            value = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            return BrokenRow("bad_json", str(error))
        if not isinstance(value, dict):
            return BrokenRow("bad_json", f"an object was expected, not {text[:40]!r}")
        if _ESCAPED_SURROGATE.search(line):
            return BrokenRow("bad_value", "half of a surrogate pair is escaped in the row")
        return BrokenRow("bad_json", "the row cannot be decoded")


class _Pair(NamedTuple):
    """Decodes rows of two members, one of them opened, in one step instead of two."""

    other: str
    opened: str
    decode: Callable[[bytes], Any]


def _pair_of(data: bytes, opens: Sequence[str]) -> _Pair | None:
    """The decoder for a first row like `{"event": …, "properties": {…}}`, None for any other."""
    end = data.find(b"\n") + 1 or len(data)
    try:
        names = tuple(_decode(data[:end]))
    except _UNREADABLE:
        return None
    if len(names) != 2 or opens[0] not in names or any(map(_UNSUITABLE, names)):
        return None
    other = names[0] if names[1] == opens[0] else names[1]
    return _pair(other, opens[0])


@lru_cache(maxsize=16)
def _pair(other: str, opened: str) -> _Pair:
    shape = msgspec.defstruct(
        "Pair",
        [("other", Raw), ("opened", dict[str, Raw])],
        rename={"other": other, "opened": opened},
        forbid_unknown_fields=True,
        gc=False,
    )
    return _Pair(other, opened, msgspec.json.Decoder(shape).decode)


def _null(match: re.Match[bytes]) -> bytes:
    return b"null" if match[1] else match[0]


def _find_bad_utf8(piece: bytes, broken: dict[int, BrokenRow]) -> None:
    for number, line in enumerate(io.BytesIO(piece)):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            broken[number] = BrokenRow("bad_utf8", f"byte {error.start} of the row: {error.reason}")


def _find_deep(lines: LineIndex, suspects: Suspects, longest: int, broken: dict[int, BrokenRow]) -> None:
    openers = suspects.openers
    if len(openers) <= MAX_DEPTH or (openers[MAX_DEPTH:] - openers[:-MAX_DEPTH]).min() >= longest:
        return
    for number, count in enumerate(lines.count(openers)):
        deepest = depth(lines.line(number)) if count > MAX_DEPTH else 0
        if deepest > MAX_DEPTH:
            broken.setdefault(number, BrokenRow("too_deep", f"{deepest} levels of nesting; the most is {MAX_DEPTH}"))


def _find_beyond_double(
    piece: bytes, lines: LineIndex, suspects: Suspects, broken: dict[int, BrokenRow], unread: Container[str]
) -> None:
    suspected = set(
        lines.containing(position for position in suspects.exponents.tolist() if _is_exponent(piece, position))
    )
    suspected.update(
        number for number in lines.containing(suspects.digit_runs.tolist()) if has_many_digits(lines.line(number))
    )
    for number in sorted(suspected):
        line = lines.line(number)
        problem = beyond_double(line)
        if problem and unread:
            with suppress(*_UNREADABLE):
                problem = next(
                    filter(None, (beyond_double(v) for n, v in _decode(line).items() if n not in unread)), ""
                )
        if problem:
            broken.setdefault(number, BrokenRow("bad_value", problem))


def _is_exponent(piece: bytes, position: int) -> bool:
    """Whether this may be a number with an exponent of three digits or more: less stays in range."""
    after = piece[position + 2 : position + 6].lstrip(b"+")
    if len(after) < 3 or not after[:3].isdigit():
        return False
    before = piece[max(0, position - 40) : position + 1].rstrip(b"0123456789.-")
    return not before or before[-1:] in b":,[ \t\r\n"


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} {NAN_IS_NULL}")


def _repeated_keys(line: bytes, opens: Sequence[str]) -> list[str]:
    """Keys that occur twice at the top of the row, or at the top of a member that is opened."""
    repeated: list[str] = []

    class Pairs(list[tuple[str, object]]):
        pass

    def names(pairs: object, where: str) -> None:
        if isinstance(pairs, Pairs):
            names_before: set[str] = set()
            for key, _ in pairs:
                if key in names_before:
                    repeated.append(where + key)
                names_before.add(key)

    top = json.loads(line, object_pairs_hook=Pairs)
    names(top, "")
    for key, member in top if isinstance(top, Pairs) else ():
        if key in opens:
            names(member, f"{key}.")
    return repeated
