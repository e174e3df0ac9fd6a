"""What the mapping language says about a row: the properties of its event, from the documents alone.

A value is its JSON text, an object a list of (name, value): digits and repeated names stay as they are written. Where
two values want one name, none goes without being counted (docs/know/promises.md, "Nothing silent").
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

TOOL = "shop"
Row = list[tuple[str, Any]]
RESERVED = {"$set", "$set_once", "$unset", "distinct_id", "token"}
"""Properties that the service reads (docs/know/service.md: the per-event endpoint, persons)."""


class Items(list[Row]):
    """A list of objects."""


@dataclass
class Outcome:
    """The properties of an event. One of the values of a `contested` name has it. The others, and the `displaced` ones,
    have names derived from theirs. `collisions` counts the values that a rule leaves without their own name."""

    properties: dict[str, Any] = field(default_factory=dict)
    contested: dict[str, list[Any]] = field(default_factory=dict)
    displaced: list[tuple[str, Any]] = field(default_factory=list)
    collisions: int = 0


def text(value: Any) -> str:
    """The JSON text of a value."""
    if isinstance(value, Items):
        return "[" + ",".join(map(text, value)) + "]"
    return value if isinstance(value, str) else "{" + ",".join(f"{json.dumps(k)}:{text(v)}" for k, v in value) + "}"


def decoded(decoder: Mapping[str, Any], row: Row) -> Iterator[Row]:
    """The plain rows of a row (mapping-reference.md, "Decoders"), with both of two members that get one name."""
    columns = dict(row)
    match decoder:
        case {"nest": [into]}:  # "if a name has several dots, the first one counts"
            nested = [(name[len(into) + 1 :], value) for name, value in row if name.startswith(f"{into}.")]
            yield [one for one in row if one[0].partition(".")[0] != into] + [(into, [*columns.get(into, ()), *nested])]
        case {"lower_names": known}:  # "in rows with one of these columns"
            yield [(name.lower(), value) for name, value in row] if columns.keys() & {*known} else row
        case {"loaded": _, "into": into, "stay": stay, "names": names}:  # "the object that receives the columns"
            tools = [(re.sub("^(_|mp_reserved_)?", "$", name), name) for name, _ in row]
            named = {name: tool if tool in names else name for tool, name in tools}
            members = [(named[name], value) for name, value in row if name not in (into, *stay)]
            yield [one for one in row if one[0] in stay] + [(into, [*columns.get(into, ()), *members])]
        case {"explode": column, **more}:  # "with the other columns of the row in each"
            others = [(more.get("prefix", "") + name, value) for name, value in row if name != column]
            yield from ([*item, *others] for item in columns[column])
        case {"lift": lifted}:  # "unless the row has a column of that name; the earlier one wins"
            found = [one for name in reversed(lifted) for one in columns.pop(name, ())]
            yield [*dict([*found, *columns.items()]).items()]
        case _:
            yield row


def renamed(names: Iterable[str], rename: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """The new name of each, and how many stay: all at once, from the row as it was. "Where the new name
    is taken, the old one stays" (mapping-reference.md, `rename`); a name that moves away takes none."""
    held = [*names]
    moves = {old: new for old, new in rename.items() if old in held}
    while True:
        taken = [name for name in held if name not in moves]
        blocked = [old for at, old in enumerate(moves) if moves[old] in taken + [*moves.values()][:at]]
        if not blocked:
            return {name: moves.get(name, name) for name in held}, sum(old in held for old in rename) - len(moves)
        del moves[blocked[0]]


def outcome(mapping: Mapping[str, Any], pairs: Row) -> Outcome:
    """The outcome of a decoded row (mapping-reference.md, "Sections": blanks, events, properties)."""
    section, made = mapping.get("properties", {}), Outcome()
    rule = mapping.get("events", {}).get(json.loads(text(dict(pairs)["name"])), {})
    missing = {json.dumps(one) for one in mapping.get("blanks", {}).get("texts", ())}
    row = {name: value for name, value in pairs if text(value) not in missing}
    column = section.get("open", "/")[1:]
    opened = [one for one in (row.get(column, ()) if column else pairs) if text(one[1]) not in missing]
    own = {name: value for name, value in opened if name not in section.get("drop", ())}
    new_names, made.collisions = renamed(own, section.get("rename", {}))
    own = {new_names[name]: value for name, value in own.items()}
    for name in own:
        if len(values := [value for other, value in opened if other == name]) > 1:
            made.contested[name] = values
    prefix = section.get("rest", f"{TOOL}_")  # with `open`: "`keep` keeps their names, anything else is a prefix"
    for name, value in row.items() if column and prefix != "drop" else ():
        as_named = name if prefix == "keep" else prefix + name
        if as_named in own:
            made.displaced.append((name, value))
            made.collisions += 1
        elif name not in ("name", "user", "at", column):  # columns that the mapping names
            own[as_named] = value
    # mappings.md, "A name that is taken is not overwritten": what the service reads becomes TOOL_name
    moved = [(name, own.pop(name)) for name in [*own] if name in RESERVED]
    for name, value in {**section.get("set", {}), **rule.get("set", {})}.items():
        if name in own:  # `set`: "a row's own value of that name moves to TOOL_name, with a warning"
            made.collisions += own[name] != "null"
            moved.append((name, own[name]))
        made.properties[name] = json.dumps(value["const"]) if isinstance(value, dict) else row[value[1:]]
    made.properties = {**own, **made.properties}
    for name, value in moved:
        if (place := f"{TOOL}_{name}") in made.properties:
            made.displaced.append((place, value))
        made.properties.setdefault(place, value)
    for name, value in section.get("fill", {}).items():  # "only where the row has no such property"
        made.properties.setdefault(name, json.dumps(value["const"]) if isinstance(value, dict) else row[value[1:]])
    for name in made.contested:
        made.properties.pop(name, None)
    return made


def canonical(value: Any) -> str:
    """One spelling of JSON whose scalars are decimals: members sorted, 2 and 2.0 the same (mapping-reference.md,
    `canonical`), whatever their digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{canonical(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    digits = f"{value or abs(value):f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def delimited(rows: Iterable[list[str]], files: Mapping[str, str]) -> bytes:
    """Rows of cells as a file that a mapping declares under `files` (mapping-reference.md, `files`)."""
    mark, between, escape = files.get("quotes", '"'), files.get("delimiter", ","), files.get("escape", "")
    lines = []
    for cells in rows:
        if escape:  # "what precedes a delimiter, line end or itself in a value"
            cells = [re.sub(f"(?=[{re.escape(between + escape)}\n])", re.escape(escape), cell) for cell in cells]
        if mark != "none":
            cells = [mark + cell.replace(mark, 2 * mark) + mark for cell in cells]
        lines.append(between.join(cells))
    return "\n".join([*lines, ""]).encode(files.get("encoding", "utf-8"))
