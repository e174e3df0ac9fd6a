"""The JSON Schema of mapping files, for editors, derived from the declarations that the loader reads.

The schema is looser than the loader: it does not know which settings, tables and columns exist.
"""

from __future__ import annotations

from typing import Any

from pipeline.mapper import verbs  # noqa: F401  (declares the verbs)
from pipeline.mapper.language import kinds
from pipeline.mapper.language.sections import FORMAT, MAPPING

Schema = dict[str, Any]

_PLAIN = {"yes": True, "no": False, "null": None}
"""Some editors read a plain yes or no as a boolean, and null as no value."""
_CHARACTER: list[Schema] = [
    {"type": "string", "minLength": 1, "maxLength": 1, "pattern": r"^[\u0001-\u0009\u000b\u000c\u000e-\u007f]$"},
    {"type": "integer", "minimum": 0, "maximum": 9},
    {"type": "null"},
]
"""A bare digit is a number to an editor, and a bare ~ is null."""
_SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}


def editor_schema() -> Schema:
    """The schema of a whole mapping file, as plain objects ready for JSON."""
    definitions: dict[str, Schema] = {
        f"{family}-{name}": {
            **_table(verb.arguments, required=(name,)),
            "description": verb.help,
        }
        for family, verbs_ in kinds.FAMILIES.items()
        for name, verb in verbs_.items()
    }
    for family, verbs_ in kinds.FAMILIES.items():
        choices = [{"$ref": f"#/$defs/{family}-{name}"} for name in verbs_ if name != "ref"]
        definitions[family] = {"anyOf": [_SCALAR, *choices] if family == "value" else choices}
    root = _table({"format": kinds.Field(kinds.Choice((FORMAT,)), "the language of this file", True), **MAPPING.fields})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "backcast mapping",
        **root,
        "$defs": definitions,
    }


def _table(fields: Any, required: tuple[str, ...] = ()) -> Schema:
    needed = [name for name, field in fields.items() if field.required or name in required]
    table: Schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {**_kind(field.kind), "description": field.help} for name, field in fields.items()},
    }
    return {**table, "required": needed} if needed else table


def _kind(kind: kinds.Kind) -> Schema:
    match kind:
        case kinds.Choice(words):
            return {"enum": [*words, *(_PLAIN[word] for word in words if word in _PLAIN)]}
        case kinds.Character(none):
            return {"anyOf": [*([{"enum": [none]}] if none else []), *_CHARACTER]}
        case kinds.Json():
            return {"type": "string", "contentMediaType": "application/json"}
        case kinds.ListOf(item, most, least):
            one = _kind(item)
            limits = {name: number for name, number in (("minItems", least), ("maxItems", most)) if number}
            return {"anyOf": [one, {"type": "array", "items": one, **limits}]}
        case kinds.TableOf(item):
            return {"type": "object", "additionalProperties": _kind(item)}
        case kinds.Verbs(family):
            return {"$ref": f"#/$defs/{family}"}
        case kinds.Either(words, family):
            return {"anyOf": [{"enum": list(words)}, {"$ref": f"#/$defs/{family}"}]}
        case kinds.Section():
            whole = _table(kind.fields)
            if not kind.short:
                return whole
            return {"anyOf": [_kind(kind.fields[kind.short].kind), whole]}
        case kinds.Text():
            return dict(_SCALAR)
