"""Which tool an export looks like: by the shipped mappings, else by the fields that only one tool writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from pipeline import values
from pipeline.mapper import recognise
from pipeline.values import Record

TELLING_ROWS = 50
"""So many rows of a part are asked."""


def _inside(record: Record, name: str) -> Record:
    try:
        return values.opened(record.get(name)) or {}
    except values.BadValue:
        return {}


def _has(*names: str) -> Callable[[Record], bool]:
    return lambda record: all(name in record for name in names)


def _is_mixpanel(record: Record) -> bool:
    """See docs/know/exports.md#mixpanel-rows."""
    if "event" not in record or "properties" not in record or "uuid" in record:
        return False
    inside = _inside(record, "properties")
    return "time" in inside and not inside.keys().isdisjoint(("$insert_id", "mp_processing_time_ms", "mp_lib"))


_SIGNS: dict[str, Callable[[Record], bool]] = {
    "mixpanel": _is_mixpanel,
    "amplitude": _has("event_type", "event_time", "amplitude_id"),
    "segment": _has("type", "messageId", "originalTimestamp"),
    "ga4": _has("event_name", "event_timestamp", "event_params"),
    "posthog": _has("uuid", "event", "distinct_id", "timestamp", "properties"),
}
"""What tells a tool where no shipped mapping does (docs/know/exports.md#mixpanel-rows, #amplitude-rows,
#segment-messages, #ga4-rows, #posthog-export)."""


def tools_of(records: Sequence[Record], known: Callable[[Record], list[str]] = recognise) -> list[str]:
    """The tools that at least half of a part's first rows look like, the likeliest first; none for no rows."""
    asked = records[:TELLING_ROWS]
    return _most(asked, known) or _most(asked, lambda record: [name for name, fits in _SIGNS.items() if fits(record)])


def _most(records: Sequence[Record], known: Callable[[Record], list[str]]) -> list[str]:
    votes: Counter[str] = Counter()
    for record in records:
        votes.update(known(record))
    return [tool for tool, count in votes.most_common() if 2 * count >= len(records)]
