"""The fields of a hog function that a request may write, and the inputs that are stored of it.

Under `contract` a field has the contract's type; `observed` adds what the real service refuses,
and accepts null where it does. The value of an input is any JSON in both (docs/know/service.md#hog-functions). Unknown
and read-only fields are ignored.

Secret inputs are never stored. The local service runs no function, so it has no use for a secret: it stores only that
there was a value, and that is all anybody can read back (`{"secret": true}`).

Under `observed` inputs are those of the schema, in its order: others are removed, and of those that a request writes
each that is required must have a value (not null), and a secret that is not written stays (the service's source,
`posthog/cdp/validation.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pipeline.local_service.management.requests import ApiError, Json, invalid
from pipeline.local_service.management.templates import TEMPLATES

TYPES = (
    "destination",
    "site_destination",
    "internal_destination",
    "source_webhook",
    "warehouse_source_webhook",
    "site_app",
    "transformation",
    "transformation_log",
)
"""Values of `type` (docs/know/service.md#hog-functions; the contract shows only `destination`)."""
LONGEST_HOG = 100 * 1024
LONGEST_NAME = 400
TEMPLATING = ("hog", "liquid")
"""Values of `templating` beside true and false, of an input and of its schema (docs/know/service.md#hog-functions)."""
SHORTEST_MASK, LONGEST_MASK = 60, 86400
"""Seconds of `masking.ttl`."""
NULLABLE = frozenset({"name", "icon_url", "inputs_schema", "masking", "mappings", "template_id", "execution_order"})
"""Fields that the real service takes null for; `filters` null is no filters in either behaviour."""
_TEXTS = {
    "missing": ("required", "This field is required."),
    "string_type": ("invalid_input", "Not a valid string."),
    "bool_type": ("invalid_input", "Must be a valid boolean."),
    "int_type": ("invalid_input", "A valid integer is required."),
    "list_type": ("not_a_list", "Expected a list of items."),
    "dict_type": ("not_a_dict", "Expected a dictionary of items."),
    "model_type": ("invalid_input", "Invalid data. Expected a dictionary."),
}


def read_fields(body: Json, *, observed: bool) -> Json:
    """The writable fields of a body, each of the type it must have. Raises ApiError (400)."""
    from pipeline.management.models import HogFunctionWrite  # with pydantic, which only changes of functions need

    writable = [field.alias or name for name, field in HogFunctionWrite.model_fields.items()]
    entry = _as_integers({name: body[name] for name in writable if name in body}, ("execution_order",))
    if isinstance(entry.get("masking"), dict):
        entry["masking"] = _as_integers(entry["masking"], ("ttl", "threshold"))
    check_shape("HogFunctionWrite", entry, accepts=_is_also_accepted if observed else None)
    if "filters" in entry and entry["filters"] is None:
        entry["filters"] = {}
    if observed and entry.get("template_id") and entry["template_id"] not in TEMPLATES:
        raise invalid("template_id", "No template found for this id.")
    if "type" in entry and entry["type"] is None:
        del entry["type"]
    if observed:
        _check_observed(entry)
    return entry


def _as_integers(entry: Json, names: Iterable[str]) -> Json:
    """The same with `1218.0` read as the whole number that it is in JSON."""
    whole = {n: int(v) for n in names if isinstance(v := entry.get(n), float) and v.is_integer()}
    return entry | whole


def check_shape(model: str, value: object, *, accepts: Any = None, attr: str | None = None) -> None:
    """Raise ApiError (400) for the first field that is not of the model's type and that `accepts` does not accept.

    `model` is its name in `pipeline.management.models`.
    """
    from pydantic import ValidationError

    import pipeline.management.models as models

    try:
        getattr(models, model).model_validate(value)
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False, include_context=False):
            path = [str(part) for part in problem["loc"]]
            inner = _at(value, problem["loc"])
            if accepts is not None and accepts(path, inner):
                continue
            raise _problem(problem["type"], inner, "__".join([attr, *path] if attr else path)) from None


def _problem(kind: str, value: object, attr: str) -> ApiError:
    if value is None and kind != "missing":
        return invalid(attr or None, "This field may not be null.", "null")
    code, text = _TEXTS.get(kind, ("invalid_input", "Invalid value."))
    return invalid(attr or None, text, code)


def _at(value: Any, path: Iterable[int | str]) -> Any:
    for part in path:
        try:
            value = value[part]
        except (LookupError, TypeError):
            return ...
    return value


def _is_also_accepted(path: list[str], value: object) -> bool:
    """What the real service takes beyond the contract's types: null, where a field or an input need not be there, and
    another `templating` than true and false, which `_check_inputs` checks."""
    if len(path) == 1:
        return value is None and path[0] in NULLABLE
    inner = path[2:] if path[0] == "mappings" else path
    if inner[:1] == ["inputs_schema"] and inner[2:] == ["templating"]:
        return True
    return value is None and (path == ["masking", "threshold"] or inner[:-1] == ["inputs"])


