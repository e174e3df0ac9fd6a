"""Rows of a block of JSON lines: one JSON text per line, each value unchanged byte for byte.

Special rows, and what becomes of them (each has a test):

=======================================  ==========================================================
not JSON, NaN, Infinity, a bare value    reject `bad_json`
invalid UTF-8                            reject `bad_utf8`
more than 64 levels of nesting           reject `too_deep`
a lone surrogate escape, a number that   reject `bad_value`: one such value makes the service refuse
beyond a double (1E400, 400 digits)      the whole batch (docs/know/performance.md#exact-values, `pipeline.json_limits`)
several objects on a line                one row each
a key written twice                      the last value wins, warning `duplicate_key`
an integer beyond 2^53                   read exactly, warning `unsafe_integer`
blank line                               not a row
=======================================  ==========================================================

Warnings concern rows that are read; a rejected row has none. A duplicate key *inside* a value that the mapping does not
open is sent unchanged (docs/know/promises.md#exactness).
"""

from __future__ import annotations

import io
import json
import re
from bisect import bisect_left
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Raw

from pipeline.extractors.json_texts import apart
from pipeline.extractors.line_blocks import row_starts
from pipeline.extractors.rows import RowOptions
from pipeline.json_limits import (
    LONG_DIGITS,
    MAX_DEPTH,
    NAN_IS_NULL,
    beyond_double,
    depth,
    kinds_of,
    may_be_beyond_double,
    unsafe_integers,
    unsendable,
)
from pipeline.models import Block, BrokenRow, Part
from pipeline.native import AVAILABLE, native
from pipeline.values import Record, canonical

_AT_ONCE = 1 << 14
"""Runs of about this many bytes are searched first: most have nothing that needs a search of each row."""
_HOLDERS = 16
"""At most about this many members with objects inside are remembered, to count their keys first."""
CUT_OFF = "terminated early"
"""How the row ends that Mixpanel writes if it gave up (docs/know/exports.md#mixpanel)."""
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89abcdefABCDEF][0-9a-fA-F]{2}")
_SPACES = bytes.maketrans(b"\t\r", b"  ")
_NAN = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')
_UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def settings_of(part: Part, options: RowOptions) -> dict[str, Any]:
    """The arguments of `JsonlRows` for the rows of a part."""
    return {
        "observe": options.observe, "opens": options.opens, "members": options.members,
        "nan_is_null": part.dialect.nan == "null", "unread": options.unread,
    }  # fmt: skip


def rows(part: Part, block: Block, content: bytes, options: RowOptions) -> JsonlRows:
    """The rows of a block."""
    return JsonlRows(content, block.offset, **settings_of(part, options))


