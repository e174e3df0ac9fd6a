"""The values of a query's answer as exact JSON values.

Instants are ISO 8601 in UTC with `Z`, with as many digits of fraction as their type has (at least six); years outside 0
to 9999 have a sign and six digits or more, and year 0 is 1 BC. Infinite values and NaN are strings. Bytes are
hexadecimal. A type that Arrow cannot represent exactly is a string as the database writes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from duckdb.sqltypes import DuckDBPyType

_CONTAINERS = frozenset({"list", "array", "struct", "tuple", "map", "union"})
_EXACT_IN_ARROW = frozenset({
    "null", "boolean", "tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint",
    "hugeint", "float", "double", "decimal", "varchar", "uuid", "blob", "date", "time", "timestamp", "timestamp_s",
    "timestamp_ms", "timestamp_ns", "timestamp with time zone",
})  # fmt: skip
_WHOLE_NUMBERS = frozenset({"hugeint", "uhugeint", "bignum"})

_EPOCH = date(1970, 1, 1)
_DAYS_OF_400_YEARS = 146_097
_UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Digits of a second's fraction."""
_LAST_DATE, _LAST_INSTANT = 2**31 - 1, 2**63 - 1
"""DuckDB's values for infinity; their negatives mean minus infinity."""
_YEAR_1, _YEAR_10000 = -719_162 * 86_400, 2_932_897 * 86_400
"""The first seconds of these years since 1970. Between them Arrow formats instants, which is faster."""


def exact(relation: DuckDBPyRelation) -> DuckDBPyRelation:
    """The same rows, with values that Arrow cannot represent exactly turned into strings."""
    if all(_is_exact(kind) for kind in relation.types):
        return relation
    columns = (
        f"#{number}" if _is_exact(kind) else f"CAST(#{number} AS {_sent_as(kind)})"
        for number, kind in enumerate(relation.types, 1)
    )
    return relation.project(", ".join(columns))


def values(column: pa.Array, kind: DuckDBPyType) -> list[Any]:
    """A column of `exact` as JSON values; `kind` is the column's type before. Numbers are int, float or Decimal."""
    if kind.id in _CONTAINERS:
        return _contained(column, kind)
    shape = column.type
    if pa.types.is_timestamp(shape):
        return _instants(column)
    if pa.types.is_date(shape):
        return _each(column.view(pa.int32()), _LAST_DATE, _day)
    if pa.types.is_time(shape):
        return _each(column.view(pa.int64()), _LAST_INSTANT, _time)
    python: list[Any] = column.to_pylist()
    if kind.id in _WHOLE_NUMBERS:
        return [None if value is None else int(value) for value in python]
    if pa.types.is_floating(shape):
        return [value if value is None or math.isfinite(value) else _not_finite(value) for value in python]
    if pa.types.is_binary(shape):
        return [None if value is None else value.hex() for value in python]
    return python


def _is_exact(kind: DuckDBPyType) -> bool:
    if kind.id in _CONTAINERS and kind.id != "array":
        return all(_is_exact(part) for _, part in _parts(kind))
    return kind.id in _EXACT_IN_ARROW


def _sent_as(kind: DuckDBPyType) -> str:
    """The SQL type in which values of this type leave the database."""
    if _is_exact(kind):
        return str(kind)
    parts = [(name, _sent_as(part)) for name, part in _parts(kind)] if kind.id in _CONTAINERS else []
    if kind.id in ("list", "array"):
        return parts[0][1] + "[]"
    if kind.id in ("map", "tuple"):
        return f"{kind.id}({', '.join(text for _, text in parts)})"
    if kind.id in ("struct", "union"):
        return f"{kind.id}({', '.join(_quoted(name) + ' ' + text for name, text in parts)})"
    return "VARCHAR"


def _parts(kind: DuckDBPyType) -> list[tuple[str, DuckDBPyType]]:
    """The named parts of a type, without a union's tag and an array's length."""
    parts: list[Any] = kind.children
    return parts[:1] if kind.id == "array" else parts[1:] if kind.id == "union" else parts


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _contained(column: pa.Array, kind: DuckDBPyType) -> list[Any]:
    parts = _parts(kind)
    if kind.id in ("list", "array"):
        return _runs(column, values(column.values, parts[0][1]))
    if kind.id == "map":
        keys, items = values(column.keys, parts[0][1]), values(column.items, parts[1][1])
        return _runs(column, [list(pair) for pair in zip(keys, items, strict=True)])
    if kind.id == "union":
        members = [values(column.field(number), part) for number, (_, part) in enumerate(parts)]
        return [members[tag][row] for row, tag in enumerate(column.type_codes.to_pylist())]
    fields = [values(column.field(number), part) for number, (_, part) in enumerate(parts)]
    rows: Iterator[Any] = map(list, zip(*fields, strict=True))
    if kind.id == "struct":
        names = [name for name, _ in parts]
        rows = (dict(zip(names, row, strict=True)) for row in rows)
    return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]


def _runs(column: pa.Array, flat: list[Any]) -> list[Any]:
    ends = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    return [flat[ends[row] : ends[row + 1]] if valid[row] else None for row in range(len(column))]


def _instants(column: pa.Array) -> list[str | None]:
    unit = column.type.unit
    if column.type.tz not in (None, "UTC"):  # like the real service: in the zone, with its offset
        return [None if moment is None else moment.isoformat(timespec="microseconds") for moment in column.to_pylist()]
    import pyarrow.compute as pc  # takes a tenth of a second to load, and few answers have instants

    digits = _UNITS[unit]
    numbers = column.view(pa.int64())
    low, high = (max(-_LAST_INSTANT + 1, _YEAR_1 * 10**digits), min(_LAST_INSTANT, _YEAR_10000 * 10**digits))
    bounds = pc.min_max(numbers)
    if not (bounds["min"].is_valid and bounds["min"].as_py() >= low and bounds["max"].as_py() < high):
        return _each(numbers, _LAST_INSTANT, lambda number: _instant(number, digits))
    naive = numbers.view(pa.timestamp(unit)).cast(pa.timestamp("ns" if digits == 9 else "us"))
    return list(pc.strftime(naive, format="%Y-%m-%dT%H:%M:%SZ").to_pylist())


def _each(numbers: pa.Array, infinite: int, text: Callable[[int], str]) -> list[str | None]:
    endless = {None: None, infinite: "infinity", -infinite: "-infinity"}
    return [endless[value] if value in endless else text(value) for value in numbers.to_pylist()]


def _instant(number: int, digits: int) -> str:
    """An instant of any year, from its count of units since 1970."""
    seconds, fraction = divmod(number, 10**digits)
    days, second = divmod(seconds, 86_400)
    shown = max(digits, 6)
    return f"{_day(days)}T{_clock(second)}.{fraction * 10 ** (shown - digits):0{shown}d}Z"


def _day(days: int) -> str:
    """A day of any year, from its count since 1970; the calendar repeats every 400 years."""
    cycles, day = divmod(days, _DAYS_OF_400_YEARS)
    near = _EPOCH + timedelta(day)
    year = near.year + 400 * cycles
    return f"{year:04d}-{near:%m-%d}" if 0 <= year <= 9999 else f"{year:+07d}-{near:%m-%d}"


def _time(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    return _clock(seconds) + (f".{fraction:06d}" if fraction else "")


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _not_finite(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
