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

_QUOTE, _BACKSLASH, _NEWLINE, _SPACE = b'"\\\n '
_WHITE, _STRUCTURE = 1, 2
_KINDS = np.zeros(256, np.uint8)
_KINDS[list(b" \t\r\n")] = _WHITE
_KINDS[list(b"{}[],:")] = _STRUCTURE
_KIND_OF = _KINDS.tobytes()
_ENDS_A_TOKEN = _KINDS == _STRUCTURE
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


class ScannedText(NamedTuple):
    """A piece of text, which begins at byte `start`, without white space, and its tokens of few levels. `gaps` are the
    places in the compact piece before which a byte was left out, once for each byte."""

    compact: bytes
    tokens: Iterator[Token]
    start: int
    gaps: Positions

    def origin(self, compact: int) -> int:
        """The byte of the text that is at a place in the compact piece."""
        return self.start + compact + int(np.searchsorted(self.gaps, compact, "right"))


class Scanner:
    """Reads pieces of one text in order, each of which ends neither in white space nor in a backslash."""

    def __init__(self, start: int, most_levels: int) -> None:
        self.position = start
        self.level = 0
        self.in_string = False
        self._most_levels = most_levels
        self._last = b":"[0]

    def scan(self, data: bytes) -> ScannedText:
        """The tokens inside at most `most_levels` brackets."""
        text = np.frombuffer(data, np.uint8).copy()
        quotes = _unescaped(text, np.flatnonzero(text == _QUOTE))
        turns = np.zeros(len(text), np.uint8)
        turns[quotes] = 1
        turns[0] ^= self.in_string
        inside = np.bitwise_xor.accumulate(turns)  # 1 in strings, their opening quotes included
        kinds = np.frombuffer(data.translate(_KIND_OF), np.uint8) * (inside ^ 1)
        text[(text == _NEWLINE) & inside.view(bool)] = 1
        white = np.flatnonzero(kinds == _WHITE)
        structure = np.flatnonzero(kinds == _STRUCTURE)
        separating = _separating(text, white, self._last)
        text[white[separating]] = _SPACE
        left_out = white[~separating]
        kept = np.ones(len(text), bool)
        kept[left_out] = False
        steps = _LEVELS[text[structure]]
        after = self.level + np.cumsum(steps)
        around = np.minimum(after, after - steps)
        shallow = around <= self._most_levels
        chosen = structure[shallow]
        tokens = map(
            Token,
            (chosen + self.position).tolist(),
            (chosen - np.searchsorted(left_out, chosen)).tolist(),
            (data[at : at + 1] for at in chosen.tolist()),
            around[shallow].tolist(),
        )
        piece = ScannedText(text[kept].tobytes(), tokens, self.position, left_out - np.arange(len(left_out)))
        self.level = int(after[-1]) if len(after) else self.level
        self.in_string = bool((len(quotes) + self.in_string) % 2)
        self.position += len(data)
        self._last = data[-1]
        return piece


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


def _separating(text: NDArray[np.uint8], white: Positions, last: int) -> NDArray[np.bool_]:
    """Which of the white space is the first byte between two tokens of which neither ends by itself."""
    firsts = np.diff(white, prepend=-2) != 1
    lasts = np.roll(firsts, -1)
    starts, ends = white[firsts], white[lasts]
    before = np.where(starts > 0, text[starts - 1], last)
    after = text[np.minimum(ends + 1, len(text) - 1)]
    found: NDArray[np.bool_] = firsts.copy()
    found[firsts] = ~_ENDS_A_TOKEN[before] & ~_ENDS_A_TOKEN[after] & (ends + 1 < len(text))
    return found
