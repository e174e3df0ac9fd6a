"""The syntax tree of a query, as the database writes it: which tables it names, and whether it may run.

A query is judged on its tree before it runs: one SELECT, over the named views and a few harmless table functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VIEWS = frozenset(
    {"events", "raw_events", "persons", "person_distinct_ids", "groups", "group_types", "warnings", "rejections"}
)
"""What a query may name. `rejections` holds the requests that were turned away, of every project."""

_FOLDED = frozenset({"persons", "person_distinct_ids", "groups", "group_types", "warnings"})
_TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series"})
_TABLE_KINDS = frozenset({"BASE_TABLE", "TABLE_FUNCTION", "SUBQUERY", "JOIN", "EXPRESSION_LIST", "EMPTY", "PIVOT"})

Tree = dict[str, Any]


class NotAllowed(Exception):
    """The query is not one SELECT over the views; the message says what is wrong."""


def check(tree: Tree) -> None:
    """Refuse whatever is not one SELECT over the views. Raises NotAllowed."""
    if tree.get("error"):
        raise NotAllowed(str(tree.get("error_message")))
    statements = tree["statements"]
    if len(statements) != 1:
        raise NotAllowed(f"one SELECT statement is expected, not {len(statements)}")
    nodes = list(_nodes(statements[0]))
    named = {str(entry["key"]).lower() for node in nodes for entry in node.get("cte_map", {}).get("map", ())}
    for node in nodes:
        _check_table(node, VIEWS | named)


def needs_people(tree: Tree) -> bool:
    """Whether the query may see persons or groups: one of their tables, or such a column of `events`.

    When in doubt it may: a star, a join, or a name that stands for a whole row.
    """
    nodes = list(_nodes(tree))
    rows = {str(node.get(name)).lower() for node in nodes if _is_table(node) for name in ("table_name", "alias")}
    for node in nodes:
        if node.get("class") == "STAR" or node.get("type") == "JOIN":
            return True
        if _is_table(node) and str(node.get("table_name")).lower() in _FOLDED:
            return True
        names = [str(name).lower() for name in node.get("column_names") or []]
        if any(name == "person_id" or name.startswith("$group_") for name in names):
            return True
        if len(names) == 1 and names[0] in rows:
            return True
    return False


def limits(tree: Tree) -> bool:
    """Whether the outermost SELECT has a LIMIT of its own."""
    node = tree["statements"][0]["node"]
    return any(str(modifier.get("type", "")).startswith("LIMIT") for modifier in node.get("modifiers", ()))


def _is_table(node: Tree) -> bool:
    return node.get("type") == "BASE_TABLE" and "sample" in node


def _check_table(node: Tree, names: frozenset[str]) -> None:
    """A node that stands where a table stands must be one that we know."""
    kind = node.get("type")
    if "class" in node or "sample" not in node or str(kind).endswith("_NODE"):
        return
    if kind not in _TABLE_KINDS:
        raise NotAllowed("only a plain SELECT is accepted")
    if kind == "BASE_TABLE":
        name = ".".join(part for part in (node["catalog_name"], node["schema_name"], node["table_name"]) if part)
        if name.lower() not in names:
            raise NotAllowed(f"unknown table '{name}'; there are: {', '.join(sorted(VIEWS))}")
    if kind == "TABLE_FUNCTION":
        function = str(node["function"].get("function_name"))
        if function.lower() not in _TABLE_FUNCTIONS:
            raise NotAllowed(f"the table function '{function}' is not accepted")


def _nodes(tree: Any) -> Iterator[Tree]:
    """Every object of a syntax tree."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
