"""Whether a hog function would fire on events of these names, judged by its filters alone.

Imported events are matched, run and metered like live ones: nothing looks at `historical_migration`
(docs/know/service.md#historical-migration). Names are matched; what actions, property filters and test accounts come to
is not known here, and may fire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["would", "may", "no"]
_HANDED = frozenset(("destination", "transformation", ""))
"""Types that get events of the project; the contract shows the first alone
(docs/know/service.md#hog-functions)."""
_ELSEWHERE = frozenset(
    ("site_destination", "site_app", "internal_destination", "source_webhook", "warehouse_source_webhook")
)
"""Types that live in a browser, on a webhook or on events of the service itself
(docs/know/service.md#hog-functions)."""
_PERSONS = "person-updates"
_DISABLED_BY_SERVICE = 3
"""`status.state` of a function that the service itself has stopped (docs/know/service.md#hog-functions)."""


@dataclass(frozen=True, slots=True)
class Matched:
    """On which of the names a function would fire, and on which it may. None stands for every name."""

    would: Set[str | None]
    may: Set[str | None]

    @property
    def verdict(self) -> Verdict:
        return "would" if self.would else "may" if self.may else "no"


NOTHING = Matched(frozenset(), frozenset())


def matched(function: Mapping[str, Any], names: Iterable[str] | None) -> Matched:
    """Judge a hog function by its record. `names` None: no plan is known, so any event may come."""
    if not function.get("enabled") or function.get("deleted"):
        return NOTHING
    kind = str(function.get("type") or "")
    if kind in _ELSEWHERE:
        return NOTHING
    verdicts = {name: _verdict(function, name) for name in ([None] if names is None else names)}
    would = {name for name, verdict in verdicts.items() if verdict == "would"}
    may = {name for name, verdict in verdicts.items() if verdict == "may"}
    if kind not in _HANDED or _state(function) == _DISABLED_BY_SERVICE:
        return Matched(frozenset(), would | may)
    return Matched(would, may)


def _verdict(function: Mapping[str, Any], name: str | None) -> Verdict:
    outer = _filtered(function.get("filters"), name)
    mappings = _members(function.get("mappings"))
    if outer == "no" or not mappings:
        return outer
    inner = _most(_filtered(one.get("filters"), name) for one in mappings)
    return _least(outer, inner)


def _filtered(filters: object, name: str | None) -> Verdict:
    if not isinstance(filters, Mapping):
        return "would"
    source = filters.get("source") or "events"
    if source != "events":
        return "may" if source == _PERSONS else "no"
    events, actions = _members(filters.get("events")), filters.get("actions")
    verdict: Verdict = "would"
    if events or actions:
        verdict = _most([*(_chosen(one, name) for one in events), "may" if actions else "no"])
    narrowed = bool(filters.get("properties")) or filters.get("filter_test_accounts") is True
    return _least(verdict, "may") if narrowed else verdict


def _chosen(wanted: Mapping[str, Any], name: str | None) -> Verdict:
    """One entry of `events`: its `id` is an event name, null for every event."""
    id = wanted.get("id", wanted.get("name"))
    everything = id is None or id == ""
    if wanted.get("type") not in (None, "", "events"):
        return "may"
    if not everything and name is not None and id != name:
        return "no"
    certain = (everything or name is not None) and not wanted.get("properties")
    return "would" if certain else "may"


def _members(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _state(function: Mapping[str, Any]) -> object:
    status = function.get("status")
    return status.get("state") if isinstance(status, Mapping) else None


_ORDER: tuple[Verdict, ...] = ("no", "may", "would")


def _most(verdicts: Iterable[Verdict]) -> Verdict:
    return max(verdicts, key=_ORDER.index, default="no")


def _least(one: Verdict, other: Verdict) -> Verdict:
    return min(one, other, key=_ORDER.index)
