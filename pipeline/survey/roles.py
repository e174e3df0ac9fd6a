"""Guess, from the first rows of a part, which field is the event's name, its time, its person and its uuid.

Names come first, in the order in which the tools' own fields are trusted (docs/know/exports.md#mixpanel-rows,
#amplitude-rows, #segment-messages, #ga4-rows, #posthog-export); a name counts only where its values fit. Where no name
is known, the values decide. A guess is shown to a person and starts a mapping; nothing is ever sent by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pipeline import values
from pipeline.survey.clock import ENOUGH, MOSTLY, Clock, clock_of
from pipeline.survey.fields import kind_of
from pipeline.survey.shape import DISTINCT_ID, EVENT, TIMESTAMP, UUID
from pipeline.values import Record, Value

PROBE_ROWS = 500
"""How many rows of a part are read to guess the roles of its fields."""

EVENT_NAMES = (
    "event", "event_type", "event_name", "mp_event_name", "eventName", "Event Name", "event_text",
)  # fmt: skip
LIKELY_EVENT_NAMES = ("name", "type", "action")
"""Chosen only where few different texts repeat."""
TIME_NAMES = (
    "properties.time", "event_time", "event_timestamp", "timestamp", "originalTimestamp", "original_timestamp",
    "time", "derived_tstamp", "collector_tstamp", "client_event_time", "occurred_at", "ts", "date", "datetime",
    "created_at",
)  # fmt: skip
RECEIVED_NAMES = (
    "properties.$mp_api_timestamp_ms", "properties.mp_processing_time_ms", "server_received_time",
    "server_upload_time", "receivedAt", "received_at", "collector_tstamp", "created_at",
)  # fmt: skip
ID_NAMES = (
    "properties.distinct_id", "distinct_id", "user_id", "userId", "user_pseudo_id", "anonymousId", "anonymous_id",
    "device_id", "customer_id", "visitor_id", "visitorId", "uid",
)  # fmt: skip
UUID_NAMES = (
    "uuid", "properties.$insert_id", "$insert_id", "insert_id", "messageId", "message_id", "event_id", "eventId", "id",
)  # fmt: skip

_TIME_WORDS = ("time", "date", "tstamp", "when", "_at", "moment")
_EVENT_WORDS = ("event", "action", "activity", "verb")


@dataclass(frozen=True, slots=True)
class Roles:
    """The fields of one part by role; "" and None for a role that no field has."""

    event: str = ""
    distinct_id: str = ""
    uuid: str = ""
    time: Clock | None = None
    received: Clock | None = None

    def by_path(self) -> dict[str, str]:
        """Role by path, for the roles that are shown."""
        time = self.time.path if self.time else ""
        pairs = ((self.event, EVENT), (self.distinct_id, DISTINCT_ID), (time, TIMESTAMP), (self.uuid, UUID))
        return {path: role for path, role in pairs if path}


def look_up(record: Record, path: str, opened: dict[str, Record]) -> Value:
    """The value at a path of one or two steps; a column of that very name wins. `opened` are the row's objects."""
    if path in record:
        return record[path]
    outer, dot, inner = path.partition(".")
    return opened[outer].get(inner) if dot and outer in opened else None


def guess(records: Sequence[Record]) -> Roles:
    """The roles of a part's fields, from some of its rows."""
    columns = _columns(records)
    taken: set[str] = set()

    def by_name(names: Sequence[str], fits: Callable[[list[Value]], bool]) -> str:
        for name in names:
            if name in columns and name not in taken and fits(columns[name]):
                taken.add(name)
                return name
        return ""

    time = (
        _first_clock(TIME_NAMES, columns, taken)
        or _first_clock(TIME_NAMES, columns, taken, MOSTLY)  # a broken export: headers repeated, times cut
        or _any_clock(columns, taken)
    )
    received = _first_clock(RECEIVED_NAMES, columns, taken)
    likely = [*LIKELY_EVENT_NAMES, *_with_word(columns, _EVENT_WORDS)]
    event = by_name(EVENT_NAMES, _is_text) or by_name(likely, _is_few_texts)
    distinct_id = by_name(ID_NAMES, _fits_id)
    return Roles(event, distinct_id, by_name(UUID_NAMES, _fits_id), time, received)


def _columns(records: Sequence[Record]) -> dict[str, list[Value]]:
    """The values of each path without nulls and blanks; objects are decoded one level deep."""
    columns: dict[str, list[Value]] = {}
    for record in records:
        for name, value in record.items():
            if values.is_absent(value):
                continue
            text = values.text(value) or ""
            if not text or text.isspace():
                continue
            if text.lstrip()[:1] == "{":
                try:
                    members = values.opened(value) or {}
                except values.BadValue:
                    members = {}
                for member, inner in members.items():
                    if not values.is_absent(inner):
                        columns.setdefault(f"{name}.{member}", []).append(inner)
            columns.setdefault(name, []).append(value)
    return columns


def _with_word(names: Iterable[str], words: Sequence[str]) -> list[str]:
    return [name for name in names if any(word in name.lower() for word in words)]


def _first_clock(
    names: Sequence[str], columns: dict[str, list[Value]], taken: set[str], enough: float = ENOUGH
) -> Clock | None:
    for name in names:
        if name in columns and name not in taken:
            clock = clock_of(name, columns[name], enough)
            if clock is not None:
                taken.add(name)
                return clock
    return None


def _any_clock(columns: dict[str, list[Value]], taken: set[str]) -> Clock | None:
    """A field of times with an unknown name: first those whose name suggests a time, then those with more values."""
    names = [name for name in columns if name not in RECEIVED_NAMES]
    names.sort(key=lambda name: -len(columns[name]))
    return _first_clock([*_with_word(names, _TIME_WORDS), *names], columns, taken)


def _is_text(column: list[Value]) -> bool:
    """Nearly all are plain texts: no numbers, times, uuids or objects."""
    return sum(kind_of(value) == "text" for value in column) >= 0.9 * len(column)


def _is_few_texts(column: list[Value]) -> bool:
    """Plain texts, each of which is there twice on average."""
    return _is_text(column) and 2 * len({values.text(value) for value in column}) <= len(column)


def _fits_id(column: list[Value]) -> bool:
    return all(len(values.text(value) or "") <= 400 for value in column)
