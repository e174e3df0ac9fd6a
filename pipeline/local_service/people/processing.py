"""Persons and groups, made from the accepted events in the order of their acceptance.

It happens when somebody asks, from where it stopped the last time, a run of receipts at a time: taking events stays
fast, and memory does not grow with the number of persons. Of a run only the events that say something about persons
or groups are read here one by one; an id that merely occurs gets its person inside the database.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from pipeline.local_service.people.groups import GroupRecord, Groups
from pipeline.local_service.people.persons import Id, Person, Persons
from pipeline.local_service.people.updates import ALWAYS_READ, Seen, marks, read
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.columns import instants, numbers, table, texts

if TYPE_CHECKING:
    import duckdb

RUN = 25_000
"""Receipts that are folded at once."""
_PAGE = 500

_open = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode
_RULES = ("promote_properties", "promoted_changes", "group_events", "merge_ids")

_MET = """
CREATE OR REPLACE TEMP TABLE met AS
SELECT project, distinct_id, min(receipt) AS receipt, arg_min("timestamp", receipt) AS "timestamp"
FROM kept WHERE receipt > ? AND receipt <= ? AND NOT ({marked}) GROUP BY project, distinct_id
"""
_KNOWN = """
CREATE OR REPLACE TEMP TABLE known AS
SELECT i.project, i.distinct_id, i.person FROM people_ids i
WHERE (i.project, i.distinct_id) IN (
    SELECT (project, distinct_id) FROM met UNION ALL SELECT (project, distinct_id) FROM touched)
"""
_NEWCOMERS = """
CREATE OR REPLACE TEMP TABLE newcomers AS
SELECT * FROM met WHERE (project, distinct_id) NOT IN (
    SELECT (project, distinct_id) FROM known UNION ALL SELECT (project, distinct_id) FROM touched)
"""
_MADE_PLAINLY = """
INSERT INTO people SELECT project, person_uuid(project, distinct_id), '{}', "timestamp", false FROM newcomers;
INSERT INTO people_ids SELECT project, distinct_id, person_uuid(project, distinct_id) FROM newcomers;
"""


class Closing(Exception):
    """The service ends; what was folded so far stays, and the rest is folded by whoever asks next."""


class Fold:
    """Persons and groups of one database. Once `closing` is set it ends at the next step, and undoes its last run."""

    def __init__(self, settings: Settings, closing: threading.Event) -> None:
        self._settings = settings
        self._closing = closing
        self._lock = threading.Lock()
        self._marked = _marked(settings)
        self._rules = json.dumps({name: getattr(settings, name) for name in _RULES})

    def refresh(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Let every accepted event count. Where the rules are others than the last time, all of them do anew.

        Raises Closing.
        """
        with self._lock:
            done = self._begun(cursor)
            last = _number(cursor, "SELECT coalesce(max(receipt), 0) FROM accepted")
            while done < last:
                upto = min(done + RUN, last)
                _all_or_none(cursor, lambda: self._run(cursor, done, upto))  # noqa: B023
                done = upto

    def _begun(self, cursor: duckdb.DuckDBPyConnection) -> int:
        found = cursor.execute("SELECT receipt, rules FROM folded").fetchone()
        if found is not None and found[1] == self._rules:
            return int(found[0])

        def anew() -> None:
            for name in ("people", "people_ids", "group_kinds", "group_records", "folded"):
                cursor.execute(f"DELETE FROM {name}")
            cursor.execute("DELETE FROM noticed WHERE folded")
            cursor.execute("INSERT INTO folded VALUES (0, ?)", [self._rules])

        _all_or_none(cursor, anew)
        return 0

    def _run(self, cursor: duckdb.DuckDBPyConnection, after: int, upto: int) -> None:
        """Fold the receipts over `after`, up to and with `upto`."""
        seen = list(self._going_on(self._read(cursor, after, upto)))
        touched = {(one.project, one.distinct_id) for one in seen}
        touched |= {(one.project, one.other) for one in seen if one.other is not None}
        _register(cursor, "touched", project=numbers(p for p, _ in touched), distinct_id=texts(d for _, d in touched))
        cursor.execute(_MET.format(marked=self._marked), [after, upto])
        cursor.execute(_KNOWN)
        cursor.execute(_NEWCOMERS)
        seen += _first_plain(cursor)
        seen.sort(key=lambda one: one.receipt)

        persons = Persons(self._settings, _people(cursor))
        groups = Groups(_kinds(cursor), _records(cursor, seen))
        kinds = {project: len(types) for project, types in groups.types.items()}
        for one in self._going_on(seen):
            groups.take(one)
            persons.take(one)

        cursor.execute(_MADE_PLAINLY)
        _write_people(cursor, persons)
        _write_groups(cursor, groups, kinds)
        _write_notices(cursor, seen)
        cursor.execute("UPDATE folded SET receipt = ?", [upto])
        cursor.unregister("touched")

    def _going_on(self, seen: Iterable[Seen]) -> Iterator[Seen]:
        """The same, as long as the service lives. Raises Closing."""
        for one in seen:
            if self._closing.is_set():
                raise Closing
            yield one

    def _read(self, cursor: duckdb.DuckDBPyConnection, after: int, upto: int) -> Iterator[Seen]:
        """The events of a run that say something, but for those that leave no trace."""
        cursor.execute(
            'SELECT project, receipt, epoch_us("timestamp"), event, distinct_id, properties FROM kept '
            f"WHERE receipt > ? AND receipt <= ? AND ({self._marked})",
            [after, upto],
        )
        while page := cursor.fetchmany(_PAGE):
            for project, receipt, instant, event, distinct_id, properties in page:
                one = read(Seen(project, receipt, instant, event, distinct_id), properties, self._settings)
                if one is not None:
                    yield one


