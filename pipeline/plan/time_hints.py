"""What the times of an export reveal about their zone, and which option or line of the mapping settles it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from pipeline import values
from pipeline.mapper.language.sections import Clock, Mapping
from pipeline.mapper.program.references import find, properties_of
from pipeline.models import Part
from pipeline.plan.precheck import records
from pipeline.text import pluralize, printable
from pipeline.timestamps import BadTime, read_iso
from pipeline.values import BadValue, Record

ROWS = 1_000
"""This many rows are examined: the first that can be read."""
_CHARACTERS = 60


def time_hints(mapping: Mapping, parts: Iterable[Part], zones: bool) -> list[str]:
    """A sentence for each clock of the mapping that reads strings without an offset; `zones`: --timezone was given.

    Clocks with a written form, of numbers, or of computed values are not examined, and neither is a mapping with a
    decoder.
    """
    clocks = [clock for clock in mapping.time if clock.unit == "iso" and clock.source.verb in ("ref", "first")]
    if mapping.decoder is not None or not clocks:
        return []
    rows = list(islice((row for part in parts for row in records(part, mapping)), ROWS))
    return [hint for clock in clocks if (hint := _hint(clock, mapping, rows, zones))]


def _hint(clock: Clock, mapping: Mapping, rows: Iterable[Record], zones: bool) -> str:
    without, spaced = [], 0
    for row in rows:
        try:
            text = values.text(find(clock.source, row, properties_of(mapping, row))) or ""
            if read_iso(text, space=True).utc:
                continue
        except (BadTime, BadValue):
            continue
        without.append(text)
        spaced += text[10] == " "
    if not without:
        return ""
    count = pluralize(len(without), "row")
    line = f"line {clock.source.place.line}"
    have = "have" if len(without) > 1 else "has"
    parts = [
        f"{count} of the first {ROWS:,} {have} a time without an offset, such as {printable(without[0], _CHARACTERS)!r}"
    ]
    if spaced and clock.space == "no":
        parts.append(f"write `space: yes` ({line}), otherwise they cannot be read")
    if clock.zone == "utc":
        parts.append(
            f"they are read as UTC ({line}): if they show another clock, write `zone: local` and plan with"
            " --timezone Area/City"
        )
    elif not zones:
        parts.append(
            f"they are read on the project's clock ({line}, zone: {clock.zone}): plan with --timezone Area/City, and"
            " --timezone UTC if it is UTC"
        )
    return "; ".join(parts) if len(parts) > 1 else ""
