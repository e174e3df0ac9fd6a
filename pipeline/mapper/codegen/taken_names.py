"""Properties whose names change, and what becomes of a value whose new name is taken: none is lost.

The source of a mapper calls these functions, like those of `pipeline.mapper.codegen.runtime`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pipeline.mapper.codegen.runtime import Warnings, text_of
from pipeline.mapper.loader_columns import is_loader_column
from pipeline.values import NULL, Record, Value


def kept(tool: str, name: str, value: Value, properties: Record) -> str:
    """Add a value whose name is taken as TOOL_name, TOOL_name_2, …; returns the name."""
    new, number = f"{tool}_{name}", 2
    while new in properties:
        new, number = f"{tool}_{name}_{number}", number + 1
    properties[new] = value
    return new


def renamed(
    tool: str, reserved: frozenset[str], old: str, new: str, value: Value, properties: Record, warnings: Warnings
) -> Warnings:
    """The row has both names: the old one stays, with a warning, unless the service would read it."""
    if old not in reserved:
        properties[old] = value
        return (*warnings, ("name_collision", f"{old!r} was to become {new!r}, which the row has"))
    name = kept(tool, old, value, properties)
    return (*warnings, ("name_collision", f"{old!r} became {name!r}, because the row has {new!r}"))


def collided(tool: str, name: str, value: Value, properties: Record, warnings: Warnings) -> Warnings:
    """The mapping sets a property that the row has too: the row's own moves to TOOL_name, with a warning."""
    own = properties[name]
    properties[name] = value
    if own is None or own == value:
        return warnings
    return (*warnings, ("name_collision", f"the row's own {name!r} became {kept(tool, name, own, properties)!r}"))


Renamed: TypeAlias = Callable[[str, str, Value, Record, Warnings], Warnings]
"""`renamed` of a tool."""


def apply_overrides(tool: str, renamed: Renamed, overrides: Any, properties: Record, warnings: Warnings) -> Warnings:
    """Change properties by the rule of one event: leave out, rename, fill, set. What is set replaces what the mapping
    set for all events."""
    sets, fills, renames, drops = overrides
    for name in drops:
        properties.pop(name, None)
    for old, new, value in [(old, new, properties.pop(old, None)) for old, new in renames.items()]:
        if value is not None and new in properties:
            warnings = renamed(old, new, value, properties, warnings)
        elif value is not None:
            properties[new] = value
    for name, value in fills:
        if value is not None:
            properties.setdefault(name, value)
    for name, value, before in sets:
        if value is not None and before is not None:
            properties[name] = value
        elif value is not None and properties.setdefault(name, value) is not value:
            warnings = collided(tool, name, value, properties, warnings)
    return warnings


def rename_present(
    renamed: Renamed,
    changes: dict[str, str | None],
    blanks: dict[str, frozenset[str]],
    properties: Record,
    warnings: Warnings,
) -> Warnings:
    """Leave out the properties whose text is one of their `blanks`, then rename those of `changes` that the row has;
    None leaves a property out."""
    for name, blank in blanks.items():
        if name in properties and text_of(properties[name]) in blank:
            del properties[name]
    for old, new in changes.items():
        if old in properties:
            value = properties.pop(old)
            if new in properties:
                warnings = renamed(old, new, value, properties, warnings)
            elif new is not None:
                properties[new] = value
    return warnings


def keep_columns(
    named: frozenset[str], prefix: str, row: Record, properties: Record, loaders: bool
) -> list[tuple[str, Value]] | None:
    """Add the columns of a row that a mapping does not name, with a prefix, with `loaders` none of a loader; returns
    those whose new name is taken."""
    taken: list[tuple[str, Value]] | None = None
    for name, value in row.items():
        if (
            name not in named
            and value is not None
            and value != NULL
            and not (loaders and is_loader_column(name))
            and (properties.setdefault(prefix + name, value) is not value)
        ):
            taken = [*(taken or ()), (name, value)]
    return taken


def keep_taken(
    tool: str, prefix: str, taken: list[tuple[str, Value]], properties: Record, warnings: Warnings
) -> Warnings:
    """Add columns whose name is taken by another value under TOOL_name, TOOL_name_2, …, each with a warning."""
    for name, value in taken:
        if properties[prefix + name] == value:
            continue
        new = kept(tool, name, value, properties)
        detail = f"the row has a property {prefix + name!r} too: its column became {new!r}"
        warnings = (*warnings, ("name_collision", detail))
    return warnings
