"""References: the names by which a mapping looks values up, and their values in a row outside of any mapper.

A reference is a property's name, or the path `/column` or `/column/member/…` of the row, or `@name` or `@name/member/…`
of a definition, with `~1` for a slash and `~0` for a tilde inside a name. A decimal step is also an index of a list.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from typing import Any

from pipeline.mapper.codegen.runtime import member_at, members_of
from pipeline.mapper.language.sections import Call, Mapping
from pipeline.values import Record, Value


def path_steps(reference: str) -> tuple[str, ...]:
    """The names in a path, the column first."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in reference.removeprefix("/").split("/"))


def path_of(column: str) -> str:
    """The reference to a column."""
    return "/" + column.replace("~", "~0").replace("/", "~1")


def definition_of(reference: str, mapping: Mapping) -> str | None:
    """The definition that a reference names; None for any other reference, also for a property such as `@timestamp`."""
    if not mapping.define or not reference.startswith("@"):
        return None
    name = path_steps(reference)[0][1:]
    return name if name in mapping.define else None


def find(call: Call, record: Record, properties: Record | None = None) -> Value:
    """The value of a reference, or of the first of several that has one; without `properties`, the row itself is the
    properties."""
    if call.verb == "first":
        values = (find(candidate, record, properties) for candidate in call.arguments["first"])
        return next((value for value in values if value is not None), None)
    reference = str(call.arguments.get("ref", ""))
    if not reference.startswith("/"):
        return (record if properties is None else properties).get(reference)
    column, *steps = path_steps(reference)
    value = record.get(column)
    for step in steps:
        value = member_at(value, step)
    return value


def properties_of(mapping: Mapping, record: Record) -> Record:
    """The properties of a row: the opened object, or the row itself."""
    opened = mapping.properties.open
    return record if opened is None else members_of(find(opened, record))


def references_in(given: Any) -> set[str]:
    """The references anywhere in a value of the mapping file."""
    if isinstance(given, Call):
        if given.verb == "ref":
            return {given.arguments["ref"]}
        return references_in(given.arguments)
    inner = given.values() if isinstance(given, Map) else given if isinstance(given, tuple) else ()
    return set().union(*map(references_in, inner))
