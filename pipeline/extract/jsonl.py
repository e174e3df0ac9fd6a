"""Rows of a block of JSON lines: one line, one JSON text, each value kept byte for byte.

What a row can suffer, and what becomes of it (each has a test):

=======================================  ==========================================================
not JSON, NaN, Infinity, a bare value    reject `bad_json`
invalid UTF-8                            reject `bad_utf8`
more than 64 levels of nesting           reject `too_deep`
a lone surrogate escape, 1E400           reject `bad_value`: one such value makes the service refuse
                                         the whole batch (performance 4)
a key written twice                      the last value wins, warning `duplicate_key`
an integer beyond 2^53                   kept exactly, warning `unsafe_integer`
blank line                               not a row
=======================================  ==========================================================

A duplicate key *inside* a value that the mapping does not open travels on untouched, as law 6 asks.
"""

from __future__ import annotations

import bisect
import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from pipeline.extract.scan import Suspects, scan
from pipeline.schema import BrokenRow
from pipeline.values import Record, canonical

MAX_DEPTH = 64
SAFE_INTEGER = 2**53
_PIECE = 1 << 16

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)')
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89abcdefABCDEF][0-9a-fA-F]{2}")


class JsonlRows:
    """The rows of one block. `opens` names members that hold an object to be opened with the row."""

    def __init__(self, data: bytes, offset: int = 0, *, observe: bool = True, opens: Sequence[str] = ()) -> None:
        self._data = data
        self._offset = offset
        self._observe = observe
        self._opens = tuple(opens)
        self._lines = data.split(b"\n")
        if not self._lines[-1]:
            self._lines.pop()
        if not all(self._lines) or any(line.isspace() for line in self._lines if len(line) < 3):
            self._lines = [line for line in self._lines if line and not line.isspace()]
        self._starts: list[int] | None = None
        self.warnings: list[tuple[int, str, str]] = []

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        broken, odd_keys = self._inspect()
        decode = _decode
        opens = self._opens
        only = opens[0] if len(opens) == 1 else None
        marks = odd_keys
        pair = _pair_of(self._lines[0], opens) if self._lines and only else None
        row = -1
        for line in self._lines:
            row += 1
            if broken and row in broken:
                yield broken[row]
                continue
            if pair is not None:
                try:
                    both = pair.decode(line)
                except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                    pass
                else:
                    members = both.opened
                    record = {pair.other: both.other, pair.opened: members}
                    if marks is not None and marks[row] != len(members) + 2:
                        self._check_keys(row, line, record, marks[row] - len(members) - 2)
                    yield record
                    continue
            try:
                record: Record = decode(line)  # type: ignore[assignment]
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                yield self._diagnose(line)
                continue
            count = len(record)
            try:
                if only is not None:
                    inner = record[only] = decode(record[only])  # type: ignore[arg-type, assignment]
                    count += len(inner)  # type: ignore[arg-type]
                else:
                    for name in opens:
                        if name in record:
                            inner = record[name] = decode(record[name])  # type: ignore[arg-type, assignment]
                            count += len(inner)  # type: ignore[arg-type]
            except (KeyError, msgspec.MsgspecError, RecursionError):
                if only is None:
                    count += self._open_each(record)
            if marks is not None and marks[row] != count:
                self._check_keys(row, line, record, marks[row] - count)
            yield record

    def offset(self, row: int) -> int:
        """Where row (from 0) begins, in bytes of the decompressed part."""
        return self._offset + self._line_starts()[row]

    def text(self, row: int) -> str:
        """The row as it stands; bytes that are no UTF-8 appear as `\\xff`."""
        return self._lines[row].rstrip(b"\r").decode("utf-8", "backslashreplace")

    def canonical(self, row: int) -> bytes:
        """The row's record in one spelling (values.canonical)."""
        record: Record = _decode(self._lines[row])  # type: ignore[assignment]
        return canonical(record)

    # -- looking at the whole block ------------------------------------------------------------------

    def _inspect(self) -> tuple[dict[int, BrokenRow], list[int] | None]:
        """Rows that cannot be sent, and (when observing) how many `":` each row holds."""
        broken: dict[int, BrokenRow] = {}
        if not self._data:
            return broken, None
        if not self._data.isascii():
            self._find_bad_utf8(broken)
        suspects = scan(self._data, observe=self._observe)
        self._find_deep(suspects, broken)
        for row in self._rows_at(suspects.exponents, self._is_exponent):
            problem = _unsendable_number(self._lines[row])
            if problem and row not in broken:
                broken[row] = BrokenRow("bad_value", problem)
        if not self._observe:
            return broken, None
        for row in self._rows_at(suspects.long_digits):
            self._warn_integers(row)
        starts = np.asarray(self._line_starts(), np.int64)
        cuts = np.searchsorted(suspects.keys, starts)
        marks = np.diff(np.append(cuts, len(suspects.keys))).tolist()
        for row in self._rows_at(suspects.loose_colons):
            marks[row] = -1
        return broken, marks

    def _find_bad_utf8(self, broken: dict[int, BrokenRow]) -> None:
        if _is_utf8(self._data):
            return
        for row, line in enumerate(self._lines):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                broken[row] = BrokenRow("bad_utf8", f"byte {error.start} of the row: {error.reason}")

    def _find_deep(self, suspects: Suspects, broken: dict[int, BrokenRow]) -> None:
        openers = suspects.openers
        if len(openers) <= MAX_DEPTH:
            return
        spans = openers[MAX_DEPTH:] - openers[:-MAX_DEPTH]
        longest = max(map(len, self._lines))
        crowded = np.flatnonzero(spans < longest)
        for row in self._rows_at(openers[crowded]):
            deepest = depth(self._lines[row])
            if deepest > MAX_DEPTH:
                broken.setdefault(row, BrokenRow("too_deep", f"{deepest} levels of nesting; the most is {MAX_DEPTH}"))

    def _is_exponent(self, place: int) -> bool:
        """Whether this may be a number with an exponent of three digits or more: less stays in range."""
        data = self._data
        after = data[place + 2 : place + 6].lstrip(b"+")
        if len(after) < 3 or not after[:3].isdigit():
            return False
        before = data[max(0, place - 40) : place + 1].rstrip(b"0123456789.-")
        return not before or before[-1:] in b":,[ \t\r\n"

    def _warn_integers(self, row: int) -> None:
        for match in _NUMBER.finditer(self._lines[row]):
            digits = match.group(1)
            if digits and len(digits) >= 16 and digits.lstrip(b"-").isdigit() and abs(int(digits)) > SAFE_INTEGER:
                self.warnings.append((row, "unsafe_integer", f"{digits.decode()} is beyond 2^53"))

    def _check_keys(self, row: int, line: bytes, record: Record, surplus: int) -> None:
        """Tell a key written twice from a `":` inside a value or an unusual spelling."""
        if surplus > 0:
            for name in self._opens:
                inner = record.get(name)
                if type(inner) is dict:
                    surplus -= b"\0".join(inner.values()).count(b'":')
            if surplus:
                closed = [value for value in record.values() if type(value) is Raw]
                surplus -= b"\0".join(closed).count(b'":')
            if surplus == 0:
                return
        for key in _repeated_keys(line, self._opens):
            self.warnings.append((row, "duplicate_key", f"{key!r} stands more than once; the last value wins"))

    # -- places and rows -----------------------------------------------------------------------------

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            lengths = [len(line) + 1 for line in self._lines]
            if sum(lengths) in (len(self._data), len(self._data) + 1):
                self._starts = [0, *accumulate(lengths[:-1])] if lengths else []
            else:  # blank lines were left out
                starts, place = [], 0
                for line in self._data.split(b"\n"):
                    if line and not line.isspace():
                        starts.append(place)
                    place += len(line) + 1
                self._starts = starts
        return self._starts

    def _rows_at(self, places: "np.ndarray[tuple[int], np.dtype[np.int64]]", keep: object = None) -> list[int]:
        """The rows that hold these places, each once, ascending."""
        if not len(places):
            return []
        chosen = places.tolist()
        if callable(keep):
            chosen = [place for place in chosen if keep(place)]
        starts = self._line_starts() if chosen else []
        return sorted({bisect.bisect_right(starts, place) - 1 for place in chosen})

    def _open_each(self, record: Record) -> int:
        count = 0
        for name in self._opens:
            value = record.get(name)
            if type(value) is dict:
                count += len(value)
            elif type(value) is Raw:
                try:
                    inner = _decode(value)
                except (msgspec.MsgspecError, RecursionError):
                    continue
                record[name] = inner  # type: ignore[assignment]
                count += len(inner)
        return count

    def _diagnose(self, line: bytes) -> BrokenRow:
        """Why a line that could not be decoded cannot be a record."""
        line = line.rstrip(b"\r")
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            return BrokenRow("bad_utf8", f"byte {error.start} of the row: {error.reason}")
        if depth(line) > MAX_DEPTH:
            return BrokenRow("too_deep", f"{depth(line)} levels of nesting; the most is {MAX_DEPTH}")
        try:
            found = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            return BrokenRow("bad_json", str(error))
        if not isinstance(found, dict):
            return BrokenRow("bad_json", f"an object was expected, not {text[:40]!r}")
        if _ESCAPED_SURROGATE.search(line):
            return BrokenRow("bad_value", "half of a surrogate pair is escaped in the row")
        return BrokenRow("bad_json", "the row cannot be decoded")


