"""What one accepted event changes in persons and groups, read from its properties (docs/know/service.md#persons)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from pipeline.local_service import ingestion_warnings
from pipeline.local_service.ingestion_warnings import EventWarning, event_warning
from pipeline.local_service.settings import Settings

IDENTIFY = "$identify"
ALIAS = "$create_alias"
MERGE = "$merge_dangerously"
SET = "$set"

MERGES = frozenset({IDENTIFY, ALIAS, MERGE})
PERSON_EVENTS = MERGES | {SET}
"""Events that always write the person."""

GROUP_EVENTS = frozenset({"$groupidentify", "$group_identify"})
"""The service's own spelling, and its contract's."""

NEVER_PERSONS = frozenset({"$exception", "$$heatmap"})
"""Events that never change the properties of a person."""


PROMOTED = frozenset(
    {
        "$app_build", "$app_name", "$app_namespace", "$app_version", "$browser", "$browser_version", "$device_type",
        "$current_url", "$pathname", "$os", "$os_name", "$os_version", "$referring_domain", "$referrer",
        "$screen_height", "$screen_width", "$viewport_height", "$viewport_width", "$raw_user_agent", "utm_source",
        "utm_medium", "utm_campaign", "utm_content", "utm_name", "utm_term", "gclid", "gad_source", "gclsrc", "dclid",
        "gbraid", "wbraid", "fbclid", "msclkid", "twclid", "li_fat_id", "mc_cid", "igshid", "ttclid", "rdt_cid",
        "irclid", "_kx", "epik", "qclid", "sccid",
    }
)  # fmt: skip
"""Event properties that the service copies to the person automatically."""
MINOR = frozenset(
    {
        "$browser", "$browser_version", "$device_type", "$current_url", "$pathname", "$os", "$os_name", "$os_version",
        "$referring_domain", "$referrer", "$screen_height", "$screen_width", "$viewport_height", "$viewport_width",
        "$raw_user_agent", "$geoip_postal_code", "$geoip_time_zone", "$geoip_latitude", "$geoip_longitude",
        "$geoip_accuracy_radius", "$geoip_subdivision_1_code", "$geoip_subdivision_1_name", "$geoip_subdivision_2_code",
        "$geoip_subdivision_2_name", "$geoip_subdivision_3_code", "$geoip_subdivision_3_name", "$geoip_city_confidence",
        "$geoip_country_confidence", "$geoip_postal_code_confidence", "$geoip_subdivision_1_confidence",
        "$geoip_subdivision_2_confidence",
    }
)  # fmt: skip
"""Properties whose new values alone may not justify a write (the setting `promoted_changes`)."""

_INITIAL = {name: "$initial_" + name.removeprefix("$") for name in PROMOTED}
_NEVER_PROMOTED = frozenset({"$snapshot", "$performance_event"})

ALWAYS_READ = (*sorted(MERGES), "$set", *sorted(GROUP_EVENTS), *sorted(NEVER_PERSONS))
"""Events that are always read, whatever their properties contain."""
_PROPERTIES = ("$unset", "$groups", "$process_person_profile")

_TRUE, _FALSE, _NULL = Raw(b"true"), Raw(b"false"), Raw(b"null")
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_value = msgspec.json.Decoder().decode


class GroupChange(msgspec.Struct):
    """A group event: `type` and `key` as text, `set` its properties."""

    type: str
    key: str
    set: dict[str, Raw]


class PersonEvent(msgspec.Struct):
    """One event that may change persons or groups. `instant` is its time, `accepted` when it was accepted (µs UTC).

    `merged_id` is the id to be merged into `distinct_id`, `forced` whether even an identified person may be merged,
    `group_types` the group types that the event names, in order.
    """

    project: int
    receipt: int
    instant: int
    event: str
    distinct_id: str
    set: dict[str, Raw] = msgspec.field(default_factory=dict)
    set_once: dict[str, Raw] = msgspec.field(default_factory=dict)
    unset: tuple[str, ...] = ()
    merged_id: str | None = None
    forced: bool = False
    group_types: tuple[str, ...] = ()
    group: GroupChange | None = None
    warnings: tuple[EventWarning, ...] = ()
    accepted: int = 0

    def warn(self, kind: str, /, **details: Any) -> None:
        """Add a warning, unless it already has it."""
        warning = event_warning(kind, **details)
        if warning not in self.warnings:
            self.warnings += (warning,)


def property_pattern(settings: Settings) -> str:
    """A regular expression that matches the properties of every event that does more than create its person.

    A name may be spelled with escapes, such as `\\u0024set`: properties with any escaped ASCII match.
    """
    promoted = sorted(PROMOTED) if settings.promote_properties == "on" else []
    names = "|".join(re.escape(name) for name in (*_PROPERTIES, *promoted))
    return rf'"\$set|"(?:{names})"|\\u00'


def read_properties(event: PersonEvent, properties: str, settings: Settings) -> PersonEvent | None:
    """The event with what its properties change, or None for `$process_person_profile: false`: it changes nothing."""
    members = _members(properties)
    profile = members.get("$process_person_profile")
    if profile is not None and profile != _TRUE:
        if profile == _FALSE:
            return None
        event.warn(ingestion_warnings.BAD_PROFILE_FLAG, value=profile.copy())
    _read_updates(event, members, settings)
    _read_merge(event, members)
    _read_groups(event, members, settings)
    return event


def _read_updates(event: PersonEvent, members: dict[str, Raw], settings: Settings) -> None:
    if event.event in NEVER_PERSONS:
        if not members.keys().isdisjoint(("$set", "$set_once")):
            event.warn(ingestion_warnings.SET_IGNORED, event=event.event)
        return
    if not is_group_event(event.event, settings):
        if "$set" in members:
            event.set = _object(members["$set"]) or {}
        if "$set_once" in members:
            event.set_once = _object(members["$set_once"]) or {}
        if "$unset" in members:
            event.unset = _names(members["$unset"])
    if settings.promote_properties == "on":
        _promote(event, members)


def _promote(event: PersonEvent, members: dict[str, Raw]) -> None:
    """Add the properties that the service promotes, unless the event sets them itself.

    Each goes to `$set` under its own name and to `$set_once` as `$initial_…`; `$os_name` is a second name of `$os`.
    """
    promoted = PROMOTED & members.keys()
    if not promoted or event.event in _NEVER_PROMOTED:
        return
    for name in sorted(promoted):
        event.set.setdefault(name, members[name].copy())
        event.set_once.setdefault(_INITIAL[name], members[name].copy())
    if "$os_name" in promoted:
        os_name = members["$os_name"].copy()
        event.set.setdefault("$os", os_name)
        event.set_once.setdefault("$initial_os", os_name)
        event.set.pop("$os_name")
        event.set_once.pop("$initial_os_name")


def _read_merge(event: PersonEvent, members: dict[str, Raw]) -> None:
    if event.event == IDENTIFY:
        anonymous = members.get("$anon_distinct_id")
        event.merged_id = None if anonymous is None else as_text(_value(anonymous))
    elif event.event in (ALIAS, MERGE):
        raw = members.get("alias")
        alias = None if raw is None else _value(raw)
        event.merged_id = as_text(alias) if _is_present(alias) else None
        event.forced = event.event == MERGE


def _read_groups(event: PersonEvent, members: dict[str, Raw], settings: Settings) -> None:
    if event.event in GROUP_EVENTS:
        if is_group_event(event.event, settings):
            _read_group(event, members)
        else:
            event.warn(ingestion_warnings.UNKNOWN_GROUP_EVENT, event=event.event)
    raw = members.get("$groups")
    if raw is None:
        return
    groups = _object(raw)
    if groups is None:
        event.warn(ingestion_warnings.BAD_GROUPS, groups=raw.copy())
    else:
        event.group_types += tuple(name for name in groups if name not in event.group_types)


def _read_group(event: PersonEvent, members: dict[str, Raw]) -> None:
    kind, key = (_value(members[name]) if name in members else None for name in ("$group_type", "$group_key"))
    properties = members.get("$group_set", _NULL)
    if kind is not None and properties != _NULL:
        event.group_types += (as_text(kind),)
    if not _is_present(kind) or not _is_present(key):
        event.warn(ingestion_warnings.NO_GROUP, group_type=kind, group_key=key)
        return
    event.group = GroupChange(as_text(kind), as_text(key).replace("\0", "\ufffd"), _object(properties) or {})


def is_group_event(event: str, settings: Settings) -> bool:
    """Whether an event writes a group: the contract's spelling does by default, but not in the real service."""
    return event in GROUP_EVENTS and (event == "$groupidentify" or settings.group_events == "both")


