"""Hog functions: list, create, retrieve, update, softly delete, rearrange (docs/know/service.md#hog-functions).

A function is listed when every filter of the query accepts it; a filter without a value filters nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
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
    FUNCTION,
    FUNCTIONS,
    READ,
    WRITE,
    ApiError,
    Json,
    OperationCall,
    invalid,
    natural_number,
    not_found,
    operation,
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
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_NOT_A_CHOICE = "Select a valid choice. That choice is not one of the available choices."
_RECORD = {"body": "HogFunctionWrite", "answer": "HogFunction"}
"""The schemas of operations that write a function and answer with its full record."""

Condition = Callable[..., bool]
"""Whether a function is listed."""


def _filtered(call: OperationCall) -> list[Json]:
    """The functions that the query asks for, by execution order, the last updated first. Raises ApiError (400)."""
    conditions = [*_conditions(call), *(_observed_conditions(call) if call.observed else ())]
    functions = [function for function in _all(call) if all(condition(function) for condition in conditions)]
    functions.sort(key=lambda function: (str(function["updated_at"]), str(function["id"])), reverse=True)
    return sorted(functions, key=order_of)


def _conditions(call: OperationCall) -> Iterator[Condition]:
    for name in ("created_at", "updated_at"):
        if (value := call.parameter(name)) is not None:
            instant = _valid(parse_instant(value), name, "Enter a valid date/time.")
            yield lambda function, name=name, instant=instant: parse_instant(function[name]) == instant
    if (value := call.parameter("created_by")) is not None:
        user = _valid(natural_number(value, 4000), "created_by", _NOT_A_CHOICE)
        yield lambda function: function["created_by"].get("id") == user
    if (value := call.parameter("enabled")) is not None:
        enabled = _valid(_BOOLEANS.get(value.lower()), "enabled", "Must be a valid boolean.")
        yield lambda function: bool(function.get("enabled")) is enabled
    if (value := call.parameter("id")) is not None:
        id = _valid(uuid_of(value), "id", "Enter a valid UUID.")
        yield lambda function: function["id"] == id
    for name in ("type", "kind"):
        if values := call.values_of(name):
            yield lambda function, name=name, values=values: (function.get(name) or "") in values
    if excluded := call.values_of("exclude_kind"):
        yield lambda function: (function.get("kind") or "") not in excluded


def _observed_conditions(call: OperationCall) -> Iterator[Condition]:
    if (search := call.parameter("search")) is not None:
        if len(search) > LONGEST_SEARCH:
            raise invalid("search", f"Ensure this value has at most {LONGEST_SEARCH} characters.")
        text = search.casefold()
        yield lambda function: text in f"{function.get('name') or ''}\n{function.get('description') or ''}".casefold()
    if (value := call.parameter("filters")) is not None:
        part = _json(value, "filters", dict)
        yield lambda function: _contains(function.get("filters") or {}, part)
    if (value := call.parameter("filter_groups")) is not None:
        parts = _json(value, "filter_groups", list)
        yield lambda function: any(_contains(function.get("filters") or {}, part) for part in parts)
    yield lambda function: function.get("type") != "warehouse_source_webhook"


def _valid(value: Any, name: str, problem: str) -> Any:
    if value is None:
        raise invalid(name, problem)
    return value


def _json(text: str, attr: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise invalid(attr, f"Expected a JSON {'list' if kind is list else 'object'}.")
    return value


def _contains(whole: Any, part: Any) -> bool:
    """Whether a JSON value contains another: names of objects, and members of lists, in any order."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and _contains(whole[name], part[name]) for name in part)
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(_contains(member, wanted) for member in whole) for wanted in part)
    return bool(whole == part)


MOST_ENABLED = {"transformation": 20, "transformation_log": 5}
"""Enabled functions of a type that a project may have (docs/know/service.md#hog-functions)."""


@operation("GET", FUNCTIONS, READ, answer="HogFunctionPage")
def hog_functions_list(call: OperationCall) -> Response:
    """List hog functions. One page of those that the filters choose."""
    show = full_record if call.observed and call.parameter("full") == "true" else list_item
    return paginate(call, _filtered(call), partial(show, observed=call.observed))


@operation("POST", FUNCTIONS, WRITE, status=201, **_RECORD)
def hog_functions_create(call: OperationCall) -> Response:
    """Create a hog function. 201 and the full record."""
    fields = _fields(call, {})
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


@operation("GET", FUNCTION, READ, answer="HogFunction")
def hog_functions_retrieve(call: OperationCall) -> Response:
    """Retrieve a hog function."""
    return JSONResponse(full_record(find_function(call), observed=call.observed))


@operation("PATCH", FUNCTION, WRITE, **_RECORD)
def hog_functions_update(call: OperationCall) -> Response:
    """Update or softly delete a hog function.

    The fields that the body has are set. `deleted` true deletes softly; only `deleted` false reaches it again.
    """
    before = find_function(call, restoring=call.body.get("deleted") is False)
    fields = _fields(call, before)
    if call.observed:
        _check_change(call.body, fields, before)
    function = before | fields | {"updated_at": call.now, "version": before.get("version", 1) + 1}
    if function.get("hog") != before.get("hog"):
        function |= {"bytecode": None, "transpiled": None}  # those of a seed were those of other code
    store_inputs(function, before, observed=call.observed, written=fields)
    if function.get("enabled") and not before.get("enabled"):
        _check_numbers(call, function)
    call.state.documents.put("hog_function", call.project_id, function)
    return JSONResponse(full_record(function, observed=call.observed))


@operation("PUT", FUNCTION, WRITE, observed=True, **_RECORD)
def hog_functions_replace(call: OperationCall) -> Response:
    """The same as PATCH.

    What its body leaves out, the source takes from the function (`to_internal_value`).
    """
    return hog_functions_update(call)


@operation("DELETE", FUNCTION, WRITE, status=405)
def hog_functions_delete(call: OperationCall) -> Response:
    """Refused: delete by PATCH with deleted true.

    405 with an empty body, whatever the id.
    """
    allowed = "GET, HEAD, OPTIONS, PATCH" + (", PUT" if call.observed else "")
    return Response(status_code=405, headers={"Allow": allowed})


@operation("PATCH", FUNCTIONS + "/rearrange", WRITE, body="HogFunctionOrders")
def hog_functions_rearrange(call: OperationCall) -> Response:
    """Set execution orders.

    `orders` maps ids to them. The contract lists the writable fields as the body and states no answer: there they are
    checked, change nothing, and the answer is empty. `observed` answers with the functions of the type, and takes
    transformations alone.
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
    """The function of the path. Raises ApiError (404), for a deleted one too unless it is being restored."""
    function = call.state.documents.get("hog_function", call.project_id, uuid_of(call.ids["id"]) or "")
    if function is None or (function.get("deleted") and not restoring):
        raise not_found()
    return function


def _fields(call: OperationCall, before: Json) -> Json:
    fields = read_fields(call.body, observed=call.observed)
    return without_code(fields, before) if call.observed else fields


def _all(call: OperationCall) -> list[Json]:
    functions = call.state.documents.all("hog_function", call.project_id)
    return [function for function in functions if not function.get("deleted")]


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
