"""What the service does to an accepted event without an error: each event dropped, shortened or partly applied.

Types that the real service shows as ingestion warnings have its names; the others are ours, for what it does without
any record (docs/know/service.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

MEANINGS: dict[str, str] = {}
"""Each type of warning in words."""


def _type(name: str, meaning: str) -> str:
    MEANINGS[name] = meaning
    return name


ILLEGAL_ID = _type("cannot_merge_with_illegal_distinct_id", "a merge that names a placeholder id; it was not merged")
ALREADY_IDENTIFIED = _type(
    "cannot_merge_already_identified", "a merge of a person that is already identified; it was not merged"
)
NOT_WITHOUT_PROFILE = _type(
    "invalid_event_when_process_person_profile_is_false", "a person or group event that asks for no person profile"
)
BAD_PROFILE_FLAG = _type(
    "invalid_process_person_profile", "$process_person_profile is neither true nor false; it was ignored"
)
LONG_GROUP_KEY = _type("group_key_too_long", "a group's key is too long")
BAD_GROUP_SET = _type("invalid_group_set", "a group's properties are not an object")
BAD_MERGE_ID = _type("invalid_merge_id", "the id of a merge is not text")
TOO_OLD = _type("event_dropped_too_old", "older than the project stores")
BAD_TIMESTAMP = _type("ignored_invalid_timestamp", "the time cannot be read; the time of arrival was used")

NO_TIMESTAMP = _type("missing_timestamp", "no timestamp; the time of arrival was used")
FUTURE_TIMESTAMP = _type("future_timestamp", "the time is in the future; the time of arrival was used")
ANCIENT_TIMESTAMP = _type(
    "timestamp_out_of_range", "the time is outside the range that can be stored; it became 1970-01-01"
)
LONG_ID = _type("distinct_id_shortened", "the distinct_id was cut")
LONG_NAME = _type("event_name_shortened", "the event's name was cut")
CONTENT_TYPE = _type("unexpected_content_type", "the batch was not sent as application/json")
BAD_GROUPS = _type("groups_not_an_object", "$groups is not an object; it was ignored")
LONG_GROUP_TYPE = _type("group_type_too_long", "the name of a group type is too long; it was ignored")
TOO_MANY_GROUP_TYPES = _type("too_many_group_types", "a project can have five group types; this sixth one was ignored")
NO_GROUP = _type("group_event_without_type_or_key", "a group event names no group; no group was written")
UNKNOWN_GROUP_EVENT = _type(
    "group_event_not_known", "a group event in a spelling that the service ignores; no group was written"
)
SET_IGNORED = _type("set_ignored", "this event never changes a person; its $set was ignored")


class EventWarning(NamedTuple):
    """A warning about one event. `type` is one of the names above; `details` is a JSON object.

    A `dropped` event is only in the table raw_events.
    """

    type: str
    details: str
    dropped: bool = False


def event_warning(kind: str, /, *, dropped: bool = False, **details: Any) -> EventWarning:
    return EventWarning(kind, msgspec.json.encode(details).decode(), dropped)
