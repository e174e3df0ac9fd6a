"""Hog functions: list, create, retrieve, update, softly delete, rearrange (docs/know/service.md#hog-functions).

A function is listed if every filter of the query accepts it; a filter without a value filters nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from starlette.responses import JSONResponse, Response

from pipeline.local_service.management.function_fields import read_fields, store_inputs
from pipeline.local_service.management.function_views import (
    full_record,
    list_item,
    order_of,
    without_code,
)
from pipeline.local_service.management.requests import (
    ApiError,
    Json,
    OperationCall,
    answers,
    invalid,
    natural_number,
    not_found,
    paginate,
    parse_instant,
    uuid_of,
)
from pipeline.local_service.management.templates import TEMPLATES
from pipeline.management import operations

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_NOT_A_CHOICE = "Select a valid choice. That choice is not one of the available choices."
_NO_TIME = "Enter a valid date/time."


class Filter(NamedTuple):
    """A filter: `read` makes its value from a string, None for a `problem`; `fits` says whether a function has it."""

    read: Callable[[str], Any]
    problem: str
    fits: Callable[[Json, Any], bool]


_FILTERS = {
    "created_at": Filter(parse_instant, _NO_TIME, lambda one, at: parse_instant(one["created_at"]) == at),
    "updated_at": Filter(parse_instant, _NO_TIME, lambda one, at: parse_instant(one["updated_at"]) == at),
    "created_by": Filter(
        lambda text: natural_number(text, 4000), _NOT_A_CHOICE, lambda one, user: one["created_by"].get("id") == user
    ),
    "enabled": Filter(
        lambda text: _BOOLEANS.get(text.lower()),
        "Must be a valid boolean.",
        lambda one, enabled: bool(one.get("enabled")) is enabled,
    ),
    "id": Filter(uuid_of, "Enter a valid UUID.", lambda one, id: one["id"] == id),
}
_OBSERVED_FILTERS = {
    "search": Filter(
        lambda text: text.casefold() if len(text) <= 200 else None,
        "Ensure this value has at most 200 characters.",
        lambda one, text: text in f"{one.get('name') or ''}\n{one.get('description') or ''}".casefold(),
    ),
    "filters": Filter(
        lambda text: _json(text, dict),
        "Expected a JSON object.",
        lambda one, part: _contains(one.get("filters") or {}, part),
    ),
    "filter_groups": Filter(
        lambda text: _json(text, list),
        "Expected a JSON list.",
        lambda one, parts: any(_contains(one.get("filters") or {}, part) for part in parts),
    ),
}


def _filtered(call: OperationCall) -> list[Json]:
    """The functions that the query asks for, by execution order, last updated first. Raises ApiError (400)."""
    functions = _all(call)
    for name, one in (_FILTERS | (_OBSERVED_FILTERS if call.observed else {})).items():
        if (text := call.parameter(name)) is not None:
            value = one.read(text)
            if value is None:
                raise invalid(name, one.problem)
            functions = [function for function in functions if one.fits(function, value)]
    for name in ("type", "kind"):
        if values := call.values_of(name):
            functions = [function for function in functions if (function.get(name) or "") in values]
    excluded = call.values_of("exclude_kind")
    functions = [function for function in functions if not excluded or (function.get("kind") or "") not in excluded]
    if call.observed:
        functions = [function for function in functions if function.get("type") != "warehouse_source_webhook"]
    functions.sort(key=lambda function: (str(function["updated_at"]), str(function["id"])), reverse=True)
    return sorted(functions, key=order_of)


def _json(text: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, kind) else None


def _contains(whole: Any, part: Any) -> bool:
    """Whether a JSON value contains another: names of objects, and members of lists, in any order."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and _contains(whole[name], part[name]) for name in part)
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(_contains(member, wanted) for member in whole) for wanted in part)
    return bool(whole == part)


MOST_ENABLED = {"transformation": 20, "transformation_log": 5}
"""How many enabled functions of a type a project may have (docs/know/service.md#hog-functions)."""


@answers(operations.LIST_FUNCTIONS)
def hog_functions_list(call: OperationCall) -> Response:
    """List hog functions. One page of the functions that the filters accept."""
    show = full_record if call.observed and call.parameter("full") == "true" else list_item
    return paginate(call, _filtered(call), partial(show, observed=call.observed))


@answers(operations.CREATE_FUNCTION)
def hog_functions_create(call: OperationCall) -> Response:
    """Create a hog function. 201 and the full record."""
    fields = _fields(call)
    function = _from_template(fields)
    if call.observed and not function.get("hog"):
        raise invalid("hog", "Required.", "required")
    function |= {
        "id": str(uuid4()),
        "created_at": call.now,
        "updated_at": call.now,
        "created_by": call.caller.user,
        "version": 1,
    }
    store_inputs(function, None, observed=call.observed, written=("inputs", "mappings"))
    _check_numbers(call, function)
    call.state.documents.put("hog_function", call.project_id, function)
    return JSONResponse(full_record(function, observed=call.observed), 201)


