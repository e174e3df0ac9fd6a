"""Which events of a plan the target already has: under their own uuids, or under others, for example from a script.

Two events are the *same* if their name, distinct_id and second are equal: scripts often drop the fraction of a
second, and none of the usual ones sends a uuid (docs/know/peers.md#sample-scripts). Only names and UTC days for which
both sides have events are examined. Events that this plan's ledger has begun or settled do not count: they are
there because they were sent.

A sample of the plan's events is looked up first; if any of them is there, all events are compared. Both steps join the
plan's facts with what was read from the target.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from pipeline.ledger import read_batches
from pipeline.management.moments import between
from pipeline.plan.sealed.directory import EVENTS
from pipeline.preflight.live import Cell, micros
from pipeline.uuids import uuid_text
from pipeline.verify.landed import Row, in_chunks, landed_pages, quoted

if TYPE_CHECKING:
    from pipeline.identity.database import Database
    from pipeline.plan.sealed.directory import Directory
    from pipeline.preflight.live import TargetCells
    from pipeline.preflight.questions import Questions

MOST_EXAMPLES = 10
"""At most this many examples of each of the two kinds."""
MOST_COMPARED = 20_000_000
"""To compare all, at most this many events of the target are read; if there are more, the sample's share counts."""
DAYS = 40
"""The sample covers this many days; each takes at least one query."""
AT_ONCE = 250
"""One query asks for this many events."""
_DAY = 86_400_000_000
T = TypeVar("T")
Version = tuple[str, str, str]
"""The name, distinct_id and UTC day of an event: the service collapses copies of one uuid if all three are equal."""


class Example(NamedTuple):
    """A planned event that is already there: under its own `uuid`, or as another event with the uuid `other`, else
    ""."""

    event: str
    day: str
    uuid: str
    other: str


