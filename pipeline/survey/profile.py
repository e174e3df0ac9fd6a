"""Events by name, and times by hour, by month and against the receive time; pandas counts a chunk of times at once."""

from __future__ import annotations

from collections import Counter

import numpy as np

from pipeline.clock_offsets import count_offsets
from pipeline.timestamps import format_utc

MOST_EVENTS = 10_000
"""Event names beyond these are only counted together."""
MOST_MONTHS = 1_200
MOST_DAYS = 20_000
CHUNK_ROWS = 50_000
DAY = 86_400_000_000
"""A day in µs."""
NAME_CHARACTERS = 200
MOST_COUNTS = 200_000
"""More counts of an event in a month than this are only kept for the most frequent names."""
MOST_BY_MONTH = 30
"""How many event names have their rows by month in a survey."""


class Profile:
    """Running counts over all rows. Call `add` for each row and `flush` once at the end."""

    def __init__(self, most_events: int = MOST_EVENTS) -> None:
        self._most_events = most_events
        self.events: Counter[str] = Counter()
        self.events_left_out = 0
        self.hours = [0] * 24
        self.months: Counter[str] = Counter()
        self.days: Counter[int] = Counter()
        self.offsets: Counter[tuple[int, int]] = Counter()
        self.first: int | None = None
        self.last: int | None = None
        self._numbers: dict[str, int] = {}
        self._by_month: Counter[tuple[int, int]] = Counter()
        self._times: list[int] = []
        self._named: list[int] = []
        self._received: list[tuple[int, int]] = []

    def add(self, name: str | None, time: int | None, received: int | None) -> None:
        """Count one row. `time` is as the clock reads, `received` in UTC, both in µs."""
        number = -1
        if name is not None:
            name = name[:NAME_CHARACTERS]
            if name in self.events or len(self.events) < self._most_events:
                self.events[name] += 1
                number = self._numbers.setdefault(name, len(self._numbers))
            else:
                self.events_left_out += 1
        if time is not None:
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
        named = np.array(self._named, np.int64)
        self._times.clear()
        self._named.clear()
        self._received.clear()
        first, last = int(times.min()), int(times.max())
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)
        clock = pd.Series(times.astype("datetime64[us]")).dt
        for hour, count in clock.hour.value_counts().items():
            self.hours[int(str(hour))] += int(count)
        for month, count in (clock.year * 100 + clock.month).value_counts().items():
            year, number = divmod(int(str(month)), 100)
            self.months[f"{year:04d}-{number:02d}"] += int(count)
        months = times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
        both, counts = np.unique(np.stack((named, months), 1), axis=0, return_counts=True)
        self._by_month.update({(name, at): n for (name, at), n in zip(both.tolist(), counts.tolist(), strict=True)})
        if len(self._by_month) > MOST_COUNTS:
            frequent = {self._numbers[name] for name, _ in self.events.most_common(MOST_BY_MONTH)}
            self._by_month = Counter({key: n for key, n in self._by_month.items() if key[0] in frequent})
        days, counts = np.unique(times // DAY, return_counts=True)
        self.days.update(dict(zip(days.tolist(), counts.tolist(), strict=True)))
        if len(self.days) > 2 * MOST_DAYS:
            self.days = Counter(dict(self.days.most_common(MOST_DAYS)))
        self.offsets.update(count_offsets(received[:, 0], received[:, 1]))
        if len(self.offsets) > 20 * MOST_MONTHS:  # only wrong clocks fill so many
            self.offsets = Counter(dict(self.offsets.most_common(10 * MOST_MONTHS)))

    def month_counts(self) -> dict[str, int]:
        """Counts by month in order; of more than 1,200 months, those with the most rows."""
        return dict(sorted(self.months.most_common(MOST_MONTHS)))

    def event_months(self) -> dict[str, dict[str, int]]:
        """Counts by month, in order, of the most frequent event names."""
        months: dict[int, dict[str, int]] = {}
        for (number, month), count in sorted(self._by_month.items()):
            months.setdefault(number, {})[str(np.datetime64(month, "M"))] = count
        frequent = [name for name, _ in self.events.most_common(MOST_BY_MONTH)]
        return {name: found for name in frequent if (found := months.get(self._numbers[name]))}

    def day_counts(self) -> dict[str, int]:
        """Counts by day in order; of more than 20,000 days, those with the most rows."""
        return {str(np.datetime64(day, "D")): count for day, count in sorted(self.days.most_common(MOST_DAYS))}

    def range(self, *, utc: bool) -> tuple[str | None, str | None]:
        """The earliest and latest time as text, with a Z only where every time had its own offset (`utc`)."""
        if self.first is None or self.last is None:
            return None, None
        first, last = format_utc(self.first), format_utc(self.last)
        return (first, last) if utc else (first[:-1], last[:-1])