class _Pair(NamedTuple):
    """Decodes rows of just two members, one of them opened, in one go instead of two."""

    other: str
    opened: str
    decode: Callable[[bytes], Any]


def _pair_of(line: bytes, opens: Sequence[str]) -> _Pair | None:
    """The shape of a row like `{"event": …, "properties": {…}}`, or None if it has another."""
    try:
        names = tuple(_decode(line))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    if len(names) != 2 or opens[0] not in names:
        return None
    other = names[0] if names[1] == opens[0] else names[1]
    return _pair(other, opens[0])


@cache
def _pair(other: str, opened: str) -> _Pair:
    shape = msgspec.defstruct(
        "Pair",
        [("other", Raw), ("opened", dict[str, Raw])],
        rename={"other": other, "opened": opened},
        forbid_unknown_fields=True,
        gc=False,
    )
    return _Pair(other, opened, msgspec.json.Decoder(shape).decode)


def _is_utf8(data: bytes) -> bool:
    """Whether all of it is UTF-8; looked at in pieces, since one large text costs more to hold than to check."""
    whole = memoryview(data)
    place = 0
    try:
        while place < len(whole):
            final = place + _PIECE >= len(whole)
            _, read = codecs.utf_8_decode(whole[place : place + _PIECE], "strict", final)
            place += read
    except UnicodeDecodeError:
        return False
    return True


def depth(line: bytes) -> int:
    """How deeply objects and lists are nested in a JSON text; brackets in strings do not count."""
    deepest = level = 0
    for match in re.finditer(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', line):
        token = match.group()
        if token in b"[{":
            level += 1
            deepest = max(deepest, level)
        elif token in b"]}":
            level -= 1
    return deepest


def _unsendable_number(line: bytes) -> str:
    """The first number of a line that no IEEE double holds, or ""."""
    for match in _NUMBER.finditer(line):
        digits = match.group(1)
        if digits and abs(float(digits)) == float("inf"):
            return f"{digits.decode()[:60]} is beyond the range of a number"
    return ""


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _repeated_keys(line: bytes, opens: Sequence[str]) -> list[str]:
    """Keys that stand twice at the top of the row, or at the top of a member that is opened."""
    repeated: list[str] = []

    class Pairs(list[tuple[str, object]]):
        pass

    def names(pairs: object, where: str) -> None:
        if isinstance(pairs, Pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    repeated.append(where + key)
                seen.add(key)

    top = json.loads(line, object_pairs_hook=Pairs)
    names(top, "")
    for key, member in top if isinstance(top, Pairs) else ():
        if key in opens:
            names(member, f"{key}.")
    return repeated
