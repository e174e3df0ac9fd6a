"""Names of events that do more than land (docs/know/service.md#persons)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from pipeline.local_service import ingestion_warnings
from pipeline.local_service.ingestion_warnings import Notice, notice
from pipeline.local_service.settings import Settings

IDENTIFY = "$identify"
ALIAS = "$create_alias"
MERGE = "$merge_dangerously"
SET = "$set"

MERGES = frozenset({IDENTIFY, ALIAS, MERGE})
PERSON_EVENTS = MERGES | {SET}
"""Events that always write the person."""

GROUP_EVENTS = frozenset({"$groupidentify", "$group_identify"})
"""The service's own spelling, and the one of its contract."""

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
"""Properties whose new values alone may not be worth a write (the switch `promoted_changes`)."""

_INITIAL = {name: "$initial_" + name.removeprefix("$") for name in PROMOTED}
_NEVER = frozenset({"$snapshot", "$performance_event"})


def promote(event: str, properties: dict[str, Raw], set_: dict[str, Raw], once: dict[str, Raw]) -> None:
    """Add what the service would to `set_` and `once`. `$os_name` counts as a second name of `$os`."""
    found = PROMOTED & properties.keys()
    if not found or event in _NEVER:
        return
    for name in sorted(found):
        set_.setdefault(name, properties[name].copy())
        once.setdefault(_INITIAL[name], properties[name].copy())
    if "$os_name" in found:
        alias = properties["$os_name"].copy()
        set_.setdefault("$os", alias)
        once.setdefault("$initial_os", alias)
        set_.pop("$os_name")
        once.pop("$initial_os_name")


ALWAYS_READ = (*sorted(MERGES), "$set", *sorted(GROUP_EVENTS), *sorted(NEVER_PERSONS))
"""Events that are read whatever their properties hold."""
_PROPERTIES = ("$unset", "$groups", "$process_person_profile")

_TRUE, _FALSE, _NULL = Raw(b"true"), Raw(b"false"), Raw(b"null")
_open = msgspec.json.Decoder(dict[str, Raw]).decode
_value = msgspec.json.Decoder().decode


@dataclass(slots=True)
class Group:
    """A group event: `type` and `key` as text, `set` its properties."""

    type: str
    key: str
    set: dict[str, Raw]


@dataclass(slots=True)
class Seen:
    """One event that counts. `instant` is microseconds since 1970 (UTC); `other` the id that is to be merged into
    `distinct_id`, `forced` whether even an identified person may be; `types` the group types it names, in order."""

    project: int
    receipt: int
    instant: int
    event: str
    distinct_id: str
    set: dict[str, Raw] = field(default_factory=dict)
    once: dict[str, Raw] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    other: str | None = None
    forced: bool = False
    types: tuple[str, ...] = ()
    group: Group | None = None
    notices: tuple[Notice, ...] = ()

    def tell(self, kind: str, /, **details: Any) -> None:
        """Leave a notice, once."""
        told = notice(kind, **details)
        if told not in self.notices:
            self.notices += (told,)


def marks(settings: Settings) -> str:
    """A regular expression that an event's properties must hold to count for more than that its person exists.

    A name may be spelled with escapes, as `\\u0024set`: properties with any escape of ASCII count.
    """
    promoted = sorted(PROMOTED) if settings.promote_properties == "on" else []
    names = "|".join(re.escape(name) for name in (*_PROPERTIES, *promoted))
    return rf'"\$set|"(?:{names})"|\\u00'


def read(seen: Seen, properties: str, settings: Settings) -> Seen | None:
    """`seen` with what the event's properties say, or None where they say `$process_person_profile: false`: such an
    event leaves no trace."""
    opened = _open(properties)
    profile = opened.get("$process_person_profile")
    if profile is not None and profile != _TRUE:
        if profile == _FALSE:
            return None
        seen.tell(ingestion_warnings.BAD_PROFILE_FLAG, value=profile.copy())
    _read_updates(seen, opened, settings)
    _read_merge(seen, opened)
    _read_groups(seen, opened, settings)
    return seen


def _read_updates(seen: Seen, opened: dict[str, Raw], settings: Settings) -> None:
    if seen.event in NEVER_PERSONS:
        if not opened.keys().isdisjoint(("$set", "$set_once")):
            seen.tell(ingestion_warnings.SET_IGNORED, event=seen.event)
        return
    if not is_group_event(seen.event, settings):
        if "$set" in opened:
            seen.set = _object(opened["$set"]) or {}
        if "$set_once" in opened:
            seen.once = _object(opened["$set_once"]) or {}
        if "$unset" in opened:
            seen.unset = _names(opened["$unset"])
    if settings.promote_properties == "on":
        promote(seen.event, opened, seen.set, seen.once)


def _read_merge(seen: Seen, opened: dict[str, Raw]) -> None:
    if seen.event == IDENTIFY:
        given = opened.get("$anon_distinct_id")
        seen.other = None if given is None else as_text(_value(given))
    elif seen.event in (ALIAS, MERGE):
        given = opened.get("alias")
        value = None if given is None else _value(given)
        seen.other = as_text(value) if _is_true(value) else None
        seen.forced = seen.event == MERGE


def _read_groups(seen: Seen, opened: dict[str, Raw], settings: Settings) -> None:
    if seen.event in GROUP_EVENTS:
        if is_group_event(seen.event, settings):
            _read_group(seen, opened)
        else:
            seen.tell(ingestion_warnings.UNKNOWN_GROUP_EVENT, event=seen.event)
    given = opened.get("$groups")
    if given is None:
        return
    named = _object(given)
    if named is None:
        seen.tell(ingestion_warnings.BAD_GROUPS, groups=given.copy())
    else:
        seen.types += tuple(name for name in named if name not in seen.types)


def _read_group(seen: Seen, opened: dict[str, Raw]) -> None:
    kind, key = (_value(opened[name]) if name in opened else None for name in ("$group_type", "$group_key"))
    given = opened.get("$group_set", _NULL)
    if kind is not None and given != _NULL:
        seen.types += (as_text(kind),)
    if not _is_true(kind) or not _is_true(key):
        seen.tell(ingestion_warnings.NO_GROUP, group_type=kind, group_key=key)
        return
    seen.group = Group(as_text(kind), as_text(key).replace("\0", "\ufffd"), _object(given) or {})


def is_group_event(event: str, settings: Settings) -> bool:
    """Whether an event writes a group: the contract's spelling does by default, in the real service it does not."""
    return event in GROUP_EVENTS and (event == "$groupidentify" or settings.group_events == "both")


def as_text(value: Any) -> str:
    """A JSON value as the service turns it into text where an id or a key is expected."""
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


def _is_true(value: Any) -> bool:
    """Whether a value counts as given: empty text, 0, false and null do not; an empty list or object does."""
    return bool(value) or isinstance(value, list | dict)


def _object(raw: Raw) -> dict[str, Raw] | None:
    """The members of an object, as texts of their own; None for anything else."""
    if bytes(raw)[:1] != b"{":
        return None
    return {name: _clean(value) for name, value in _open(raw).items()}


def _clean(value: Raw) -> Raw:
    """A value as it is kept: NUL characters replaced (docs/know/service.md#ids-and-text)."""
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
    given: Iterable[Any] = value if isinstance(value, list | dict) else ()
    return tuple(name for name in given if isinstance(name, str))
