"""What the real service answers to a query: its own grammar, and the columns of its tables.

The grammar is the service's own, as `hogql-parser` on PyPI (MIT). It raises the service's own exceptions, which it
imports from a package that is not published; its functions that answer JSON need none of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from tests.support.relays import relay
from tests.support.required import require
from tests.support.scripted_server import Asked, Canned

GROUP_COLUMNS = frozenset({"index", "team_id", "key", "created_at", "updated_at", "properties"})
PERSON_COLUMNS = frozenset({"id", "created_at", "team_id", "properties", "is_identified"})
TABLES: dict[str, frozenset[str]] = {
    "events": frozenset(
        {
            "uuid", "event", "properties", "timestamp", "team_id", "distinct_id", "elements_chain", "created_at",
            "$session_id", "$window_id", "person_mode", "person_id", "$group_0", "$group_1", "$group_2", "$group_3",
            "$group_4",
        }
    ),
    "persons": PERSON_COLUMNS,
    "person_distinct_ids": frozenset({"team_id", "distinct_id", "person_id"}),
    "groups": GROUP_COLUMNS,
}  # fmt: skip
"""The columns of the service's tables (docs/know/service.md#query-interface)."""
LOCAL = frozenset({"raw_events", "warnings"})
"""Tables of the local service for which backcast asks as well, and without which it works if the target answers 400."""


@cache
def _grammar() -> Any:
    require(find_spec("hogql_parser"), "hogql-parser, a test dependency, is not installed")
    names = ("posthog", "posthog.hogql", "posthog.hogql.errors")
    before = {name: sys.modules.get(name) for name in names}
    modules = {name: ModuleType(name) for name in names}
    for module in modules.values():
        vars(module)["__getattr__"] = lambda name: type(name, (Exception,), {})
    try:
        sys.modules.update(modules)
        import hogql_parser
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    return hogql_parser


def tree_of(sql: str) -> Any:
    """The syntax tree of a query; raises ValueError if the service could not read it."""
    tree = json.loads(_grammar().parse_select_json(sql))
    if tree.get("error"):
        raise ValueError(f"{tree['message']}: {sql}")
    return tree


def refusal(sql: str) -> str:
    """Why the real service would not run a query, "" if it would."""
    try:
        tree = tree_of(sql)
    except ValueError as error:
        return str(error)
    table = ".".join(tree["select_from"]["table"]["chain"])
    if table not in TABLES:
        return f"Unknown table `{table}`"
    aliases = {node["alias"] for node in _nodes(tree) if node.get("node") == "Alias"}
    for node in _nodes({name: part for name, part in tree.items() if name != "select_from"}):
        if node.get("node") == "Field" and node["chain"][0] not in TABLES[table] | aliases | {"*"}:
            return f"Unable to resolve field: {node['chain'][0]}"
    return ""


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for part in tree.values():
            yield from _nodes(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


@contextmanager
def like_the_real_service(to: str, asked: list[str]) -> Iterator[str]:
    """A server in front of the local service at `to` that answers 400 if the real service would not run the query.

    `asked` gets every query.
    """

    def instead(one: Asked) -> Canned | None:
        if not one.path.endswith("/query/"):
            return None
        sql = one.json["query"]["query"]
        asked.append(sql)
        return Canned(400, {"type": "validation_error", "detail": why}) if (why := refusal(sql)) else None

    _grammar()  # here, so that a test without it is skipped before the server asks for it
    with relay(to, instead=instead) as url:
        yield url
