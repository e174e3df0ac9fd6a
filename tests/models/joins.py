"""What rows of joined tables add to the events of an export, and which of them belong to no event."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Joined(NamedTuple):
    """A row of a joined table, with its values as JSON; "" for one that it does not have."""

    key: str
    name: str
    value: str


@dataclass
class Tables:
    """What is joined to each key, as JSON: an object of names and values, a list of all rows, and the last row."""

    objects: dict[str, str] = field(default_factory=dict)
    lists: dict[str, str] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)
    changed: set[tuple[str, str]] = field(default_factory=set)
    named_rows: list[str] = field(default_factory=list)
    """The keys of the rows that have a name and a value, and"""
    rows: list[str] = field(default_factory=list)
    """of those that have either."""


def text_of(value: str) -> str:
    """Keys are compared as texts, a number as it is written; "" if there is none (docs/use/joined-tables.md, Keys)."""
    return "" if value in ("", "null") else str(json.loads(value)) if value[0] == '"' else value


def joined(rows: Iterable[Joined]) -> Tables:
    """The tables that these rows are, in their order (docs/use/joined-tables.md)."""
    found = Tables()
    members: dict[str, dict[str, str]] = defaultdict(dict)
    items: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        key, name = text_of(row.key), text_of(row.name)
        has = {label: one for label, one in (("name", row.name), ("value", row.value)) if one not in ("", "null")}
        if not key or not has:
            continue
        found.rows.append(key)
        found.last[key] = "{" + ",".join(f'"{label}":{one}' for label, one in has.items()) + "}"
        items[key].append(found.last[key])
        if name and "value" in has:
            found.named_rows.append(key)
            if members[key].setdefault(name, row.value) != row.value:
                found.changed.add((key, name))
            members[key][name] = row.value
    for key, one in members.items():
        pairs = (f"{json.dumps(name, ensure_ascii=False)}:{value}" for name, value in one.items())
        found.objects[key] = "{" + ",".join(pairs) + "}"
    found.lists = {key: f"[{','.join(one)}]" for key, one in items.items()}
    return found


def without_event(keys: Iterable[str], asked: Collection[str]) -> tuple[int, int]:
    """Of rows with these keys: how many no event looks up, and how many keys they have."""
    left = [key for key in keys if key not in asked]
    return len(left), len({*left})
