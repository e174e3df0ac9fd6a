"""How the final properties of a person meet those of a live profile: what `--profile-policy` chooses."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.errors import UsageError


class ProfilePolicy(NamedTuple):
    """How final properties meet those of a live profile."""

    name: str
    prefix: str = ""


def parse_policy(text: str) -> ProfilePolicy:
    """Read `fill-only`, `overwrite` or `prefix=TEXT`. Raises UsageError."""
    name, separator, prefix = text.partition("=")
    if name == "prefix" and prefix.strip():
        return ProfilePolicy(name, prefix)
    if name in ("fill-only", "overwrite") and not separator:
        return ProfilePolicy(name)
    raise UsageError(f"not a profile policy: {text!r}", hint="write fill-only, overwrite or prefix=TEXT")
