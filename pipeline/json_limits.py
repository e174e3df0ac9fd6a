"""What JSON may contain to be sent, and integers that a reader may round.

The service parses a request with serde_json. There a number whose value is beyond the range of a double is an error
("number out of range", serde_json de.rs `f64_from_parts`), however it is spelled: `1E400`, 310 digits and `e99`, 400
digits without an exponent. More than 127 levels of nesting are an error too. One such value makes it refuse the whole
batch. A number too small for a double is read as 0, and an integer beyond 2^53 as the nearest double: it accepts both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

MAX_DEPTH = 64
SAFE_INTEGER = 2**53
NAN_IS_NULL = "is not JSON; --set nan=null reads it as null"
"""What is wrong with a NaN or an infinity in JSON, and the setting that helps."""
LONGEST_SAFE = len(str(SAFE_INTEGER))
MANY_DIGITS = 200
"""A number is beyond a double only with an exponent of three digits or this many digits in a row: 200 digits and an
exponent of two are less than 1e300. pipeline/native/lines.c knows the same limits."""

_NUMBER = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)')
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')
_KINDS = bytes(
    0x30 if 0x30 <= byte <= 0x39 else {0x45: 0x65, 0x65: 0x65, 0x2B: 0x2B, 0x5B: 0x7B, 0x7B: 0x7B}.get(byte, 0x20)
    for byte in range(256)
)
"""Maps every digit to 0, every e to e, every opening bracket to {, a plus to itself and the rest to spaces."""
_DIGITS = "0" * MANY_DIGITS
LONG_DIGITS = "0" * LONGEST_SAFE
_IN_FRACTION = (b".", b"e", b"E", b"+")
_OF_FRACTION = (b".", b"e", b"E")
"""What comes before, or after, digits that are only a part of a number."""
_TO_END = re.compile(rb"[0-9]*")
_SHORTEST_BEYOND = len("1e999")


def shown(number: float) -> str:
    """The name of a number that JSON does not have."""
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def beyond_double(text: bytes) -> str:
    """A sentence about the first number in a JSON text that no IEEE double holds, or ""."""
    for digits in _numbers(text):
        if math.isinf(float(digits)):
            return f"{digits.decode()[:60]} is beyond the range of a number"
    return ""


def unsafe_integers(text: bytes) -> list[str]:
    """The integers in a JSON text that are beyond 2^53, each as it is written."""
    found: list[str] = []
    kinds = kinds_of(text)
    start = kinds.find(LONG_DIGITS)
    if start < 0:
        return found
    # Escaped quotes are gone, so a digit after an odd number of quotes is inside a string.
    plain = text.replace(b"\\\\", b"  ").replace(b'\\"', b"  ") if b"\\" in text else text
    quotes = end = 0
    while start >= 0:
        quotes += plain.count(b'"', end, start)
        end = _TO_END.match(text, start).end()  # type: ignore[union-attr]
        if not quotes % 2 and (end - start > LONGEST_SAFE or int(text[start:end]) > SAFE_INTEGER):
            first = start - (text[max(start - 1, 0) : start] == b"-")
            if text[max(first - 1, 0) : first] not in _IN_FRACTION and text[end : end + 1] not in _OF_FRACTION:
                found.append(text[first:end].decode())
        start = kinds.find(LONG_DIGITS, end)
    return found


def kinds_of(text: bytes) -> str:
    """A string in which every digit is 0, every e is e and every opening bracket is {, for quick searches: Python
    searches a str in a fraction of the time it takes for bytes."""
    return text.translate(_KINDS).decode("ascii")


def may_be_beyond_double(text: bytes, kinds: str) -> bool:
    """Whether a JSON text, or many of them, may have a number beyond a double: a number with many digits, or one with
    an exponent of three digits (which the digits of a hexadecimal number do not have)."""
    if _DIGITS in kinds:
        return True
    for mark in ("0e000", "0e+000"):
        at = kinds.find(mark)
        while at >= 0:
            before = text[max(0, at - 40) : at + 1].rstrip(b"0123456789.-")
            if before[-1:] in b":,[ \t\r\n":
                return True
            at = kinds.find(mark, at + 1)
    return False


def depth(text: bytes) -> int:
    """How deeply objects and lists are nested in a JSON text; brackets in strings do not count."""
    deepest = level = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in b"[{":
            level += 1
            deepest = max(deepest, level)
        elif token in b"]}":
            level -= 1
    return deepest


def unsendable(text: bytes) -> str:
    """Why a JSON text cannot be sent, as a sentence, or "".

    It is quick for ordinary text.
    """
    length = len(text)
    if length < _SHORTEST_BEYOND:
        return ""
    kinds = kinds_of(text)
    if may_be_beyond_double(text, kinds):
        problem = beyond_double(text)
        if problem:
            return problem
    if length > MAX_DEPTH and kinds.count("{") > MAX_DEPTH and (deepest := depth(text)) > MAX_DEPTH:
        return f"{deepest} levels of nesting; the most is {MAX_DEPTH}"
    return ""


def _numbers(text: bytes) -> Iterator[bytes]:
    for match in _NUMBER.finditer(text):
        if digits := match.group(1):
            yield digits