def _marked(settings: Settings) -> str:
    """The condition of SQL that holds for every event that says something, and for few others."""
    events = ", ".join(f"'{name}'" for name in ALWAYS_READ)
    return f"event IN ({events}) OR regexp_matches(properties, '{marks(settings)}')"


def _first_plain(cursor: duckdb.DuckDBPyConnection) -> list[Seen]:
    """The first plain event of each touched id that has no person yet."""
    cursor.execute(
        'SELECT project, receipt, epoch_us("timestamp"), distinct_id FROM met WHERE (project, distinct_id) IN '
        "(SELECT (project, distinct_id) FROM touched) AND (project, distinct_id) NOT IN "
        "(SELECT (project, distinct_id) FROM known)"
    )
    return [
        Seen(project, receipt, instant, "", distinct_id) for project, receipt, instant, distinct_id in cursor.fetchall()
    ]


def _people(cursor: duckdb.DuckDBPyConnection) -> dict[Id, Person]:
    """The persons of the touched ids."""
    cursor.execute(
        "CREATE OR REPLACE TEMP TABLE concerned AS SELECT * FROM known WHERE (project, distinct_id) IN "
        "(SELECT (project, distinct_id) FROM touched)"
    )
    cursor.execute(
        "SELECT project, CAST(id AS VARCHAR), epoch_us(created_at), properties, is_identified FROM people "
        "WHERE id IN (SELECT person FROM concerned)"
    )
    people: dict[str, Person] = {}
    while page := cursor.fetchmany(_PAGE):
        for project, key, created_at, properties, is_identified in page:
            people[key] = Person(project, key, created_at, _own(properties), is_identified)
    cursor.execute("SELECT project, distinct_id, CAST(person AS VARCHAR) FROM concerned")
    return {(project, distinct_id): people[key] for project, distinct_id, key in cursor.fetchall()}


def _kinds(cursor: duckdb.DuckDBPyConnection) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for project, name in cursor.execute('SELECT project, type FROM group_kinds ORDER BY project, "index"').fetchall():
        found.setdefault(project, []).append(name)
    return found


def _records(cursor: duckdb.DuckDBPyConnection, seen: list[Seen]) -> dict[tuple[int, str, str], GroupRecord]:
    """The groups that the events of a run write."""
    keys = {(one.project, one.group.type, one.group.key) for one in seen if one.group is not None}
    if not keys:
        return {}
    _register_keys(cursor, keys)
    found = cursor.execute(
        "SELECT project, type, key, epoch_us(created_at), properties FROM group_records "
        "WHERE (project, type, key) IN (SELECT (project, type, key) FROM keyed)"
    ).fetchall()
    return {(p, kind, key): GroupRecord(created_at, _own(text)) for p, kind, key, created_at, text in found}


