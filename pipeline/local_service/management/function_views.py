"""How a hog function is shown: whole, and as an item of a list (service-api 2.1, service-behaviour 5.2).

Under `contract` a field that holds nothing is the empty value of its type, since the contract allows null only for
`bytecode` and for the `filters` of a list item; `masking` alone is null all the same, as clients know it. Under
`observed` it is null, the fields are those of the source, and what the source compiles is there.
"""

from __future__ import annotations

from .call import Json
from .compiled import compiled
from .templates import TEMPLATES

LAST = 32767
"""The execution order of a function without one (service-api 2.1 shows the value)."""

_WHOLE = (
    "id", "type", "kind", "name", "description", "created_at", "created_by", "updated_at", "enabled", "deleted", "hog",
    "bytecode", "transpiled", "inputs_schema", "inputs", "filters", "masking", "mappings", "icon_url", "template",
    "template_id", "status", "execution_order", "_create_in_folder",
)  # fmt: skip
_OMITTED = (
    "deleted", "bytecode", "transpiled", "inputs_schema", "inputs", "mappings", "template_id", "_create_in_folder",
)  # fmt: skip
"""What a list item leaves out (service-api 2.1)."""
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
    """The execution order; one that is not set comes last."""
    order = function.get("execution_order")
    return LAST if order is None else int(order)


def whole(function: Json, *, observed: bool) -> Json:
    """The full record."""
    if observed:
        shown = _observed(function)
        return {name: shown[name] for name in (*_OBSERVED_ITEM, *_OBSERVED_MORE) if name != "search_match_type"}
    shown = _EMPTY | {"status": {"state": 0, "rating": 0, "tokens": 0}}
    shown |= {name: value for name, value in function.items() if value is not None}
    shown["template"] = TEMPLATES.get(function.get("template_id") or "", {})
    return {name: shown[name] for name in _WHOLE}


def item(function: Json, *, observed: bool) -> Json:
    """An item of a list."""
    if observed:
        shown = _observed(function)
        return {name: shown[name] for name in _OBSERVED_ITEM}
    shown = whole(function, observed=False)
    shown["filters"] = function.get("filters") or None
    shown["template"] = function.get("template_id") or ""
    return {name: value for name, value in shown.items() if name not in _OMITTED}


def _observed(function: Json) -> Json:
    template = TEMPLATES.get(function.get("template_id") or "")
    status = function.get("status") or {"state": 0, "tokens": 0}
    return _OBSERVED_EMPTY | function | compiled(function) | {"template": template, "status": status}
