"""Derives persons and groups from the accepted events of the store, in the order of their acceptance.

This happens when they are requested, starting where it last stopped, one run of receipts at a time: accepting events
stays fast, and memory does not grow with the number of persons. In each run, only the events that change persons or
groups are read here one by one; an id that merely occurs gets its person inside the database.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from pipeline.local_service.people.persons import Group, GroupKey, GroupUpdater, Id, Person, PersonUpdater
from pipeline.local_service.people.updates import ALWAYS_READ, PersonEvent, property_pattern, read_properties
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.columns import instants, numbers, table, texts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RUN = 25_000
"""How many receipts are processed at once."""
_FETCHED_ROWS = 500

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode
_Kinds = dict[str, Callable[[Any], Any]]
_RULES = ("promote_properties", "promoted_changes", "group_events", "merge_ids")
"""The settings that decide what an event changes."""

# The temporary tables of a run: `touched` are the ids of events that are read one by one, `plain` those of all other
# events, `existing` those of both that already have a person, and `created` those that get theirs here.
_PLAIN = """
CREATE OR REPLACE TEMP TABLE plain AS
SELECT project, distinct_id, min(receipt) AS receipt, arg_min("timestamp", receipt) AS "timestamp"
FROM kept WHERE receipt > ? AND receipt <= ? AND NOT ({is_read}) GROUP BY project, distinct_id
"""
_EXISTING = """
CREATE OR REPLACE TEMP TABLE existing AS
SELECT i.project, i.distinct_id, i.person FROM people_ids i
WHERE (i.project, i.distinct_id) IN (
    SELECT (project, distinct_id) FROM plain UNION ALL SELECT (project, distinct_id) FROM touched)
"""
_CREATED = """
CREATE OR REPLACE TEMP TABLE created AS
SELECT * FROM plain WHERE (project, distinct_id) NOT IN (
    SELECT (project, distinct_id) FROM existing UNION ALL SELECT (project, distinct_id) FROM touched)
