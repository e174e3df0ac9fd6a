"""The options of every step, each declared once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True, slots=True)
class SealedOptions:
    """The options of a plan that decide what is sent, as the plan seals them.

    `zones` are (zone name, local date it holds from or "") in order; `since`/`until` are microseconds UTC,
    half-open; `as_of` is the plan's instant, in microseconds UTC. `identities` is the sha256 of the operator's pairs.
    `promoted_properties` is `final` or, where they are left alone, UNSET, which leaves no trace in a plan.
    """

    as_of: int
    zones: tuple[tuple[str, str], ...] = ()
    since: int | None = None
    until: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    dialect: str = "contract"
    name: str = ""
    provenance: bool = True
    allow_recent: bool = False
    collapse_identical: bool = False
    limit: int | None = None
    excluded_ids: str = ""
    person_properties: str = "final"
    profile_policy: str = "fill-only"
    persons: str = "all"
    max_ids_per_person: int = 50
    identities: str = ""
    group_types: tuple[str, ...] = ()
    promoted_properties: str | msgspec.UnsetType = msgspec.UNSET