def as_text(value: Any) -> str:
    """A JSON value as the text that the service makes of it if it expects an id or a key."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    if isinstance(value, list):
        return ",".join("" if inner is None else as_text(inner) for inner in value)
    return "[object Object]" if isinstance(value, dict) else str(value)


def _is_present(value: Any) -> bool:
    """Whether a value counts as present: an empty string, 0, false and null do not; an empty list or object does."""
    return bool(value) or isinstance(value, list | dict)


def _object(raw: Raw) -> dict[str, Raw] | None:
    """The members of an object, as separate copies; None for anything else."""
    if bytes(raw)[:1] != b"{":
        return None
    return {name: _clean(value) for name, value in _members(raw).items()}


def _clean(value: Raw) -> Raw:
    """A value as it is stored, with NUL characters replaced (docs/know/service.md#ids-and-text)."""
    text = bytes(value)
    if b"\\u0000" in text:
        return Raw(msgspec.json.encode(_without_nul(_value(text))))
    return Raw(text)


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_without_nul(inner) for inner in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(inner) for name, inner in value.items()}
    return value


def _names(raw: Raw) -> tuple[str, ...]:
    """The property names of `$unset`: a list, or the keys of an object."""
    value = _value(raw)
    names: Iterable[Any] = value if isinstance(value, list | dict) else ()
    return tuple(name for name in names if isinstance(name, str))
