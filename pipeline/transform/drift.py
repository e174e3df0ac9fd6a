"""Counts what the properties of events are, month by month: types, empty values, different values, first and last day.

What is sent is counted: the text of a block's events, after the mapping, before duplicates are removed. Of each event
name and UTC month remain the number of its events and an entry for each of its properties. The rules (sum, least,
greatest, the smallest hashes) know no order, so the result is the same however blocks are spread over processes.
`pipeline.native` has `Drift` in C; `DriftCounts` is the same in Python, at a multiple of its time.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import xxhash
from msgspec import Raw

from pipeline.encoder.buffer import split_events
from pipeline.encoder.event import RESERVED
from pipeline.identity.aggregator import PLACE_SHIFT
from pipeline.json_limits import unsafe_integers
from pipeline.native import AVAILABLE, native
from pipeline.timestamps import DAY, lost_digits
from pipeline.transform.events import Events

KINDS = (
    "null", "blank", "text", "numeric text", "integer", "large integer", "decimal", "boolean", "object", "list",
    "object with large integer", "list with large integer",
    "amount with comma", "rounded number",
)  # fmt: skip
"""What a value is: `blank` is a text of no characters or of spaces alone, `numeric text` a text that is a number, as
"12.50", without an exponent and without a zero before it; `large integer` is beyond 2^53; `amount with comma` a text
such as 49,90 or 1.234,50; `rounded number` one such as 1.6E+12, whose last digits are lost."""
NULL, BLANK, TEXT, NUMERIC, INTEGER, LARGE, DECIMAL, BOOLEAN, OBJECT, LIST = range(10)
LARGE_IN_OBJECT, LARGE_IN_LIST, COMMA, ROUNDED = range(10, len(KINDS))
MOST_DISTINCT = 64
"""So many different values are counted exactly; of more, the smallest so many hashes give an estimate."""
MOST_LONG = 8
LONG_TEXT = 100
NO_PLACE = 2**64 - 1
MAX_ENTRIES = 20_000
"""So many entries are kept before they are returned."""
_MAX_EVENTS = 2**31
_ADDRESS = b'"127.0.0.1"'
_SAFE = 2**53
_NUMERIC = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_COMMA = re.compile(rb"-?(0|[1-9][0-9]*|[1-9][0-9]{0,2}([. ][0-9]{3})+),[0-9]{2}")
_LONGEST_NUMBER = 20
_text = msgspec.json.Decoder(str).decode


class _Sent(msgspec.Struct):
    properties: dict[str, Raw]


_sent = msgspec.json.Decoder(_Sent).decode


class LongTexts(NamedTuple):
    """Of the texts of LONG_TEXT characters or more: how many there are, the length of the longest, how many are as
    long, the place of the first of these, and the smallest hashes of their values."""

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
    """A property of one event name in one month: how many values are of each of KINDS, and where the first of each is
    (the number of its block, shifted left by PLACE_SHIFT, plus its row in the block); the first and last day; the
    smallest MOST_DISTINCT hashes of values that are not empty, ascending; and its long texts."""

    counts: tuple[int, ...]
    places: tuple[int, ...]
    first: int
    last: int
    hashes: tuple[int, ...]
    long: LongTexts

    def merged(self, other: Values) -> Values:
        """Both together."""
        return Values(
            tuple(map(int.__add__, self.counts, other.counts)),
            tuple(map(min, self.places, other.places)),
            min(self.first, other.first),
            max(self.last, other.last),
            smallest((self.hashes, other.hashes), MOST_DISTINCT),
            self.long.merged(other.long),
        )

    def packed(self) -> Packed:
        """The same in few bytes."""
        long = self.long
        return (
            _column(self.counts), _column(self.places), self.first, self.last, _hash_column(self.hashes),
            long.texts, long.longest, long.at_longest, long.place, _hash_column(long.hashes),
        )  # fmt: skip


Packed = tuple[bytes, bytes, int, int, bytes, int, int, int, int, bytes]
"""Values as `pipeline.native` returns and a plan keeps them: in the order of the fields, and texts of numbers."""
Taken = tuple[str, int, int, list[tuple[Any, ...]]]
"""(event, month, events, entries): the month is counted from January 1970; an entry is the property's
name as JSON, and Packed."""


def smallest(hashes: Iterable[Sequence[int]], most: int) -> tuple[int, ...]:
    """The smallest different hashes, ascending."""
    return tuple(sorted({one for some in hashes for one in some})[:most])


def distinct(hashes: Sequence[int], values: int) -> tuple[int, bool]:
    """How many of some values are different, by their smallest hashes, and whether this is exact."""
    if len(hashes) < MOST_DISTINCT:
        return len(hashes), True
    return min(values, round((MOST_DISTINCT - 1) * 2**32 / (hashes[-1] + 1))), False


def unpacked(packed: Packed) -> Values:
    """What `Values.packed` or `pipeline.native` wrote."""
    counts, places, first, last, hashes, texts, longest, at_longest, place, long = packed
    of_long = LongTexts(texts, longest, at_longest, place, _hashes(long)) if texts else NO_LONG_TEXTS
    return Values(_numbers(counts), _numbers(places), first, last, _hashes(hashes), of_long)


def merged(one: Packed, other: Packed) -> Packed:
    """Both together."""
    return unpacked(one).merged(unpacked(other)).packed()


def entries_of(taken: Iterable[Taken]) -> Iterator[tuple[str, int, str, Packed]]:
    """(event, month, property, values) of all entries. A name that is spelled in two ways comes twice."""
    for event, month, _, entries in taken:
        for spelled, *packed in entries:
            yield event, month, _text(spelled), tuple(packed)


def _hashes(column: bytes) -> tuple[int, ...]:
    return tuple(memoryview(column).cast("I"))


def _numbers(column: bytes) -> tuple[int, ...]:
    return tuple(memoryview(column).cast("Q"))


def _hash_column(hashes: Sequence[int]) -> bytes:
    return array("I", hashes).tobytes()


def _column(numbers: Sequence[int]) -> bytes:
    return array("Q", numbers).tobytes()


class DriftAggregator:
    """Counts the blocks of one worker."""

    def __init__(self) -> None:
        self._counts: Any = native.Drift() if AVAILABLE else DriftCounts()

    def add(self, events: Events, number: int) -> None:
        """Count the events of a block of this number."""
        self._counts.add(
            events.runs,
            events.sizes.tobytes(),
            events.distinct_names,
            events.name_of.tobytes(),
            events.times.tobytes(),
            events.row_of,
            number << PLACE_SHIFT,
        )

    @property
    def full(self) -> bool:
        """Whether it is time to return the entries (`take`)."""
        return len(self._counts) > MAX_ENTRIES or self._counts.events > _MAX_EVENTS

    def take(self) -> list[Taken]:
        """All entries since the last call."""
        taken: list[Taken] = self._counts.take()
        return taken


class DriftCounts:
    """The twin of the native `Drift`."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, int], tuple[Counter[str], dict[str, Values]]] = {}
        self.events = 0

    def __len__(self) -> int:
        return sum(len(properties) for _, properties in self._series.values())

    def add(
        self,
        runs: list[bytes],
        sizes: bytes,
        names: list[str],
        name_of: bytes,
        times: bytes,
        rows: list[int],
        place: int,
    ) -> None:
        """Count the events of a block, whose row 0 is at `place`."""
        of_day: dict[tuple[int, int], list[tuple[int, list[tuple[str, bytes]]]]] = {}
        days = (np.frombuffer(times, np.int64) // DAY).tolist()
        numbers = np.frombuffer(name_of, np.uint32).tolist()
        for event, day, number, row in zip(
            split_events(runs, np.frombuffer(sizes, np.int64)), days, numbers, rows, strict=True
        ):
            items = [(name, bytes(value)) for name, value in _sent(event).properties.items()]
            of_day.setdefault((number, day), []).append((place + row, items))
        for (number, day), found in of_day.items():
            self._add_day(names[number], day, found)
        self.events += len(rows)

    def _add_day(self, event: str, day: int, found: list[tuple[int, list[tuple[str, bytes]]]]) -> None:
        events, properties = self._series.setdefault((event, month_of(day)), (Counter(), {}))
        events[event] += len(found)
        counts: Counter[tuple[str, bytes]] = Counter()
        places: dict[tuple[str, bytes], int] = {}
        for place, items in found:
            counts.update(items)
            for item in items:
                places[item] = min(place, places.get(item, place))
        of_name: dict[str, list[tuple[bytes, int, int]]] = {}
        for item, count in counts.items():
            of_name.setdefault(item[0], []).append((item[1], count, places[item]))
        for name, values in of_name.items():
            if name == "$ip":
                values = [one for one in values if one[0] != _ADDRESS]
            if name in RESERVED or not values:
                continue
            one = _values(values, day)
            known = properties.get(name)
            properties[name] = one if known is None else known.merged(one)

    def take(self) -> list[Taken]:
        series, self._series, self.events = self._series, {}, 0
        return [
            (
                event,
                month,
                events[event],
                [(msgspec.json.encode(name), *values.packed()) for name, values in properties.items()],
            )
            for (event, month), (events, properties) in series.items()
        ]


def month_of(day: int) -> int:
    """The month of a day; both since 1970."""
    return int(np.datetime64(day, "D").astype("datetime64[M]").astype(np.int64))


def kind_of(value: bytes) -> int:
    """Which of KINDS the JSON text of a value is."""
    match value[:1]:
        case b'"':
            text = value[1:-1]
            if not text.strip(b" "):
                return BLANK
            if len(text) > _LONGEST_NUMBER:
                return TEXT
            if b"+" in text:
                return ROUNDED if lost_digits(text.decode()) else TEXT
            return NUMERIC if _NUMERIC.fullmatch(text) else COMMA if _COMMA.fullmatch(text) else TEXT
        case b"n":
            return NULL
        case b"t" | b"f":
            return BOOLEAN
        case b"{":
            return LARGE_IN_OBJECT if unsafe_integers(value) else OBJECT
        case b"[":
            return LARGE_IN_LIST if unsafe_integers(value) else LIST
    digits = value.removeprefix(b"-")
    if not digits.isdigit():
        return DECIMAL
    return LARGE if len(digits) > 16 or int(digits) > _SAFE else INTEGER


def _values(values: list[tuple[bytes, int, int]], day: int) -> Values:
    """What different values of a property are, each with its number and its first place."""
    counts, places = [0] * len(KINDS), [NO_PLACE] * len(KINDS)
    hashes: set[int] = set()
    long = NO_LONG_TEXTS
    for value, count, place in values:
        kind = kind_of(value)
        counts[kind] += count
        places[kind] = min(places[kind], place)
        if kind in (NULL, BLANK):
            continue
        hashed = xxhash.xxh32_intdigest(value)
        hashes.add(hashed)
        if kind == TEXT and len(value) >= LONG_TEXT + 2 and (length := len(_text(value))) >= LONG_TEXT:
            long = long.merged(LongTexts(count, length, count, place, (hashed,)))
    return Values(tuple(counts), tuple(places), day, day, smallest((tuple(hashes),), MOST_DISTINCT), long)
