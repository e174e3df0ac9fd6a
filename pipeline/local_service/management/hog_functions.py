"""Hog functions: list, create, retrieve, update, softly delete, rearrange (service-api 4.1)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from .call import EMPTY, Call, Json, Reply, State
from .compiled import uncompiled
from .errors import ApiError, BareError, invalid, not_found
from .fields import written
from .function_filters import chosen, uuid_of
from .function_views import item, order_of, whole
from .inputs import settle_inputs
from .instants import instant
from .pagination import page
from .templates import TEMPLATES

MOST_ENABLED = {"transformation": 20, "transformation_log": 5}
"""Enabled functions of a type that a project may have (service-behaviour 5.2)."""


def list_functions(state: State, call: Call) -> Reply:
    """One page of those that the filters choose."""
    found = chosen(call, state.documents.all("hog_function", call.project_id), observed=state.observed)
    envelope, shown = page(call, found, strict=not state.observed)
    full = state.observed and call.parameter("full") == "true"
    envelope["results"] = [(whole if full else item)(function, observed=state.observed) for function in shown]
    return Reply(body=envelope)


def create(state: State, call: Call) -> Reply:
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
    settle_inputs(function, None, observed=state.observed, written=("inputs", "mappings"))
    _check_numbers(state, call.project_id, function)
    state.documents.put("hog_function", call.project_id, function)
    return Reply(201, whole(function, observed=state.observed))


def retrieve(state: State, call: Call) -> Reply:
    """The full record."""
    return Reply(body=whole(find(state, call), observed=state.observed))


def update(state: State, call: Call) -> Reply:
    """Set the fields that the body has. `deleted` true deletes softly; only `deleted` false reaches it again.

    PUT does the same: what its body leaves out, the source takes from the function (`to_internal_value`).
    """
    before = find(state, call, restoring=call.body.get("deleted") is False)
    fields = _fields(state, call, before)
    if state.observed:
        _check_change(call.body, fields, before)
    function = before | fields | {"updated_at": call.now, "version": before.get("version", 1) + 1}
    if function.get("hog") != before.get("hog"):
        function |= {"bytecode": None, "transpiled": None}  # those of a seed were those of other code
    settle_inputs(function, before, observed=state.observed, written=fields)
    if function.get("enabled") and not before.get("enabled"):
        _check_numbers(state, call.project_id, function)
    state.documents.put("hog_function", call.project_id, function)
    return Reply(body=whole(function, observed=state.observed))


def delete(state: State, call: Call) -> Reply:
    """405 with an empty body, whatever the id: a hog function is deleted by an update."""
    raise BareError(405, None, {"Allow": "GET, HEAD, OPTIONS, PATCH" + (", PUT" if state.observed else "")})


def rearrange(state: State, call: Call) -> Reply:
    """Set the execution orders that `orders` maps ids to.

    The contract lists the writable fields as the body and states no answer: there they are checked, change nothing,
    and the answer is empty. `observed` answers with the functions of the type, and takes transformations alone.
    """
    if "orders" not in call.body and not state.observed:
        written(call.body, observed=False)
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
    return Reply(body=[whole(one, observed=True) for one in sorted(found, key=order_of)])


def _reordered(state: State, call: Call, id: str, order: Any) -> Json:
    if type(order) is not int:
        raise invalid("orders", "A valid integer is required.")
    function = state.documents.get("hog_function", call.project_id, uuid_of(id) or "")
    if function is None or function.get("deleted"):
        named = f"id {id}" if uuid_of(id) else "the given id"
        raise invalid("orders", f"HogFunction with {named} does not exist")
    return function | {"execution_order": order, "updated_at": call.now}


def find(state: State, call: Call, *, restoring: bool = False) -> Json:
    """The function of the path. Raises ApiError (404), for a deleted one too unless it is being restored."""
    function = state.documents.get("hog_function", call.project_id, uuid_of(call.ids["id"]) or "")
    if function is None or (function.get("deleted") and not restoring):
        raise not_found()
    return function


def _fields(state: State, call: Call, before: Json) -> Json:
    fields = written(call.body, observed=state.observed)
    return uncompiled(fields, before) if state.observed else fields


def _all(state: State, call: Call) -> list[Json]:
    return [one for one in state.documents.all("hog_function", call.project_id) if not one.get("deleted")]


def _from_template(fields: Json) -> Json:
    """The fields, and from the template whatever is not among them."""
    template = TEMPLATES.get(fields.get("template_id") or "")
    if template is None:
        return {"type": "destination", **{name: value for name, value in fields.items() if value is not None}}
    taken = ("type", "kind", "name", "description", "hog", "inputs_schema", "filters", "masking", "icon_url")
    given = {name: value for name, value in fields.items() if value not in (None, "") or name not in taken}
    return {name: template[name] for name in taken if template[name]} | given


def _check_change(body: Json, fields: Json, before: Json) -> None:
    """What the real service refuses to change (service-behaviour 5.2)."""
    if "type" in fields and fields["type"] != before.get("type"):
        raise invalid("type", "Cannot change the type of an existing function")
    base = body.get("base_updated_at")
    if base is not None:
        seen = instant(base) if isinstance(base, str) else None
        if seen is None:
            raise invalid("base_updated_at", "Datetime has wrong format.")
        if seen < (instant(before["updated_at"]) or seen):
            detail = "This function was changed since you loaded it."
            raise ApiError(409, "invalid_request", "stale_update", detail, "base_updated_at")


def _check_numbers(state: State, project: int, function: Json) -> None:
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
