"""The values of a record, and functions that read them without changing them.

A value is exactly what the reader read:

* `msgspec.Raw`: JSON text, untouched (JSON lines; nested and decimal Parquet values),
* `str`: text (every CSV cell; Parquet strings),
* `int`, `float`, `bool`, `None`: Parquet scalars.

Encoding a `dict[str, Value]` with `msgspec.json` writes Raw unchanged, so a value that no verb changes
reaches the wire byte for byte: numpy-sized integers, `1.10`, `-0.0`, escapes, white space, key order
(docs/know/promises.md#exactness).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from pipeline.json_limits import unsendable

Value: TypeAlias = "Raw | str | int | float | bool | None"
Record: TypeAlias = "dict[str, Value]"

NULL = Raw(b"null")
TRUE = Raw(b"true")
FALSE = Raw(b"false")

_BRACE, _BRACKET, _QUOTE, _BACKSLASH = b'{["\\'
"""Bytes of JSON as integers: Python finds those far faster than bytes objects of length one."""

_decode_text = msgspec.json.Decoder(str).decode
_decode_object: Callable[[Any], Record] = msgspec.json.Decoder(dict[str, Raw]).decode  # type: ignore[assignment]
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode


class BadValue(ValueError):
    """A value is not of the kind that the mapping states; it becomes the reject `bad_value`."""


def _characters(literal: bytes) -> str:
    """The characters of a JSON string."""
    try:
        return _decode_text(literal)
    except msgspec.MsgspecError as error:
        raise BadValue(f"not a text: {error}") from None


def is_absent(value: Value) -> bool:
    """Missing or JSON null. Zero, false and the empty string are values."""
    return value is None or (type(value) is Raw and bytes(value) == b"null")


def text(value: Value) -> str | None:
    """The value as a string: a string's characters, a number's own digits, `true`/`false`; None if absent.

    An object or a list gives its JSON text. Raises BadValue for a string that is not Unicode (a lone surrogate).
    """
    if type(value) is str:
        return value
    if value is None:
        return None
    if type(value) is Raw:
        raw = bytes(value)
        if raw[0] == _QUOTE:
            return _characters(raw)
        if raw == b"null":
            return None
        return raw.decode()
    return _encode(value).decode()


def key_text(value: Value) -> str | None:
    """The key of a group as a string. At the service, numbers have passed through JavaScript, in which 7.0 is 7
    (docs/know/service.md#stored-values); the digits of a whole number stay."""
    given = text(value)
    if given is None or type(value) is str or given[:1] not in "-0123456789" or bytes(_encode(value))[0] == _QUOTE:
        return given
    number = repr(float(given)) if not given.isdigit() and set(given) & set(".eE") else given
    return given if "e" in number else number.removesuffix(".0")


def opened(value: Value) -> Record | None:
    """An object's members, values unchanged; a string that contains a JSON object is opened too.

    None if absent or blank. Raises BadValue for anything else, and for a string with a value that cannot be sent: rows
    are checked before (`pipeline.extractors`), but JSON inside their strings is not.
    """
    if value is None:
        return None
    source: Any = value
    if type(value) is str:
        if not value.strip():
            return None
        source = value.encode("utf-8", "surrogatepass")
    elif type(value) is Raw:
        raw = bytes(value)
        if raw[0] != _BRACE:
            if raw == b"null":
                return None
            if raw[0] == _QUOTE:
                return opened(_characters(raw))
    else:
        raise BadValue(f"an object was expected, not {value!r}")
    try:
        members = _decode_object(source)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadValue(f"an object was expected: {error}") from None
    if source is not value and (problem := unsendable(source)):
        raise BadValue(problem)
    return members


def put(record: Record, name: str, value: Any) -> None:
    """Set a member; if another value has its name, as NAME_2, NAME_3, …"""
    new, number = name, 2
    while record.setdefault(new, value) is not value and record[new] != value:
        new, number = f"{name}_{number}", number + 1


def items(value: Value) -> list[Value] | None:
    """A list's members, unchanged; a string that contains a JSON list is opened too. None if absent.

    A single scalar counts as a list of one item, and so does a string whose list has a value that cannot be sent.
    Raises BadValue as `text` does.
    """
    if is_absent(value):
        return None
    source: Any = None
    if type(value) is Raw:
        raw = bytes(value)
        if raw[:1] == b"[":
            source = value
        elif raw[:1] == b'"' and raw[1:].lstrip()[:1] == b"[":
            source = _characters(raw).encode("utf-8", "surrogatepass")
    elif type(value) is str and value.lstrip()[:1] == "[":
        source = value.encode("utf-8", "surrogatepass")
    if source is None or (source is not value and unsendable(source)):
        return [value]
    try:
        members: list[Value] = list(_decode_list(source))
    except (msgspec.MsgspecError, RecursionError):
        return [value]
    return members


def raw(value: Value) -> Raw:
    """The value as JSON text. Raises BadValue for NaN and infinities, which are not JSON."""
    if type(value) is Raw:
        return value
    if type(value) is float and not math.isfinite(value):
        raise BadValue(f"{value} is not a JSON number")
    return Raw(_encode(value))


def plain(value: Value) -> Any:
    """The value as plain Python, for people and reports; never on the way to the wire."""
    return json.loads(bytes(value), parse_int=_integer) if type(value) is Raw else value


def _integer(digits: str) -> int | str:
    """An integer; its digits if there are more than Python converts."""
    return int(digits) if len(digits) < 4_300 else digits


def canonical(record: Record) -> bytes:
    """One spelling of a record: keys sorted at every level, values otherwise unchanged.

    Two rows with the same members in another order are the same record; `1.0` and `1.00` are not.
    The uuid of a row without a source key is a hash of this (uuids.content_key).
    """
    return _encode(
        {
            key: value if (value := record[key]).__class__ is not Raw else _canonical_value(value)
            for key in sorted(record)
        }
    )


def canonical_texts(record: dict[str, str]) -> bytes:
    """`canonical` for a record of strings whose names are already sorted."""
    return _encode(record)


def bare(record: bytes) -> bytes:
    """What a canonical record says, however its format says it.

    Members that are null, an empty object or an empty list are left out, at every level. A number, even inside a
    string, becomes the text of its value (`90`, `"90"` and `90.0` are one), and so do true and false.
    """
    return json.dumps(_bare(json.loads(record, parse_int=str, parse_float=str))).encode()


def _bare(value: Any) -> Any:
    if type(value) is dict:
        members = ((name, _bare(member)) for name, member in value.items())
        return {name: member for name, member in members if member is not None and member != {} and member != []}
    if type(value) is list:
        return list(map(_bare, value))
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is str and len(value) <= _LONGEST_NUMBER and _FRACTION.fullmatch(value):
        number = Decimal(value)
        return f"{number.normalize(_EXACT):f}" if number else "0"
    return value


_LONGEST_NUMBER = 64
_EXACT = Context(prec=_LONGEST_NUMBER)
_FRACTION = re.compile(r"-?[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]{1,3})?|[eE][+-]?[0-9]{1,3})")
"""A number that may be written in another way, such as `90.0` or `9e1`; no double holds one with a larger exponent."""


def _canonical_value(value: Value) -> Any:
    """What encodes to the one spelling of a value."""
    if type(value) is not Raw:
        return value
    text_ = bytes(value)
    head = text_[0]
    if head == _BRACE:
        return Raw(canonical(_decode_object(text_)))
    if head == _BRACKET:
        return [_canonical_value(member) for member in _decode_list(text_)]
    if head == _QUOTE and _BACKSLASH in text_:
        try:
            return _decode_text(text_)
        except msgspec.MsgspecError:  # a lone surrogate stays as it is written
            return value
    return value
