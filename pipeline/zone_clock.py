"""The clock of a time zone: local readings to instants, by the rules of the `tzdata` package alone, so a plan has the
same bytes on any machine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

from pipeline.errors import UsageError
from pipeline.timestamps import DAY, HOUR, MICROSECOND, MINUTE, SECOND, moment_of, wall_of
from pipeline.zone_hints import zone_hint

RECEIVED_TOLERANCE = 60 * SECOND
"""How far a sender's clock may run ahead of the receiver's when a repeated hour is resolved."""

QUARTER = 15 * MINUTE
"""Offsets are cached by the quarter of an hour; each in use is a multiple of it."""
_QUARTERS_A_DAY = DAY // QUARTER
_CACHED = 1 << 16


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Every IANA zone name of the packaged rules."""
    return frozenset((resources.files("tzdata") / "zones").read_text(encoding="utf-8").split())


@lru_cache(maxsize=64)
def zone(name: str) -> ZoneInfo:
    """The zone's rules, from the `tzdata` package and never from the host. Raises UsageError if unknown."""
    if name not in zone_names():
        raise UsageError(f"{name!r} is not a time zone", hint=zone_hint(name, zone_names()))
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as rules:
        return ZoneInfo.from_file(rules, key=name)


class ZoneClock:
    """Turns the wall times of one project into UTC.

    `zones` are (name, local date from which the zone applies, "" for the first) in order; the wall date selects the
    zone. Without any zones the clock is UTC. Offsets are cached by quarter of an hour; hardly any changes within one.
    """

    __slots__ = ("_first_walls", "_zones", "offsets", "zones")

    def __init__(self, zones: Sequence[tuple[str, str]] = ()) -> None:
        self.zones = tuple(zones)
        self._zones = tuple(zone(name) for name, _ in zones)
        self._first_walls = tuple(_first_wall(since) for _, since in zones)
        if list(self._first_walls) != sorted(set(self._first_walls)):
            raise UsageError(
                "the time zones must be given in the order of their dates",
                hint="for example --timezone America/New_York --timezone Europe/Berlin@2021-03-01",
            )
        self.offsets: dict[int, int | None] = {}
        """The cache, by number of the quarter: wall time minus UTC in µs, or None if the offset changes in it."""

    def to_utc(self, wall: int, received: int | None = None) -> tuple[int, str]:
        """The instant, and a warning's code or "".

        In the repeated hour at the end of DST the receive time decides: the latest of the two instants that is not
        after it (RECEIVED_TOLERANCE allowed). The code is `ambiguous_time` if it cannot decide: absent or before both
        (the first instant is taken), or an hour or more after both (the second). It is `nonexistent_time` in the hour
        that DST skips, which is read as if the clock had not been put forward yet. Raises BadTime.
        """
        if not self._zones:
            return wall, ""
        quarter = wall // QUARTER
        try:
            offset = self.offsets[quarter]
        except KeyError:
            offset = self._offset(quarter)
        if offset is not None:
            return wall - offset, ""
        earlier, later = self._candidates(wall)
        if earlier == later:
            return earlier, ""
        if earlier > later:
            return earlier, "nonexistent_time"
        if received is None or earlier > received + RECEIVED_TOLERANCE:
            return earlier, "ambiguous_time"
        if later > received + RECEIVED_TOLERANCE:
            return earlier, ""
        return later, "ambiguous_time" if received - later >= HOUR else ""

    def offset_at(self, instant: int) -> int:
        """What the clock shows at an instant (µs UTC) minus that instant, in µs."""
        for rules, first in zip(reversed(self._zones), reversed(self._first_walls), strict=True):
            offset = moment_of(instant).replace(tzinfo=UTC).astimezone(rules).utcoffset() or timedelta()
            ahead = offset // MICROSECOND
            if instant + ahead >= first:
                return ahead
        return 0

    def _offset(self, quarter: int) -> int | None:
        """The offset in a quarter. It is cached, for the whole day if that has only one offset.

        No zone changes its clocks twice within three days (tzdata 2026f), so equal offsets at both ends mean no change.
        """
        quarters = range(first := quarter // _QUARTERS_A_DAY * _QUARTERS_A_DAY, first + _QUARTERS_A_DAY)
        offset = self._constant(first * QUARTER, DAY)
        if offset is None:
            quarters = range(quarter, quarter + 1)
            offset = self._constant(quarter * QUARTER, QUARTER)
        if len(self.offsets) >= _CACHED:
            self.offsets.clear()
        self.offsets.update(dict.fromkeys(quarters, offset))
        return offset

    def _constant(self, first: int, length: int) -> int | None:
        """The one offset of all wall times in a range; None if it changes."""
        last = first + length - 1
        offsets = {first - utc for utc in self._candidates(first)} | {last - utc for utc in self._candidates(last)}
        return offsets.pop() if len(offsets) == 1 else None

    def _candidates(self, wall: int) -> tuple[int, int]:
        """The instants of a wall time before and after a change of the clock; equal if there is none."""
        rules = self._zones[0]
        for candidate, first in zip(self._zones, self._first_walls, strict=True):
            if wall >= first:
                rules = candidate
        moment = moment_of(wall).replace(tzinfo=rules)
        return _instant(moment), _instant(moment.replace(fold=1))


def _first_wall(since: str) -> int:
    if not since:
        return -(10**18)
    try:
        day = date.fromisoformat(since)
    except ValueError:
        raise UsageError(f"{since!r} is not a date", hint="write it as 2021-03-01") from None
    return wall_of(datetime(day.year, day.month, day.day))


def _instant(moment: datetime) -> int:
    offset = moment.utcoffset() or timedelta()
    return wall_of(moment.replace(tzinfo=None)) - offset // MICROSECOND
