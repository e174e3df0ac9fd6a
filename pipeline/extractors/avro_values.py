"""Avro values as values of a record, equal to what the Parquet reader gives for a column with the same meaning.

===========================================  ===============================================================
type                                         value
===========================================  ===============================================================
null, boolean, string, enum                  unchanged
int, long                                    int, every digit
float                                        the shortest decimal of the 32-bit number: 3.14, not 3.140000104904175
double                                       unchanged
NaN and ±Infinity in either                  None with the warning `nan_value`
decimal of bytes or fixed                    a JSON number with its exact digits, the whole scale (`1.10`)
timestamp-(millis | micros | nanos)          `2024-03-10T02:30:00.000Z`, 3, 6 or 9 digits of fraction
local-timestamp-(millis | micros | nanos)    the same without `Z`
date, time-(millis | micros)                 `2024-03-10`, `02:30:00.000`
bytes                                        their UTF-8 text; if they are not UTF-8, the row is rejected (`bad_utf8`)
fixed                                        16 bytes: a UUID as text; other sizes: lower-case hex
record, array, map                           JSON text, its values by this table
union                                        the value of the branch that was written
===========================================  ===============================================================

Years outside 1 to 9999 and times outside a day reject the row (`bad_value`). A logical type that is unknown, or not
allowed for its type, is ignored, as the specification demands (Avro 1.12, "Logical Types"). Values are converted while
the library decodes them, through its registry of logical types, so the branch of a union need not be found again.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from fastavro.read import LOGICAL_READERS
from msgspec import Raw

from pipeline.json_limits import shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MOST_DIGITS = 308
"""A number with more digits before the decimal point is beyond a double (`pipeline.json_limits`)."""
_AS_THEY_ARE = frozenset(("null", "boolean", "int", "long", "string", "enum"))
_COMPLEX = frozenset(("record", "error", "array", "map"))


class BadSchema(ValueError):
    """The schema of a file does not describe rows."""


class Unreadable:
    """Stands in for a value that cannot be read: a code and a sentence; `nan_value` is a warning."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        self.detail = detail


class RowSchema(NamedTuple):
    """A schema to decode rows with. `converted` are the columns with values that must be converted for a record, and
    `nested` those of them whose values may be objects or lists."""

    schema: Any
    columns: tuple[str, ...]
    converted: tuple[str, ...]
    nested: frozenset[str]
    recursive: bool


def row_schema(written: Any) -> RowSchema:
    """The schema of a file, with this module's conversions as logical types. Raises BadSchema."""
    if not isinstance(written, dict) or written.get("type") not in ("record", "error"):
        raise BadSchema("its rows are not records with named fields")
    conversion = _Conversion()
    try:
        schema = conversion.schema(written, "")
        columns = tuple(field["name"] for field in schema["fields"])
    except (KeyError, TypeError, AttributeError) as error:
        raise BadSchema(f"its schema cannot be read ({type(error).__name__}: {error})") from None
    if len(set(columns)) < len(columns):
        raise BadSchema("its schema has two fields with the same name")
    kinds = {field["name"]: set(conversion.kinds(field["type"])) for field in schema["fields"]}
    converted = tuple(name for name in columns if not kinds[name] <= _AS_THEY_ARE)
    nested = frozenset(name for name in columns if kinds[name] & _COMPLEX)
    return RowSchema(schema, columns, converted, nested, conversion.recursive)


