"""Find the few suspicious places in a block of JSON lines, by looking at all its bytes at once.

Checking each value of each row costs more than mapping it; a handful of vector passes over the block costs
0.4 µs an event (performance: "checks that scan every value can cost more than the whole transform").
A place found here is only a suspect: `pipeline.extract.jsonl` looks at its row properly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]

_STEP = 1 << 18  # a slice that fits the processor's cache: larger ones are three times slower
_OVERLAP = 32
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Suspects:
    """Byte positions in the block, ascending.

    `openers`: every `{` and `[`. `exponents`: the digit before an `e` or `E` that three more digits follow,
    where no letter or quote stands before it.
    The others are filled only when observing. `long_digits`: where 16 digits in a row begin, outside a
    fraction, a word or the start of a string.
    `keys`: every `":`. `loose_colons`: a colon after white space, where `keys` cannot count.
    """

    openers: Places
    exponents: Places
    long_digits: Places
    keys: Places
    loose_colons: Places


def scan(block: bytes | memoryview, *, observe: bool) -> Suspects:
    """Look over a block once. Without `observe`, only at what decides whether a row can be sent."""
    every = np.frombuffer(block, np.uint8)
    openers: list[Places] = []
    exponents: list[Places] = []
    long_digits: list[Places] = []
    keys: list[Places] = []
    loose_colons: list[Places] = []
    for start in range(0, len(every), _STEP):
        # Each slice sees a little of the next, so that no pattern is cut; positions past its own end are
        # left to the next slice.
        piece = every[start : start + _STEP + _OVERLAP]
        own = min(_STEP, len(every) - start)
        folded = piece | 32
        _keep(openers, folded == 0x7B, start, own)
        digits = (piece - np.uint8(48)) < 10
        places = np.flatnonzero((digits[:-1] & (folded[1:] == 0x65))[:own])
        if len(places):
            places = _large_exponents(piece, digits, places)
            if len(places):
                exponents.append(places + start)
        if observe:
            run = digits[:-1] & digits[1:]
            run = run[:-2] & run[2:]
            run = run[:-4] & run[4:]
            run = run[:-8] & run[8:]
            places = np.flatnonzero(run[:own])
            if len(places):
                places = _bare_integers(piece, digits, places, start)
                if len(places):
                    long_digits.append(places + start)
            colons = piece[1:] == 0x3A
            _keep(keys, colons & (piece[:-1] == 0x22), start, own)
            _keep(loose_colons, colons & (piece[:-1] <= 0x20), start, own)
    return Suspects(_joined(openers), _joined(exponents), _joined(long_digits), _joined(keys), _joined(loose_colons))


def _large_exponents(piece: NDArray[np.uint8], digits: NDArray[np.bool_], places: Places) -> Places:
    """Of the places with a digit before an `e`, those that may be a number beyond the range of a double."""
    last = len(piece) - 1
    sign = piece[np.minimum(places + 2, last)] == 0x2B
    first = places + 2 + sign
    three = digits[np.minimum(first, last)] & digits[np.minimum(first + 1, last)] & digits[np.minimum(first + 2, last)]
    before = piece[np.maximum(places - 1, 0)]
    # a digit, or one of . - : , [ and white space: what can stand before a number's last digit
    fits = (before <= 0x3A) & (before != 0x22) | (before == 0x5B)
    return places[three & fits & (first + 2 <= last)]


def _bare_integers(piece: NDArray[np.uint8], digits: NDArray[np.bool_], places: Places, start: int) -> Places:
    """Of the places where 16 digits begin, the first of each run that may be a JSON integer."""
    before = piece[np.maximum(places - 1, 0)]
    follows = (places > 0) & digits[np.maximum(places - 1, 0)]
    fits = (before == 0x3A) | (before == 0x2C) | (before == 0x2D) | (before == 0x5B) | (before <= 0x20)
    # At the slice's own start nothing is known of what stands before: the row decides.
    return places[(~follows & fits) | ((places == 0) & (start > 0))]


def _keep(found: list[Places], mask: NDArray[np.bool_], start: int, own: int) -> None:
    places = np.flatnonzero(mask[:own])
    if len(places):
        found.append(places + start)


def _joined(found: list[Places]) -> Places:
    if not found:
        return _NONE
    return found[0] if len(found) == 1 else np.concatenate(found)
