"""Events by name, and times by hour, by month and against the receive time; pandas counts a chunk at a time."""

from __future__ import annotations

from collections import Counter

import numpy as np

from pipeline.clock_offsets import count_offsets
from pipeline.timestamps import format_utc

MOST_EVENTS = 10_000
"""Event names beyond these are only counted together."""
MOST_MONTHS = 1_200
CHUNK_ROWS = 50_000
NAME_CHARACTERS = 200


class Profile:
    """Running counts over all rows. Call `add` for each row and `flush` once at the end."""

    def __init__(self, most_events: int = MOST_EVENTS) -> None:
        self._most_events = most_events
        self.events: Counter[str] = Counter()
        self.events_left_out = 0
        self.hours = [0] * 24
        self.months: Counter[str] = Counter()
        self.offsets: Counter[tuple[int, int]] = Counter()
        self.first: int | None = None
        self.last: int | None = None
        self._names: list[str] = []
        self._times: list[int] = []
        self._walls: list[int] = []
        self._received: list[int] = []

    def add(self, name: str | None, time: int | None, received: int | None) -> None:
        """Take one row. `time` is as the clock reads, `received` in UTC, both in µs."""
        if name is not None:
            self._names.append(name[:NAME_CHARACTERS])
        if time is not None:
            self._times.append(time)
            if received is not None:
                self._walls.append(time)
                self._received.append(received)
        if len(self._names) >= CHUNK_ROWS or len(self._times) >= CHUNK_ROWS:
            self.flush()

    def flush(self) -> None:
        """Count what was gathered since the last time."""
        import pandas as pd

        if self._names:
            for name, count in pd.Series(self._names, dtype=object).value_counts(sort=False).items():
                if name in self.events or len(self.events) < self._most_events:
                    self.events[str(name)] += int(count)
                else:
                    self.events_left_out += int(count)
        if self._times:
            times = np.array(self._times, np.int64)
            low, high = int(times.min()), int(times.max())
            self.first = low if self.first is None else min(self.first, low)
            self.last = high if self.last is None else max(self.last, high)
            clock = pd.Series(times.astype("datetime64[us]"))
            for hour, count in clock.dt.hour.value_counts().items():
                self.hours[int(str(hour))] += int(count)
            months = (clock.dt.year * 100 + clock.dt.month).value_counts()
            for month, count in months.items():
                number = int(str(month))
                self.months[f"{number // 100:04d}-{number % 100:02d}"] += int(count)
        self.offsets.update(count_offsets(np.array(self._walls, np.int64), np.array(self._received, np.int64)))
        if len(self.offsets) > 20 * MOST_MONTHS:  # only wrong clocks fill so many
            self.offsets = Counter(dict(self.offsets.most_common(10 * MOST_MONTHS)))
        for held in (self._names, self._times, self._walls, self._received):
            held.clear()

    def month_counts(self) -> dict[str, int]:
        """Counts by month in order; of more than 1,200 months, those with the most rows."""
        return dict(sorted(self.months.most_common(MOST_MONTHS)))

    def range(self, *, utc: bool) -> tuple[str | None, str | None]:
        """The earliest and latest reading as text, with a Z only where every time told its offset."""
        if self.first is None or self.last is None:
            return None, None
        first, last = format_utc(self.first), format_utc(self.last)
        return (first, last) if utc else (first[:-1], last[:-1])
