"""The operator's own limits at this moment: `--rate` and `--quiet-hours`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from pipeline.options.pace import BYTES, EVENTS, Hours, RateLimit


class Allowed(NamedTuple):
    """Events and bytes a second (None: no limit), and the seconds for which no request may leave."""

    events: float | None = None
    bytes: float | None = None
    quiet: float = 0.0


FREE = Allowed()


class Pace:
    """What is allowed now. `zone` is the clock of the hours, "" for this machine's; `clock` returns an instant."""

    def __init__(
        self,
        limits: Sequence[RateLimit] = (),
        quiet: Sequence[Hours] = (),
        zone: str = "",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._limits = limits
        self._quiet = quiet
        self._zone: tzinfo | None = ZoneInfo(zone) if zone else None
        self._clock = clock
        self._is_fixed = not quiet and all(limit.hours is None for limit in limits)
        self._fixed = self._at(0.0)

    def allowed(self) -> Allowed:
        """The limits at this moment. If a unit has a limit for these hours, only that limit applies to it."""
        if self._is_fixed:
            return self._fixed
        local = self._clock().astimezone(self._zone)
        return self._at(local.hour * 60 + local.minute + (local.second + local.microsecond / 1e6) / 60)

    def _at(self, minute: float) -> Allowed:
        most: dict[str, float] = {limit.unit: limit.most for limit in self._limits if limit.hours is None}
        now = [limit for limit in self._limits if limit.hours is not None and limit.hours.left(minute)]
        for unit in {limit.unit for limit in now}:
            most[unit] = min(limit.most for limit in now if limit.unit == unit)
        quiet = max((hours.left(minute) for hours in self._quiet), default=0.0)
        return Allowed(most.get(EVENTS), most.get(BYTES), quiet * 60)
