"""The options about profiles and groups, `--profile-policy` and `--group-types`, read and checked.

The service supports five group types. It numbers them for good in the order in which they first arrive, and ignores a
sixth without an error (docs/know/service.md#groups), so the plan fixes and shows their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.errors import UsageError

MAX_TYPES = 5


class ProfilePolicy(NamedTuple):
    """How the properties of an existing profile are handled."""

    name: str
    prefix: str = ""


def parse_policy(text: str) -> ProfilePolicy:
    """Read `fill-only`, `overwrite` or `prefix=TEXT`. Raises UsageError."""
    name, separator, prefix = text.partition("=")
    if name == "prefix" and prefix.strip():
        return ProfilePolicy(name, prefix)
    if name in ("fill-only", "overwrite") and not separator:
        return ProfilePolicy(name)
    raise UsageError(f"{text!r} is not a profile policy", hint="use fill-only, overwrite or prefix=TEXT")


class GroupTypes(NamedTuple):
    """The group types in the order in which the service will number them, and the types that are left out."""

    chosen: tuple[str, ...]
    left_out: tuple[str, ...]


def choose_types(rows: Counter[str], wanted: Sequence[str] = (), known: Sequence[str] = ()) -> GroupTypes:
    """The order of group types: that of `--group-types`, else first those that earlier windows sent (`known`), then by
    frequency, ties by name.

    Raises UsageError if more than five are wanted, or one twice. A wanted type that no row has keeps its place.
    """
    if len(wanted) > MAX_TYPES or len(set(wanted)) != len(wanted) or not all(one.strip() for one in wanted):
        raise UsageError(
            f"--group-types names {len(wanted)} types: {','.join(wanted)}",
            hint=f"name at most {MAX_TYPES} different types, separated by commas, the most important first",
        )
    ordered = sorted(rows, key=lambda type_: (-rows[type_], type_))
    chosen = tuple(wanted) if wanted else tuple(dict.fromkeys((*known, *ordered)))
    return GroupTypes(chosen, tuple(one for one in ordered if one not in chosen))
