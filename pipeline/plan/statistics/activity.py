"""Events of one person that follow each other faster than a person can act, and events that were recorded twice.

Everything is a query over the events that are sent. Every count is exact, unless the ids of two people share a 64-bit
hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pipeline.identity.kinds import PLACE_SHIFT
from pipeline.timestamps import DAY, MINUTE, SECOND

if TYPE_CHECKING:
    from pipeline.options import PlanOptions
    from pipeline.plan.fact_tables import FactTables

UNITS = {"second": SECOND, "minute": MINUTE, "day": DAY}
MOST_BUSY, MOST_REPEATS = 20, 20
"""This many are kept as examples."""
_APART = 5 * SECOND
"""Repeated events stand alone: no other equal event lies this close to them."""
_MOST_TIMES = 3
"""Something recorded more often than this within a second is a stream of equal events, not an event recorded twice."""
_PLACE = f"(block::BIGINT << {PLACE_SHIFT} | row)"
_MANY = "CREATE TABLE many AS SELECT person FROM facts WHERE event GROUP BY person HAVING count(*) > {least}"
"""The few people who may exceed a limit."""
_BUSY = f"""
SELECT person, count(*) AS events, '{{unit}}' AS unit, time // {{length}} * {{length}} AS start,
    arg_min({_PLACE}, (time, hi, lo, place)) AS first, arg_min(distinct_id, (time, hi, lo, place)) AS id,
    count(*) / {{limit}}::DOUBLE AS rank
FROM sent SEMI JOIN many USING (person) GROUP BY person, start HAVING count(*) > {{limit}}
"""
_MOST_BUSY = f"""
SELECT any_value(people) AS people, arg_min((events, unit, start, first, id), (-rank, first, start)) AS most
FROM (SELECT *, (SELECT count(DISTINCT person) FROM busy) AS people FROM busy)
GROUP BY person ORDER BY min((-rank, first, start)) LIMIT {MOST_BUSY}
"""
_NEXT = f"""
CREATE TABLE acts AS
SELECT *, day = next_day AND next_time > time AND row > next_row AS late FROM (
    SELECT *, lead(time) OVER acts AS next_time, lead(day) OVER acts AS next_day, lead(row) OVER acts AS next_row,
        lag(time) OVER acts AS last_time, lag(day) OVER acts AS last_day
    FROM (SELECT person, time, time // {DAY} AS day, {_PLACE} AS row, same, ordinal, name FROM sent)
    WINDOW acts AS (PARTITION BY person ORDER BY time, row)
)
WHERE late OR (day = next_day AND next_time - time < {_APART}) OR (day = last_day AND time - last_time < {_APART})
"""
"""The events after a later one of the same person and day: the last event of each time in the source, if an event of
the person's next time stands before it. Also the events that have a close neighbour in time."""
_REPEATS = f"""
CREATE TABLE repeats AS
SELECT name, events, least(row, other) AS row, greatest(row, other) AS other, time FROM (
    SELECT *, count(*) OVER of_chain AS events, max(time) OVER of_chain AS last,
        lead(row) OVER in_chain AS other, row_number() OVER in_chain AS number
    FROM (
        SELECT *, sum((before IS NULL OR time - before >= {_APART})::INTEGER) OVER alike AS chain FROM (
            SELECT *, lag(time) OVER alike AS before FROM acts WINDOW alike AS (
                PARTITION BY same, ordinal ORDER BY time, row
            )
        ) WINDOW alike AS (PARTITION BY same, ordinal ORDER BY time, row)
    )
    WINDOW of_chain AS (PARTITION BY same, ordinal, chain),
        in_chain AS (PARTITION BY same, ordinal, chain ORDER BY time, row)
)
WHERE number = 1 AND events BETWEEN 2 AND {_MOST_TIMES} AND last - time < {SECOND}
"""


class BusyPeriod(NamedTuple):
    """The most events of one person within a `unit` of time, which begins at `time` (µs UTC); `row` is the place of the
    first of these events (PLACE_SHIFT), and `id` its distinct_id."""

    events: int
    unit: str
    time: int
    row: int
    id: str


class Repeat(NamedTuple):
    """Two events of one person within a second that differ only in their uuid: the places of both, name and time."""

    row: int
    other: int
    name: str
    time: int


class Activity(NamedTuple):
    """What the events of people show.

    `fast_ids` counts the people with more events than a limit within a unit of time; `busy` are those who exceed a
    limit most, then the first in the source. `repeated` counts, by name, the events that equal an earlier one in the
    same second, the most frequent name first; `repeats` are the first of them in the source. `late` counts events that
    come, in the source, after a later event of the same person and UTC day; `late_rows` are the places of the first of
    them.
    """

    fast_ids: int = 0
    busy: tuple[BusyPeriod, ...] = ()
    repeated: Mapping[str, int] = {}
    repeats: tuple[Repeat, ...] = ()
    late: int = 0
    late_rows: tuple[int, ...] = ()


def find_activity(tables: FactTables, thresholds: PlanOptions) -> Activity:
    """Examine the events to send; `thresholds` has the most events allowed for a person in each of UNITS."""
    allowed = thresholds.per_second, thresholds.per_minute, thresholds.per_day
    people, busy = _busy(tables, dict(zip(UNITS, allowed, strict=True)))
    tables.run(_NEXT)
    late = tables.number("SELECT count(*) FROM acts WHERE late")
    rows = tables.rows(f"SELECT row FROM acts WHERE late ORDER BY ALL LIMIT {MOST_REPEATS}")
    tables.run(_REPEATS)
    tables.drop("acts")
    repeated = tables.rows("SELECT name, sum(events - 1)::BIGINT AS n FROM repeats GROUP BY name ORDER BY n DESC, name")
    repeats = tables.rows(f"SELECT row, other, name, time FROM repeats ORDER BY ALL LIMIT {MOST_REPEATS}")
    tables.drop("repeats")
    return Activity(people, busy, dict(repeated), tuple(Repeat(*one) for one in repeats), late, sum(rows, ()))


def _busy(tables: FactTables, limits: Mapping[str, int]) -> tuple[int, tuple[BusyPeriod, ...]]:
    """How many people have more events than a limit, and those who exceed a limit most."""
    tables.run(_MANY.format(least=min(limits.values())))
    found: list[tuple[int, tuple[int, str, int, int, str]]] = []
    if tables.number("SELECT count(*) FROM many"):
        units = [_BUSY.format(unit=unit, length=UNITS[unit], limit=limit) for unit, limit in limits.items()]
        tables.run(f"CREATE TABLE busy AS {' UNION ALL '.join(units)}")
        found = tables.rows(_MOST_BUSY)
        tables.drop("busy")
    tables.drop("many")
    people = found[0][0] if found else 0
    return people, tuple(BusyPeriod(*one) for _, one in found)