class _Conversion:
    """Rewrites one schema. `names` has the definition of each named type, `open` the types around the current one."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.open: list[str] = []
        self.recursive = False

    def schema(self, written: Any, namespace: str) -> Any:
        if isinstance(written, list):
            return [self.schema(branch, namespace) for branch in written]
        if isinstance(written, str):
            if written in _CONVERTED_PRIMITIVES:
                return {"type": written, "logicalType": _OURS + written}
            self.recursive |= written in self.open or f"{namespace}.{written}" in self.open
            return written
        kind = written["type"]
        if not isinstance(kind, str):
            return self.schema(kind, namespace)
        result = {key: value for key, value in written.items() if key not in ("logicalType", "default")}
        if kind in ("record", "error", "enum", "fixed"):
            name, namespace = _full_name(written, namespace)
            self.names[name] = self.names[name.rpartition(".")[2]] = result
            if kind in ("record", "error"):
                self.open.append(name)
                fields = [
                    {"name": field["name"], "type": self.schema(field["type"], namespace)}
                    for field in written["fields"]
                ]
                result["fields"] = fields
                self.open.pop()
        elif kind == "array":
            result["items"] = self.schema(written["items"], namespace)
        elif kind == "map":
            result["values"] = self.schema(written["values"], namespace)
        if logical := _logical_type(kind, written):
            result["logicalType"] = _OURS + logical
        return result

    def kinds(self, kind: Any) -> Iterator[str]:
        """What values of a type may be: names of Avro's types and of this module's conversions."""
        if isinstance(kind, list):
            for branch in kind:
                yield from self.kinds(branch)
            return
        if isinstance(kind, str):
            kind = self.names.get(kind, self.names.get(kind.rpartition(".")[2], kind))
        if not isinstance(kind, dict):
            yield kind
        elif "logicalType" in kind:
            yield kind["logicalType"]
        else:
            yield from self.kinds(kind["type"]) if isinstance(kind["type"], dict | list) else (kind["type"],)


def _full_name(written: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """(the name with its namespace, the namespace of types inside)."""
    name = written["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    namespace = written.get("namespace", namespace)
    return (f"{namespace}.{name}" if namespace else name), namespace


def _logical_type(kind: str, written: Mapping[str, Any]) -> str:
    """The conversion of a type; "" if its values stay as they are."""
    logical = written.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        scale, precision = written.get("scale", 0), written.get("precision")
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision:
            return "decimal"
    if isinstance(logical, str) and logical in _LOGICAL.get(kind, {}):
        return logical
    return kind if kind in _CONVERTED_PRIMITIVES or kind == "fixed" else ""


# -- conversions -------------------------------------------------------------------------------------------

_Reader = Callable[..., Any]


def _float(value: float, *_: Any) -> Any:
    if not math.isfinite(value):
        return _not_finite(value)
    return float(str(np.float32(value)))


def _double(value: float, *_: Any) -> Any:
    return value if math.isfinite(value) else _not_finite(value)


def _not_finite(value: float) -> Unreadable:
    return Unreadable("nan_value", f"is {shown(value)}")


def _text(value: bytes, *_: Any) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        return Unreadable("bad_utf8", f"byte {error.start} is not UTF-8")


def _fixed(value: bytes, *_: Any) -> str:
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else value.hex()


def _decimal(value: bytes, schema: Any, *_: Any) -> Any:
    scale = schema.get("scale", 0)
    number = int.from_bytes(value, "big", signed=True)
    if abs(number) >= 10 ** (_MOST_DIGITS + min(scale, _MOST_DIGITS)):
        return Unreadable("bad_value", f"a decimal of {len(value):,} bytes is beyond a double")
    digits = str(abs(number)).rjust(scale + 1, "0")
    sign = "-" if number < 0 else ""
    return Raw(f"{sign}{digits[:-scale]}.{digits[-scale:]}".encode() if scale else f"{sign}{digits}".encode())


def _date(value: int, *_: Any) -> Any:
    try:
        return date.fromordinal(_EPOCH_DAY + value).isoformat()
    except (ValueError, OverflowError):
        return Unreadable("bad_value", "its year is not within 1 to 9999")


def _timestamp(units: int, suffix: str) -> _Reader:
    """The reader of timestamps with `units` per second."""
    digits = len(str(units)) - 1

    def read(value: int, *_: Any) -> Any:
        seconds, fraction = divmod(value, units)
        try:
            moment = _EPOCH + timedelta(seconds=seconds)
        except OverflowError:
            return Unreadable("bad_value", "its year is not within 1 to 9999")
        return f"{moment.isoformat()[:19]}.{fraction:0{digits}}{suffix}"

    return read


def _time(units: int) -> _Reader:
    digits = len(str(units)) - 1

    def read(value: int, *_: Any) -> Any:
        if not 0 <= value < 86_400 * units:
            return Unreadable("bad_value", "it is not a time of day")
        seconds, fraction = divmod(value, units)
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:0{digits}}"

    return read


_OURS = "backcast."
_CONVERTED_PRIMITIVES: dict[str, _Reader] = {"float": _float, "double": _double, "bytes": _text}
_LOGICAL: dict[str, dict[str, _Reader]] = {
    "int": {"date": _date, "time-millis": _time(1000)},
    "long": {
        "time-micros": _time(1_000_000),
        **{
            f"{prefix}timestamp-{name}": _timestamp(units, suffix)
            for prefix, suffix in (("", "Z"), ("local-", ""))
            for name, units in (("millis", 1000), ("micros", 1_000_000), ("nanos", 1_000_000_000))
        },
    },
}
for _kind, _reader in {**_CONVERTED_PRIMITIVES, "fixed": _fixed}.items():
    LOGICAL_READERS[f"{_kind}-{_OURS}{_kind}"] = _reader
for _kind in ("bytes", "fixed"):
    LOGICAL_READERS[f"{_kind}-{_OURS}decimal"] = _decimal
for _kind, _readers in _LOGICAL.items():
    for _logical, _reader in _readers.items():
        LOGICAL_READERS[f"{_kind}-{_OURS}{_logical}"] = _reader
