"""Count each field's kinds of values and its empty values, and keep a few examples. Memory is bounded."""

from __future__ import annotations

import re
from collections import Counter

import msgspec
from msgspec import Raw

from pipeline import values
from pipeline.survey.shape import FieldSurvey
from pipeline.text import printable
from pipeline.values import Record, Value

MOST_FIELDS = 5_000
"""Fields beyond this number are only counted together: an export with ids for keys must not fill the memory."""
MOST_EXAMPLES = 5
EXAMPLE_CHARACTERS = 40
PATH_CHARACTERS = 200
"""Longer names are cut: a key may be as long as a record."""

NULL, BLANK, OBJECT, OBJECT_TEXT = "null", "blank", "object", "object in text"
KINDS = (
    NULL, BLANK, "text", "integer", "number", "boolean", "list", OBJECT,
    "integer in text", "number in text", "time in text", "date in text", "uuid in text", "list in text", OBJECT_TEXT,
)  # fmt: skip
"""The kinds of value. `number` has a fraction or an exponent; `time in text` is ISO 8601 with a T or a space."""

_EMPTY = frozenset((NULL, BLANK))
_OPENED = frozenset((OBJECT, OBJECT_TEXT))
_NO_EXAMPLE = _EMPTY | _OPENED
_EXAMPLE_VALUES = 200
"""Examples are chosen among the first values of a field: decoding every value costs as much as counting it."""
_SPELLED = re.compile(
    r"(?P<integer>[+-]?\d+)|(?P<number>[+-]?\d+\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*)|(?P<date>\d{4}-\d\d-\d\d)",
    re.ASCII,
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_QUOTE = ord('"')
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ$_/")
_BY_HEAD = {ord("{"): OBJECT, ord("["): "list", ord("n"): NULL, ord("t"): "boolean", ord("f"): "boolean"}
_decode_list = msgspec.json.Decoder(list[Raw]).decode


def kind_of(value: Value) -> str:
    """One of KINDS."""
    if type(value) is Raw:
        raw = bytes(value)
        kind = _BY_HEAD.get(raw[0])
        if kind is not None:
            return kind
        if raw[0] == _QUOTE:
            # Among strings that begin with a letter only uuids have their own kind, so most need not be decoded.
            return "text" if raw[1] in _LETTERS and len(raw) != 38 else kind_of_text(values.text(value) or "")
        return "integer" if raw.isdigit() or not any(mark in raw for mark in (b".", b"e", b"E")) else "number"
    if type(value) is str:
        return kind_of_text(value)
    if value is None:
        return NULL
    if type(value) is bool:
        return "boolean"
    return "integer" if type(value) is int else "number"


def kind_of_text(text: str) -> str:
    """The kind of a string, by its content."""
    head = text[:1]
    if head in "0123456789-+" and head:
        match = _SPELLED.fullmatch(text) if len(text) < 64 else None
        if match is not None:
            return f"{match.lastgroup} in text"
    if len(text) == 36 and _UUID.fullmatch(text):
        return "uuid in text"
    if head == "{":
        try:
            values.opened(text)
        except values.BadValue:
            return "text"
        return OBJECT_TEXT
    if head == "[":
        try:
            _decode_list(text.encode("utf-8", "surrogatepass"))
        except (msgspec.MsgspecError, RecursionError):
            return "text"
        return "list in text"
    return BLANK if not text or text.isspace() else "text"


class _Tally:
    __slots__ = ("example_values", "examples", "kinds")

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.examples: list[str] = []
        self.example_values = 0


class Fields:
    """Tallies by path, in the order of the first value. `left_out` counts values of fields beyond the limit."""

    def __init__(self, most: int = MOST_FIELDS) -> None:
        self._most = most
        self._count = 0
        self._tables: dict[str, dict[str, _Tally]] = {"": {}}
        self.left_out = 0

    def add(self, record: Record) -> dict[str, Record]:
        """Count one row: its members, and the members of those that are objects. Returns these objects, decoded."""
        opened: dict[str, Record] = {}
        for name in self._count_members(self._tables[""], record):
            members = values.opened(record[name])
            if not members:
                continue
            opened[name] = members
            key = name[:PATH_CHARACTERS]
            table = self._tables.get(key)
            if table is None:
                if self._count >= self._most:
                    self.left_out += len(members)
                    continue
                table = self._tables[key] = {}
            self._count_members(table, members)
        return opened

    def _count_members(self, table: dict[str, _Tally], record: Record) -> list[str]:
        """Count the members of one object. Returns the names of those that are objects themselves."""
        objects = []
        for name, value in record.items():
            kind = kind_of(value)
            if kind in _OPENED:
                objects.append(name)
            tally = table.get(name) or self._tally(table, name)
            if tally is None:
                self.left_out += 1
                continue
            kinds = tally.kinds
            kinds[kind] = kinds.get(kind, 0) + 1
            if tally.example_values < _EXAMPLE_VALUES and kind not in _NO_EXAMPLE:
                tally.example_values += 1
                example = printable(values.text(value) or "", EXAMPLE_CHARACTERS)
                if len(tally.examples) < MOST_EXAMPLES and example not in tally.examples:
                    tally.examples.append(example)
        return objects

    def _tally(self, table: dict[str, _Tally], name: str) -> _Tally | None:
        """The tally for a name that is new or was cut; None if there are too many."""
        name = name[:PATH_CHARACTERS]
        if name not in table:
            if self._count >= self._most:
                return None
            self._count += 1
            table[name] = _Tally()
        return table[name]

    def surveyed(self, rows: int, roles: dict[str, str]) -> list[FieldSurvey]:
        """Every field, followed by the members of its objects. `rows` were read; `roles` are by path.

        If two fields have one path, such as a column `a.b` and the member `b` of an object `a`, the second is `a.b__2`.
        """
        tallies: list[tuple[str, _Tally]] = []
        for name, tally in self._tables[""].items():
            tallies.append((name, tally))
            tallies.extend((f"{name}.{member}", inner) for member, inner in self._tables.get(name, {}).items())
        times: Counter[str] = Counter()
        fields = []
        for path, tally in tallies:
            times[path] += 1
            filled = sum(count for kind, count in tally.kinds.items() if kind not in _EMPTY)
            fields.append(
                FieldSurvey(
                    path if times[path] == 1 else f"{path}__{times[path]}",
                    dict(sorted(tally.kinds.items(), key=lambda pair: (-pair[1], pair[0]))),
                    filled,
                    round((rows - filled) / rows if rows else 0.0, 4),
                    list(tally.examples),
                    roles.get(path, ""),
                )
            )
        return fields
