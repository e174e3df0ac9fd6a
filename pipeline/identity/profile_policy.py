"""How the final properties of a person meet those of a live profile: what `--profile-policy` chooses."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.errors import UsageError


class Policy(NamedTuple):
    """How final properties meet those of a live profile."""

    name: str
    prefix: str = ""


def parse_policy(text: str) -> Policy:
    """Read `fill-only`, `overwrite` or `prefix=TEXT`. Raises UsageError."""
    name, separator, prefix = text.partition("=")
    if name == "prefix" and prefix.strip():
        return Policy(name, prefix)
    if name in ("fill-only", "overwrite") and not separator:
        return Policy(name)
    raise UsageError(f"not a profile policy: {text!r}", hint="write fill-only, overwrite or prefix=TEXT")
