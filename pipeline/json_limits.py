"""What JSON may hold to be sent, and integers that a reader may round.

The service parses a request with serde_json. A number whose value is beyond the range of a double is an error there
("number out of range", serde_json de.rs `f64_from_parts`), however it is spelled: `1E400`, 310 digits and `e99`, 400
digits without an exponent. So are more than 127 levels of nesting. One such value makes it refuse the whole batch.
A number too small for a double is read as 0, and an integer beyond 2^53 as the nearest double: both are taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

MAX_DEPTH = 64
SAFE_INTEGER = 2**53
MANY_DIGITS = 200
"""A number is beyond a double only with an exponent of three digits or this many digits in a row: 200 digits and an
exponent of two are less than 1e300. pipeline/native/lines.c knows the same limits."""

_NUMBER = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)')
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')
_KINDS = bytes(
    0x30 if 0x30 <= byte <= 0x39 else {0x45: 0x65, 0x65: 0x65, 0x2B: 0x2B, 0x5B: 0x7B, 0x7B: 0x7B}.get(byte, 0x20)
    for byte in range(256)
)
"""Every digit as 0, every e as e, every opening bracket as {, a plus as it is and the rest as spaces."""
_DIGITS = b"0" * MANY_DIGITS


def has_many_digits(text: bytes) -> bool:
    """Whether MANY_DIGITS digits stand in a row."""
    return _DIGITS in text.translate(_KINDS)


def beyond_double(text: bytes) -> str:
    """The first number of a JSON text that no IEEE double holds, as a sentence, or ""."""
    for digits in _numbers(text):
        if math.isinf(float(digits)):
            return f"{digits.decode()[:60]} is beyond the range of a number"
    return ""


def unsafe_integers(text: bytes) -> list[str]:
    """The integers of a JSON text that are beyond 2^53, each as it stands."""
    found = []
    for digits in _numbers(text):
        bare = digits.lstrip(b"-")
        if len(bare) >= 16 and bare.isdigit() and (len(bare) > 16 or int(bare) > SAFE_INTEGER):
            found.append(digits.decode())
    return found


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
    """Why a JSON text that was read from within a value cannot be sent, as a sentence, or "".

    Rows are looked over by the hundred (`pipeline.extractors.scan`); this is for one text, and quick for a usual one.
    """
    kinds = text.translate(_KINDS)
    if b"0e000" in kinds or b"0e+000" in kinds or _DIGITS in kinds:
        problem = beyond_double(text)
        if problem:
            return problem
    if kinds.count(b"{") > MAX_DEPTH and (deepest := depth(text)) > MAX_DEPTH:
        return f"{deepest} levels of nesting; the most is {MAX_DEPTH}"
    return ""


def _numbers(text: bytes) -> Iterator[bytes]:
    for match in _NUMBER.finditer(text):
        if digits := match.group(1):
            yield digits
