"""Inputs of a hog function, of which the secret ones are never kept.

The local service runs no function, so it has no use for a secret: of a secret input it keeps only that there was a
value, and that is all anybody can read back (`{"secret": true}`, service-behaviour 5.2).
"""

from __future__ import annotations

from typing import Any

from .call import Json
from .errors import invalid

SECRET = {"secret": True}
"""What is kept and shown of a secret input."""


def settle_inputs(function: Json, before: Json | None, *, observed: bool) -> None:
    """Put the inputs of a record and of its mappings into the shape that is kept. Raises ApiError (400)."""
    earlier = before or {}
    schema = function.get("inputs_schema") or []
    function["inputs"] = _settled(
        schema, function.get("inputs") or {}, earlier.get("inputs") or {}, "inputs", observed=observed
    )
    mappings, old = function.get("mappings") or [], earlier.get("mappings") or []
    if mappings:
        function["mappings"] = [
            _mapping(one, old[place] if place < len(old) else {}, place, observed=observed)
            for place, one in enumerate(mappings)
        ]


def _mapping(mapping: Json, before: Json, place: int, *, observed: bool) -> Json:
    if not mapping.get("inputs"):
        return mapping
    attr = f"mappings__{place}__inputs"
    schema, held = mapping.get("inputs_schema") or [], before.get("inputs") or {}
    return mapping | {"inputs": _settled(schema, mapping["inputs"], held, attr, observed=observed)}


def _settled(schema: list[Json], inputs: Json, before: Json, attr: str, *, observed: bool) -> Json:
    items = {item["key"]: item for item in schema if isinstance(item.get("key"), str)}
    order = {key: place for place, key in enumerate(items)}
    kept: Json = {}
    for key, given in inputs.items():
        if observed and key not in items:
            continue
        if items.get(key, {}).get("secret"):
            if _without_value(given) and not _is_kept(before.get(key)):
                raise invalid(f"{attr}__{key}", "No value is saved for this secret input. Enter the value again.")
            kept[key] = dict(SECRET)
        else:
            kept[key] = given
        if observed and isinstance(kept[key], dict):
            kept[key] = {"order": order[key], **kept[key]}
    return kept


def _without_value(given: Any) -> bool:
    return isinstance(given, dict) and given.get("secret") is True and "value" not in given


def _is_kept(given: Any) -> bool:
    return isinstance(given, dict) and given.get("secret") is True
