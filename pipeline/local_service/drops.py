"""Events that are answered with 200 and then thrown away, decided by the event alone (service-behaviour 1.6, 1.10)."""

from __future__ import annotations

from typing import Any

from . import notices
from .names import GROUP_EVENTS, IDENTIFY, MERGES
from .notices import Notice, notice
from .person_events import as_text, is_group_event
from .settings import Settings

LONGEST_GROUP_KEY = 400

_JUDGED = MERGES | GROUP_EVENTS


def dropped(event: str, properties: dict[str, Any], instant: int, now: int, settings: Settings) -> Notice | None:
    """Why an event would be thrown away, or None. Instants are microseconds since 1970 (UTC)."""
    oldest = settings.drop_events_older_than
    if oldest is not None and instant < now - oldest * 1_000_000:
        return notice(notices.TOO_OLD, dropped=True, seconds=oldest)
    if event not in _JUDGED:
        return None
    if event in MERGES or is_group_event(event, settings):
        if properties.get("$process_person_profile") is False:
            return notice(notices.NOT_WITHOUT_PROFILE, dropped=True, event=event)
        return _bad_merge(event, properties, settings) if event in MERGES else _bad_group(properties)
    return None


def _bad_merge(event: str, properties: dict[str, Any], settings: Settings) -> Notice | None:
    given = properties.get("$anon_distinct_id" if event == IDENTIFY else "alias")
    if settings.merge_ids == "text" and given is not None and not isinstance(given, str):
        return notice(notices.BAD_MERGE_ID, dropped=True, event=event, given=given)
    return None


def _bad_group(properties: dict[str, Any]) -> Notice | None:
    key, given = properties.get("$group_key"), properties.get("$group_set")
    if key is not None and len(as_text(key)) > LONGEST_GROUP_KEY:
        return notice(notices.LONG_GROUP_KEY, dropped=True, length=len(as_text(key)), longest=LONGEST_GROUP_KEY)
    if given is not None and not isinstance(given, dict):
        return notice(notices.BAD_GROUP_SET, dropped=True, group_set=given)
    return None
