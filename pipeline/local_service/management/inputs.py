"""Inputs of a hog function, of which the secret ones are never kept.

The local service runs no function, so it has no use for a secret: of a secret input it keeps only that there was a
value, and that is all anybody can read back (`{"secret": true}`, service-behaviour 5.2).

Under `observed` inputs are what the schema asks for, in its order: one that is not in it vanishes, and of those that a
request writes each that is required must hold a value, null is none, and a secret that is not written stays (the
service's source, `posthog/cdp/validation.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .call import Json
from .errors import invalid

SECRET = {"secret": True}
"""What is kept and shown of a secret input."""


def settle_inputs(
    function: Json, before: Json | None, *, observed: bool, written: Collection[str] = frozenset()
) -> None:
    """Put the inputs of a record and of its mappings into the shape that is kept. Raises ApiError (400).

    `written` names the fields that a request set: only what it wrote is held to the schema.
    """
    earlier = before or {}
    schema = function.get("inputs_schema") or []
    given, held = function.get("inputs") or {}, earlier.get("inputs") or {}
    if observed and "inputs" in written:
        given = _asked_for(schema, given, held, "inputs")
    function["inputs"] = _settled(schema, given, held, "inputs", observed=observed)
    mappings, old = function.get("mappings") or [], earlier.get("mappings") or []
    if mappings:
        function["mappings"] = [
            _mapping(
                one, old[place] if place < len(old) else {}, place, observed=observed, written="mappings" in written
            )
            for place, one in enumerate(mappings)
        ]


def _mapping(mapping: Json, before: Json, place: int, *, observed: bool, written: bool) -> Json:
    if "inputs" not in mapping:
        return mapping
    attr = f"mappings__{place}__inputs"
    schema, held = mapping.get("inputs_schema") or [], before.get("inputs") or {}
    given = _asked_for(schema, mapping["inputs"], held, attr) if observed and written else mapping["inputs"]
    return mapping | {"inputs": _settled(schema, given, held, attr, observed=observed)}


def _asked_for(schema: list[Json], inputs: Json, before: Json, attr: str) -> Json:
    """The inputs that a schema asks for. Raises ApiError (400) for a required one that is not there."""
    found: Json = {}
    for item in schema:
        key = item.get("key")
        if not isinstance(key, str):
            continue
        given = inputs.get(key) or {}
        if item.get("secret") and (_is_marked(given) or not given):
            if _is_marked(before.get(key)):
                found[key] = dict(SECRET)
                continue
            if given:
                raise invalid(f"{attr}__{key}", "No value is saved for this secret input. Enter the value again.")
        if item.get("required") and given.get("value") in (None, ""):
            raise invalid(f"{attr}__{key}", "This field is required.")
        if "value" in given:
            found[key] = given
    return found


def _settled(schema: list[Json], inputs: Json, before: Json, attr: str, *, observed: bool) -> Json:
    items = {item["key"]: item for item in schema if isinstance(item.get("key"), str)}
    kept: Json = {}
    for key in items if observed else inputs:
        given = inputs.get(key)
        if given is None:
            continue
        if items.get(key, {}).get("secret"):
            if _is_marked(given) and not _is_marked(before.get(key)):
                raise invalid(f"{attr}__{key}", "No value is saved for this secret input. Enter the value again.")
            kept[key] = dict(SECRET)
        else:
            kept[key] = given
    return kept


def _is_marked(given: Any) -> bool:
    """Whether this is the mark of a secret that is there, and no value."""
    return isinstance(given, dict) and given.get("secret") is True and "value" not in given
