"""Facts for the checks of a plan: a good plan, except for what a test changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pipeline.models import Finding, SealedOptions
from pipeline.options import PlanOptions
from pipeline.plan.checks import KeyConflicts, PlanFacts
from pipeline.plan.sealed.manifest import PeopleSeal, RowCounts


def facts(*, events: int = 1, rejected: int = 0, read: int = 1, limit: str = "0", **changed: Any) -> PlanFacts:
    """A plan with this many events, rows read and rows rejected; `changed` are other members."""
    good: dict[str, Any] = {
        "rows": RowCounts(read, read - rejected, 0, rejected),
        "phases": {"events": events},
        "options": SealedOptions(as_of=0),
        "remedies": {},
        "skips": Counter(),
        "keyless": 0,
        "key_conflicts": KeyConflicts(),
        "references": None,
        "people": PeopleSeal(),
        "zone": None,
    }
    given = changed.get("thresholds", PlanOptions())
    changed["thresholds"] = replace(given, max_rejects=limit, target=given.target or "https://us.i.posthog.com")
    return PlanFacts(**good | changed)


def found(gates: Iterable[Finding]) -> list[Finding]:
    """What checks found in the data, without what the plan leaves open."""
    return [one for one in gates if one.level != "open"]