class Matches(msgspec.Struct):
    """Which of a plan's events are there. `compared` of the `shared` events, whose name and day both sides have, were
    looked up.

    `same_uuid` counts, by cell, compared events that are there under their own uuids, and `doubled` those that are
    there under other uuids. `complete`: every event was compared.
    """

    shared: int
    compared: int = 0
    complete: bool = False
    same_uuid: Counter[Cell] = msgspec.field(default_factory=Counter)
    doubled: Counter[Cell] = msgspec.field(default_factory=Counter)
    examples: list[Example] = msgspec.field(default_factory=list)

    def estimated(self, found: Counter[Cell]) -> int:
        """How many of all events these are: their number if every event was compared, else an estimate by their
        share."""
        count = found.total()
        return count if self.complete or not self.compared else -(-count * self.shared // self.compared)


class Comparison(msgspec.Struct, frozen=True):
    """What is compared: a plan's events in the cells for which the target has events too."""

    directory: Directory
    planned: Mapping[Cell, int]
    cells: TargetCells
    questions: Questions
    sample: int = 1_000
    """This many planned events are looked up before all are compared."""

    @property
    def common(self) -> list[Cell]:
        """Names and days for which both sides have events, in order."""
        return sorted(cell for cell in self.planned if cell in self.cells)


def find_matches(comparison: Comparison, database: Database) -> Matches:
    """Look up a sample, and compare everything if one of its events is there. Raises Refused, Unfinished."""
    sample = look_up_sample(comparison, database)
    landed = sum(comparison.cells.count(cell) for cell in comparison.common)
    if sample.complete or not (sample.same_uuid or sample.doubled) or landed > MOST_COMPARED:
        return sample
    return compare_all(comparison, database, sample)


class Renamed(NamedTuple):
    """A planned event whose uuid is at the target with another name, person or UTC day: its row, and both versions."""

    part: int
    row: int
    uuid: str
    planned: Version
    there: Version


class OtherVersions(msgspec.Struct, frozen=True):
    """Which of the plan's events the target has under their uuids, but with another name, person or UTC day. `found` is
    in the order of the export; `compared` events of a sample were looked up, of the `planned` ones that were not
    sent."""

    planned: int
    compared: int
    found: list[Renamed]

    @property
    def estimated(self) -> int:
        """How many of all planned events these are."""
        return -(-len(self.found) * self.planned // self.compared) if self.found else 0


def find_other_versions(comparison: Comparison, database: Database, now: datetime) -> OtherVersions:
    """Ask for a sample of the plan's events only by their uuids, whatever name and day they have at the target.

    Raises Refused, Unfinished.
    """
    rows = database.rows(
        f"SELECT hi, lo, part, row, name, distinct_id, time // {_DAY} FROM unsent ORDER BY lo, hi"
        f" LIMIT {comparison.sample}"
    )
    planned = {uuid_text(hi, lo): (part, row, name, id, _date(day)) for hi, lo, part, row, name, id, day in rows}
    there: dict[str, list[Version]] = defaultdict(list)

    for uuids in in_chunks(planned, AT_ONCE):

        def read(since: date, until: date, uuids: Sequence[str] = uuids) -> list[list[Any]]:
            return comparison.questions.query(
                f"select uuid, event, distinct_id, timestamp from events where {between(since, until)} and uuid in"
                f" ({quoted(uuids)}) order by uuid, timestamp limit {50 * AT_ONCE}"
            ).results

        for some in comparison.questions.divided(date(1970, 1, 1), now.date() + timedelta(days=2), read):
            for uuid, name, id, time in some:
                there[str(uuid)].append((str(name), str(id), _date(micros(time) // _DAY)))
    found = [
        Renamed(part, row, uuid, (name, id, day), there[uuid][0])
        for uuid, (part, row, name, id, day) in planned.items()
        if uuid in there and (name, id, day) not in there[uuid]
    ]
    return OtherVersions(database.number("SELECT count(*) FROM unsent"), len(planned), sorted(found))


@contextmanager
def opened(comparison: Comparison) -> Iterator[Database]:
    """A database with the views `unsent`, the facts of the plan's events that were not sent, and `waiting`, those in
    the common cells: hi, lo, cell, day, name, distinct_id, second, key."""
    from pipeline.identity.database import numbers, texts
    from pipeline.plan.requests import query

    common = comparison.common
    with query.opened(comparison.directory) as database:
        states = ("settled", "begun", "waiting")
        ledger = ((key, state) for state in states for key in read_batches(comparison.directory.ledger, state))
        query.add_ledger(database, (batch for batch in ledger if batch[0].phase == EVENTS))
        database.run("CREATE TABLE cells (cell BIGINT, name VARCHAR, day BIGINT)")
        columns = {
            "cell": numbers(range(len(common))), "name": texts([name for name, _ in common]),
            "day": numbers([_day(day) for _, day in common]),
        }  # fmt: skip
        database.append("cells", columns)
        database.run(
            "CREATE VIEW unsent AS SELECT * FROM facts WHERE code IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM ledger WHERE ledger.number = facts.number AND place BETWEEN first AND last)"
        )
        database.run(
            "CREATE VIEW waiting AS SELECT hi, lo, cell, day, unsent.name, distinct_id, time // 1000000 AS second,"
            " hash(unsent.name, distinct_id, time // 1000000) AS key"
            f" FROM unsent JOIN cells ON unsent.name = cells.name AND time // {_DAY} = day"
        )
        yield database


def look_up_sample(comparison: Comparison, database: Database) -> Matches:
    """Look up a sample of the plan's events: one of each name and day before a second one. Raises Refused,
    Unfinished."""
    common = comparison.common
    days = ", ".join(str(_day(day)) for day in spread(sorted({day for _, day in common}), DAYS))
    # The two services read a backslash differently, so no query contains one.
    database.run(
        "CREATE TABLE picked AS SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY cell ORDER BY lo, hi) AS nth"
        f" FROM waiting WHERE day IN ({days}) AND NOT contains(distinct_id, chr(92))) WHERE nth <= {comparison.sample}"
        f" ORDER BY nth, lo, hi LIMIT {comparison.sample}"
    )
    by_day: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for hi, lo, cell, distinct_id in database.rows("SELECT hi, lo, cell, distinct_id FROM picked ORDER BY day, hi, lo"):
        by_day[common[cell][1]].append((uuid_text(hi, lo), distinct_id))
    _add_landed(database, (page for day, events in by_day.items() for page in _ask(comparison.questions, day, events)))
    found = _joined(comparison, database, sum(comparison.planned[cell] for cell in common))
    found.complete = found.compared == database.number("SELECT count(*) FROM waiting")
    found.examples = _examples(common, database)
    return found


def _ask(questions: Questions, day: str, events: list[tuple[str, str]]) -> Iterator[list[Row]]:
    """What the target has of these events of one day, by uuid and by person."""
    for some in in_chunks(events, AT_ONCE):
        uuids = ", ".join(f"'{uuid}'" for uuid, _ in some)
        persons = ", ".join(sorted({"'{}'".format(distinct_id.replace("'", "''")) for _, distinct_id in some}))
        yield from rows_of(questions, {("", day): 1}, f"(uuid in ({uuids}) or distinct_id in ({persons}))")


def compare_all(comparison: Comparison, database: Database, sample: Matches) -> Matches:
    """Compare every event whose name and day both sides have. Raises Refused, Unfinished."""
    database.run("CREATE OR REPLACE TABLE picked AS SELECT hi, lo, cell, key FROM waiting")
    cells = {cell: comparison.cells.count(cell) for cell in comparison.common}
    _add_landed(database, rows_of(comparison.questions, cells, ""))
    found = _joined(comparison, database, sample.shared)
    found.complete, found.examples = True, sample.examples
    return found


def _add_landed(database: Database, pages: Iterable[Sequence[Row]]) -> None:
    """Create the table `landed` of what the target has: hi, lo, key."""
    from pipeline.identity.database import numbers, texts

    database.run("CREATE OR REPLACE TABLE landed (hi UBIGINT, lo UBIGINT, key UBIGINT)")
    database.run("CREATE OR REPLACE TABLE page (uuid VARCHAR, name VARCHAR, distinct_id VARCHAR, second BIGINT)")
    for page in pages:
        columns = {
            "uuid": texts([row.uuid.replace("-", "") for row in page]), "name": texts([row.event for row in page]),
            "distinct_id": texts([row.distinct_id for row in page]),
            "second": numbers([micros(row.timestamp) // 1_000_000 for row in page]),
        }  # fmt: skip
        database.append("page", columns)
        database.run(
            "INSERT INTO landed SELECT CAST('0x' || uuid[:16] AS UBIGINT), CAST('0x' || uuid[17:] AS UBIGINT),"
            " hash(name, distinct_id, second) FROM page"
        )
        database.run("DELETE FROM page")


def _joined(comparison: Comparison, database: Database, shared: int) -> Matches:
    """Compare the events in `picked` with those in `landed`. Each event there with another uuid matches one planned
    event."""
    cells = comparison.common
    database.run("CREATE OR REPLACE VIEW mine AS SELECT * FROM picked ANTI JOIN landed USING (hi, lo)")
    database.run(
        "CREATE OR REPLACE TABLE others AS SELECT hi, lo, key FROM landed"
        " ANTI JOIN (SELECT hi, lo FROM facts WHERE code IS NULL) USING (hi, lo)"
    )
    own = "SELECT cell, count(*) FROM picked SEMI JOIN landed USING (hi, lo) GROUP BY cell ORDER BY cell"
    doubled = (
        "SELECT cell, sum(least(planned, there)) FROM"
        " (SELECT key, any_value(cell) AS cell, count(*) AS planned FROM mine GROUP BY key)"
        " JOIN (SELECT key, count(*) AS there FROM others GROUP BY key) USING (key) GROUP BY cell ORDER BY cell"
    )
    return Matches(
        shared,
        compared=database.number("SELECT count(*) FROM picked"),
        same_uuid=Counter({cells[cell]: int(events) for cell, events in database.rows(own)}),
        doubled=Counter({cells[cell]: int(events) for cell, events in database.rows(doubled)}),
    )


def _examples(cells: Sequence[Cell], database: Database) -> list[Example]:
    """The first event of each cell that is there, and the first that is there as another event."""
    own = database.rows(
        "SELECT DISTINCT ON (cell) cell, hi, lo FROM picked SEMI JOIN landed USING (hi, lo)"
        f" ORDER BY cell, hi, lo LIMIT {MOST_EXAMPLES}"
    )
    doubled = database.rows(
        "SELECT DISTINCT ON (cell) cell, mine.hi, mine.lo, others.hi, others.lo FROM mine JOIN others USING (key)"
        f" ORDER BY cell, mine.hi, mine.lo, others.hi, others.lo LIMIT {MOST_EXAMPLES}"
    )
    return [
        *(Example(*cells[int(cell)], uuid_text(hi, lo), "") for cell, hi, lo in own),
        *(
            Example(*cells[int(cell)], uuid_text(hi, lo), uuid_text(other_hi, other_lo))
            for cell, hi, lo, other_hi, other_lo in doubled
        ),
    ]


def rows_of(questions: Questions, cells: Mapping[Cell, int], where: str) -> Iterator[list[Row]]:
    """Rows of the days of these cells."""
    return (rows for rows, _ in landed_pages(questions, Counter(cells), where=where))


def spread(values: Sequence[T], most: int) -> list[T]:
    """At most `most` of some values, evenly spread, with the first and the last."""
    if len(values) <= most:
        return list(values)
    return [values[round(index * (len(values) - 1) / max(1, most - 1))] for index in range(most)]


def _date(day: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


def _day(day: str) -> int:
    """The number of a UTC day, from 0 for the first of 1970."""
    return micros(f"{day}T00:00:00Z") // _DAY
