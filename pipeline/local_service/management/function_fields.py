"""The fields of a hog function that a request may write, and how its inputs are stored.

Under `contract` a field has the contract's type; `observed` also refuses what the real service refuses, and accepts
null where it does. The value of an input is any JSON in both (docs/know/service.md#hog-functions). Unknown and
read-only fields are ignored.

Secret inputs are never stored. The local service runs no function, so it has no use for a secret: it only stores that
there was a value, and that is all that can be read back (`{"secret": true}`).

Under `observed`, inputs are those of the schema, in its order. Others are removed. Each required input that a request
writes must have a value (not null), and a secret that is not written stays (the service's source,
`posthog/cdp/validation.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from pipeline.local_service.management.requests import Json, invalid
from pipeline.local_service.management.templates import TEMPLATES

_TEXTS = {
    "missing": ("required", "This field is required."),
    "string_type": ("invalid_input", "Not a valid string."),
    "bool_type": ("invalid_input", "Must be a valid boolean."),
    "int_type": ("invalid_input", "A valid integer is required."),
    "list_type": ("not_a_list", "Expected a list of items."),
    "dict_type": ("not_a_dict", "Expected a dictionary of items."),
    "model_type": ("invalid_input", "Invalid data. Expected a dictionary."),
    "literal_error": ("invalid_choice", "Not a valid choice."),
}
"""The code and text of each kind of error; others have the model's text."""


def read_fields(body: Json, *, observed: bool) -> Json:
    """The writable fields of a body, each with the type it must have. Raises ApiError (400)."""
    entry = _as_integers({name: body[name] for name in field_names("HogFunctionWrite") if name in body})
    if isinstance(entry.get("masking"), dict):
        entry["masking"] = _as_integers(entry["masking"])
    check_shape("HogFunctionWrite", entry, observed=observed)
    if "filters" in entry and entry["filters"] is None:
        entry["filters"] = {}
    if observed and entry.get("template_id") and entry["template_id"] not in TEMPLATES:
        raise invalid("template_id", "No template found for this id.")
    if "type" in entry and entry["type"] is None:
        del entry["type"]
    if observed:
        if entry.get("masking"):
            entry["masking"] = {name: entry["masking"].get(name) for name in ("ttl", "threshold", "hash", "bytecode")}
        if entry.get("filters") is not None:
            entry["filters"] = _filters(entry["filters"], mapped=bool(entry.get("mappings")))
        if entry.get("mappings"):
            entry["mappings"] = [
                mapping | ({"filters": _filters(mapping["filters"])} if "filters" in mapping else {})
                for mapping in entry["mappings"]
            ]
    return entry


def _as_integers(entry: Json) -> Json:
    """The same, with `1218.0` read as the whole number that it is in JSON."""
    names = ("execution_order", "ttl", "threshold")
    return entry | {n: int(v) for n in names if isinstance(v := entry.get(n), float) and v.is_integer()}


def _filters(entry: Json, *, mapped: bool = False) -> Json:
    """Filters as they are read back: with their source named, and without what mappings or the source override."""
    result = {"source": "events"} | entry
    if mapped or result["source"] != "events":
        result = {name: value for name, value in result.items() if name not in ("events", "actions")}
    return result


@cache
def field_names(model: str) -> tuple[str, ...]:
    """The fields of a model of the contract, in its order."""
    return tuple(field.alias or name for name, field in _model(model, False).model_fields.items())


def _model(name: str, observed: bool) -> Any:
    """A model by its name; pydantic is loaded for the first one, which a service without functions never needs."""
    from pipeline.management import models

    if not observed:
        return getattr(models, name)
    from pipeline.local_service.management import observed_models

    return getattr(observed_models, name)


def check_shape(model: str, value: object, *, observed: bool = False, attr: str | None = None) -> None:
    """Raise ApiError (400) for the first field that does not fit a model.

    `model` is its name in `pipeline.management.models`, or with `observed` in those of the service's source.
    """
    from pydantic import ValidationError

    try:
        _model(model, observed).model_validate(value)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
        path = "__".join([*([attr] if attr else []), *map(str, problem["loc"])]) or None
        if problem["input"] is None:
            raise invalid(path, "This field may not be null.", "null") from None
        code, text = _TEXTS.get(problem["type"], ("invalid_input", problem["msg"]))
        raise invalid(path, text, code) from None


SECRET = {"secret": True}
"""What is stored and shown instead of a secret input."""


_NO_SECRET = "No value is saved for this secret input. Enter the value again."


def store_inputs(
    function: Json, before: Json | None, *, observed: bool, written: Collection[str] = frozenset()
) -> None:
    """Replace the inputs of a record and its mappings with what is stored of them. Raises ApiError (400).

    `written` names the fields that a request set: only those are checked against the schema.
    """
    earlier = before or {}
    function["inputs"] = _stored_inputs(function, earlier, "inputs", observed, "inputs" in written)
    old = earlier.get("mappings") or []
    for index, mapping in enumerate(function.get("mappings") or []):
        if "inputs" in mapping:
            attr, was = f"mappings__{index}__inputs", old[index] if index < len(old) else {}
            inputs = _stored_inputs(mapping, was, attr, observed, "mappings" in written)
            function["mappings"] = [*function["mappings"]]  # the request's own list is left unchanged
            function["mappings"][index] = mapping | {"inputs": inputs}


def _stored_inputs(holder: Json, before: Json, attr: str, observed: bool, checked: bool) -> Json:
    """What is stored of a function's or mapping's inputs; if `checked`, they must fit its schema."""
    schema, inputs, stored = holder.get("inputs_schema") or [], holder.get("inputs") or {}, before.get("inputs") or {}
    if observed and checked:
        inputs = _required_inputs(schema, inputs, stored, attr)
    items = {item["key"]: item for item in schema if isinstance(item.get("key"), str)}
    result: Json = {}
    for key in items if observed else inputs:
        entry = inputs.get(key)
        if entry is None:
            continue
        if items.get(key, {}).get("secret"):
            if _is_marked(entry) and not _is_marked(stored.get(key)):
                raise invalid(f"{attr}__{key}", _NO_SECRET)
            entry = dict(SECRET)
        result[key] = entry
    return result


def _required_inputs(schema: list[Json], inputs: Json, before: Json, attr: str) -> Json:
    """The inputs that a schema asks for. Raises ApiError (400) if a required one is missing."""
    required: Json = {}
    for item in schema:
        key = item.get("key")
        if not isinstance(key, str):
            continue
        entry = inputs.get(key) or {}
        if item.get("secret") and (_is_marked(entry) or not entry):
            if _is_marked(before.get(key)):
                required[key] = dict(SECRET)
                continue
            if entry:
                raise invalid(f"{attr}__{key}", _NO_SECRET)
        if item.get("required") and entry.get("value") in (None, ""):
            raise invalid(f"{attr}__{key}", "This field is required.")
        if "value" in entry:
            required[key] = entry
    return required


def _is_marked(entry: Any) -> bool:
    """Whether this is the mark of a stored secret rather than a value."""
    return isinstance(entry, dict) and entry.get("secret") is True and "value" not in entry