@answers(operations.RETRIEVE_FUNCTION)
def hog_functions_retrieve(call: OperationCall) -> Response:
    return JSONResponse(full_record(find_function(call), observed=call.observed))


@answers(operations.UPDATE_FUNCTION, operations.REPLACE_FUNCTION)
def hog_functions_update(call: OperationCall) -> Response:
    """Update or softly delete a hog function.

    The fields in the body are set. For PUT too, fields that the body leaves out keep their values, as in the source
    (`to_internal_value`). `deleted` true deletes softly; only `deleted` false reaches it again.
    """
    before = find_function(call, restoring=call.body.get("deleted") is False)
    fields = _fields(call)
    if call.observed:
        _check_change(call.body, fields, before)
    function = before | fields | {"updated_at": call.now, "version": before.get("version", 1) + 1}
    if function.get("hog") != before.get("hog"):
        function |= {"bytecode": None, "transpiled": None}  # a seed's code belonged to other source
    store_inputs(function, before, observed=call.observed, written=fields)
    if function.get("enabled") and not before.get("enabled"):
        _check_numbers(call, function)
    call.state.documents.put("hog_function", call.project_id, function)
    return JSONResponse(full_record(function, observed=call.observed))


@answers(operations.DELETE_FUNCTION)
def hog_functions_delete(call: OperationCall) -> Response:
    """Refused: delete by PATCH with deleted true.

    405 with an empty body, whatever the id.
    """
    allowed = "GET, HEAD, OPTIONS, PATCH" + (", PUT" if call.observed else "")
    return Response(status_code=405, headers={"Allow": allowed})


@answers(operations.REARRANGE)
def hog_functions_rearrange(call: OperationCall) -> Response:
    """Set execution orders.

    `orders` maps ids to orders. The contract lists the writable fields as the body and states no answer: under it they
    are checked, change nothing, and the answer is empty. `observed` answers with the functions of the type, and accepts
    only transformations.
    """
    if "orders" not in call.body and not call.observed:
        read_fields(call.body, observed=False)
        return Response()
    orders = call.body.get("orders")
    if not isinstance(orders, dict) or not orders:
        raise invalid("orders", "No orders provided")
    changed = [_reordered(call, id, order) for id, order in orders.items()]
    if not call.observed:
        call.state.documents.put("hog_function", call.project_id, *changed)
        return Response()
    kinds = {function.get("type") for function in changed}
    if len(kinds) > 1:
        raise invalid(None, "Cannot rearrange functions of different types in one request")
    if not kinds <= set(MOST_ENABLED):
        raise invalid(None, "Only transformations have an order that can be set")
    call.state.documents.put("hog_function", call.project_id, *changed)
    functions = sorted((function for function in _all(call) if function.get("type") in kinds), key=order_of)
    return JSONResponse([full_record(function, observed=True) for function in functions])


def _reordered(call: OperationCall, id: str, order: Any) -> Json:
    if type(order) is not int:
        raise invalid("orders", "A valid integer is required.")
    function = call.state.documents.get("hog_function", call.project_id, uuid_of(id) or "")
    if function is None or function.get("deleted"):
        named = f"id {id}" if uuid_of(id) else "the given id"
        raise invalid("orders", f"HogFunction with {named} does not exist")
    return function | {"execution_order": order, "updated_at": call.now}


def find_function(call: OperationCall, *, restoring: bool = False) -> Json:
    """The function of the path. Raises ApiError (404), also for a deleted one, unless it is being restored."""
    function = call.state.documents.get("hog_function", call.project_id, uuid_of(call.ids["id"]) or "")
    if function is None or (function.get("deleted") and not restoring):
        raise not_found()
    return function


def _fields(call: OperationCall) -> Json:
    fields = read_fields(call.body, observed=call.observed)
    return without_code(fields) if call.observed else fields


def _all(call: OperationCall) -> list[Json]:
    functions = call.state.documents.all("hog_function", call.project_id)
    return [function for function in functions if not function.get("deleted")]


def _from_template(fields: Json) -> Json:
    """The fields, completed from the template."""
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
        loaded = parse_instant(base) if isinstance(base, str) else None
        if loaded is None:
            raise invalid("base_updated_at", "Datetime has wrong format.")
        if loaded < (parse_instant(before["updated_at"]) or loaded):
            detail = "This function was changed since you loaded it."
            raise ApiError(409, "invalid_request", "stale_update", detail, "base_updated_at")


def _check_numbers(call: OperationCall, function: Json) -> None:
    most = MOST_ENABLED.get(function.get("type", ""))
    if not call.observed or most is None or not function.get("enabled"):
        return
    others = [other for other in _all(call) if other["id"] != function["id"] and other.get("type") == function["type"]]
    if sum(1 for other in others if other.get("enabled")) >= most:
        raise invalid(None, f"Maximum of {most} enabled functions of type {function['type']} reached")
