"""Verbs for nested columns of warehouses, which each kind of file writes in its own way: one leaves nulls out, another
writes them, a third writes numbers as text (docs/know/exports.md#ga4-forms)."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import cache, lru_cache, partial
from typing import Any

import msgspec
from msgspec import Raw

from pipeline import values
from pipeline.mapper.codegen.conversions import as_number
from pipeline.mapper.codegen.runtime import encode
from pipeline.mapper.language.kinds import NAMES, VALUE, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Constant, Value
from pipeline.mapper.program.functions import function
from pipeline.values import NULL, BadValue

value = partial(verb, "value")

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_any = msgspec.json.Decoder(float_hook=Decimal).decode


@value(
    "record",
    "an object or a list of objects, at every depth without members that are null or empty objects and lists; missing"
    " where nothing is left",
    record=Field(VALUE, "the object or the list; a text of either is opened", True),
    numbers=Field(NAMES, "members, at any depth, whose text becomes the number it is"),
    millionths=Field(NAMES, "members, at any depth, that count millionths: they become numbers of units"),
    blank=Field(NAMES, "texts that mean no value: members with one are left out"),
)
def record(build: Builder, call: Call) -> Value:
    groups = [call.arguments.get(name, ()) for name in ("numbers", "millionths", "blank")]
    fixed = [Constant(value) for group in groups for value in (len(group), *group)]
    return Apply("compact_record", (build.present(call.arguments["record"]), *fixed))


@function(needs=1)
def compact_record(value: Any, *groups: int | str) -> values.Value:
    """The record without nulls, blanks and empty members; `groups` are the names of numbers and of millionths, and the
    blanks, each group after its length.

    Raises BadValue for what is neither an object nor a list.
    """
    source = value if type(value) is Raw else values.raw(value) if type(value) is not dict else Raw(encode(value))
    content = bytes(source)
    if content[:1] == b'"':
        content = (values.text(value) or "").strip().encode("utf-8", "surrogatepass")
        if not content:
            return None
    if content[:1] not in (b"{", b"["):
        raise BadValue(f"an object or a list was expected, not {content[:60].decode('utf-8', 'replace')}")
    try:
        return (_compacted_often if len(content) < LONG else _compacted)(content, groups)
    except msgspec.MsgspecError as error:
        raise BadValue(f"an object or a list was expected: {error}") from None


LONG = 1_000
"""Bytes from which a record is not remembered."""


def _compacted(content: bytes, groups: tuple[int | str, ...]) -> Raw | None:
    compacted = _compact(Raw(content), *_changes(groups))
    return None if compacted is None else Raw(encode(compacted))


# Devices and places are the same in many rows.
_compacted_often = lru_cache(4_096)(_compacted)


@cache
def _changes(groups: tuple[int | str, ...]) -> tuple[dict[str, Callable[[Any], Any]], frozenset[bytes]]:
    """What changes members, by their names, and the blanks as JSON texts."""
    rest: list[Any] = list(groups)
    numbers, millionths, blanks = ([rest.pop(0) for _ in range(rest.pop(0))] for _ in range(3))
    changes = dict.fromkeys(numbers, as_number) | dict.fromkeys(millionths, _units)
    return changes, frozenset(map(encode, blanks))


def _units(value: Any) -> Raw:
    """A number of millionths as units, exactly."""
    number = Decimal(values.text(as_number(value)) or "").scaleb(-6)
    return Raw(f"{number.normalize():f}".encode())


def _compact(value: Raw, changes: dict[str, Callable[[Any], Any]], blanks: frozenset[bytes]) -> Any:
    """The value without what says nothing; None where nothing is left."""
    content = bytes(value)
    if content[:1] == b"{":
        members: dict[str, Any] = {}
        for name, member in _decode_object(value).items():
            kept = _compact(member, changes, blanks)
            if kept is None:
                continue
            if name in changes:
                with suppress(BadValue):
                    kept = changes[name](kept)
            members[name] = kept
        return members or None
    if content[:1] == b"[":
        kept_items = [_compact(item, changes, blanks) for item in _decode_list(value)]
        return [item for item in kept_items if item is not None] or None
    return None if value == NULL or content in blanks else value


@value(
    "canonical",
    'one spelling of a value, for keys: the members of objects sorted, 2, 2.0 and "2" the same; numbers are exact',
    canonical=Field(VALUE, "the value", True),
)
def canonical(build: Builder, call: Call) -> Value:
    return Apply("canonical_text", (build.present(call.arguments["canonical"]),))


_FRACTION = re.compile(r"(-?[0-9]+)\.([0-9]*?)0*")
_SMALLEST = -400


@function(needs=1)
def canonical_text(value: Any) -> str | None:
    """A value as JSON text in one spelling. The scalars become texts, numbers without zeros at their end."""
    try:
        found = _decode_any(value if type(value) is Raw else encode(value))
    except msgspec.MsgspecError as error:
        raise BadValue(f"not JSON: {error}") from None
    return encode(_canonical(found)).decode()


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _canonical(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if value is None or isinstance(value, bool):
        return value
    # The digits of an exponent that is far below those of a double would be too many.
    plain = isinstance(value, Decimal) and value.adjusted() > _SMALLEST
    text = f"{value:f}" if plain else str(value)
    if match := _FRACTION.fullmatch(text):
        text = f"{match[1]}.{match[2]}" if match[2] else match[1]
    return "0" if text == "-0" else text