"""
_INSERT_CREATED = """
INSERT INTO people SELECT project, person_uuid(project, distinct_id), '{}', "timestamp", false FROM created;
INSERT INTO people_ids SELECT project, distinct_id, person_uuid(project, distinct_id) FROM created;
"""


class ServiceClosing(Exception):
    """The service is ending. What was processed is stored; the rest is processed at the next request for it."""


class PersonProcessing:
    """Persons and groups of a database. Once `closing` is set it stops at the next event and undoes its last run."""

    def __init__(self, settings: Settings, closing: threading.Event) -> None:
        self._settings = settings
        self._closing = closing
        self._lock = threading.Lock()
        always = ", ".join(f"'{name}'" for name in ALWAYS_READ)
        # An SQL condition that is true for every event that changes persons or groups, and for few others.
        self._is_read = f"event IN ({always}) OR regexp_matches(properties, '{property_pattern(settings)}')"
        self._rules = json.dumps({name: getattr(settings, name) for name in _RULES})

    def refresh(self, cursor: DuckDBPyConnection) -> None:
        """Process every accepted event that was not processed yet; all events if the rules have changed.

        Raises ServiceClosing.
        """
        with self._lock:
            done = self._start(cursor)
            [(last,)] = cursor.execute("SELECT coalesce(max(receipt), 0) FROM accepted").fetchall()
            while done < last:
                upto = min(done + RUN, last)
                _in_transaction(cursor, lambda: self._run(cursor, done, upto))  # noqa: B023
                done = upto

    def _start(self, cursor: DuckDBPyConnection) -> int:
        """The last receipt processed under the same rules; if the rules changed, everything is removed first."""
        row = cursor.execute("SELECT receipt, rules FROM folded").fetchone()
        if row is not None and row[1] == self._rules:
            return int(row[0])

        def remove_all() -> None:
            for name in ("people", "people_ids", "group_kinds", "group_records", "folded"):
                cursor.execute(f"DELETE FROM {name}")
            cursor.execute("DELETE FROM noticed WHERE folded")
            cursor.execute("INSERT INTO folded VALUES (0, ?)", [self._rules])

        _in_transaction(cursor, remove_all)
        return 0

    def _run(self, cursor: DuckDBPyConnection, after: int, upto: int) -> None:
        events = list(self._until_closing(self._read(cursor, after, upto)))
        touched = {(event.project, event.distinct_id) for event in events}
        touched |= {(event.project, event.merged_id) for event in events if event.merged_id is not None}
        _register(cursor, "touched", touched, project=numbers, distinct_id=texts)
        cursor.execute(_PLAIN.format(is_read=self._is_read), [after, upto])
        cursor.execute(_EXISTING)
        cursor.execute(_CREATED)
        events += _first_plain_events(cursor)
        events.sort(key=lambda event: event.receipt)

        persons = PersonUpdater(self._settings, _read_persons(cursor))
        groups = GroupUpdater(_read_group_types(cursor), _read_groups(cursor, events))
        type_counts = {project: len(types) for project, types in groups.types.items()}
        for event in self._until_closing(events):
            groups.apply(event)
            persons.apply(event)

        cursor.execute(_INSERT_CREATED)
        _write_persons(cursor, persons)
        _write_groups(cursor, groups, type_counts)
        _write_warnings(cursor, events)
        cursor.execute("UPDATE folded SET receipt = ?", [upto])
        cursor.unregister("touched")

    def _until_closing(self, events: Iterable[PersonEvent]) -> Iterator[PersonEvent]:
        for event in events:
            if self._closing.is_set():
                raise ServiceClosing
            yield event

    def _read(self, cursor: DuckDBPyConnection, after: int, upto: int) -> Iterator[PersonEvent]:
        cursor.execute(
            'SELECT project, receipt, epoch_us("timestamp"), event, distinct_id, properties, epoch_us(created_at) '
            f"FROM kept WHERE receipt > ? AND receipt <= ? AND ({self._is_read})",
            [after, upto],
        )
        while rows := cursor.fetchmany(_FETCHED_ROWS):
            for project, receipt, instant, name, distinct_id, properties, accepted in rows:
                event = PersonEvent(project, receipt, instant, name, distinct_id, accepted=accepted)
                if read_properties(event, properties, self._settings) is not None:
                    yield event


def _first_plain_events(cursor: DuckDBPyConnection) -> list[PersonEvent]:
    """The first plain event of each touched id that has no person yet."""
    cursor.execute(
        'SELECT project, receipt, epoch_us("timestamp"), distinct_id FROM plain WHERE (project, distinct_id) IN '
        "(SELECT (project, distinct_id) FROM touched) AND (project, distinct_id) NOT IN "
        "(SELECT (project, distinct_id) FROM existing)"
    )
    return [
        PersonEvent(project, receipt, instant, "", distinct_id)
        for project, receipt, instant, distinct_id in cursor.fetchall()
    ]


def _read_persons(cursor: DuckDBPyConnection) -> dict[Id, Person]:
    cursor.execute(
        "CREATE OR REPLACE TEMP TABLE touched_existing AS SELECT * FROM existing WHERE (project, distinct_id) IN "
        "(SELECT (project, distinct_id) FROM touched)"
    )
    cursor.execute(
        "SELECT project, CAST(id AS VARCHAR), epoch_us(created_at), properties, is_identified FROM people "
        "WHERE id IN (SELECT person FROM touched_existing)"
    )
    persons: dict[str, Person] = {}
    while rows := cursor.fetchmany(_FETCHED_ROWS):
        for project, key, created_at, properties, is_identified in rows:
            persons[key] = Person(project, key, created_at, _copied_members(properties), is_identified)
    cursor.execute("SELECT project, distinct_id, CAST(person AS VARCHAR) FROM touched_existing")
    return {(project, distinct_id): persons[key] for project, distinct_id, key in cursor.fetchall()}


def _read_group_types(cursor: DuckDBPyConnection) -> dict[int, list[str]]:
    types: dict[int, list[str]] = {}
    for project, name in cursor.execute('SELECT project, type FROM group_kinds ORDER BY project, "index"').fetchall():
        types.setdefault(project, []).append(name)
    return types


_GROUP_KEY: _Kinds = {"project": numbers, "type": texts, "key": texts}
_IN_GROUP_KEYS = "(project, type, key) IN (SELECT (project, type, key) FROM group_keys)"


def _read_groups(cursor: DuckDBPyConnection, events: list[PersonEvent]) -> dict[GroupKey, Group]:
    keys = {(event.project, event.group.type, event.group.key) for event in events if event.group is not None}
    if not keys:
        return {}
    _register(cursor, "group_keys", keys, **_GROUP_KEY)
    rows = cursor.execute(
        "SELECT project, type, key, epoch_us(created_at), epoch_us(updated_at), properties FROM group_records "
        f"WHERE {_IN_GROUP_KEYS}"
    ).fetchall()
    return {
        (p, kind, key): Group(created_at, updated_at, _copied_members(text))
        for p, kind, key, created_at, updated_at, text in rows
    }


def _write_persons(cursor: DuckDBPyConnection, persons: PersonUpdater) -> None:
    changed, merged = persons.changed, persons.merged
    if changed or merged:
        _register(cursor, "outdated", [(person.id,) for person in (*changed, *merged)], id=texts)
        cursor.execute("DELETE FROM people WHERE id IN (SELECT CAST(id AS UUID) FROM outdated)")
        rows = [
            (one.project, one.id, _encode(one.properties).decode(), one.created_at, one.is_identified)
            for one in changed
        ]
        kinds: _Kinds = {
            "project": numbers,
            "id": texts,
            "properties": texts,
            "created_at": instants,
            "is_identified": numbers,
        }
        _register(cursor, "changed", rows, **kinds)
        cursor.execute(
            "INSERT INTO people SELECT project, CAST(id AS UUID), properties, created_at, is_identified = 1 "
            "FROM changed"
        )
    if merged:
        _register(cursor, "merged", [(person.id, person.final.id) for person in merged], old=texts, new=texts)
        cursor.execute(
            "UPDATE people_ids SET person = CAST(merged.new AS UUID) FROM merged "
            "WHERE person = CAST(merged.old AS UUID)"
        )
    if persons.new_ids:
        ids = [(*key, person.final.id) for key, person in persons.new_ids.items()]
        _register(cursor, "new_ids", ids, project=numbers, distinct_id=texts, person=texts)
        cursor.execute("INSERT INTO people_ids SELECT project, distinct_id, CAST(person AS UUID) FROM new_ids")


def _write_groups(cursor: DuckDBPyConnection, groups: GroupUpdater, type_counts: dict[int, int]) -> None:
    for project, types in groups.types.items():
        for index in range(type_counts.get(project, 0), len(types)):
            cursor.execute("INSERT INTO group_kinds VALUES (?, ?, ?)", [project, index, types[index]])
    if not groups.changed:
        return
    _register(cursor, "group_keys", groups.changed, **_GROUP_KEY)
    cursor.execute(f"DELETE FROM group_records WHERE {_IN_GROUP_KEYS}")
    rows = [
        (*key, _encode(group.properties).decode(), group.created_at, group.updated_at)
        for key, group in groups.changed.items()
    ]
    kinds: _Kinds = _GROUP_KEY | {"properties": texts, "created_at": instants, "updated_at": instants}
    _register(cursor, "changed", rows, **kinds)
    cursor.execute("INSERT INTO group_records SELECT * FROM changed")


def _write_warnings(cursor: DuckDBPyConnection, events: list[PersonEvent]) -> None:
    warnings = [(event.receipt, warning.type, warning.details) for event in events for warning in event.warnings]
    if warnings:
        _register(cursor, "new_warnings", warnings, receipt=numbers, type=texts, details=texts)
        cursor.execute("INSERT INTO noticed SELECT receipt, type, details, false, true FROM new_warnings")


def _register(cursor: DuckDBPyConnection, name: str, rows: Collection[Any], **kinds: Callable[[Any], Any]) -> None:
    """Register rows with the connection as a table of named columns, made by functions of `store.columns`."""
    columns = {column: make(row[index] for row in rows) for index, (column, make) in enumerate(kinds.items())}
    cursor.register(name, table(**columns))


def _copied_members(properties: str) -> dict[str, Raw]:
    """The members of an object, each with its own copy of the text."""
    return {name: value.copy() for name, value in _members(properties).items()}


def _in_transaction(cursor: DuckDBPyConnection, work: Callable[[], None]) -> None:
    cursor.execute("BEGIN")
    try:
        work()
    except BaseException:
        cursor.execute("ROLLBACK")
        raise
    cursor.execute("COMMIT")
