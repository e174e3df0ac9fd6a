"""Find the few suspicious places in a run of JSON lines, by looking at all its bytes at once.

Checking each value of each row costs more than mapping it; a handful of vector passes over some hundred rows costs
0.4 µs an event (docs/know/performance.md#parsing). A pass that only says whether there is anything costs a third of one
that says where, so nearly every question is asked that way. A place found here is only a suspect:
`pipeline.extractors.jsonl_rows` looks at its row properly.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.json_limits import MANY_DIGITS

Places = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_STEP = 1 << 18  # a slice that fits the processor's cache: larger ones are three times slower
_OVERLAP = 32
_STRIDE = 32
_STRIDES = MANY_DIGITS // _STRIDE
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Suspects:
    """Byte positions in the run, ascending.

    `openers`: every `{` and `[`. `exponents`: the digit before an `e` or `E` that three more digits follow,
    where no letter or quote stands before it. `digit_runs`: places within long runs of digits, every run of
    `json_limits.MANY_DIGITS` among them.
    The others are filled only when observing. `long_digits`: where 16 digits in a row begin, outside a
    fraction, a word or the start of a string.
    `keys`: every `":`. `loose_colons`: a colon after white space, where `keys` cannot count.
    """

    openers: Places
    exponents: Places
    digit_runs: Places
    long_digits: Places
    keys: Places
    loose_colons: Places


def scan(run: bytes | memoryview, *, observe: bool) -> Suspects:
    """Look over a run once. Without `observe`, only at what decides whether a row can be sent."""
    every = np.frombuffer(run, np.uint8)
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
        powers = digits[:-1] & (folded[1:] == 0x65)
        if powers.any():
            places = _large_exponents(piece, digits, np.flatnonzero(powers[:own]))
            if len(places):
                exponents.append(places + start)
        if observe:
            sixteen = digits
            for width in (1, 2, 4, 8):
                sixteen = sixteen[:-width] & sixteen[width:]
            if sixteen.any():
                places = _bare_integers(piece, digits, np.flatnonzero(sixteen[:own]), start)
                if len(places):
                    long_digits.append(places + start)
            colons = piece[1:] == 0x3A
            _keep(keys, colons & (piece[:-1] == 0x22), start, own)
            loose = colons & (piece[:-1] <= 0x20)
            if loose.any():
                _keep(loose_colons, loose, start, own)
    return Suspects(
        _joined(openers),
        _joined(exponents),
        _digit_runs(every),
        _joined(long_digits),
        _joined(keys),
        _joined(loose_colons),
    )


def is_utf8(run: bytes) -> bool:
    """Whether all of it is UTF-8.

    Each byte that begins a character calls for as many bytes in 0x80…0xBF as it says, and no other byte is one:
    that is seen by vector passes, faster than decoding. The few byte values that need a closer look (too long,
    surrogates, beyond U+10FFFF) leave the answer to the decoder.
    """
    if run.isascii():
        return True
    every = np.frombuffer(run, np.uint8)
    for start in range(0, len(every), _STEP):
        # Three bytes of the slice before are seen again, since a character may reach over.
        piece = every[max(0, start - 3) : start + _STEP]
        signed = piece.view(np.int8)
        wanted = np.zeros(len(piece) + 3, np.bool_)
        wanted[1:-2] = piece >= 0xC0
        wanted[2:-1] |= piece >= 0xE0
        wanted[3:] |= piece >= 0xF0
        seen = min(3, start)
        if (wanted[seen:-3] != (signed < -64)[seen:]).any() or (start + _STEP >= len(every) and wanted[-3:].any()):
            return False
    if every.max() < 0xF4 and not any(byte in run for byte in _DELICATE):
        return True
    whole = memoryview(run)
    place = 0
    try:
        while place < len(run):
            # A little at a time: a large text takes up to four times the room of its bytes.
            _, read = codecs.utf_8_decode(whole[place : place + _STEP], "strict", place + _STEP >= len(run))
            place += read
    except UnicodeDecodeError:
        return False
    return True


_DELICATE = (b"\xc0", b"\xc1", b"\xe0", b"\xed", b"\xf0")


def _digit_runs(every: Bytes) -> Places:
    """Places within runs of digits, of which every _STRIDE-th byte alone is looked at: a run that counts is longer."""
    digits = (every[::_STRIDE] - np.uint8(48)) < 10
    if len(digits) < _STRIDES:
        return _NONE
    runs = np.logical_and.reduce([digits[at : len(digits) - _STRIDES + 1 + at] for at in range(_STRIDES)])
    return np.flatnonzero(runs) * _STRIDE


def _large_exponents(piece: Bytes, digits: NDArray[np.bool_], places: Places) -> Places:
    """Of the places with a digit before an `e`, those that may be a number beyond the range of a double."""
    last = len(piece) - 1
    first = places + 2 + (piece[np.minimum(places + 2, last)] == 0x2B)
    places = places[
        digits[np.minimum(first, last)]
        & digits[np.minimum(first + 1, last)]
        & digits[np.minimum(first + 2, last)]
        & (first + 2 <= last)
    ]
    if not len(places):
        return places
    # Going back, what is no part of a number has to be what can stand before one; hexadecimal ids fail here.
    back = piece[np.maximum(places[:, None] - _BACK, 0)]
    kinds = _BEFORE[back]
    nearest = kinds[np.arange(len(places)), (kinds != _NUMERIC).argmax(axis=1)]
    kept: Places = places[(nearest != _FOREIGN) | (places < len(_BACK))]
    return kept


_NUMERIC, _FOREIGN, _EDGE = 0, 1, 2
_BACK = np.arange(1, 9)
_BEFORE = np.full(256, _FOREIGN, np.uint8)
_BEFORE[list(b"0123456789.-")] = _NUMERIC
_BEFORE[list(b":,[ \t\r\n")] = _EDGE


def _bare_integers(piece: Bytes, digits: NDArray[np.bool_], places: Places, start: int) -> Places:
    """Of the places where 16 digits begin, the first of each run that may be a JSON integer."""
    before = piece[np.maximum(places - 1, 0)]
    follows = (places > 0) & digits[np.maximum(places - 1, 0)]
    fits = (before == 0x3A) | (before == 0x2C) | (before == 0x2D) | (before == 0x5B) | (before <= 0x20)
    # At the slice's own start nothing is known of what stands before: the row decides.
    kept: Places = places[(~follows & fits) | ((places == 0) & (start > 0))]
    return kept


def _keep(found: list[Places], mask: NDArray[np.bool_], start: int, own: int) -> None:
    places = np.flatnonzero(mask[:own])
    if len(places):
        found.append(places + start)


def _joined(found: list[Places]) -> Places:
    if not found:
        return _NONE
    return found[0] if len(found) == 1 else np.concatenate(found)