class JsonlRows:
    """The rows of one block. `opens` names members whose objects are opened with the row. `joined`: several objects on
    a line are rows.

    With `members`, plain rows are `pipeline.native` Members if the C part is available.
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
        self._nan_is_null = nan_is_null
        self._unread = unread
        self._holders: set[str] = set()
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
        """Every row of some lines, decoded in Python. `first_row` is the block's number for the first."""
        row = first_row
        stream = io.BytesIO(data)
        while lines := stream.readlines(_AT_ONCE):
            piece = b"".join(lines)
            kinds = kinds_of(piece)
            doubtful = may_be_beyond_double(piece, kinds) or not _is_utf8(piece)
            loose = _has_loose_colon(piece)
            end = 0
            for line in lines:
                start, end = end, end + len(line)
                large = kinds.find(LONG_DIGITS, start, end) >= 0
                broken = None
                if doubtful or line.count(b"{") + line.count(b"[") > MAX_DEPTH:
                    broken = self._broken(line)
                record = broken or self._record(row, line, loose, large)
                if record is not None:
                    yield record
                    row += 1

    def _record(self, row: int, line: bytes, loose: bool, large: bool) -> Record | BrokenRow | None:
        """The record of a line if it can be sent, None for a blank line. The line may have white space before a colon
        if `loose`, and integers beyond 2^53 if `large`."""
        try:
            record: Record = _decode(line)  # type: ignore[assignment]
        except _UNREADABLE:
            if line.isspace():
                return None
            changed = self._with_nulls(row, line)
            if changed is None:
                return self._diagnose(line)
            line, record = changed
        count = len(record) + self._open_each(record)
        if self._observe:
            if loose or line.count(b'":') != count:
                self._check_keys(row, line, record, count)
            if large:
                self._warn_integers(row, line)
        return record

    def offset(self, row: int) -> int:
        """Where row (from 0) begins, in bytes of the decompressed part."""
        start = self._starts[row]
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

    def _broken(self, line: bytes) -> BrokenRow | None:
        """Why a line cannot be sent, whether or not it is JSON."""
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return BrokenRow("bad_utf8", f"byte {error.start} of the row: {error.reason}")
        problem = unsendable(line)
        if problem and (deepest := depth(line)) > MAX_DEPTH:
            return BrokenRow("too_deep", f"{deepest} levels of nesting; the most is {MAX_DEPTH}")
        if problem and self._unread:
            with suppress(*_UNREADABLE):
                read = (value for name, value in _decode(line).items() if name not in self._unread)
                problem = next(filter(None, map(beyond_double, read)), "")
        return BrokenRow("bad_value", problem) if problem else None

    def _warn_integers(self, row: int, line: bytes) -> None:
        for digits in unsafe_integers(line):
            self.warnings.append((row, "unsafe_integer", f"{digits} is beyond 2^53"))

    def _check_keys(self, row: int, line: bytes, record: Record, count: int) -> None:
        """Adds a warning for each repeated key. `count` is the number of keys that were read. The line has as many
        `":`, apart from those inside values, unless a key is repeated or white space comes before a colon."""
        if not _has_loose_colon(line) and self._is_inside(record, line.count(b'":') - count):
            return
        for key in _repeated_keys(line, self._opens):
            self.warnings.append((row, "duplicate_key", f"{key!r} occurs more than once; the last value wins"))

    def _is_inside(self, record: Record, surplus: int) -> bool:
        """Whether the values of a record, including those of opened members, contain that many `":`.

        Members that contain some are remembered: they alone explain the surplus in most later rows.
        """
        objects: list[Any] = [record, *(one for name in self._opens if isinstance(one := record.get(name), dict))]
        raws = ((one.get(name) for name in self._holders) for one in objects)
        if surplus == sum(bytes(value).count(b'":') for values in raws for value in values if type(value) is Raw):
            return True
        items = ((name, value) for one in objects for name, value in one.items() if type(value) is Raw)
        counts = [(name, count) for name, value in items if (count := bytes(value).count(b'":'))]
        if len(self._holders) < _HOLDERS:
            self._holders.update(name for name, _ in counts)
        return surplus == sum(count for _, count in counts)

    @cached_property
    def _starts(self) -> list[int]:
        return row_starts(self._data)

    def _line(self, row: int) -> bytes:
        start = self._starts[row]
        end = self._data.find(b"\n", start) + 1
        return self._data[start : end or len(self._data)]

    def _open_each(self, record: Record) -> int:
        """Opens the members in `opens` that are objects; returns how many members those have."""
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
        """A line with null for NaN and the infinities, which are not JSON, and its record; None if anything else is
        wrong with it."""
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
            return BrokenRow("cut_off", f"the tool stopped the export here and wrote {CUT_OFF!r}")
        try:
            value = json.loads(text, parse_constant=_no_constant, parse_int=str)
        except (ValueError, RecursionError) as error:
            return BrokenRow("bad_json", str(error))
        if not isinstance(value, dict):
            return BrokenRow("bad_json", f"an object was expected, not {text[:40]!r}")
        if _ESCAPED_SURROGATE.search(line):
            return BrokenRow("bad_value", "half of a surrogate pair is escaped in the row")
        return BrokenRow("bad_json", "the row cannot be decoded")


def _has_loose_colon(text: bytes) -> bool:
    """Whether white space comes before a colon. Python searches str much faster than bytes."""
    return " :" in text.translate(_SPACES).decode("latin-1")


def _is_utf8(piece: bytes) -> bool:
    try:
        return piece.isascii() or bool(piece.decode())
    except UnicodeDecodeError:
        return False


def _null(match: re.Match[bytes]) -> bytes:
    return b"null" if match[1] else match[0]


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} {NAN_IS_NULL}")


def _repeated_keys(line: bytes, opens: Sequence[str]) -> list[str]:
    """Keys that occur twice at the top of the row, or at the top of an opened member."""
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

    top = json.loads(line, object_pairs_hook=Pairs, parse_int=str, parse_float=str)  # numbers of any length
    names(top, "")
    for key, member in top if isinstance(top, Pairs) else ():
        if key in opens:
            names(member, f"{key}.")
    return repeated
