"""How a hog function is shown, in full and as a list item, with the code that the real service would compile.

Under `contract` an empty field is the empty value of its type, since the contract allows null only for `bytecode` and
for the `filters` of a list item; only `masking` is null anyway, as clients expect. Under `observed` it is null, the
fields are those of the source (docs/know/service.md#hog-functions), and code is included.

The local service compiles and runs nothing, so its code is a stand-in: an array that starts like Hog bytecode and whose
program is one string, the digest of what would have been compiled. Equal sources have equal code on any machine, and
different sources different code. As in the service's source (`posthog/cdp/validation.py`), types written in TypeScript
have `transpiled` and all others `bytecode`; a Liquid template and a value that is not a template have neither. Code in
a request is ignored, since the service creates it; code in a seed stays until its source is written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import Any

from pipeline.local_service.management.function_fields import field_names
from pipeline.local_service.management.requests import Json
from pipeline.local_service.management.templates import TEMPLATES, template_of

TYPESCRIPT = frozenset({"site_destination", "site_app"})
"""Types whose code is transpiled."""
_BYTECODE_VERSION, _TEXT = 1, 32
"""The version of Hog bytecode, and its operation that yields the string after it."""
_OF_INPUT = frozenset({"bytecode", "transpiled", "order"})
_OF_FILTERS = frozenset({"bytecode", "transpiled", "bytecode_error"})


def with_code(function: Json) -> Json:
    """The fields of a stored function that contain code, to be merged into the function."""
    script = function.get("type") in TYPESCRIPT
    shown = _parts(function, script)
    mappings = function.get("mappings")
    if mappings:
        shown["mappings"] = [mapping | _parts(mapping, script) for mapping in mappings]
    if function.get("masking"):
        masking = function["masking"]
        shown["masking"] = _with(masking, {"bytecode": _bytecode(masking.get("hash"))})
    if function.get("hog"):
        added = {"transpiled": _script(function["hog"])} if script else {"bytecode": _bytecode(function["hog"])}
        shown |= {name: value for name, value in added.items() if function.get(name) is None}
    return shown


def without_code(fields: Json) -> Json:
    """Written fields without their code, which the service makes; so a record that was read can be sent."""
    bare = {name: value for name, value in fields.items() if name not in ("bytecode", "transpiled", "bytecode_error")}
    if isinstance(bare.get("inputs"), dict):
        bare["inputs"] = {key: _without(entry, _OF_INPUT) for key, entry in bare["inputs"].items()}
    for name in ("filters", "masking"):
        if name in bare:
            bare[name] = _without(bare[name], _OF_FILTERS)
    if bare.get("mappings"):
        bare["mappings"] = [without_code(mapping) for mapping in bare["mappings"]]
    return bare


def _parts(holder: Json, script: bool) -> Json:
    """The inputs and filters of a function or a mapping, with their code."""
    shown: Json = {}
    if "inputs" in holder:
        shown["inputs"] = _inputs(holder["inputs"] or {}, holder.get("inputs_schema") or [], script)
    if isinstance(holder.get("filters"), dict):
        shown["filters"] = _coded(holder["filters"], holder["filters"], script)
    return shown


def _inputs(inputs: Json, schema: list[Json], script: bool) -> Json:
    templating = {item.get("key"): item["templating"] for item in schema if "templating" in item}
    shown: Json = {}
    for index, (key, entry) in enumerate(inputs.items()):
        shown[key] = entry
        if isinstance(entry, dict) and "value" in entry:
            language = entry.get("templating", templating.get(key, True))
            coded = entry if language in (False, "liquid") else _coded(entry["value"], entry, script)
            shown[key] = _with(coded, {"order": index, "transpiled": None})
    return shown


def _coded(source: object, entry: Json, script: bool) -> Json:
    if script:
        return _with(entry, {"transpiled": {"lang": "ts", "code": _script(source), "stl": []}})
    return _with(entry, {"bytecode": _bytecode(source), "transpiled": None})


def _with(entry: Json, added: Json) -> Json:
    """`entry`, completed from `added` if it lacks a field or has null."""
    return entry | {name: value for name, value in added.items() if entry.get(name) is None}


def _bytecode(source: object) -> list[Any]:
    return ["_H", _BYTECODE_VERSION, _TEXT, _digest(source)]


def _script(source: object) -> str:
    return json.dumps(_digest(source))


def _digest(source: object) -> str:
    return hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()


def _without(entry: Any, names: Collection[str]) -> Any:
    return {name: value for name, value in entry.items() if name not in names} if isinstance(entry, dict) else entry


LAST = 32767
"""The execution order of a function without one (docs/know/service.md#hog-functions shows the value)."""

_EMPTY: Json = {
    "type": "destination", "kind": "", "name": "", "description": "", "enabled": False, "deleted": False, "hog": "",
    "bytecode": None, "transpiled": "", "inputs_schema": [], "inputs": {}, "filters": {}, "masking": None,
    "mappings": [], "icon_url": "", "template_id": "", "execution_order": LAST, "_create_in_folder": "",
}  # fmt: skip

_OBSERVED_ITEM = (
    "id", "type", "name", "description", "created_at", "created_by", "updated_at", "enabled", "hog", "filters",
    "icon_url", "template", "status", "execution_order", "search_match_type", "draft_updated_at",
)  # fmt: skip
_OBSERVED_MORE = (
    "bytecode", "transpiled", "inputs_schema", "inputs", "masking", "mappings", "batch_export_id", "version", "draft",
)  # fmt: skip
_OBSERVED_EMPTY: Json = dict.fromkeys((*_OBSERVED_ITEM, *_OBSERVED_MORE)) | {
    "type": "destination", "description": "", "enabled": False, "hog": "", "filters": {}, "inputs": {}, "version": 1,
}  # fmt: skip


def order_of(function: Json) -> int:
    """The execution order; a function without one comes last."""
    order = function.get("execution_order")
    return LAST if order is None else int(order)


def full_record(function: Json, *, observed: bool) -> Json:
    if observed:
        shown = _observed(function)
        return {name: shown[name] for name in (*_OBSERVED_ITEM, *_OBSERVED_MORE) if name != "search_match_type"}
    shown = _EMPTY | {"status": {"state": 0, "rating": 0, "tokens": 0}}
    shown |= {name: value for name, value in function.items() if value is not None}
    shown["template"] = function.get("template") or template_of(function.get("template_id") or "")
    return {name: shown[name] for name in field_names("HogFunction")}


def list_item(function: Json, *, observed: bool) -> Json:
    if observed:
        shown = _observed(function)
        return {name: shown[name] for name in _OBSERVED_ITEM}
    shown = full_record(function, observed=False)
    shown["filters"] = function.get("filters") or None
    shown["template"] = function.get("template_id") or ""
    return {name: shown[name] for name in field_names("HogFunctionListItem")}


def _observed(function: Json) -> Json:
    template = TEMPLATES.get(function.get("template_id") or "")
    status = function.get("status") or {"state": 0, "tokens": 0}
    return _OBSERVED_EMPTY | function | with_code(function) | {"template": template, "status": status}
