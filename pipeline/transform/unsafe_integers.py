"""Counts the properties that have integers beyond 2^53, in every event: a service's reader may round them.

Few events have one, so a block's bytes are searched for sixteen digits in a row, and only events that may have a large
integer are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from pipeline.encoder.event import RESERVED
from pipeline.json_limits import LONGEST_SAFE, unsafe_integers
from pipeline.transform.events import Events

Unsafe = dict[tuple[str, str], tuple[int, int]]
"""By event name and property: how many events have a large integer in it, and the row of the first."""

_WORD = 8
_HIGH, _DIGIT, _SIX = (np.uint64(int(byte * _WORD, 16)) for byte in ("f0", "30", "06"))
_BEFORE = np.zeros(256, bool)
_BEFORE[list(b" \t\n\r:[,-")] = True
"""What may come before the digits of an integer."""


class _Sent(msgspec.Struct, gc=False):
    event: str
    properties: dict[str, Raw]


_sent = msgspec.json.Decoder(_Sent).decode


def unsafe_of(events: Events) -> Unsafe:
    """The properties in a block's events that have large integers."""
    found: Unsafe = {}
    start = 0
    ends = np.cumsum(events.sizes + 1)
    for text in events.runs:
        places = _suspects(text)
        for index in np.unique(np.searchsorted(ends, start + places, "right")).tolist() if len(places) else ():
            end = int(ends[index]) - start - 1
            sent = _sent(text[end - int(events.sizes[index]) : end])
            row = events.row_of[index]
            for name in _names(sent.properties):
                count, first = found.get((sent.event, name), (0, row))
                found[sent.event, name] = count + 1, min(first, row)
        start += len(text)
    return found


def _names(properties: dict[str, Raw]) -> Iterator[str]:
    for name, value in properties.items():
        if len(memoryview(value)) >= LONGEST_SAFE and name not in RESERVED and unsafe_integers(bytes(value)):
            yield name


def _suspects(text: bytes) -> NDArray[np.int64]:
    """The places of sixteen digits in a row that may be an integer beyond 2^53.

    Sixteen digits fill a whole word of eight bytes, wherever the words begin. Nearly all other words that are digits
    belong to fractions, or to times, which are too short. The text begins and ends with the words of an event, so
    nothing outside it is read.
    """
    characters = np.frombuffer(text, np.uint8)
    words = np.frombuffer(text, np.uint64, len(text) // _WORD)
    at = np.flatnonzero(words & _HIGH == _DIGIT)
    at = at[(words[at] + _SIX) & _HIGH == _DIGIT] * _WORD
    for _ in range(_WORD - 1):  # to the first digit; the first word of the digits has fewer before it
        at = at - _is_digit(characters[at - 1])
    at = at[_BEFORE[characters[at - 1]]]
    for distance in range(_WORD, LONGEST_SAFE):
        at = at[_is_digit(characters[at + distance])]
    found: NDArray[np.int64] = at[(characters[at] == ord("9")) | _is_digit(characters[at + LONGEST_SAFE])]
    return found


def _is_digit(characters: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return (characters >= ord("0")) & (characters <= ord("9"))
