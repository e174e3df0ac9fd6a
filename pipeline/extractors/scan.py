"""Finds the suspicious bytes in a run of JSON lines by vector passes over all its bytes.

Checking each value of each row costs more than mapping it; a few vector passes over some hundred rows cost
0.4 µs an event (docs/know/performance.md#parsing). A pass that tests whether there is anything costs a third of one
that locates it, so most passes begin with that test. A position from here is only a suspect:
`pipeline.extractors.jsonl_rows` checks its row exactly.
"""

from __future__ import annotations

import codecs

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.json_limits import MANY_DIGITS

Positions = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_STEP = 1 << 18  # a slice that fits the processor's cache: larger ones are three times slower
_OVERLAP = 32
_STRIDE = 32
_STRIDES = MANY_DIGITS // _STRIDE
_NONE = np.empty(0, np.int64)


class Suspects(msgspec.Struct, frozen=True):
    """Byte positions in the run, ascending.

    `openers`: every `{` and `[`. `exponents`: the digit before an `e` or `E` that three more digits follow,
    without a letter or quote before it. `digit_runs`: positions within long runs of digits, every run of
    `json_limits.MANY_DIGITS` among them.
    The others are filled only when observing. `long_digits`: where 16 digits in a row begin, outside a
    fraction, a word or the start of a string.
    `keys`: every `":`. `loose_colons`: a colon after white space, where `keys` cannot count.
    """

    openers: Positions
    exponents: Positions
    digit_runs: Positions
    long_digits: Positions
    keys: Positions
    loose_colons: Positions


def scan(run: bytes | memoryview, *, observe: bool) -> Suspects:
    """The suspects of a run; without `observe` only those that decide whether a row can be sent."""
    data = np.frombuffer(run, np.uint8)
    openers: list[Positions] = []
    exponents: list[Positions] = []
    long_digits: list[Positions] = []
    keys: list[Positions] = []
    loose_colons: list[Positions] = []
    for start in range(0, len(data), _STEP):
        # Each slice overlaps the next, so that no pattern is cut; positions past its own end belong to the next.
        piece = data[start : start + _STEP + _OVERLAP]
        own = min(_STEP, len(data) - start)
        folded = piece | 32
        _add(openers, folded == 0x7B, start, own)
        digits = (piece - np.uint8(48)) < 10
        powers = digits[:-1] & (folded[1:] == 0x65)
        if powers.any():
            positions = _large_exponents(piece, digits, np.flatnonzero(powers[:own]))
            if len(positions):
                exponents.append(positions + start)
        if observe:
            sixteen = digits
            for width in (1, 2, 4, 8):
                sixteen = sixteen[:-width] & sixteen[width:]
            if sixteen.any():
                positions = _bare_integers(piece, digits, np.flatnonzero(sixteen[:own]), start)
                if len(positions):
                    long_digits.append(positions + start)
            colons = piece[1:] == 0x3A
            _add(keys, colons & (piece[:-1] == 0x22), start, own)
            loose = colons & (piece[:-1] <= 0x20)
            if loose.any():
                _add(loose_colons, loose, start, own)
    return Suspects(
        _concatenated(openers),
        _concatenated(exponents),
        _digit_runs(data),
        _concatenated(long_digits),
        _concatenated(keys),
        _concatenated(loose_colons),
    )


def is_utf8(run: bytes) -> bool:
    """Whether all of it is UTF-8. Decoded in slices: a text takes up to four times the memory of its bytes."""
    if run.isascii():
        return True
    view = memoryview(run)
    start = 0
    try:
        while start < len(run):
            _, length = codecs.utf_8_decode(view[start : start + _STEP], "strict", start + _STEP >= len(run))
            start += length
    except UnicodeDecodeError:
        return False
    return True


def _digit_runs(data: Bytes) -> Positions:
    """Positions within runs of digits: every _STRIDE-th byte is tested, since the runs searched for are longer."""
    digits = (data[::_STRIDE] - np.uint8(48)) < 10
    if len(digits) < _STRIDES:
        return _NONE
    runs = np.logical_and.reduce([digits[at : len(digits) - _STRIDES + 1 + at] for at in range(_STRIDES)])
    return np.flatnonzero(runs) * _STRIDE


def _large_exponents(piece: Bytes, digits: NDArray[np.bool_], positions: Positions) -> Positions:
    """Of the positions with a digit before an `e`, those that may be a number beyond the range of a double."""
    last = len(piece) - 1
    first = positions + 2 + (piece[np.minimum(positions + 2, last)] == 0x2B)
    positions = positions[
        digits[np.minimum(first, last)]
        & digits[np.minimum(first + 1, last)]
        & digits[np.minimum(first + 2, last)]
        & (first + 2 <= last)
    ]
    if not len(positions):
        return positions
    # The nearest byte before them that is not part of a number has to be one that can precede it: not in hexadecimal.
    back = piece[np.maximum(positions[:, None] - _BACK, 0)]
    kinds = _BEFORE[back]
    nearest = kinds[np.arange(len(positions)), (kinds != _NUMERIC).argmax(axis=1)]
    suspects: Positions = positions[(nearest != _FOREIGN) | (positions < len(_BACK))]
    return suspects


_NUMERIC, _FOREIGN, _EDGE = 0, 1, 2
_BACK = np.arange(1, 9)
_BEFORE = np.full(256, _FOREIGN, np.uint8)
_BEFORE[list(b"0123456789.-")] = _NUMERIC
_BEFORE[list(b":,[ \t\r\n")] = _EDGE


def _bare_integers(piece: Bytes, digits: NDArray[np.bool_], positions: Positions, start: int) -> Positions:
    """Of the positions where 16 digits begin, the first of each run that may be a JSON integer."""
    before = piece[np.maximum(positions - 1, 0)]
    follows = (positions > 0) & digits[np.maximum(positions - 1, 0)]
    fits = (before == 0x3A) | (before == 0x2C) | (before == 0x2D) | (before == 0x5B) | (before <= 0x20)
    # The byte before a slice is not in it: a run at its start remains a suspect.
    suspects: Positions = positions[(~follows & fits) | ((positions == 0) & (start > 0))]
    return suspects


def _add(results: list[Positions], mask: NDArray[np.bool_], start: int, own: int) -> None:
    positions = np.flatnonzero(mask[:own])
    if len(positions):
        results.append(positions + start)


def _concatenated(results: list[Positions]) -> Positions:
    if not results:
        return _NONE
    return results[0] if len(results) == 1 else np.concatenate(results)
