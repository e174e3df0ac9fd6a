"""Hog functions: list, create, retrieve, update, softly delete, rearrange (docs/know/service.md#hog-functions).

A function is listed when every filter of the query accepts it; a filter without a value filters nothing.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from pipeline.local_service.management.function_fields import read_fields, store_inputs
from pipeline.local_service.management.function_views import (
    full_record,
    list_item,
    order_of,
    without_code,
)
from pipeline.local_service.management.requests import (
    EMPTY,
    ApiError,
    BareError,
    Json,
    ManagementState,
    OperationCall,
    OperationReply,
    invalid,
    not_found,
    paginate,
    parse_instant,
    uuid_of,
)
from pipeline.local_service.management.templates import TEMPLATES

FILTERS = (
    "created_at", "created_by", "enabled", "exclude_kind", "id", "kind", "limit", "offset", "type", "updated_at",
)  # fmt: skip
"""All ten query parameters of the contract; `limit` and `offset` are those of every list."""
LONGEST_SEARCH = 200
_TRUE, _FALSE = ("true", "1"), ("false", "0")


def filter_functions(call: OperationCall, functions: list[Json], *, observed: bool) -> list[Json]:
    """The functions that the query asks for, by execution order, the last updated first. Raises ApiError (400)."""
    found = [function for function in functions if not function.get("deleted")]
    for name in ("created_at", "updated_at"):
        value = call.parameter(name)
        if value is not None:
            wanted = parse_instant(value)
            if wanted is None:
                raise invalid(name, "Enter a valid date/time.")
            found = [function for function in found if parse_instant(function[name]) == wanted]
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
        wanted_names = call.values_of(name)
        if wanted_names:
            found = [function for function in found if (function.get(field) or "") in wanted_names]
    unwanted = call.values_of("exclude_kind")
    found = [function for function in found if (function.get("kind") or "") not in unwanted or not unwanted]
    if observed:
        found = _observed(call, found)
    found.sort(key=lambda function: (str(function["updated_at"]), str(function["id"])), reverse=True)
    found.sort(key=order_of)
    return found


def _observed(call: OperationCall, found: list[Json]) -> list[Json]:
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
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise invalid(attr, f"Expected a JSON {'list' if kind is list else 'object'}.")
    return value


def _holds(whole: Any, part: Any) -> bool:
    """Whether a JSON value contains another: names of objects, and members of lists, in any order."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and _holds(whole[name], part[name]) for name in part)
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(_holds(one, wanted) for one in whole) for wanted in part)
    return bool(whole == part)


MOST_ENABLED = {"transformation": 20, "transformation_log": 5}
"""Enabled functions of a type that a project may have (docs/know/service.md#hog-functions)."""


def list_functions(state: ManagementState, call: OperationCall) -> OperationReply:
    """One page of those that the filters choose."""
    found = filter_functions(call, state.documents.all("hog_function", call.project_id), observed=state.observed)
    envelope, shown = paginate(call, found, strict=not state.observed)
    full = state.observed and call.parameter("full") == "true"
    envelope["results"] = [
        (full_record if full else list_item)(function, observed=state.observed) for function in shown
    ]
    return OperationReply(body=envelope)


def create(state: ManagementState, call: OperationCall) -> OperationReply:
    """201 and the full record."""
    fields = _fields(state, call, {})
    function = _from_template(fields)
    if state.observed and not function.get("hog"):
        raise invalid("hog", "Required.", "required")
    function |= {
        "id": str(uuid4()),
        "created_at": call.now,
        "updated_at": call.now,
        "created_by": call.caller.user,
        "version": 1,
    }
    store_inputs(function, None, observed=state.observed, written=("inputs", "mappings"))
    _check_numbers(state, call.project_id, function)
    state.documents.put("hog_function", call.project_id, function)
    return OperationReply(201, full_record(function, observed=state.observed))


def retrieve(state: ManagementState, call: OperationCall) -> OperationReply:
    """The full record."""
    return OperationReply(body=full_record(find_function(state, call), observed=state.observed))


def update(state: ManagementState, call: OperationCall) -> OperationReply:
    """Set the fields that the body has. `deleted` true deletes softly; only `deleted` false reaches it again.

    PUT does the same: what its body leaves out, the source takes from the function (`to_internal_value`).
    """
    before = find_function(state, call, restoring=call.body.get("deleted") is False)
    fields = _fields(state, call, before)
    if state.observed:
        _check_change(call.body, fields, before)
    function = before | fields | {"updated_at": call.now, "version": before.get("version", 1) + 1}
    if function.get("hog") != before.get("hog"):
        function |= {"bytecode": None, "transpiled": None}  # those of a seed were those of other code
    store_inputs(function, before, observed=state.observed, written=fields)
    if function.get("enabled") and not before.get("enabled"):
        _check_numbers(state, call.project_id, function)
    state.documents.put("hog_function", call.project_id, function)
    return OperationReply(body=full_record(function, observed=state.observed))


