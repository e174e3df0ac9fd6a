"""Whether a hog function would fire on events of these names, judged only by its filters.

Imported events trigger functions like live ones, whatever `historical_migration` says
(docs/know/service.md#historical-migration). Only names are compared, so a function with actions, property filters or a
filter of test accounts may fire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Literal

import msgspec

Verdict = Literal["would", "may", "no"]
_ON_EVENTS = frozenset(("destination", "transformation", ""))
"""Types that receive events of the project; the contract shows only the first
(docs/know/service.md#hog-functions)."""
_ELSEWHERE = frozenset(
    ("site_destination", "site_app", "internal_destination", "source_webhook", "warehouse_source_webhook")
)
"""Types that run in a browser, on a webhook or on events of the service itself
(docs/know/service.md#hog-functions)."""
_PERSONS = "person-updates"
_DISABLED_BY_SERVICE = 3
"""`status.state` of a function that the service itself has stopped (docs/know/service.md#hog-functions)."""


class Matched(msgspec.Struct, frozen=True):
    """The names on which a function would fire, and those on which it may. None stands for every name."""

    would: Set[str | None]
    may: Set[str | None]

    @property
    def verdict(self) -> Verdict:
        return "would" if self.would else "may" if self.may else "no"


def matched(function: Mapping[str, Any], names: Iterable[str] | None) -> Matched:
    """Judge a hog function by its record. `names` None: there is no plan, so any event may be sent."""
    kind = str(function.get("type") or "")
    if not function.get("enabled") or function.get("deleted") or kind in _ELSEWHERE:
        return Matched(frozenset(), frozenset())
    verdicts = {name: _verdict(function, name) for name in ([None] if names is None else names)}
    would = {name for name, verdict in verdicts.items() if verdict == "would"}
    may = {name for name, verdict in verdicts.items() if verdict == "may"}
    if kind not in _ON_EVENTS or stopped_by_service(function):
        return Matched(frozenset(), would | may)
    return Matched(would, may)


def stopped_by_service(function: Mapping[str, Any]) -> bool:
    """Whether the service itself has stopped a function, which then fires on nothing."""
    status = function.get("status")
    return isinstance(status, Mapping) and status.get("state") == _DISABLED_BY_SERVICE


def _verdict(function: Mapping[str, Any], name: str | None) -> Verdict:
    outer = _filtered(function.get("filters"), name)
    mappings = _members(function.get("mappings"))
    if outer == "no" or not mappings:
        return outer
    return min(outer, _likeliest(_filtered(mapping.get("filters"), name) for mapping in mappings), key=_ORDER.index)


def _filtered(filters: object, name: str | None) -> Verdict:
    if not isinstance(filters, Mapping):
        return "would"
    source = filters.get("source") or "events"
    if source != "events":
        return "may" if source == _PERSONS else "no"
    events, actions = _members(filters.get("events")), filters.get("actions")
    verdict: Verdict = "would"
    if events or actions:
        verdict = _likeliest([*(_chosen(event, name) for event in events), "may" if actions else "no"])
    narrowed = bool(filters.get("properties")) or filters.get("filter_test_accounts") is True
    return "may" if narrowed and verdict == "would" else verdict


def _chosen(event: Mapping[str, Any], name: str | None) -> Verdict:
    """One entry of `events`: its `id` is an event name, null for every event."""
    id = event.get("id", event.get("name"))
    everything = id is None or id == ""
    if event.get("type") not in (None, "", "events"):
        return "may"
    if not everything and name is not None and id != name:
        return "no"
    certain = (everything or name is not None) and not event.get("properties")
    return "would" if certain else "may"


def _members(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


_ORDER: tuple[Verdict, ...] = ("no", "may", "would")


def _likeliest(verdicts: Iterable[Verdict]) -> Verdict:
    return max(verdicts, key=_ORDER.index, default="no")
