"""Which hog functions would have fired for what landed, judged by their filters; nothing is run. None of their inputs
are shown: they may contain secrets.

Filters by event name give a definite answer. Property filters, actions and the exclusion of test accounts are not
evaluated: a function that has them may fire. So may a function that runs on changed persons, which an event may change,
one of an unknown type, and one that the service has disabled by its status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pipeline.local_service.page.reader import ProjectReader

Firing = Literal["yes", "may", "no"]
_ON_EVENTS = frozenset({"destination", "transformation", ""})
"""Types that run on events of the project (docs/know/service.md#hog-functions)."""
_NOT_ON_EVENTS = frozenset(
    {"site_destination", "site_app", "internal_destination", "source_webhook", "warehouse_source_webhook"}
)
"""Types that run in a browser, on a webhook or on the service's own events (docs/know/service.md#hog-functions)."""
_DISABLED = 3
"""`status.state` of a function that the service has disabled itself (docs/know/service.md#hog-functions); a seed may
have it."""
MOST_JUDGED_NAMES = 2_000
"""Event names that are judged, the most frequent first."""
MOST_FUNCTIONS = 500
_EXAMPLES = 5


def fired(reader: ProjectReader, functions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Every function that is not deleted, those that fire most first, with how many events each would (`yes`) and may
    fire for; how many of them fire, and how many functions and event names were not judged."""
    present = [function for function in functions if not function.get("deleted")]
    names, more = reader.event_names(MOST_JUDGED_NAMES) if present else ([], 0)
    rows = []
    for function in present[:MOST_FUNCTIONS]:
        verdicts = [(would_fire(function, name), name, count) for name, count in names]
        counts: Counter[Firing] = Counter()
        for verdict, _, count in verdicts:
            counts[verdict] += count
        examples = [(name, count) for verdict, name, count in verdicts if verdict != "no"][:_EXAMPLES]
        rows.append({**function, "name": _name(function), "counts": counts, "examples": examples})
    rows.sort(key=lambda row: (-row["counts"]["yes"], -row["counts"]["may"]))
    firing = sum(1 for row in rows if row["examples"])
    return {"rows": rows, "firing": firing, "more": max(0, len(present) - MOST_FUNCTIONS), "more_names": more}


def firing_for(functions: Sequence[Mapping[str, Any]], event: str) -> list[tuple[str, Firing]]:
    """The names of the functions that would or may fire for an event of this name."""
    judged = [(_name(function), would_fire(function, event)) for function in functions]
    return [one for one in judged if one[1] != "no"][:MOST_FUNCTIONS]


def _name(function: Mapping[str, Any]) -> str:
    return str(function.get("name") or "(no name)")


def would_fire(function: Mapping[str, Any], event: str) -> Firing:
    """Whether a hog function (its full record) would fire for an event of this name."""
    if not function.get("enabled") or function.get("deleted"):
        return "no"
    kind = function.get("type") or ""
    if kind in _NOT_ON_EVENTS:
        return "no"
    verdict = _judged(function, event)
    disabled = (function.get("status") or {}).get("state") == _DISABLED
    return verdict if (kind in _ON_EVENTS and not disabled) or verdict == "no" else "may"


def _judged(function: Mapping[str, Any], event: str) -> Firing:
    base = _filtered(function.get("filters"), event)
    mappings = function.get("mappings") or []
    if not mappings or base == "no":
        return base
    inner = _most(_filtered(mapping.get("filters"), event) for mapping in mappings)
    return "may" if "may" in (base, inner) and inner != "no" else inner


def _filtered(filters: Any, event: str) -> Firing:
    filters = filters if isinstance(filters, Mapping) else {}
    source = filters.get("source") or "events"
    if source != "events":
        return "may" if source == "person-updates" else "no"
    events, actions = filters.get("events") or [], filters.get("actions") or []
    chosen: Firing = "yes"
    if events or actions:
        by_action: list[Firing] = ["may"] if actions else []
        chosen = _most([*(_chosen(entry, event) for entry in events), *by_action])
    narrowed = bool(filters.get("properties")) or filters.get("filter_test_accounts") is True
    return "may" if chosen == "yes" and narrowed else chosen


def _chosen(wanted: Any, event: str) -> Firing:
    """One entry of `events`: its `id` is an event name, null or empty for every event."""
    if not isinstance(wanted, Mapping):
        return "no"
    if wanted.get("type") not in (None, "", "events"):
        return "may"
    name = wanted.get("id", wanted.get("name"))
    if name not in (None, "", event):
        return "no"
    return "may" if wanted.get("properties") else "yes"


def _most(verdicts: Iterable[Firing]) -> Firing:
    verdicts = set(verdicts)
    return "yes" if "yes" in verdicts else "may" if "may" in verdicts else "no"
