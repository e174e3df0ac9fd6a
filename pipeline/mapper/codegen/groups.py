"""The groups in a row: those of its event, and updates of groups.

The service takes one key of each type, numbers types permanently in the order they arrive, and has five of them
(docs/know/service.md#groups).
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from pipeline import values
from pipeline.mapper.codegen.runtime import Warnings, can_be_sent, encode, members_of, opened, text_of
from pipeline.models import GroupUpdate, RejectReason, Skip
from pipeline.values import Value


def own_groups(properties: dict[str, Any], chosen: frozenset[str] = frozenset()) -> str:
    """`add_groups` for the row's own `$groups`, which stays byte for byte if nothing in it changes.

    A value that is not an object stays too, as in the service (docs/know/service.md#groups).
    """
    groups = members_of(properties.get("$groups"))
    if all(_is_key(value) and (not chosen or kind in chosen) for kind, value in groups.items()):
        return ""
    del properties["$groups"]
    return add_groups(groups, properties, chosen)


def _is_key(value: Value) -> bool:
    """Whether a value is one key of a group, neither blank nor a list of keys."""
    listed = values.items(value)
    return listed is not None and len(listed) == 1 and listed[0] is value and bool((text_of(value) or "").strip())


def add_groups(groups: dict[str, Value], properties: dict[str, Any], chosen: frozenset[str] = frozenset()) -> str:
    """Set `$groups`: the first key of each type; a list of keys stays whole as the property `<type>_ids`.

    The keys of a type that is not among `chosen` stay as that property too, because the service would number the type
    permanently. Returns the names of these types, separated by commas.
    """
    firsts: dict[str, str] = {}
    left_out: list[str] = []
    for kind, value in groups.items():
        listed = values.items(value)
        key = values.key_text(listed[0]) if listed else None
        if key is None or not key.strip():
            continue
        if chosen and kind not in chosen:
            properties.setdefault(f"{kind}_ids", value)
            left_out.append(kind)
            continue
        firsts[kind] = key
        if listed and (len(listed) > 1 or listed[0] is not value):
            properties.setdefault(f"{kind}_ids", value)
    if firsts:
        properties["$groups"] = Raw(encode(firsts))
    return ", ".join(left_out)


def updates_of_groups(
    groups: Value,
    time: int | RejectReason | None,
    received: int | None,
    warnings: Warnings,
    distinct_id: str | None = None,
    row_key: str | None = None,
) -> list[GroupUpdate | Skip]:
    """One update for each key in an object of type → key → properties. Raises BadValue for other shapes."""
    updates: list[GroupUpdate | Skip] = []
    for kind, keys in (opened(groups) or {}).items():
        for key, value in (opened(keys) or {}).items():
            updates += update_of_group(kind, key, value, time, received, warnings, distinct_id, row_key)
    return updates or [Skip("empty_group_update")]


def observed_groups(
    groups: Value,
    time: int | RejectReason | None,
    received: int | None,
    warnings: Warnings,
    distinct_id: str | None = None,
) -> tuple[list[GroupUpdate], Warnings]:
    """The group updates, and the warnings, of a row that is also an event, from an object of type → key → properties.

    A group that cannot be sent is left out with the warning `bad_value`, so that the event is not lost. Blank types and
    keys, and groups without properties, are left out. Raises BadValue for other shapes.
    """
    updates: list[GroupUpdate] = []
    for kind, keys in (opened(groups) or {}).items():
        for key, value in (opened(keys) or {}).items():
            properties = opened(value)
            if not properties or not kind.strip() or not key.strip():
                continue
            if can_be_sent(f"${kind}_{key}"):
                updates.append(GroupUpdate(kind, key, time, properties, received, (), distinct_id))
            else:
                warnings += (("bad_value", f"of a group that cannot be sent: {kind[:40]!r} {key[:40]!r}"),)
    return updates, warnings


def update_of_group(
    kind: str | None,
    key: Value,
    value: Value,
    time: int | RejectReason | None,
    received: int | None,
    warnings: Warnings,
    distinct_id: str | None = None,
    row_key: str | None = None,
) -> list[GroupUpdate | Skip]:
    """The update of one group. Raises BadValue if its properties are not an object."""
    name = values.key_text(key)
    if not kind or not name or kind.isspace() or name.isspace():
        return [Skip("empty_group_update")]
    return [GroupUpdate(kind, name, time, opened(value) or {}, received, warnings, distinct_id, row_key)]
