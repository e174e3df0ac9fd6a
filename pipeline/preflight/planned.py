"""What the checks have to know of a plan, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Planned:
    """What would be sent: events by name, and by UTC day (`2023-01-31`); `bytes` of them all, as JSON.

    Merges, groups and profiles are among the names, not among the days. `sets_geoip`: the mapping itself decides on
    `$geoip_disable`.
    """

    names: Mapping[str, int] = field(default_factory=dict)
    days: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    sets_geoip: bool = False

    @property
    def events(self) -> int:
        return sum(self.names.values())
