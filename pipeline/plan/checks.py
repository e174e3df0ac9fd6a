"""Thresholds that stop a plan. A gate is looked at when everything is counted, and says what it saw.

A plan with a gate at `stop` is written all the same, unsealed: it can be read and rehearsed, never applied.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pipeline.clock_offsets import offset_name
from pipeline.errors import UsageError
from pipeline.models import Finding
from pipeline.plan.manifest import ProfilesSeal
from pipeline.plan.zone import ZoneVerdict
from pipeline.text import are, pluralize
from pipeline.timestamps import WITHOUT_OFFSET

KEY_NOT_UNIQUE = "key_not_unique"

_NONE: Mapping[str, int] = {}


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


REMEDIES = {
    WITHOUT_OFFSET: "their times have no offset: name the zone of that clock with --timezone Area/City",
    "recent_timestamp": "they are under 48 hours old: leave them out with --until, or send them, billed as live ones,"
    " with --allow-recent",
}
"""What helps rows that were rejected for one reason, by its code or its text."""


def remedy_of(code: str, detail: str) -> str:
    """What would help a row that was rejected so, "" where nothing is known."""
    return REMEDIES.get(detail) or REMEDIES.get(code, "")


def rejects_gate(rejected: int, read: int, allowed: Allowed, remedies: Mapping[str, int] = _NONE) -> Finding | None:
    """Rows cannot be sent: more than were allowed, or some that a person should know of.

    `remedies` counts the rows that each remedy would help; one that helps a third of them is named.
    """
    if rejected == 0:
        return None
    told = f"{rejected:,} of {pluralize(read, 'row')} ({rejected / read:.2%}) cannot be sent; {allowed} may be"
    remedy, rows = max(remedies.items(), key=lambda pair: (pair[1], pair[0]), default=("", 0))
    if rows * 3 >= rejected:
        told += f". Of these {rows:,} can be helped: {remedy}"
    return (
        Finding("rejects", "warning", told) if allowed.permits(rejected, read) else Finding("max_rejects", "stop", told)
    )


def zero_events_gate(events: int) -> Finding | None:
    """Nothing would be sent: the mapping, the window or the files are the wrong ones."""
    if events:
        return None
    return Finding("zero_events", "stop", "no event would be sent")


def zone_gate(verdict: ZoneVerdict, *, named: bool) -> Finding | None:
    """The declared zone against the receive times in the data; `named` when a person gave the zone."""
    if verdict.contradictions:
        worst = max(verdict.contradictions, key=lambda month: month.rows)
        return Finding(
            "zone",
            "stop",
            f"the data contradict {verdict.zone}: in {worst.month} the clock stands at {offset_name(worst.offset)}"
            f" in {worst.rows:,} of {pluralize(worst.of, 'row')}; {verdict.zone} is"
            f" {' or '.join(map(offset_name, worst.expected))} then;"
            f" {len(verdict.contradictions)} of {len(verdict.months)} months disagree."
            " Name the project's zone with --timezone",
        )
    if verdict.proved or named:
        return None
    return Finding(
        "zone",
        "stop",
        "nothing in the data proves the zone of its times. Name it with --timezone, also when it is UTC",
    )


def keyless_gate(rows: int) -> Finding | None:
    """Rows without a key of their own are told apart by counting them, which plans of a series cannot do together."""
    if not rows:
        return None
    return Finding(
        "keyless",
        "stop",
        f"{pluralize(rows, 'event')} without a source key, so windows cannot tell identical ones apart",
    )


def merges_gate(links: int, most: int | None) -> Finding | None:
    """More merges than were allowed; they cannot be undone."""
    if most is None or links <= most:
        return None
    return Finding("merges", "stop", f"{pluralize(links, 'merge')} would be sent; {most:,} may")


def profiles_gate(profiles: ProfilesSeal, *, identified: bool) -> Finding | None:
    """Under `--persons identified` some ids get no profile, which cannot be made up for afterwards."""
    if not identified:
        return None
    return Finding(
        "persons",
        "warning",
        f"no profile for {pluralize(profiles.anonymous_ids, 'id')}"
        f" with {pluralize(profiles.anonymous_events, 'event')}, one for {pluralize(profiles.identified_ids, 'id')}"
        f" with {pluralize(profiles.identified_events, 'event')};"
        " merges and groups need one",
    )


def duplicates_gate(duplicates: int, events: int) -> Finding | None:
    """Copies only warn, since every export holds some."""
    if not duplicates:
        return None
    return Finding(
        "duplicates",
        "warning",
        f"{pluralize(duplicates, 'copy')} of events {are(duplicates)} left out; {pluralize(events, 'event')} to send",
    )


def keys_gate(rows: int, pairs: Sequence[str], *, accepted: bool) -> Finding | None:
    """Rows of one source key whose event name or UTC day differ: only one of them would be sent.

    `pairs` are some of them, in words; `accepted` when a person said that they are one event all the same.
    """
    if not rows:
        return None
    return Finding(
        KEY_NOT_UNIQUE,
        "warning" if accepted else "stop",
        f"{pluralize(rows, 'row')} {are(rows)} left out for another of the same key that is a different event:"
        f" {'; '.join(pairs)}{'; …' if rows > len(pairs) else ''}",
    )


def verdict_of(gates: Iterable[Finding], warnings: Counter[str]) -> str:
    """What the gates and warnings come to: `ready`, `warnings` or `not-ready`."""
    levels = {gate.level for gate in gates}
    if "stop" in levels:
        return "not-ready"
    return "warnings" if levels or +warnings else "ready"
