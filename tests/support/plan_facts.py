"""Facts for the checks of a plan: a plan that is good, but for what a test changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pipeline.models import SealedOptions
from pipeline.plan.checks import KeyConflicts, PlanFacts, parse_limit
from pipeline.plan.sealed.manifest import PeopleSeal, RowCounts


def facts(*, events: int = 1, rejected: int = 0, read: int = 1, limit: str = "0", **changed: Any) -> PlanFacts:
    """A plan of so many events, rows read and rows rejected; `changed` are other members."""
    good: dict[str, Any] = {
        "rows": RowCounts(read, read - rejected, 0, rejected),
        "phases": {"events": events},
        "options": SealedOptions(as_of=0),
        "reject_limit": parse_limit(limit),
        "remedies": {},
        "skips": Counter(),
        "keyless": 0,
        "key_conflicts": KeyConflicts(0, (), accepted=False),
        "references": None,
        "people": PeopleSeal(),
        "zone": None,
    }
    return PlanFacts(**good | changed)
