"""Counts in sentences that people read: `1 event`, `12,000 events`."""

from __future__ import annotations

_VOWELS = "aeiou"
_HISSING = ("s", "x", "ch", "sh")


def counted(count: int, what: str) -> str:
    """A number and its noun, which is given in the singular."""
    return f"{count:,} {what if count == 1 else plural(what)}"


def plural(noun: str) -> str:
    """The plural of a regular English noun: event, batch, property, key."""
    if noun.endswith("y") and noun[-2] not in _VOWELS:
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(_HISSING) else "s")


def are(count: int) -> str:
    """The verb that goes with a count."""
    return "is" if count == 1 else "are"
