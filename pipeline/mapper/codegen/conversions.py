"""The conversions of a property's type; a value that cannot be converted raises BadValue and stays unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
from msgspec import Raw

from pipeline import values
from pipeline.json_limits import unsendable
from pipeline.mapper.codegen.runtime import encode, text_of
from pipeline.values import FALSE, TRUE, BadValue, Value

_USUAL = re.compile(rb"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_USUAL_TEXT = re.compile(rb'"(-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?)"')
"""Most numbers, as JSON numbers and strings: they need no further test."""
_QUOTE, _BRACKET = ord('"'), ord("[")
_COMMA_NUMBER = re.compile(r"-?(?:[0-9]+|[0-9]{1,3}(?:[.' \u00a0\u202f\u2019][0-9]{3})+)(?:,[0-9]+)?")
PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def as_number(value: Value) -> Value:
    """A string that spells a JSON number, as that number, digit for digit. Raises BadValue."""
    if type(value) is Raw:
        if _USUAL.fullmatch(value):
            return value
        if usual := _USUAL_TEXT.fullmatch(value):
            return Raw(usual[1])
    elif type(value) is str and value.isascii() and _USUAL.fullmatch(digits := value.encode()):
        return Raw(digits)
    text = (values.text(value) or "").strip()
    if not PLAIN_NUMBER.fullmatch(text):
        raise BadValue(f"not a number: {text[:60]!r}")
    if problem := unsendable(text.encode()):
        raise BadValue(problem)
    return value if type(value) is not str and not _is_text(value) else Raw(text.encode())


def as_integer(value: Value) -> Value:
    """A whole number as JSON writes it: without a fraction or an exponent, except for zeros that are left off."""
    number = as_number(value)
    digits = (values.text(number) or "").strip()
    if digits.removeprefix("-").isdecimal():
        return number
    whole, _, fraction = digits.partition(".")
    if fraction.strip("0") or not whole.removeprefix("-").isdecimal():
        raise BadValue(f"not an integer: {digits[:60]!r}")
    return Raw(whole.encode())


def as_comma_number(value: Value) -> Value:
    """A string with a decimal comma, such as 1.234,56 or 49,90, as a number with the same digits; numbers stay."""
    if type(value) is not str and not _is_text(value):
        return as_number(value)
    text = (values.text(value) or "").strip()
    if not _COMMA_NUMBER.fullmatch(text):
        raise BadValue(f"not a number with a decimal comma: {text[:60]!r}")
    whole, _, decimals = text.partition(",")
    digits = "".join(one for one in whole if one in "-0123456789") + (f".{decimals}" if decimals else "")
    return as_number(digits)


def as_text(value: Value) -> Value:
    """Any value as a string: a number's own digits, an object's JSON."""
    return value if _is_text(value) else text_of(value)


def as_boolean(value: Value) -> Value:
    """true/false, 1/0, yes/no, t/f, in any case."""
    text = (values.text(value) or "").strip().lower()
    if text in {"true", "1", "yes", "t"}:
        return TRUE
    if text in {"false", "0", "no", "f"}:
        return FALSE
    raise BadValue(f"neither true nor false: {text[:60]!r}")


def as_json(value: Value) -> Value:
    """A string that holds JSON, as that JSON."""
    if not _is_text(value):
        return value
    text = (values.text(value) or "").strip()
    try:
        json: Raw = msgspec.json.decode(text.encode(), type=Raw)
        msgspec.json.decode(json)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadValue(f"not JSON: {error}") from None
    if problem := unsendable(bytes(json)):
        raise BadValue(problem)
    return json


def as_list(value: Value) -> Value:
    """A list, unchanged; a single value becomes a list of one."""
    if type(value) is Raw and bytes(value)[0] == _BRACKET:
        return value
    return Raw(encode(values.items(value) or []))


CONVERT: dict[str, Callable[[Value], Value]] = {
    "number": as_number,
    "integer": as_integer,
    "comma_number": as_comma_number,
    "text": as_text,
    "boolean": as_boolean,
    "json": as_json,
    "list": as_list,
}


def _is_text(value: Value) -> bool:
    return type(value) is str or (type(value) is Raw and bytes(value)[0] == _QUOTE)
