"""Columns of integers that became floating-point numbers: `42.0` is turned back into 42.

pandas and Spark write integers as floats if a column has a null. As an id, `42.0` would be another person than `42`
(docs/know/exports.md#integers-as-floats).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Raw

from pipeline.values import BadValue, Record, Value, is_absent, opened, text

_encode = msgspec.json.Encoder().encode
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")


def integers_in(record: Record, columns: Sequence[str]) -> Record:
    """The new values of the columns, which may be paths (`user/id`), that have floats for integers."""
    found: Record = {}
    for name in columns:
        column, *members = name.strip("/").split("/")
        value = found.get(column, record.get(column))
        if is_absent(value):
            continue
        with suppress(BadValue):  # not an object or not text: it stays as it is
            found[column] = _within(value, members)
    return found


def _within(value: Value, members: Sequence[str]) -> Value:
    """The value, with an integer at the path `members`."""
    if not members:
        match = _WHOLE.fullmatch(text(value) or "")
        if match is None:
            return value
        if isinstance(value, str):
            return match[1]
        return Raw(f'"{match[1]}"'.encode() if _is_text(value) else match[1].encode())
    inner = value if isinstance(value, dict) else opened(value)
    if inner is None or is_absent(member := inner.get(members[0])):
        return value
    changed = _within(member, members[1:])
    if changed is member:
        return value
    inner[members[0]] = changed
    if isinstance(value, dict):
        return inner
    written = _encode(inner)
    if isinstance(value, str):
        return written.decode()
    return Raw(_encode(written.decode()) if _is_text(value) else written)


def _is_text(value: Value) -> bool:
    return isinstance(value, Raw) and bytes(value)[:1] == b'"'
