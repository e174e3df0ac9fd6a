"""The structure of JSON text that arrives in pieces: brackets, commas and colons outside strings, with their depth.

White space between tokens is left out on the way, as it has no meaning in JSON; only where it separates two tokens that
would become one without it (`1 2`, which is no JSON) one space stays. So a document of several lines has the same
values as its JSON lines. A line end inside a string, which JSON forbids, becomes a character that is forbidden too,
because the rows go on as lines. All passes are over vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]

_QUOTE, _BACKSLASH, _NEWLINE = b'"\\\n'
_WHITE = np.zeros(256, bool)
_WHITE[list(b" \t\r\n")] = True
_STRUCTURE = np.zeros(256, bool)
_STRUCTURE[list(b"{}[],:")] = True
_ENDS_A_TOKEN = _STRUCTURE.copy()
_ENDS_A_TOKEN[_QUOTE] = True
_LEVELS = np.zeros(256, np.int64)
_LEVELS[list(b"{[")] = 1
_LEVELS[list(b"}]")] = -1


class Token(NamedTuple):
    """A bracket, comma or colon: its byte in the text, its place in the compact piece, and the levels around it."""

    at: int
    compact: int
    char: bytes
    level: int


class Piece(NamedTuple):
    """A piece of text without white space, and its tokens of few levels. `first` is the byte of each compact byte."""

    compact: bytes
    origins: Positions
    tokens: Iterator[Token]


class Scanner:
    """Reads pieces of one text in order, each of which ends neither in white space nor in a backslash."""

    def __init__(self, start: int, most_levels: int) -> None:
        self.position = start
        self.level = 0
        self.in_string = False
        self._most_levels = most_levels
        self._last = b":"[0]

    def scan(self, data: bytes) -> Piece:
        """The tokens inside at most `most_levels` brackets."""
        text = np.frombuffer(data, np.uint8).copy()
        quotes = _unescaped(text, np.flatnonzero(text == _QUOTE))
        inside = self.in_string

        def outside_strings(positions: Positions) -> Positions:
            even: NDArray[np.bool_] = (np.searchsorted(quotes, positions) + inside) % 2 == 0
            return positions[even]

        white = np.flatnonzero(_WHITE[text])
        apart = outside_strings(white)
        kept = np.ones(len(text), bool)
        kept[apart] = False
        _keep_separating(text, kept, apart, self._last)
        newlines = white[text[white] == _NEWLINE]
        text[newlines] = 1
        text[apart] = 0x20
        places = np.cumsum(kept) - 1
        structure = outside_strings(np.flatnonzero(_STRUCTURE[text]))
        steps = _LEVELS[text[structure]]
        after = self.level + np.cumsum(steps)
        around = np.minimum(after, after - steps)
        shallow = around <= self._most_levels
        chosen = structure[shallow]
        tokens = map(
            Token,
            (chosen + self.position).tolist(),
            places[chosen].tolist(),
            (data[at : at + 1] for at in chosen.tolist()),
            around[shallow].tolist(),
        )
        origins = np.flatnonzero(kept) + self.position
        self.level = int(after[-1]) if len(after) else self.level
        self.in_string = bool((len(quotes) + inside) % 2)
        self.position += len(data)
        self._last = data[-1]
        return Piece(text[kept].tobytes(), origins, tokens)


def ends_well(data: bytes | bytearray) -> bool:
    """Whether a piece may end here."""
    return not data or data[-1] not in b" \t\r\n\\"


def _unescaped(text: NDArray[np.uint8], quotes: Positions) -> Positions:
    """The quotes without those after an odd number of backslashes."""
    backslashes = np.flatnonzero(text == _BACKSLASH)
    if not len(backslashes):
        return quotes
    breaks = np.flatnonzero(np.diff(backslashes) != 1)
    firsts = backslashes[np.concatenate(([0], breaks + 1))]
    lasts = backslashes[np.concatenate((breaks, [len(backslashes) - 1]))]
    escaped = lasts[(lasts - firsts) % 2 == 0] + 1
    return quotes[~np.isin(quotes, escaped)]


def _keep_separating(text: NDArray[np.uint8], kept: NDArray[np.bool_], apart: Positions, last: int) -> None:
    """Keep the first byte of white space between two tokens of which neither ends by itself."""
    if not len(apart):
        return
    firsts = apart[np.concatenate(([True], np.diff(apart) != 1))]
    lasts = apart[np.concatenate((np.diff(apart) != 1, [True]))]
    before = np.where(firsts > 0, text[firsts - 1], last)
    after = text[np.minimum(lasts + 1, len(text) - 1)]
    kept[firsts[~_ENDS_A_TOKEN[before] & ~_ENDS_A_TOKEN[after] & (lasts + 1 < len(text))]] = True
