"""What the service does in silence: a note for each event that was dropped, shortened or obeyed only in part.

The types that the real service shows as ingestion warnings have its names; the others are ours, for what it does
without a word (docs/know/service.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

ILLEGAL_ID = "cannot_merge_with_illegal_distinct_id"
ALREADY_IDENTIFIED = "cannot_merge_already_identified"
NOT_WITHOUT_PROFILE = "invalid_event_when_process_person_profile_is_false"
BAD_PROFILE_FLAG = "invalid_process_person_profile"
LONG_GROUP_KEY = "group_key_too_long"
BAD_GROUP_SET = "invalid_group_set"
BAD_MERGE_ID = "invalid_merge_id"
TOO_OLD = "event_dropped_too_old"
BAD_TIMESTAMP = "ignored_invalid_timestamp"

NO_TIMESTAMP = "missing_timestamp"
FUTURE_TIMESTAMP = "future_timestamp"
ANCIENT_TIMESTAMP = "timestamp_out_of_range"
LONG_ID = "distinct_id_shortened"
LONG_NAME = "event_name_shortened"
CONTENT_TYPE = "unexpected_content_type"
BAD_GROUPS = "groups_not_an_object"
LONG_GROUP_TYPE = "group_type_too_long"
TOO_MANY_GROUP_TYPES = "too_many_group_types"
NO_GROUP = "group_event_without_type_or_key"
UNKNOWN_GROUP_EVENT = "group_event_not_known"
SET_IGNORED = "set_ignored"


class Notice(NamedTuple):
    """`type` is one of the names above, `details` a JSON object; `dropped`: the event is in no table but raw_events."""

    type: str
    details: str
    dropped: bool = False


def notice(kind: str, /, *, dropped: bool = False, **details: Any) -> Notice:
    """A notice with its details."""
    return Notice(kind, msgspec.json.encode(details).decode(), dropped)
