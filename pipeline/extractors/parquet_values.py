"""Parquet columns as values of a record, by one table.

=================================  =========================================================================
column                             value
=================================  =========================================================================
null in any column                 None
bool, string                       unchanged
int8 … int64, uint8 … uint64       int, every digit
double                             unchanged; NaN and ±Infinity are None with the warning `nan_value`: JSON has no such
                                   number
float, half float                  the shortest decimal of this 32-bit or 16-bit number: 3.14, not
                                   3.140000104904175; NaN and ±Infinity as above
decimal                            a JSON number with its exact digits, the column's whole scale (`1.10`)
timestamp(s | ms | us | ns)        `2024-03-10T02:30:00` and 0, 3, 6 or 9 digits of fraction, depending on the unit,
                                   none dropped; `Z` if the column has a zone (it is stored in UTC then),
                                   no suffix if it has none
date                               `2024-03-10`
time(s | ms | us | ns)             `02:30:00` and digits of fraction as above; if outside a day, the row is
                                   rejected (`bad_value`)
duration                           int, in the column's unit
binary                             its UTF-8 text; if it is not UTF-8, the row is rejected (`bad_utf8`)
fixed-size binary                  16 bytes: a UUID as text; other sizes: lower-case hex
dictionary, extension              the value that it encodes
list, struct, map                  JSON text, its values by this table: struct members in order, nulls too;
                                   a map is an object with keys as text; the last of equal keys, or of members with
                                   the same name, wins, with the warning `duplicate_key`; NaN and ±Infinity inside
                                   are null, with their warning
=================================  =========================================================================

Years outside 1 to 9999 reject the row (`bad_value`). Columns are converted one at a time, which is four times as fast
as one value at a time. `to_numpy`, and Arrow scalars made from Python values, are not used: the first use imports
pandas, which costs 25 MB and half a second in each process.
"""

from __future__ import annotations

import uuid
from collections.abc import Container
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from pipeline.json_limits import shown
from pipeline.models import BrokenRow

