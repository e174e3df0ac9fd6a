"""Count what stands in each field: its kinds of value, how often it is empty, a few examples. Memory is bounded."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

from pipeline import values
from pipeline.survey.shape import FieldSurvey
from pipeline.text import printable
from pipeline.values import Record, Value

MOST_FIELDS = 5_000
"""Fields beyond these are only counted together: an export with ids for keys must not fill the memory."""
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
_EXAMPLE_ROWS = 200
"""Examples are sought among so many values of a field: looking at every value costs as much as counting it."""
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
        known = _BY_HEAD.get(raw[0])
        if known is not None:
            return known
        if raw[0] == _QUOTE:
            # A text that begins with a letter spells nothing but, perhaps, a uuid: it need not be decoded.
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
    """The kind of a text, by what it spells."""
    head = text[:1]
    if head in "0123456789-+" and head:
        found = _SPELLED.fullmatch(text) if len(text) < 64 else None
        if found is not None:
            return f"{found.lastgroup} in text"
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
    __slots__ = ("examples", "kinds", "seen")

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.examples: list[str] = []
        self.seen = 0


class Fields:
    """Tallies by path, in the order of first sight. `left_out` counts values of fields beyond the most."""

    def __init__(self, most: int = MOST_FIELDS) -> None:
        self._most = most
        self._count = 0
        self._tables: dict[str, dict[str, _Tally]] = {"": {}}
        self.left_out = 0

    def add(self, record: Record) -> dict[str, Record]:
        """Take one row: its members, and one level into those that are objects. Gives the opened objects."""
        opened: dict[str, Record] = {}
        for name in self._take(self._tables[""], record):
            inside = values.opened(record[name])
            if not inside:
                continue
            opened[name] = inside
            key = name[:PATH_CHARACTERS]
            members = self._tables.get(key)
            if members is None:
                if self._count >= self._most:
                    self.left_out += len(inside)
                    continue
                members = self._tables[key] = {}
            self._take(members, inside)
        return opened

    def _take(self, table: dict[str, _Tally], record: Record) -> list[str]:
        """Count the members of one object; gives the names of those that are objects themselves."""
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
            if tally.seen < _EXAMPLE_ROWS and kind not in _NO_EXAMPLE:
                tally.seen += 1
                example = printable(values.text(value) or "", EXAMPLE_CHARACTERS)
                if len(tally.examples) < MOST_EXAMPLES and example not in tally.examples:
                    tally.examples.append(example)
        return objects

    def _tally(self, table: dict[str, _Tally], name: str) -> _Tally | None:
        """The tally of a name met for the first time, or of a long name; None when there are too many."""
        name = name[:PATH_CHARACTERS]
        if name not in table:
            if self._count >= self._most:
                return None
            self._count += 1
            table[name] = _Tally()
        return table[name]

    def finished(self, rows: int, roles: dict[str, str]) -> list[FieldSurvey]:
        """Every field, an object's members after it. `rows` were surveyed; `roles` are by path."""
        found = []
        for name, tally in self._tables[""].items():
            found.append(_field(name, tally, rows, roles))
            found.extend(
                _field(f"{name}.{member}", inside, rows, roles) for member, inside in self._tables.get(name, {}).items()
            )
        return _told_apart(found)


def _told_apart(found: list[FieldSurvey]) -> list[FieldSurvey]:
    """A column `a.b` beside an object `a` with a member `b`: the later is `a.b__2`, as for equal column names."""
    seen: dict[str, int] = {}
    apart = []
    for field in found:
        again = seen[field.path] = seen.get(field.path, 0) + 1
        apart.append(msgspec.structs.replace(field, path=f"{field.path}__{again}") if again > 1 else field)
    return apart


def _field(path: str, tally: _Tally, rows: int, roles: dict[str, str]) -> FieldSurvey:
    held = sum(count for kind, count in tally.kinds.items() if kind not in _EMPTY)
    types = dict(sorted(tally.kinds.items(), key=lambda pair: (-pair[1], pair[0])))
    missing = (rows - held) / rows if rows else 0.0
    return FieldSurvey(path, types, held, round(missing, 4), list(tally.examples), roles.get(path, ""))
