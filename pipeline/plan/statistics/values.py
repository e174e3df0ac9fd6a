"""The values of a property: their types, how many are different, and the place of the first of each type."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec
import xxhash
from msgspec import Raw

from pipeline.encoder.encoded import read_properties
from pipeline.encoder.event import RESERVED
from pipeline.json_limits import LONGEST_SAFE, SAFE_INTEGER, unsafe_integers
from pipeline.plan.statistics.sample import Some
from pipeline.timestamps import lost_digits

KINDS = (
    "null", "blank", "text", "numeric text", "integer", "large integer", "decimal", "boolean", "object", "list",
    "object with large integer", "list with large integer",
    "amount with comma", "rounded number",
)  # fmt: skip
"""The kinds of values. `blank` is an empty string or one of spaces; `numeric text` is a string that is a number, such
as "12.50", without an exponent or leading zeros; `large integer` is beyond 2^53; `amount with comma` is a string
such as 49,90 or 1.234,50; `rounded number` is one such as 1.6E+12, whose last digits are lost."""
NULL, BLANK, TEXT, NUMERIC, INTEGER, LARGE, DECIMAL, BOOLEAN, OBJECT, LIST = range(10)
LARGE_IN_OBJECT, LARGE_IN_LIST, COMMA, ROUNDED = range(10, len(KINDS))
MOST_DISTINCT = 64
"""Fewer different values than this are counted exactly. If there are more, this many smallest hashes give an
estimate."""
MOST_LONG = 8
LONG_TEXT = 100
NO_PLACE = 2**64 - 1
_ADDRESS = b'"127.0.0.1"'
_NUMERIC = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_COMMA = re.compile(rb"-?(0|[1-9][0-9]*|[1-9][0-9]{0,2}([. ][0-9]{3})+),[0-9]{2}")
_LONGEST_NUMBER = 20
_FIRST_OF_OTHERS = b'0123456789-+. "'
"""The first character of a string that is a number or blank, or the quote that ends an empty one."""
_text = msgspec.json.Decoder(str).decode
_BETWEEN = b"\0"
"""A byte that occurs in no JSON text."""


class LongTexts(NamedTuple):
    """The strings of LONG_TEXT characters or more: how many there are, the length of the longest, how many have that
    length, the place of the first of these, and the smallest hashes of their values."""

    texts: int = 0
    longest: int = 0
    at_longest: int = 0
    place: int = NO_PLACE
    hashes: tuple[int, ...] = ()

    def merged(self, other: LongTexts) -> LongTexts:
        texts = self.texts + other.texts
        if self.longest != other.longest:
            return max(self, other, key=lambda one: one.longest)._replace(texts=texts)
        hashes = smallest((self.hashes, other.hashes), MOST_LONG)
        return LongTexts(texts, self.longest, self.at_longest + other.at_longest, min(self.place, other.place), hashes)


NO_LONG_TEXTS = LongTexts()


class Values(NamedTuple):
    """A property of one event name in one month, or in all: how many values have each of KINDS and the place of the
    first of each; the first and last day; the smallest MOST_DISTINCT hashes of values that are not empty, ascending;
    and its long strings. `seen` are the values in the sample, from which `counts` estimates all events."""

    counts: tuple[int, ...]
    places: tuple[int, ...]
    first: int
    last: int
    hashes: tuple[int, ...]
    long: LongTexts
    seen: int

    def merged(self, other: Values) -> Values:
        """Both together."""
        return Values(
            tuple(map(int.__add__, self.counts, other.counts)),
            tuple(map(min, self.places, other.places)),
            min(self.first, other.first),
            max(self.last, other.last),
            smallest((self.hashes, other.hashes), MOST_DISTINCT),
            self.long.merged(other.long),
            self.seen + other.seen,
        )

    def scaled(self, events: int, sampled: int) -> Values:
        """The estimate for `events` events, of which `sampled` are in the sample. No estimate exceeds the number of
        events."""
        if events == sampled:
            return self
        counts = [(count * events + sampled // 2) // sampled for count in self.counts]
        counts[counts.index(max(counts))] -= max(sum(counts) - events, 0)
        return self._replace(counts=tuple(counts))


NO_VALUES = Values((0,) * len(KINDS), (NO_PLACE,) * len(KINDS), 0, 0, (), NO_LONG_TEXTS, 0)


def smallest(hashes: Iterable[Iterable[int]], most: int) -> tuple[int, ...]:
    """The `most` smallest different hashes, ascending."""
    return tuple(sorted({one for some in hashes for one in some})[:most])


def distinct(hashes: Sequence[int], values: int) -> tuple[int, bool]:
    """How many of `values` values are different, judging by their smallest hashes, and whether this is exact."""
    if len(hashes) < MOST_DISTINCT:
        return len(hashes), True
    return min(values, round((MOST_DISTINCT - 1) * 2**32 / (hashes[-1] + 1))), False


def values_of(some: Some) -> dict[str, Values]:
    """The values of each property of some events, without properties that the import itself sets.

    Events with the same property names are processed together, so that most of the work is done by column.
    """
    alike: dict[tuple[str, ...], tuple[list[Iterable[Raw]], list[int]]] = {}
    for index, text in enumerate(some.texts):
        properties = read_properties(text)
        rows, indices = alike.setdefault(tuple(properties), ([], []))
        rows.append(properties.values())
        indices.append(index)
    columns: dict[str, list[tuple[Sequence[Raw], list[int]]]] = {}
    for names, (rows, indices) in alike.items():
        for name, column in zip(names, zip(*rows, strict=True), strict=True):
            if name not in RESERVED:
                columns.setdefault(name, []).append((column, indices))
    found = {}
    for name, pieces in columns.items():
        values, events = pieces[0] if len(pieces) == 1 else (list(chain(*every)) for every in zip(*pieces, strict=True))
        texts = _BETWEEN.join(values).split(_BETWEEN)  # twice as fast as `bytes` of each
        if name == "$ip":
            kept = [at for at, text in enumerate(texts) if text != _ADDRESS]
            texts, events = [texts[at] for at in kept], [events[at] for at in kept]
        if texts:
            found[name] = _values(texts, events, some)
    return found


def _values(texts: list[bytes], events: list[int], some: Some) -> Values:
    """The values of one property; `events` has the index of the event of each value."""
    counts, places = [0] * len(KINDS), [NO_PLACE] * len(KINDS)
    different = Counter(texts)
    kinds = {text: kind_of(text) for text in different}
    for text, kind in kinds.items():
        counts[kind] += different[text]
    for text in [text for text, kind in kinds.items() if kind in (NULL, BLANK)]:
        del different[text]
    long = {
        text: length
        for text in different
        if len(text) >= LONG_TEXT + 2 and kinds[text] == TEXT and (length := len(_text(text))) >= LONG_TEXT
    }
    if sum(map(bool, counts)) == 1:
        places[kinds[texts[0]]] = some.places[min(events)]
    else:
        for text, event in zip(texts, events, strict=True):
            places[kinds[text]] = min(places[kinds[text]], some.places[event])
    days = [some.days[event] for event in events]
    hashes = smallest((map(xxhash.xxh32_intdigest, different),), MOST_DISTINCT)
    texts_that_are_long = _long_texts(long, texts, events, some)
    return Values(tuple(counts), tuple(places), min(days), max(days), hashes, texts_that_are_long, len(texts))


def _long_texts(lengths: dict[bytes, int], texts: list[bytes], events: list[int], some: Some) -> LongTexts:
    if not lengths:
        return NO_LONG_TEXTS
    longest = max(lengths.values())
    as_long = [event for text, event in zip(texts, events, strict=True) if lengths.get(text) == longest]
    hashes = [xxhash.xxh32_intdigest(text) for text, length in lengths.items() if length == longest]
    every = sum(text in lengths for text in texts)
    return LongTexts(every, longest, len(as_long), some.places[min(as_long)], smallest((hashes,), MOST_LONG))


def kind_of(value: bytes) -> int:
    """The index in KINDS of a value, which is given as JSON text."""
    match value[0]:
        case 0x22:
            return _kind_of_text(value)
        case 0x6E:
            return NULL
        case 0x74 | 0x66:
            return BOOLEAN
        case 0x7B:
            return LARGE_IN_OBJECT if unsafe_integers(value) else OBJECT
        case 0x5B:
            return LARGE_IN_LIST if unsafe_integers(value) else LIST
    digits = value.removeprefix(b"-")
    if not digits.isdigit():
        return DECIMAL
    return INTEGER if len(digits) < LONGEST_SAFE or int(digits) <= SAFE_INTEGER else LARGE


def _kind_of_text(value: bytes) -> int:
    if value[1] not in _FIRST_OF_OTHERS:
        return TEXT
    text = value[1:-1]
    if not text.strip(b" "):
        return BLANK
    if len(text) > _LONGEST_NUMBER:
        return TEXT
    if b"+" in text:
        return ROUNDED if lost_digits(text.decode()) else TEXT
    return NUMERIC if _NUMERIC.fullmatch(text) else COMMA if _COMMA.fullmatch(text) else TEXT