def _check_observed(entry: Json) -> None:
    kind = entry.get("type", "destination")
    if kind not in TYPES:
        raise invalid("type", "Not a valid choice.", "invalid_choice")
    if len(entry.get("hog") or "") > LONGEST_HOG:
        raise invalid("hog", f"HogQL code exceeds maximum size of {LONGEST_HOG // 1024}KB")
    if len(entry.get("name") or "") > LONGEST_NAME:
        raise invalid("name", f"Ensure this field has no more than {LONGEST_NAME} characters.", "max_length")
    order = entry.get("execution_order")
    if order is not None and not 0 <= order <= 32767:
        raise invalid("execution_order", "Ensure this value is between 0 and 32767.", "out_of_range")
    masking = entry.get("masking")
    if masking is not None:
        entry["masking"] = _masking(masking)
    _check_inputs(entry, "")
    if entry.get("filters") is not None:
        entry["filters"] = _filters(entry["filters"], "filters", mapped=bool(entry.get("mappings")))
    if entry.get("mappings"):
        entry["mappings"] = [
            _mapping(mapping, f"mappings__{index}__") for index, mapping in enumerate(entry["mappings"])
        ]


_SOURCES = ("events", "person-updates", "data-warehouse-table", "data-warehouse-view")


def _masking(entry: Json) -> Json:
    for name in ("ttl", "hash"):
        if entry.get(name) is None:
            raise invalid(f"masking__{name}", "This field is required.", "required")
    if not SHORTEST_MASK <= entry["ttl"] <= LONGEST_MASK:
        raise invalid("masking__ttl", f"Ensure this value is between {SHORTEST_MASK} and {LONGEST_MASK}.")
    return {name: entry.get(name) for name in ("ttl", "threshold", "hash", "bytecode")}


def _mapping(entry: Json, attr: str) -> Json:
    _check_inputs(entry, attr)
    if "filters" not in entry:
        return entry
    return entry | {"filters": _filters(entry["filters"], f"{attr}filters", mapped=False)}


def _check_inputs(holder: Json, attr: str) -> None:
    entries = {f"inputs_schema__{index}": item for index, item in enumerate(holder.get("inputs_schema") or [])}
    entries |= {f"inputs__{key}": entry for key, entry in (holder.get("inputs") or {}).items() if entry is not None}
    for name, entry in entries.items():
        chosen = entry.get("templating", True)
        if not isinstance(chosen, bool) and chosen not in TEMPLATING:
            raise invalid(f"{attr}{name}__templating", "Not a valid choice.", "invalid_choice")


def _filters(entry: Json, attr: str, *, mapped: bool) -> Json:
    """Filters as they are read back: their source is named, and what mappings or the source overrule is omitted."""
    if entry.get("source", "events") not in _SOURCES:
        raise invalid(f"{attr}__source", "Not a valid choice.", "invalid_choice")
    result = {"source": "events"} | entry
    if mapped or result["source"] != "events":
        result = {name: value for name, value in result.items() if name not in ("events", "actions")}
    return result


SECRET = {"secret": True}
"""What is stored and shown of a secret input."""


def store_inputs(
    function: Json, before: Json | None, *, observed: bool, written: Collection[str] = frozenset()
) -> None:
    """Replace the inputs of a record and of its mappings by what is stored of them. Raises ApiError (400).

    `written` names the fields that a request set: only those are checked against the schema.
    """
    earlier = before or {}
    schema = function.get("inputs_schema") or []
    entry, stored = function.get("inputs") or {}, earlier.get("inputs") or {}
    if observed and "inputs" in written:
        entry = _required_inputs(schema, entry, stored, "inputs")
    function["inputs"] = _stored_inputs(schema, entry, stored, "inputs", observed=observed)
    mappings, old = function.get("mappings") or [], earlier.get("mappings") or []
    if mappings:
        function["mappings"] = [
            _mapping_inputs(
                mapping, old[index] if index < len(old) else {}, index, observed=observed, written="mappings" in written
            )
            for index, mapping in enumerate(mappings)
        ]


def _mapping_inputs(mapping: Json, before: Json, index: int, *, observed: bool, written: bool) -> Json:
    if "inputs" not in mapping:
        return mapping
    attr = f"mappings__{index}__inputs"
    schema, stored = mapping.get("inputs_schema") or [], before.get("inputs") or {}
    entry = _required_inputs(schema, mapping["inputs"], stored, attr) if observed and written else mapping["inputs"]
    return mapping | {"inputs": _stored_inputs(schema, entry, stored, attr, observed=observed)}


def _required_inputs(schema: list[Json], inputs: Json, before: Json, attr: str) -> Json:
    """The inputs that a schema asks for. Raises ApiError (400) for a required one that is not there."""
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
                raise invalid(f"{attr}__{key}", "No value is saved for this secret input. Enter the value again.")
        if item.get("required") and entry.get("value") in (None, ""):
            raise invalid(f"{attr}__{key}", "This field is required.")
        if "value" in entry:
            required[key] = entry
    return required


def _stored_inputs(schema: list[Json], inputs: Json, before: Json, attr: str, *, observed: bool) -> Json:
    items = {item["key"]: item for item in schema if isinstance(item.get("key"), str)}
    result: Json = {}
    for key in items if observed else inputs:
        entry = inputs.get(key)
        if entry is None:
            continue
        if items.get(key, {}).get("secret"):
            if _is_marked(entry) and not _is_marked(before.get(key)):
                raise invalid(f"{attr}__{key}", "No value is saved for this secret input. Enter the value again.")
            result[key] = dict(SECRET)
        else:
            result[key] = entry
    return result


def _is_marked(entry: Any) -> bool:
    """Whether this is the mark of a secret that is stored, and not a value."""
    return isinstance(entry, dict) and entry.get("secret") is True and "value" not in entry
