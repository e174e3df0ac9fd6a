"""The groups that a job's windows showed, with their last values, and the group types in the order of their numbers.

Windows run in any order, so the last value of a property is decided over all of them. Lost tables are rebuilt from the
plans (`pipeline.plan.window_index`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from pipeline.identity.groups import GroupState
from pipeline.plan.window_index import WindowIndex
from pipeline.uuids import SEPARATOR

SCHEMA = (
    "create table groups (owner text primary key, state blob not null) without rowid",
    "create table group_types (number integer primary key, type text not null unique)",
)


class StoredGroups:
    """What a plan asks (`pipeline.plan.series`). `schemas` are the databases that have the tables, the latest
    first."""

    def __init__(self, database: sqlite3.Connection, schemas: Sequence[str]) -> None:
        self._database = database
        self._schemas = schemas

    def find(self, owner: str) -> GroupState | None:
        """A group by its type and key, joined by SEPARATOR."""
        for schema in self._schemas:
            for (state,) in self._database.execute(f"select state from {schema}.groups where owner = ?", (owner,)):
                return msgspec.json.decode(state, type=GroupState)
        return None

    def types(self) -> list[str]:
        """The group types of all windows, in the order in which they were sent."""
        types: dict[str, None] = {}
        for schema in reversed(self._schemas):
            rows = self._database.execute(f"select type from {schema}.group_types order by number")
            types |= dict.fromkeys(type_ for (type_,) in rows)
        return [*types]

    def is_latest(self, type_: str, key: str, uuid: str) -> bool:
        """Whether no window updated a group after the update with this uuid."""
        group = self.find(type_ + SEPARATOR + key)
        return group is None or group.uuid == uuid

    def add(self, index: WindowIndex) -> None:
        """Add the groups of a plan, and their types, inside the caller's transaction."""
        groups = ((group.owner, msgspec.json.encode(group)) for group in index.groups())
        self._database.executemany("insert or replace into main.groups values (?, ?)", groups)
        known = self.types()
        named = ((one,) for one in index.group_types if one not in known)
        self._database.executemany("insert into main.group_types (type) values (?)", named)
