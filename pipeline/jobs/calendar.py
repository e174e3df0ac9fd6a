"""Windows: the days or hours of one zone's calendar, half-open, without gaps or overlaps.

A window is a label of the calendar, because the path of its files is made from that label. It reaches from the first
instant at which clocks in the zone show the label to the first instant of the next one. So the hour that autumn repeats
is one window of two hours, the hour that spring skips is not a window, and a day has 23, 24 or 25 hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from pipeline.errors import UsageError
from pipeline.timestamps import SECOND, moment_of, wall_of
from pipeline.zone_clock import zone

STEPS = {"day": timedelta(days=1), "hour": timedelta(hours=1)}
SPELLINGS = {"day": "2024-01-31", "hour": "2024-01-31T05"}
_LABEL = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d)(?::00)?)?", re.ASCII)
EARLIEST = 1970


class Window(msgspec.Struct, frozen=True):
    """One window. `wall` is its label as a clock of the zone shows it; `start` and `end` are µs UTC, half-open."""

    label: str
    wall: datetime
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Calendar:
    """The windows of a zone; `kind` is day or hour. Raises UsageError for an unknown zone."""

    kind: str
    zone: str

    def __post_init__(self) -> None:
        zone(self.zone)

    def window(self, text: str) -> Window:
        """The window of a label; a day means its first hour if windows are hours. Raises UsageError."""
        match = _LABEL.fullmatch(text)
        hint = f"write {SPELLINGS[self.kind]}"
        if match is None or (self.kind == "day" and match[4]):
            raise UsageError(f"{text!r} is not a valid {self.kind}", hint=hint)
        try:
            wall = datetime(*(int(digits or 0) for digits in match.groups()))  # type: ignore[arg-type]
        except ValueError as error:
            raise UsageError(f"{text!r} is not a valid {self.kind} ({error})", hint=hint) from None
        if not EARLIEST <= wall.year < datetime.max.year:
            raise UsageError(f"the year {wall.year} is out of range", hint=hint)
        return self._at(wall)

    def from_(self, first: Window) -> Iterator[Window]:
        """This window and all that follow it, endlessly."""
        wall, start = first.wall, first.start
        while True:
            after = wall + STEPS[self.kind]
            end = first_instant(after, zone(self.zone))
            if start < end:  # skips a label that no clock shows
                yield Window(self._label(wall), wall, start, end)
            wall, start = after, end

    def _at(self, wall: datetime) -> Window:
        rules = zone(self.zone)
        start, end = first_instant(wall, rules), first_instant(wall + STEPS[self.kind], rules)
        return Window(self._label(wall), wall, start, end)

    def _label(self, wall: datetime) -> str:
        return wall.isoformat()[: len(SPELLINGS[self.kind])]


def first_instant(wall: datetime, rules: ZoneInfo) -> int:
    """The first instant (µs UTC) at which clocks show `wall`, or a later time if they skip it."""
    high = _instant(wall, rules, fold=0)
    if _shown(high, rules) == wall:
        return high
    low = _instant(wall, rules, fold=1)  # before the clocks are put forward, as `high` is after
    while high - low > SECOND:
        middle = (low + high) // (2 * SECOND) * SECOND
        if _shown(middle, rules) < wall:
            low = middle
        else:
            high = middle
    return high


def _instant(wall: datetime, rules: ZoneInfo, fold: int) -> int:
    offset = wall.replace(tzinfo=rules, fold=fold).utcoffset() or timedelta()
    return wall_of(wall - offset)


def _shown(instant: int, rules: ZoneInfo) -> datetime:
    return moment_of(instant).replace(tzinfo=UTC).astimezone(rules).replace(tzinfo=None, fold=0)
