"""Read the times of a field of an unknown tool: ISO 8601, or a number whose size shows its unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pipeline import values
from pipeline.timestamps import BadTime, Reading, read_epoch, read_iso
from pipeline.values import Value

_FROM, _TO = 946_684_800, 4_102_444_800
"""2000 and 2100 in seconds since 1970: a number of this size is a time, other numbers are amounts and ids."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
ENOUGH, MOSTLY = 0.9, 0.5
"""The share of a field's values that must be times of one unit; the second where its name suggests times."""
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999 in µs."""


class Clock(NamedTuple):
    """A field of times. `unit` is iso, s, ms, us or ns."""

    path: str
    unit: str

    def read(self, value: Value) -> Reading | None:
        """The time, or None where the value is not a time of the years 1 to 9999."""
        text = values.text(value)
        if text is None:
            return None
        try:
            reading = read_iso(text, space=True) if self.unit == "iso" else read_epoch(text, self.unit)
        except BadTime:
            return None
        return reading if EARLIEST <= reading.us <= LATEST else None


def clock_of(path: str, column: Sequence[Value], enough: float = ENOUGH) -> Clock | None:
    """The clock that a field's values read as, or None when a share below `enough` of them are times of one unit."""
    units = Counter(_unit(value) for value in column)
    unit, count = units.most_common(1)[0] if units else ("", 0)
    return Clock(path, unit) if unit and count >= enough * len(column) else None


def _unit(value: Value) -> str:
    text = values.text(value) or ""
    if text[4:5] == "-":
        return "iso" if Clock("", "iso").read(text) is not None else ""
    try:
        number = abs(float(text)) if len(text) < 32 else 0.0
    except ValueError:
        return ""
    return next((unit for unit, factor in _PER_SECOND.items() if _FROM * factor <= number < _TO * factor), "")
