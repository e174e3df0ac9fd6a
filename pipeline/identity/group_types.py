"""The types of groups, in an order that the plan fixes and shows.

The service knows five types, numbers them in the order in which they first arrive, for good, and ignores a sixth
without a word (docs/know/service.md#groups).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.errors import UsageError
from pipeline.models import Finding
from pipeline.text import pluralize

MAX_TYPES = 5


class GroupTypes(NamedTuple):
    """The group types in the order in which the service will number them, and those that have no place."""

    chosen: tuple[str, ...]
    left_out: tuple[str, ...]


def choose_types(found: Counter[str], wanted: Sequence[str] = ()) -> GroupTypes:
    """The order of group types: as `--group-types` says, else the most frequent first, equal ones by name.

    Raises UsageError where more than five are wanted, or one twice. A wanted type that no row has keeps its place.
    """
    if len(wanted) > MAX_TYPES or len(set(wanted)) != len(wanted) or not all(one.strip() for one in wanted):
        raise UsageError(
            f"--group-types names {len(wanted)} types: {','.join(wanted)}",
            hint=f"name up to {MAX_TYPES} different ones, with commas, the most important first",
        )
    ordered = sorted(found, key=lambda one: (-found[one], one))
    chosen = tuple(wanted) if wanted else tuple(ordered)
    return GroupTypes(chosen, tuple(one for one in ordered if one not in chosen))


def group_types_gate(types: GroupTypes, found: Counter[str], *, named: bool) -> Finding | None:
    """More types than the service keeps stop a plan until `--group-types` chooses; what a choice leaves out warns."""
    if len(types.chosen) > MAX_TYPES:
        shown = ", ".join(f"{one} ({pluralize(found[one], 'row')})" for one in types.chosen)
        return Finding(
            "group_types",
            "stop",
            f"there are {len(types.chosen)} group types and the service keeps {MAX_TYPES}: {shown}."
            " Choose them, in their order, with --group-types",
        )
    if named and types.left_out:
        shown = ", ".join(f"{one} ({pluralize(found[one], 'row')})" for one in types.left_out)
        return Finding("group_types", "warning", f"--group-types leaves out {shown}")
    return None
