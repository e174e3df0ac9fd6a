"""What one accepted event says about persons and groups, read from its properties (service-behaviour 1.10)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from . import notices
from .names import ALIAS, GROUP_EVENTS, IDENTIFY, MERGE, MERGES, NEVER_PERSONS
from .notices import Notice, notice
from .promotion import PROMOTED, promote
from .settings import Settings

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
        seen.tell(notices.BAD_PROFILE_FLAG, value=profile.copy())
    _read_updates(seen, opened, settings)
    _read_merge(seen, opened)
    _read_groups(seen, opened, settings)
    return seen


def _read_updates(seen: Seen, opened: dict[str, Raw], settings: Settings) -> None:
    if seen.event in NEVER_PERSONS:
        if not opened.keys().isdisjoint(("$set", "$set_once")):
            seen.tell(notices.SET_IGNORED, event=seen.event)
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
            seen.tell(notices.UNKNOWN_GROUP_EVENT, event=seen.event)
    given = opened.get("$groups")
    if given is None:
        return
    named = _object(given)
    if named is None:
        seen.tell(notices.BAD_GROUPS, groups=given.copy())
    else:
        seen.types += tuple(name for name in named if name not in seen.types)


def _read_group(seen: Seen, opened: dict[str, Raw]) -> None:
    kind, key = (_value(opened[name]) if name in opened else None for name in ("$group_type", "$group_key"))
    given = opened.get("$group_set", _NULL)
    if kind is not None and given != _NULL:
        seen.types += (as_text(kind),)
    if not _is_true(kind) or not _is_true(key):
        seen.tell(notices.NO_GROUP, group_type=kind, group_key=key)
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
    """A value as it is kept: NUL characters replaced (service-behaviour 1.7)."""
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
