"""The tables of the database, and the views that a query reads.

Every accepted event is a row of `accepted`, numbered in the order of receipt. Duplicates collapse in a view, as the
real service's table engine does in the background: one row per project, uuid, event, distinct_id and UTC day; the last
received wins (docs/know/service.md#uuids-and-duplicates). Events that were dropped after their 200 are only in
`accepted`. `noticed` has the warnings about events, `refused` the requests that were refused as a whole.

`people`, `people_ids`, `group_kinds` and `group_records` are derived from `accepted` when they are read; `folded` says
up to which receipt, and by which rules. Table names are part of store files, so they never change.

The views `events`, `persons`, `person_distinct_ids` and `groups` have only columns that the real service's tables have
(docs/know/service.md#query-interface). The other views are the local service's own.
"""

from __future__ import annotations

TABLES = """
CREATE TABLE IF NOT EXISTS accepted (
    project INTEGER, receipt BIGINT, uuid UUID, event VARCHAR, distinct_id VARCHAR, "timestamp" TIMESTAMP,
    properties VARCHAR, historical_migration BOOLEAN, created_at TIMESTAMP);
CREATE TABLE IF NOT EXISTS refused ("time" TIMESTAMP, status INTEGER, reason VARCHAR, payload VARCHAR);
CREATE TABLE IF NOT EXISTS noticed (
    receipt BIGINT, type VARCHAR, details VARCHAR, dropped BOOLEAN, folded BOOLEAN);
CREATE TABLE IF NOT EXISTS people (
    project INTEGER, id UUID, properties VARCHAR, created_at TIMESTAMP, is_identified BOOLEAN);
CREATE TABLE IF NOT EXISTS people_ids (project INTEGER, distinct_id VARCHAR, person UUID);
CREATE TABLE IF NOT EXISTS group_kinds (project INTEGER, "index" INTEGER, type VARCHAR);
CREATE TABLE IF NOT EXISTS group_records (
    project INTEGER, type VARCHAR, key VARCHAR, properties VARCHAR, created_at TIMESTAMP, updated_at TIMESTAMP);
CREATE TABLE IF NOT EXISTS folded (receipt BIGINT, rules VARCHAR);
CREATE OR REPLACE VIEW kept AS SELECT * FROM accepted WHERE receipt NOT IN (
    SELECT receipt FROM noticed WHERE dropped);
CREATE OR REPLACE VIEW collapsed AS SELECT * FROM accepted WHERE receipt IN (
    SELECT max(receipt) FROM kept
    GROUP BY uuid, hash(project, event, distinct_id, CAST("timestamp" AS DATE)));
CREATE OR REPLACE MACRO startsWith(x, prefix) AS starts_with(x, prefix);
CREATE OR REPLACE MACRO toUUID(x) AS CAST(x AS UUID);
CREATE OR REPLACE MACRO toString(x) AS CAST(x AS VARCHAR);
CREATE OR REPLACE MACRO toDate(x) AS CAST(x AS DATE);
CREATE OR REPLACE MACRO toMonday(x) AS CAST(date_trunc('week', x) AS DATE);
CREATE OR REPLACE MACRO toStartOfMonth(x) AS CAST(date_trunc('month', x) AS DATE);
CREATE OR REPLACE MACRO toTimeZone(x, zone) AS CASE zone
    WHEN 'UTC' THEN x ELSE timezone(zone, timezone('UTC', x)) END;
CREATE OR REPLACE MACRO toDateTime(x, zone) AS CASE zone
    WHEN 'UTC' THEN CAST(x AS TIMESTAMP) ELSE timezone('UTC', timezone(zone, CAST(x AS TIMESTAMP))) END;
CREATE OR REPLACE MACRO toDateTime64(x, digits, zone) AS toDateTime(x, zone);
CREATE OR REPLACE MACRO JSONExtractString(x, name) AS coalesce(CASE
    WHEN json_type(x, '/' || replace(replace(name, '~', '~0'), '/', '~1')) = 'VARCHAR'
    THEN json_extract_string(x, '/' || replace(replace(name, '~', '~0'), '/', '~1')) END, '');
CREATE OR REPLACE MACRO person_digits(digits) AS CAST(
    digits[1:12] || '3' || digits[14:16] || '8' || digits[18:32] AS UUID);
CREATE OR REPLACE MACRO person_uuid(project, distinct_id) AS person_digits(md5(project || ':' || distinct_id));
"""