_encode = msgspec.json.Encoder().encode
_TEXTS_OR_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_string_view)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_LIST_VIEWS = (pa.types.is_list_view, pa.types.is_large_list_view)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970."""
_UNITS_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class ColumnReader:
    """Converts the columns of one batch; collects the rows that cannot be read and warnings about others.

    Columns in `unread` break no row. With `nan_breaks`, NaN and the infinities do.
    """

    def __init__(self, unread: Container[str] = (), nan_breaks: bool = False) -> None:
        self._unread = unread
        self._nan_breaks = nan_breaks
        self.broken: dict[int, BrokenRow] = {}
        self.warnings: list[tuple[int, str, str]] = []
        self._name = ""

    def values(self, name: str, column: pa.Array) -> list[Any]:
        """The values of a column, one for each row, by the table above."""
        self._name = name
        converted: list[Any] = self._plain(column, np.arange(len(column)))
        if pa.types.is_nested(_bare(column.type)):
            return [value if value is None else Raw(_encode(value)) for value in converted]
        return converted

    def _plain(self, column: Any, rows: Any) -> Any:
        """The values as Python objects (nested: lists and dicts of them); `rows` has each value's row."""
        while isinstance(column, pa.ExtensionArray):
            column = column.storage
        kind = column.type
        if pa.types.is_dictionary(kind):
            return self._plain(column.dictionary_decode(), rows)
        if pa.types.is_null(kind):
            return [None] * len(column)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self._texts(column, rows)
        if pa.types.is_boolean(kind):
            return column.to_pylist()
        if pa.types.is_integer(kind):
            return column.to_pylist()
        if pa.types.is_floating(kind):
            return self._floats(column, rows)
        if pa.types.is_decimal(kind):
            digits = column.cast(pa.string()).to_pylist()
            return [text if text is None else Raw(_digits(text)) for text in digits]
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return self._times(column, rows)
        if pa.types.is_time(kind):
            return self._times_of_day(column, rows)
        if pa.types.is_duration(kind):
            return column.cast(pa.int64()).to_pylist()
        if pa.types.is_fixed_size_binary(kind):
            return [value if value is None else _hex(value) for value in column.to_pylist()]
        if any(test(kind) for test in _TEXTS_OR_BYTES):
            return self._texts(column.cast(pa.large_binary()), rows)
        if pa.types.is_struct(kind):
            return self._structs(column, rows)
        if pa.types.is_map(kind):
            return self._maps(column, rows)
        if any(test(kind) for test in (*_LISTS, *_LIST_VIEWS)):
            return self._lists(column, rows)
        return column.cast(pa.string()).to_pylist()

    # -- scalars -------------------------------------------------------------------------------------

    def _texts(self, column: pa.Array, rows: Any) -> list[Any]:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            try:
                converted: list[Any] = column.to_pylist()
            except (UnicodeDecodeError, pa.ArrowException):
                column = column.cast(pa.large_binary())
            else:
                return converted
        texts: list[Any] = []
        for position, value in enumerate(column.to_pylist()):
            try:
                texts.append(value if value is None else value.decode())
            except UnicodeDecodeError as error:
                self._break(rows[position], "bad_utf8", f"byte {error.start} is not UTF-8")
                texts.append(value.decode("utf-8", "backslashreplace"))
        return texts

    def _floats(self, column: pa.Array, rows: Any) -> list[Any]:
        numbers = (column.cast(pa.string()) if pa.types.is_float32(column.type) else column).cast(pa.float64())
        values: list[Any] = numbers.to_pylist()
        if pa.types.is_float16(column.type):
            values = [value if value is None else float(str(np.float16(value))) for value in values]
        for position in _true_at(pc.invert(pc.is_finite(numbers))):
            said = shown(values[position])
            values[position] = None
            if self._nan_breaks:
                self._break(rows[position], "bad_value", f"it is {said}")
            elif self._name not in self._unread:
                self.warnings.append((int(rows[position]), "nan_value", f"{self._name} is {said}; read as absent"))
        return values

    def _times(self, column: pa.Array, rows: Any) -> list[Any]:
        kind = column.type
        if pa.types.is_date(kind):
            column = column.cast(pa.date32())
            counts, day = column.view(pa.int32()), 1
        else:
            counts, day = column.view(pa.int64()), _UNITS_A_DAY[kind.unit]
        first, last = _FIRST_DAY * day, (_LAST_DAY + 1) * day - 1
        counts = self._within(counts, first, last, rows, "its year is not within 1 to 9999")
        column = counts.view(pa.date32()) if day == 1 else counts
        if day > 1:
            column = counts.view(pa.timestamp(kind.unit))
        texts = column.cast(pa.string())
        if day > 1:
            texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
        converted: list[Any] = texts.to_pylist()
        if day > 1 and kind.tz:
            return [text if text is None else text + "Z" for text in converted]
        return converted

    def _times_of_day(self, column: pa.Array, rows: Any) -> list[Any]:
        whole = pa.int32() if pa.types.is_time32(column.type) else pa.int64()
        last = _UNITS_A_DAY[column.type.unit] - 1
        counts = self._within(column.view(whole), 0, last, rows, "it is not a time of day")
        converted: list[Any] = counts.view(column.type).cast(pa.string()).to_pylist()
        return converted

    def _within(self, counts: pa.Array, first: int, last: int, rows: Any, detail: str) -> pa.Array:
        """The integers of an array; one outside `first` to `last` becomes null and rejects its row.

        Arrow's own comparisons import pandas when an operand is a Python integer.
        """
        limits = pc.min_max(counts).as_py()
        if limits["min"] is None or (first <= limits["min"] and limits["max"] <= last):
            return counts
        numbers = counts.to_pylist()
        inside = [number is not None and first <= number <= last for number in numbers]
        for position, number in enumerate(numbers):
            if number is not None and not inside[position]:
                self._break(rows[position], "bad_value", detail)
        width = np.int32 if counts.type.bit_width == 32 else np.int64
        filled = np.array([number if good else 0 for number, good in zip(numbers, inside, strict=True)], width)
        valid = np.packbits(inside, bitorder="little")
        return pa.Array.from_buffers(counts.type, len(counts), [pa.py_buffer(valid), pa.py_buffer(filled)])

    # -- nested --------------------------------------------------------------------------------------

    def _structs(self, column: pa.StructArray, rows: Any) -> list[Any]:
        names = [column.type.field(at).name for at in range(column.type.num_fields)]
        members = [self._plain(column.field(at), rows) for at in range(len(names))]
        converted: list[Any]
        if members:
            converted = [dict(zip(names, values, strict=True)) for values in zip(*members, strict=True)]
        else:
            converted = [{} for _ in range(len(column))]
        if len(set(names)) < len(names):
            detail = f"{self._name} has a member more than once; the last value wins"
            present = _true_at(column.is_valid())
            self.warnings += ((int(rows[position]), "duplicate_key", detail) for position in present)
        return _with_nulls(converted, column)

    def _lists(self, column: pa.Array, rows: Any) -> list[Any]:
        child, cuts, child_rows = _unfolded(column, rows)
        members = self._plain(child, child_rows)
        return _with_nulls([members[start:end] for start, end in pairwise(cuts)], column)

    def _maps(self, column: pa.MapArray, rows: Any) -> list[Any]:
        pairs, cuts, child_rows = _unfolded(column, rows)
        keys = [_key(key) for key in self._plain(pairs.field(0), child_rows)]
        members = self._plain(pairs.field(1), child_rows)
        converted: list[Any] = []
        for start, end in pairwise(cuts):
            mapped = dict(zip(keys[start:end], members[start:end], strict=True))
            if len(mapped) < end - start:
                detail = f"{self._name} has a key more than once; the last value wins"
                self.warnings.append((int(child_rows[start]), "duplicate_key", detail))
            converted.append(mapped)
        return _with_nulls(converted, column)

    def _break(self, row: int, code: str, detail: str) -> None:
        if self._name not in self._unread:
            self.broken.setdefault(int(row), BrokenRow(code, f"{self._name}: {detail}"))