def _write_people(cursor: duckdb.DuckDBPyConnection, persons: Persons) -> None:
    changed, absorbed = list(persons.changed), persons.absorbed
    if changed or absorbed:
        _register(cursor, "outdated", id=texts(one.id for one in [*changed, *absorbed]))
        cursor.execute("DELETE FROM people WHERE id IN (SELECT CAST(id AS UUID) FROM outdated)")
        _register(
            cursor,
            "changed",
            project=numbers(one.project for one in changed),
            id=texts(one.id for one in changed),
            properties=texts(_encode(one.properties).decode() for one in changed),
            created_at=instants(one.created_at for one in changed),
            is_identified=numbers(one.is_identified for one in changed),
        )
        cursor.execute(
            "INSERT INTO people SELECT project, CAST(id AS UUID), properties, created_at, is_identified = 1 "
            "FROM changed"
        )
    if absorbed:
        _register(cursor, "moved", old=texts(one.id for one in absorbed), new=texts(one.final.id for one in absorbed))
        cursor.execute(
            "UPDATE people_ids SET person = CAST(moved.new AS UUID) FROM moved WHERE person = CAST(moved.old AS UUID)"
        )
    if persons.given:
        given = persons.given.items()
        _register(
            cursor,
            "given",
            project=numbers(project for (project, _), _ in given),
            distinct_id=texts(distinct_id for (_, distinct_id), _ in given),
            person=texts(one.final.id for _, one in given),
        )
        cursor.execute("INSERT INTO people_ids SELECT project, distinct_id, CAST(person AS UUID) FROM given")


def _write_groups(cursor: duckdb.DuckDBPyConnection, groups: Groups, kinds: dict[int, int]) -> None:
    for project, types in groups.types.items():
        for index in range(kinds.get(project, 0), len(types)):
            cursor.execute("INSERT INTO group_kinds VALUES (?, ?, ?)", [project, index, types[index]])
    if not groups.changed:
        return
    _register_keys(cursor, groups.changed)
    cursor.execute("DELETE FROM group_records WHERE (project, type, key) IN (SELECT (project, type, key) FROM keyed)")
    _register(
        cursor,
        "changed",
        project=numbers(project for project, _, _ in groups.changed),
        type=texts(kind for _, kind, _ in groups.changed),
        key=texts(key for _, _, key in groups.changed),
        properties=texts(_encode(one.properties).decode() for one in groups.changed.values()),
        created_at=instants(one.created_at for one in groups.changed.values()),
    )
    cursor.execute("INSERT INTO group_records SELECT * FROM changed")


def _write_notices(cursor: duckdb.DuckDBPyConnection, seen: list[Seen]) -> None:
    noticed = [(one.receipt, told) for one in seen for told in one.notices]
    if noticed:
        _register(
            cursor,
            "told",
            receipt=numbers(receipt for receipt, _ in noticed),
            type=texts(told.type for _, told in noticed),
            details=texts(told.details for _, told in noticed),
        )
        cursor.execute("INSERT INTO noticed SELECT receipt, type, details, false, true FROM told")


def _register_keys(cursor: duckdb.DuckDBPyConnection, keys: Iterable[tuple[int, str, str]]) -> None:
    listed = list(keys)
    _register(
        cursor,
        "keyed",
        project=numbers(project for project, _, _ in listed),
        type=texts(kind for _, kind, _ in listed),
        key=texts(key for _, _, key in listed),
    )


def _register(cursor: duckdb.DuckDBPyConnection, name: str, **columns: Any) -> None:
    cursor.register(name, table(**columns))


def _own(properties: str) -> dict[str, Raw]:
    """The members of an object, each with a text of its own."""
    return {name: value.copy() for name, value in _open(properties).items()}


def _number(cursor: duckdb.DuckDBPyConnection, sql: str) -> int:
    found = cursor.execute(sql).fetchone()
    assert found is not None
    return int(found[0])


def _all_or_none(cursor: duckdb.DuckDBPyConnection, work: Any) -> None:
    cursor.execute("BEGIN")
    try:
        work()
    except BaseException:
        cursor.execute("ROLLBACK")
        raise
    cursor.execute("COMMIT")
