"""Thresholds that stop a plan. A gate is looked at when everything is counted, and says what it saw.

A plan with a gate at `stop` is written all the same, unsealed: it can be read and rehearsed, never applied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from pipeline.errors import UsageError
from pipeline.offsets import offset_name
from pipeline.plan.sealed import Gate, ProfilesSeal
from pipeline.plan.zone import ZoneVerdict


@dataclass(frozen=True, slots=True)
class Allowed:
    """How many of something may be: a number, or a percentage of all rows, kept exactly as it was written."""

    number: int = 0
    percent: Decimal | None = None

    def __str__(self) -> str:
        return f"{self.percent}%" if self.percent is not None else str(self.number)

    def permits(self, found: int, of: int) -> bool:
        return found * 100 <= of * self.percent if self.percent is not None else found <= self.number


def parse_allowed(text: str) -> Allowed:
    """Read `12` or `0.5%`. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,18})|(\d{1,3}(?:\.\d{1,18})?)\s*%", text.strip(), re.ASCII)
    percent = Decimal(match.group(2)) if match is not None and match.group(2) else None
    if match is None or (percent is not None and percent > 100):
        raise UsageError(f"not a number or a percentage: {text!r}", hint="write --max-rejects 100 or 0.5%")
    return Allowed(percent=percent) if percent is not None else Allowed(int(match.group(1)))


def rejects_gate(rejected: int, read: int, allowed: Allowed) -> Gate | None:
    """More rows cannot be sent than was allowed."""
    if rejected == 0 or allowed.permits(rejected, read):
        return None
    share = f" ({rejected / read:.2%})" if read else ""
    return Gate("max_rejects", "stop", f"{rejected} of {read} rows{share} cannot be sent; {allowed} may be")


def zero_events_gate(events: int) -> Gate | None:
    """Nothing would be sent: the mapping, the window or the files are the wrong ones."""
    if events:
        return None
    return Gate("zero_events", "stop", "no event would be sent")


def zone_gate(verdict: ZoneVerdict, *, named: bool) -> Gate | None:
    """The declared zone against the receive times in the data; `named` when a person gave the zone."""
    if verdict.contradictions:
        worst = max(verdict.contradictions, key=lambda month: month.rows)
        return Gate(
            "zone",
            "stop",
            f"the data contradict {verdict.zone}: in {worst.month} the clock stands at {offset_name(worst.offset)}"
            f" in {worst.rows} of {worst.of} rows; {verdict.zone} is"
            f" {' or '.join(map(offset_name, worst.expected))} then;"
            f" {len(verdict.contradictions)} of {len(verdict.months)} months disagree."
            " Name the project's zone with --timezone",
        )
    if verdict.proved or named:
        return None
    return Gate(
        "zone",
        "stop",
        "nothing in the data proves the zone of its times. Name it with --timezone, also when it is UTC",
    )


def keyless_gate(rows: int) -> Gate | None:
    """Rows without a key of their own are told apart by counting them, which plans of a series cannot do together."""
    if not rows:
        return None
    return Gate("keyless", "stop", f"{rows} events have no source key, so windows cannot tell identical ones apart")


def merges_gate(links: int, most: int | None) -> Gate | None:
    """More merges than were allowed; they cannot be undone."""
    if most is None or links <= most:
        return None
    return Gate("merges", "stop", f"{links} merges would be sent; {most} may")


def profiles_gate(profiles: ProfilesSeal, *, identified: bool) -> Gate | None:
    """Under `--persons identified` some ids get no profile, which cannot be made up for afterwards."""
    if not identified:
        return None
    return Gate(
        "persons",
        "warning",
        f"{profiles.anonymous_ids} ids with {profiles.anonymous_events} events get no profile,"
        f" {profiles.identified_ids} ids with {profiles.identified_events} events do; merges and groups need one",
    )


def duplicates_gate(duplicates: int, events: int) -> Gate | None:
    """Copies only warn, since every export holds some."""
    if not duplicates:
        return None
    return Gate("duplicates", "warning", f"{duplicates} copies of events are left out; {events} events remain")