def _bare(kind: pa.DataType) -> pa.DataType:
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return _bare(kind.value_type) if pa.types.is_dictionary(kind) else kind


def _unfolded(column: pa.Array, rows: Any) -> tuple[pa.Array, list[int], Any]:
    """(the members of all lists; where each list starts and the last ends; the row of each member)."""
    if pa.types.is_map(column.type):
        offsets = np.from_dlpack(column.offsets)
        lengths = np.diff(offsets)
        pairs = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
        child = pairs.slice(int(offsets[0]) if len(offsets) else 0, int(lengths.sum()))
    else:
        child = pc.list_flatten(column)
        lengths = np.array([length or 0 for length in pc.list_value_length(column).to_pylist()], np.int64)
    cuts = np.concatenate(([0], np.cumsum(lengths)))
    return child, cuts.tolist(), np.repeat(rows, lengths)


def _with_nulls(values: list[Any], column: pa.Array) -> list[Any]:
    if column.null_count:
        for position in _true_at(column.is_null()):
            values[position] = None
    return values


def _true_at(flags: pa.BooleanArray) -> list[int]:
    """The positions of the true flags; null is not true."""
    converted: list[int] = pc.indices_nonzero(flags).to_pylist()
    return converted


def _digits(number: str) -> bytes:
    return (format(Decimal(number), "f") if "E" in number else number).encode()


def _hex(value: bytes) -> str:
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else value.hex()


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    text = _encode(key).decode()
    return text[1:-1] if text.startswith('"') else text