def delete(state: ManagementState, call: OperationCall) -> OperationReply:
    """405 with an empty body, whatever the id: a hog function is deleted by an update."""
    raise BareError(405, None, {"Allow": "GET, HEAD, OPTIONS, PATCH" + (", PUT" if state.observed else "")})


def rearrange(state: ManagementState, call: OperationCall) -> OperationReply:
    """Set the execution orders that `orders` maps ids to.

    The contract lists the writable fields as the body and states no answer: there they are checked, change nothing,
    and the answer is empty. `observed` answers with the functions of the type, and takes transformations alone.
    """
    if "orders" not in call.body and not state.observed:
        read_fields(call.body, observed=False)
        return EMPTY
    orders = call.body.get("orders")
    if not isinstance(orders, dict) or not orders:
        raise invalid("orders", "No orders provided")
    changed = [_reordered(state, call, id, order) for id, order in orders.items()]
    if not state.observed:
        state.documents.put("hog_function", call.project_id, *changed)
        return EMPTY
    kinds = {function.get("type") for function in changed}
    if len(kinds) > 1:
        raise invalid(None, "Cannot rearrange functions of different types in one request")
    if not kinds <= set(MOST_ENABLED):
        raise invalid(None, "Only transformations have an order that can be set")
    state.documents.put("hog_function", call.project_id, *changed)
    found = [one for one in _all(state, call) if one.get("type") in kinds]
    return OperationReply(body=[full_record(one, observed=True) for one in sorted(found, key=order_of)])


def _reordered(state: ManagementState, call: OperationCall, id: str, order: Any) -> Json:
    if type(order) is not int:
        raise invalid("orders", "A valid integer is required.")
    function = state.documents.get("hog_function", call.project_id, uuid_of(id) or "")
    if function is None or function.get("deleted"):
        named = f"id {id}" if uuid_of(id) else "the given id"
        raise invalid("orders", f"HogFunction with {named} does not exist")
    return function | {"execution_order": order, "updated_at": call.now}


def find_function(state: ManagementState, call: OperationCall, *, restoring: bool = False) -> Json:
    """The function of the path. Raises ApiError (404), for a deleted one too unless it is being restored."""
    function = state.documents.get("hog_function", call.project_id, uuid_of(call.ids["id"]) or "")
    if function is None or (function.get("deleted") and not restoring):
        raise not_found()
    return function


def _fields(state: ManagementState, call: OperationCall, before: Json) -> Json:
    fields = read_fields(call.body, observed=state.observed)
    return without_code(fields, before) if state.observed else fields


def _all(state: ManagementState, call: OperationCall) -> list[Json]:
    return [one for one in state.documents.all("hog_function", call.project_id) if not one.get("deleted")]


def _from_template(fields: Json) -> Json:
    """The fields, and from the template whatever is not among them."""
    template = TEMPLATES.get(fields.get("template_id") or "")
    if template is None:
        return {"type": "destination", **{name: value for name, value in fields.items() if value is not None}}
    taken = ("type", "kind", "name", "description", "hog", "inputs_schema", "filters", "masking", "icon_url")
    value = {name: value for name, value in fields.items() if value not in (None, "") or name not in taken}
    return {name: template[name] for name in taken if template[name]} | value


def _check_change(body: Json, fields: Json, before: Json) -> None:
    """What the real service refuses to change (docs/know/service.md#hog-functions)."""
    if "type" in fields and fields["type"] != before.get("type"):
        raise invalid("type", "Cannot change the type of an existing function")
    base = body.get("base_updated_at")
    if base is not None:
        seen = parse_instant(base) if isinstance(base, str) else None
        if seen is None:
            raise invalid("base_updated_at", "Datetime has wrong format.")
        if seen < (parse_instant(before["updated_at"]) or seen):
            detail = "This function was changed since you loaded it."
            raise ApiError(409, "invalid_request", "stale_update", detail, "base_updated_at")


def _check_numbers(state: ManagementState, project: int, function: Json) -> None:
    most = MOST_ENABLED.get(function.get("type", ""))
    if not state.observed or most is None or not function.get("enabled"):
        return
    others = [
        one
        for one in state.documents.all("hog_function", project)
        if one["id"] != function["id"] and one.get("type") == function["type"] and one.get("enabled")
    ]
    if len([one for one in others if not one.get("deleted")]) >= most:
        raise invalid(None, f"Maximum of {most} enabled functions of type {function['type']} reached")