ZONED = """
CREATE OR REPLACE MACRO toTimeZone(x, zone) AS timezone(zone, x);
CREATE OR REPLACE MACRO toDateTime(x, zone) AS timezone(zone, CAST(x AS TIMESTAMP));
"""
"""For projects in another zone than UTC: their events' times have that zone, as in the real query language."""

_SETTINGS = """
SET GLOBAL TimeZone = '{timezone}';
SET GLOBAL memory_limit = '200MB';
SET GLOBAL threads = 1;
SET GLOBAL autoload_known_extensions = false;
SET GLOBAL autoinstall_known_extensions = false;
SET GLOBAL enable_external_access = false;
SET GLOBAL lock_configuration = true;
"""

_COLUMNS = 'uuid, event, distinct_id, "timestamp", properties'
_ZONED_COLUMNS = _COLUMNS.replace('"timestamp"', 'timezone(\'UTC\', "timestamp") AS "timestamp"')
_VIEWS = """
CREATE TEMP VIEW raw_events AS
    SELECT {columns}, historical_migration, {created}, receipt FROM accepted WHERE project = {project};
CREATE TEMP VIEW persons AS SELECT id, properties, {created}, is_identified FROM people WHERE project = {project};
CREATE TEMP VIEW person_distinct_ids AS
    SELECT person AS person_id, distinct_id FROM people_ids WHERE project = {project};
CREATE TEMP VIEW group_types AS SELECT "index", type FROM group_kinds WHERE project = {project};
CREATE TEMP VIEW groups AS
    SELECT "index", key, {created}, {updated}, properties
    FROM group_records JOIN group_kinds USING (project, type) WHERE project = {project};
CREATE TEMP VIEW warnings AS
    SELECT n.type, n.details, n.dropped, a.uuid, a.event, a.distinct_id, a."timestamp", n.receipt
    FROM noticed n JOIN accepted a USING (receipt) WHERE a.project = {project};
CREATE TEMP VIEW rejections AS SELECT * FROM refused;
"""
_PLAIN_EVENTS = """
CREATE TEMP VIEW events AS SELECT {columns}, CAST(NULL AS UUID) AS person_id, {tail}, {groups}
    FROM collapsed WHERE project = {project};
"""
_EVENTS = """
CREATE TEMP VIEW events AS
    SELECT {columns}, coalesce(i.person, person_uuid({project}, distinct_id)) AS person_id, {tail}, {groups}
    FROM collapsed LEFT JOIN (SELECT distinct_id, person FROM people_ids WHERE project = {project}) i
    USING (distinct_id) WHERE project = {project};
"""
MOST_GROUP_TYPES = 5
"""Group types of a project."""


def connection_settings(timezone: str) -> str:
    """The statements that limit a connection and set the projects' time zone."""
    return _SETTINGS.format(timezone=timezone.replace("'", "''"))


def views(project: int, group_types: list[str] | None, *, zoned: bool = False) -> str:
    """The statements that create the views of one project. `zoned`: its time zone is not UTC.

    `group_types` None: the query does not read the columns of `events` about persons and groups; they stay empty.
    """
    groups = ", ".join(f'{_group(group_types or [], index)} AS "$group_{index}"' for index in range(MOST_GROUP_TYPES))
    events = _PLAIN_EVENTS if group_types is None else _EVENTS
    time = "timezone('UTC', {0}) AS {0}" if zoned else "{0}"
    created = time.format("created_at")
    return (_VIEWS + events).format(
        project=project,
        columns=_ZONED_COLUMNS if zoned else _COLUMNS,
        created=created,
        updated=time.format("updated_at"),
        tail=f"JSONExtractString(properties, '$elements_chain') AS elements_chain, {created}",
        groups=groups,
    )


def _group(types: list[str], index: int) -> str:
    """The key of an event's group; empty if it has none, as in the service's query language."""
    if index >= len(types):
        return "''"
    pointer = "/$groups/" + types[index].replace("~", "~0").replace("/", "~1")
    quoted = pointer.replace("'", "''")
    personless = """json_extract_string(properties, '$."$process_person_profile"') = 'false'"""
    return (
        f"CASE WHEN {personless} AND json_type(properties, '$.\"$process_person_profile\"') = 'BOOLEAN' THEN '' "
        f"ELSE coalesce(json_extract_string(properties, '{quoted}'), '') END"
    )
