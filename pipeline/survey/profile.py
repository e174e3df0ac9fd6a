"""Events by name, and times by hour, by month and against the receive time; pandas counts many times at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np

from pipeline.clock_offsets import count_offsets
from pipeline.survey.shape import FarRows
from pipeline.timestamps import format_utc

MOST_EVENTS = 10_000
"""Event names beyond this number are only counted together."""
MOST_MONTHS = 1_200
MOST_DAYS = 20_000
MOST_HOURS = 24 * 2 * MOST_DAYS
"""If there are more different hours than this, only those with the most rows are kept."""
CHUNK_ROWS = 50_000
HOUR = 3_600_000_000
"""An hour in µs."""
NAME_CHARACTERS = 200
MOST_COUNTS = 200_000
"""If there are more counts of events by month than this, only those of the most frequent names are kept."""
FEW = 1_000
"""One row in so many, rounded up, may be far before all others, and as many far after them."""
ENOUGH_ROWS = 20
"""Among fewer rows no time is far from the others."""
LEAST_NEAR = 3
"""Rows so many months before or after nearly all others are not far; or half as many months as those have, if more."""
MOST_BY_MONTH = 30
"""How many event names have their rows by month in a survey."""


class Place(NamedTuple):
    """The row of a part that has a time."""

    time: int
    part: str
    row: int


class Profile:
    """Running counts over all rows. Call `add` for each row and `flush` once at the end."""

    def __init__(self, most_events: int = MOST_EVENTS) -> None:
        self._most_events = most_events
        self.events: Counter[str] = Counter()
        self.events_left_out = 0
        self._hours: Counter[Any] = Counter()
        """Rows by the hour since 1970."""
        self.offsets: Counter[tuple[int, int]] = Counter()
        self.first: Place | None = None
        self.last: Place | None = None
        self._numbers: dict[str, int] = {}
        self._by_month: Counter[Any] = Counter()
        self._times: list[int] = []
        self._named: list[int] = []
        self._received: list[tuple[int, int]] = []

    def add(self, name: str | None, time: int | None, received: int | None, part: str = "", row: int = 0) -> None:
        """Count a row of a part. `time` is as the clock reads, `received` in UTC, both in µs."""
        number = -1
        if name is not None:
            name = name[:NAME_CHARACTERS]
            if name in self.events or len(self.events) < self._most_events:
                self.events[name] += 1
                number = self._numbers.setdefault(name, len(self._numbers))
            else:
                self.events_left_out += 1
        if time is not None:
            if self.first is None or time < self.first.time:
                self.first = Place(time, part, row)
            if self.last is None or time > self.last.time:
                self.last = Place(time, part, row)
            self._times.append(time)
            self._named.append(number)
            if received is not None:
                self._received.append((time, received))
            if len(self._times) >= CHUNK_ROWS:
                self.flush()

    def flush(self) -> None:
        """Count the times that were added since the last call."""
        if not self._times:
            return
        import pandas as pd

        times, received = np.array(self._times, np.int64), np.array(self._received, np.int64).reshape(-1, 2)
        months = times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
        rows = pd.DataFrame({"name": self._named, "month": months, "hour": times // HOUR})
        self._times.clear()
        self._named.clear()
        self._received.clear()
        self._by_month.update(rows[["name", "month"]].value_counts().to_dict())
        if len(self._by_month) > MOST_COUNTS:
            frequent = {self._numbers[name] for name, _ in self.events.most_common(MOST_BY_MONTH)}
            self._by_month = Counter({key: n for key, n in self._by_month.items() if key[0] in frequent})
        self._hours.update(rows["hour"].value_counts().to_dict())
        if len(self._hours) > MOST_HOURS:
            self._hours = Counter(dict(self._hours.most_common(MOST_HOURS // 2)))
        self.offsets.update(count_offsets(received[:, 0], received[:, 1]))
        if len(self.offsets) > 20 * MOST_MONTHS:  # only wrong clocks make that many
            self.offsets = Counter(dict(self.offsets.most_common(10 * MOST_MONTHS)))

    def hours(self) -> tuple[int, ...]:
        """Counts by the hour of the day."""
        found = [0] * 24
        for hour, count in self._hours.items():
            found[hour % 24] += count
        return tuple(found)

    def counts(self, unit: Literal["M", "D"], most: int) -> dict[str, int]:
        """Counts by month (`M`) or day (`D`) in order; if there are more than `most`, those with the most rows."""
        found: Counter[int] = Counter()  # numbers: datetime64 takes ten times as long to look up
        times = np.array([*self._hours], "datetime64[h]").astype(f"datetime64[{unit}]").astype(np.int64)
        for at, count in zip(times.tolist(), self._hours.values(), strict=True):
            found[at] += count
        return {str(np.datetime64(at, unit)): count for at, count in sorted(found.most_common(most))}

    def event_months(self) -> dict[str, dict[str, int]]:
        """Counts by month, in order, of the most frequent event names."""
        months: dict[int, dict[str, int]] = {}
        for (number, month), count in sorted(self._by_month.items()):
            months.setdefault(number, {})[str(np.datetime64(month, "M"))] = count
        frequent = [name for name, _ in self.events.most_common(MOST_BY_MONTH)]
        return {name: found for name in frequent if (found := months.get(self._numbers[name]))}

    def range(self, *, utc: bool) -> tuple[str | None, str | None]:
        """The earliest and latest time as strings, with a Z only if every time had its own offset (`utc`)."""
        if self.first is None or self.last is None:
            return None, None
        first, last = format_utc(self.first.time), format_utc(self.last.time)
        return (first, last) if utc else (first[:-1], last[:-1])

    def far(self, months: Mapping[str, int], *, utc: bool) -> list[FarRows]:
        """The rows far before or far after nearly all others."""
        usual = usual_months(months)
        found = []
        for place, time in zip((self.first, self.last), self.range(utc=utc), strict=True):
            if place is None or time is None or not usual or usual[0] <= time[:7] <= usual[-1]:
                continue
            month = usual[-1] if time > usual[-1] else usual[0]
            rows = sum(count for one, count in months.items() if (one > month) == (time > month) and one != month)
            found.append(FarRows(rows, month, time, place.part, place.row))
        return found


def usual_months(months: Mapping[str, int]) -> list[str]:
    """The months of nearly all rows: those between the first and the last row in FEW, and others near them."""
    numbers = {month: 12 * int(month[:4]) + int(month[5:]) for month in months}
    total = sum(months.values())
    some = -(-total // FEW) if total >= ENOUGH_ROWS else 0
    ends = []
    for order in (list(months), list(months)[::-1]):
        sums = accumulate(months[month] for month in order)
        ends.append(next((numbers[month] for month, rows in zip(order, sums, strict=True) if rows > some), 0))
    near = max(LEAST_NEAR, (ends[1] - ends[0] + 1) // 2)
    return [month for month, number in numbers.items() if ends[0] - near <= number <= ends[1] + near]
