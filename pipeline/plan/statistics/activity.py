"""Events of one person that follow each other faster than a person can act, and events that were recorded twice.

Everything is a query over the events that are sent. Every count is exact, unless the ids of two people share a 64-bit
hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pipeline.timestamps import DAY, MINUTE, SECOND

if TYPE_CHECKING:
    from pipeline.plan.fact_tables import FactTables

UNITS = {"second": SECOND, "minute": MINUTE, "day": DAY}
MOST_BUSY, MOST_REPEATS = 20, 20
"""This many are kept as examples."""
_APART = 5 * SECOND
"""Repeated events stand alone: no other equal event lies this close to them."""
_MOST_TIMES = 3
"""Something recorded more often than this within a second is a stream of equal events, not an event recorded twice."""
_MANY = "CREATE TABLE many AS SELECT person FROM facts WHERE event GROUP BY person HAVING count(*) > {least}"
"""The few people who may exceed a limit."""
_BUSY = """
SELECT person, count(*) AS events, '{unit}' AS unit, time // {length} * {length} AS start,
    arg_min((block, row), (time, hi, lo, place)) AS first, count(*) / {limit}::DOUBLE AS rank
FROM sent SEMI JOIN many USING (person) GROUP BY person, start HAVING count(*) > {limit}
"""
_MOST_BUSY = f"""
SELECT any_value(people) AS people, arg_min((events, unit, start, first), (-rank, first, start)) AS most
FROM (SELECT *, (SELECT count(DISTINCT person) FROM busy) AS people FROM busy)
GROUP BY person ORDER BY min((-rank, first, start)) LIMIT {MOST_BUSY}
"""
_NEXT = f"""
CREATE TABLE acts AS
SELECT *, day = next_day AND next_time > time AND (block, row) > (next_block, next_row) AS late FROM (
    SELECT *, lead(time) OVER acts AS next_time, lead(day) OVER acts AS next_day, lead(block) OVER acts AS next_block,
        lead(row) OVER acts AS next_row, lag(time) OVER acts AS last_time, lag(day) OVER acts AS last_day
    FROM (SELECT person, time, time // {DAY} AS day, block, row, same, ordinal, name FROM sent)
    WINDOW acts AS (PARTITION BY person ORDER BY time, block, row)
)
WHERE late OR (day = next_day AND next_time - time < {_APART}) OR (day = last_day AND time - last_time < {_APART})
"""
"""The events after a later one of the same person and day: the last event of each time in the source, if an event of
the person's next time stands before it. Also the events that have a close neighbour in time."""
_REPEATS = f"""
CREATE TABLE repeats AS
SELECT name, events, least((block, row), other) AS row, greatest((block, row), other) AS other, time FROM (
    SELECT *, count(*) OVER of_chain AS events, max(time) OVER of_chain AS last,
        lead((block, row)) OVER in_chain AS other, row_number() OVER in_chain AS number
    FROM (
        SELECT *, sum((before IS NULL OR time - before >= {_APART})::INTEGER) OVER alike AS chain FROM (
            SELECT *, lag(time) OVER alike AS before FROM acts WINDOW alike AS (
                PARTITION BY same, ordinal ORDER BY time, block, row
            )
        ) WINDOW alike AS (PARTITION BY same, ordinal ORDER BY time, block, row)
    )
    WINDOW of_chain AS (PARTITION BY same, ordinal, chain),
        in_chain AS (PARTITION BY same, ordinal, chain ORDER BY time, block, row)
)
WHERE number = 1 AND events BETWEEN 2 AND {_MOST_TIMES} AND last - time < {SECOND}
"""


class BusyPeriod(NamedTuple):
    """The most events of one person within a `unit` of time, which begins at `time` (µs UTC).

    `block` and `row` are those of the first of these events, from 0.
    """

    events: int
    unit: str
    time: int
    block: int
    row: int


class Repeat(NamedTuple):
    """Two events of one person within a second that differ only in their uuid: (block, row) of both, name and time."""

    row: tuple[int, int]
    other: tuple[int, int]
    name: str
    time: int


class Activity(NamedTuple):
    """What the events of people show.

    `fast_ids` counts the people with more events than a limit within a unit of time; `busy` are those who exceed a
    limit most, then the first in the source. `repeated` counts, by name, the events that equal an earlier one in the
    same second; `repeats` are the first of them in the source. `late` counts events that come, in the source, after a
    later event of the same person and UTC day; `late_rows` are the (block, row) of the first of them.
    """

    fast_ids: int = 0
    busy: tuple[BusyPeriod, ...] = ()
    repeated: Mapping[str, int] = {}
    repeats: tuple[Repeat, ...] = ()
    late: int = 0
    late_rows: tuple[tuple[int, int], ...] = ()


def find_activity(tables: FactTables, limits: Mapping[str, int]) -> Activity:
    """Examine the events to send; `limits` are the most events allowed for a person, by the names of UNITS."""
    people, busy = _busy(tables, limits)
    tables.run(_NEXT)
    late = tables.number("SELECT count(*) FROM acts WHERE late")
    rows = tables.rows(f"SELECT block, row FROM acts WHERE late ORDER BY ALL LIMIT {MOST_REPEATS}")
    tables.run(_REPEATS)
    tables.drop("acts")
    repeated = tables.rows("SELECT name, sum(events - 1)::BIGINT FROM repeats GROUP BY name")
    repeats = tables.rows(f"SELECT row, other, name, time FROM repeats ORDER BY ALL LIMIT {MOST_REPEATS}")
    tables.drop("repeats")
    return Activity(people, busy, dict(repeated), tuple(Repeat(*one) for one in repeats), late, tuple(rows))


def _busy(tables: FactTables, limits: Mapping[str, int]) -> tuple[int, tuple[BusyPeriod, ...]]:
    """How many people have more events than a limit, and those who exceed a limit most."""
    tables.run(_MANY.format(least=min(limits.values())))
    found: list[tuple[int, tuple[int, str, int, tuple[int, int]]]] = []
    if tables.number("SELECT count(*) FROM many"):
        units = [_BUSY.format(unit=unit, length=UNITS[unit], limit=limit) for unit, limit in limits.items()]
        tables.run(f"CREATE TABLE busy AS {' UNION ALL '.join(units)}")
        found = tables.rows(_MOST_BUSY)
        tables.drop("busy")
    tables.drop("many")
    people = found[0][0] if found else 0
    return people, tuple(BusyPeriod(events, unit, start, *first) for _, (events, unit, start, first) in found)
