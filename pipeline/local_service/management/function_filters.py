"""The filters of the list of hog functions (service-api 4.1), and the further ones of the source under `observed`.

A function is listed when every given filter takes it. A filter without a value filters nothing.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from .call import Call, Json
from .errors import invalid
from .function_views import order_of
from .instants import instant

FILTERS = (
    "created_at", "created_by", "enabled", "exclude_kind", "id", "kind", "limit", "offset", "type", "updated_at",
)  # fmt: skip
"""All ten query parameters of the contract; `limit` and `offset` are those of every list."""
LONGEST_SEARCH = 200
_TRUE, _FALSE = ("true", "1"), ("false", "0")


def chosen(call: Call, functions: list[Json], *, observed: bool) -> list[Json]:
    """The functions that the query asks for, by execution order, the last updated first. Raises ApiError (400)."""
    found = [function for function in functions if not function.get("deleted")]
    for name in ("created_at", "updated_at"):
        given = call.parameter(name)
        if given is not None:
            wanted = instant(given)
            if wanted is None:
                raise invalid(name, "Enter a valid date/time.")
            found = [function for function in found if instant(function[name]) == wanted]
    by = call.parameter("created_by")
    if by is not None:
        if not (by.isascii() and by.isdigit() and len(by) < 4000):
            raise invalid("created_by", "Select a valid choice. That choice is not one of the available choices.")
        found = [function for function in found if function["created_by"].get("id") == int(by)]
    enabled = call.parameter("enabled")
    if enabled is not None:
        if enabled.lower() not in _TRUE + _FALSE:
            raise invalid("enabled", "Must be a valid boolean.")
        found = [function for function in found if bool(function.get("enabled")) == (enabled.lower() in _TRUE)]
    id = call.parameter("id")
    if id is not None:
        wanted_id = uuid_of(id)
        if wanted_id is None:
            raise invalid("id", "Enter a valid UUID.")
        found = [function for function in found if function["id"] == wanted_id]
    for name, field in (("type", "type"), ("kind", "kind")):
        wanted_names = call.listed(name)
        if wanted_names:
            found = [function for function in found if (function.get(field) or "") in wanted_names]
    unwanted = call.listed("exclude_kind")
    found = [function for function in found if (function.get("kind") or "") not in unwanted or not unwanted]
    if observed:
        found = _observed(call, found)
    found.sort(key=lambda function: (str(function["updated_at"]), str(function["id"])), reverse=True)
    found.sort(key=order_of)
    return found


def uuid_of(text: str) -> str | None:
    """The usual spelling of a UUID, None for what is none."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def _observed(call: Call, found: list[Json]) -> list[Json]:
    search = call.parameter("search")
    if search is not None:
        if len(search) > LONGEST_SEARCH:
            raise invalid("search", f"Ensure this value has at most {LONGEST_SEARCH} characters.")
        wanted = search.casefold()
        found = [
            one for one in found if wanted in f"{one.get('name') or ''}\n{one.get('description') or ''}".casefold()
        ]
    filters = call.parameter("filters")
    if filters is not None:
        inside = _json(filters, "filters", dict)
        found = [one for one in found if _holds(one.get("filters") or {}, inside)]
    groups = call.parameter("filter_groups")
    if groups is not None:
        listed = _json(groups, "filter_groups", list)
        found = [one for one in found if any(_holds(one.get("filters") or {}, group) for group in listed)]
    return [one for one in found if one.get("type") != "warehouse_source_webhook"]


def _json(text: str, attr: str, kind: type) -> Any:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, kind):
        raise invalid(attr, f"Expected a JSON {'list' if kind is list else 'object'}.")
    return given


def _holds(whole: Any, part: Any) -> bool:
    """Whether a JSON value contains another: names of objects, and members of lists, in any order."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and _holds(whole[name], part[name]) for name in part)
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(_holds(one, wanted) for one in whole) for wanted in part)
    return bool(whole == part)
