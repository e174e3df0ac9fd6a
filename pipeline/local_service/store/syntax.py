"""The syntax tree of a query, as the database writes it: which tables it names, and whether it may run.

A query is checked on its tree before it runs: one SELECT, over the named views and its own WITH tables that are in
scope, a few harmless table functions, and functions that read nothing but their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

VIEWS = frozenset(
    {"events", "raw_events", "persons", "person_distinct_ids", "groups", "group_types", "warnings", "rejections"}
)
"""What a query may name. `rejections` has the refused requests of every project."""

_DERIVED = frozenset({"persons", "person_distinct_ids", "groups", "group_types", "warnings"})
_TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series"})
_TABLE_KINDS = frozenset({"BASE_TABLE", "TABLE_FUNCTION", "SUBQUERY", "JOIN", "EXPRESSION_LIST", "EMPTY", "PIVOT"})
_QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""The parts of a query; a WITH may contain other parts, which write."""
_REFUSED = re.compile(
    "__internal.*|pg_.*|json_serialize_.*|json_deserialize_.*|"
    "current_.*setting|getenv|getvariable|current_query.*|write_log|stats|index_key"
)
"""Functions that read the database instead of the rows of a view."""

Tree = dict[str, Any]


class QueryNotAllowed(Exception):
    """The query is not one SELECT over the views; the message gives the reason."""


def check_query(tree: Tree) -> None:
    """Raise QueryNotAllowed for everything except one SELECT over the views."""
    if tree.get("error"):
        other = tree.get("error_type") == "not implemented"
        raise QueryNotAllowed(
            "one SELECT statement is expected, and nothing else" if other else str(tree["error_message"])
        )
    statements = tree["statements"]
    if len(statements) != 1:
        raise QueryNotAllowed(f"one SELECT statement is expected, not {len(statements)}")
    tables: set[int] = set()
    for node, names in _nodes_with_tables(statements[0]):
        _check_table(node, names)
        if node.get("type") == "TABLE_FUNCTION":
            tables.add(id(node.get("function")))
        function = str(node.get("function_name", ""))
        if id(node) not in tables and _REFUSED.fullmatch(function.lower()):
            raise QueryNotAllowed(f"the function '{function}' is not accepted")


def _nodes_with_tables(statement: Tree) -> Iterator[tuple[Tree, frozenset[str]]]:
    """Every object of a statement, and the names that a table may have there: the views and the WITH tables in scope.

    A WITH table is in scope in the WITH tables after it, in the SELECT below it, and in its own second part.
    """
    waiting: list[tuple[Any, frozenset[str]]] = [(statement, VIEWS)]
    while waiting:
        node, names = waiting.pop()
        if isinstance(node, list):
            waiting.extend((child, names) for child in node)
        elif isinstance(node, dict):
            for entry in (node.get("cte_map") or {}).get("map", ()):
                waiting.append((entry["value"], names))
                names |= {str(entry["key"]).lower()}
            yield node, names
            itself = names | {str(node.get("cte_name")).lower()} if node.get("type") == "RECURSIVE_CTE_NODE" else names
            waiting.extend(
                (child, itself if name == "right" else names) for name, child in node.items() if name != "cte_map"
            )


def needs_people(tree: Tree) -> bool:
    """Whether the query may read persons or groups: one of their tables, or such a column of `events`.

    True when in doubt: for a star, a join, or a name that means a whole row.
    """
    nodes = list(_nodes(tree))
    rows = {str(node.get(name)).lower() for node in nodes if _is_table(node) for name in ("table_name", "alias")}
    for node in nodes:
        if node.get("class") == "STAR" or node.get("type") == "JOIN":
            return True
        if _is_table(node) and str(node.get("table_name")).lower() in _DERIVED:
            return True
        names = [str(name).lower() for name in node.get("column_names") or []]
        if any(name == "person_id" or name.startswith("$group_") for name in names):
            return True
        if len(names) == 1 and names[0] in rows:
            return True
    return False


def has_limit(tree: Tree) -> bool:
    node = tree["statements"][0]["node"]
    return any(str(modifier.get("type", "")).startswith("LIMIT") for modifier in node.get("modifiers", ()))


def _is_table(node: Tree) -> bool:
    return node.get("type") == "BASE_TABLE" and "sample" in node


def _check_table(node: Tree, names: frozenset[str]) -> None:
    """Raise QueryNotAllowed for a query that writes, and for a table that is unknown or of the wrong kind."""
    kind = node.get("type")
    if "class" not in node and str(kind).endswith("_NODE"):
        if kind not in _QUERIES:
            raise QueryNotAllowed("only a plain SELECT is accepted")
        return
    if "class" in node or "sample" not in node:
        return
    if kind not in _TABLE_KINDS:
        raise QueryNotAllowed("only a plain SELECT is accepted")
    if kind == "BASE_TABLE":
        name = ".".join(part for part in (node["catalog_name"], node["schema_name"], node["table_name"]) if part)
        if name != node["table_name"] or name.lower() not in names:
            raise QueryNotAllowed(f"unknown table '{name}'; available tables: {', '.join(sorted(VIEWS))}")
    if kind == "TABLE_FUNCTION":
        function = str(node["function"].get("function_name"))
        if function.lower() not in _TABLE_FUNCTIONS:
            raise QueryNotAllowed(f"the table function '{function}' is not accepted")


def _nodes(tree: Any) -> Iterator[Tree]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
