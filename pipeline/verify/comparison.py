"""Compares what should have arrived with what landed, by queries: what agrees is counted, what does not is a table.

Events that are in doubt, or that wait because a larger request containing them was refused, may have landed or not;
neither counts as a difference. Copies that are equal in uuid, event, distinct_id and timestamp do not count either: the
service collapses them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Raw

from pipeline.identity.database import Database
from pipeline.ledger import BatchKey
from pipeline.uuids import uuid_text
from pipeline.verify.expected import identity
from pipeline.verify.findings import CellCounts, ExtraEvents, FoundCounts
from pipeline.verify.landed import ASKED, Row
from pipeline.verify.session import parquet
from pipeline.verify.values import landed_properties

MISSING, DIFFERENT, DUPLICATED, EXTRA = "missing", "different", "duplicated", "extra"
WORST = (MISSING, DIFFERENT, DUPLICATED, EXTRA)
"""A cell that is wrong in several ways counts as the first of these."""
SHOWN = 20
"""At most this many cells, events, persons and groups that differ are listed; all are counted."""
_LATE, _SUSPECT = "late", "suspect"
SAME = "hi, lo, name, person, time"
"""Two events are the same if these are equal."""
DAY = "CAST(CAST(make_timestamp(time) AS DATE) AS VARCHAR) AS day"


class Missing(NamedTuple):
    """A planned event of which nothing landed; `nth` numbers them."""

    nth: int
    uuid: str
    name: str
    person: int
    time: int
    day: str


class Comparison:
    """Counts what agrees and what does not. Its tables in `database`:

    want         what should have arrived, on the days that were read; a view, with `day`
    odd          the part of `want` that did not land as it was sent
    strange      what landed but was not sent like that: `planned` is the least place of the same uuid, or null; `nth`
                 of its uuid, and its `kind`: duplicated, different (from an event in doubt), paired (belongs to a
                 different event, and is counted with it), extra, other if the project also has events of others, or
                 replayed if it is the first of a uuid that the plan leaves out because an earlier one sent it (the
                 table `replayed`)
    missed       planned events that did not land: the nth of all, and what landed under their uuid, if anything
    differences  kind, place, uuid, event, day; for what was planned also its name, person and time
    suspects     events that may have a different value
    """

    def __init__(self, database: Database, expected: Path) -> None:
        self._database = database
        self.counts = dict.fromkeys(FoundCounts.__struct_fields__, 0)
        database.run("CREATE TABLE replayed (hi UBIGINT, lo UBIGINT)")
        database.run(f"CREATE VIEW planned AS SELECT *, {DAY} FROM {parquet(expected)}")

    def differing_days(self, counts: Mapping[tuple[str, str], int]) -> set[str]:
        """The UTC days whose counts differ from what was sent."""
        rows = self._database.rows("SELECT name, day, count(*) FROM planned GROUP BY name, day")
        sent = {(name, day): count for name, day, count in rows}
        return {cell[1] for cell in sent.keys() | counts.keys() if sent.get(cell, 0) != counts.get(cell, 0)}

    def days(self) -> set[str]:
        """The UTC days of the events that were sent."""
        return {day for (day,) in self._database.rows("SELECT DISTINCT day FROM planned")}

    def compare(self, landed: str, *, alone: bool, among_others: bool, days: Collection[str] | None) -> None:
        """Fill the tables. `landed` are the rows that landed, `days` the days that were read; None: all days."""
        run, number, counts = self._database.run, self._database.number, self.counts
        run(f"CREATE VIEW landed AS SELECT *, {DAY} FROM {landed}")
        run("CREATE TABLE read_days (day VARCHAR)")
        self._database.insert("read_days", zip(sorted(days or ()), strict=True))
        condition = "" if days is None else " WHERE day IN (FROM read_days)"
        run(f"CREATE VIEW want AS SELECT * FROM planned{condition}")
        if days is not None:  # days with equal counts were not read
            counts["expected"] = number(
                "SELECT count(*) FROM planned WHERE day NOT IN (FROM read_days) AND state = 'settled'"
            )
            counts["found"] = counts["expected"]
        ours = " SEMI JOIN want USING (hi, lo)" if among_others else ""
        run(f"CREATE TABLE have AS SELECT {SAME}, any_value(day) AS day, count(*) AS copies FROM landed{ours}"
            f" GROUP BY {SAME}")  # fmt: skip
        run(f"CREATE TABLE odd AS SELECT * FROM want ANTI JOIN have USING ({SAME})")
        run(
            "CREATE TABLE strange_uuids AS SELECT want.hi, want.lo, bool_or(odd.place IS NULL) AS right_too,"
            " bool_or(odd.state = 'settled') AS missed,"
            " min({'phase': want.phase, 'number': want.number, 'place': want.place, 'name': want.name,"
            " 'person': want.person, 'time': want.time}) AS planned"
            f" FROM want SEMI JOIN (SELECT hi, lo FROM have ANTI JOIN want USING ({SAME})) USING (hi, lo)"
            " LEFT JOIN odd USING (phase, number, place) GROUP BY want.hi, want.lo"
        )
        run(
            "CREATE TABLE strange AS SELECT *, CASE"
            " WHEN planned IS NULL AND nth = 1 AND (hi, lo) IN (SELECT (hi, lo) FROM replayed) THEN 'replayed'"
            f" WHEN planned IS NULL THEN '{EXTRA if alone else 'other'}'"
            f" WHEN right_too OR nth > 1 THEN '{DUPLICATED}'"
            f" WHEN missed THEN 'paired' ELSE '{DIFFERENT}' END AS kind FROM"
            f" (SELECT *, row_number() OVER (PARTITION BY hi, lo ORDER BY name, person, time) AS nth"
            f" FROM have ANTI JOIN want USING ({SAME})) LEFT JOIN strange_uuids USING (hi, lo)"
        )
        run(
            "CREATE TABLE missed AS SELECT odd.*, row_number() OVER (ORDER BY phase, number, place) AS nth,"
            " strange.hi IS NOT NULL AS there, strange.name != odd.name AS renamed, strange.time != odd.time AS"
            " retimed, strange.person != odd.person AS other_person FROM odd LEFT JOIN strange"
            " ON strange.hi = odd.hi AND strange.lo = odd.lo AND strange.nth = 1 WHERE odd.state = 'settled'"
        )
        run("CREATE TABLE verdicts (nth BIGINT, verdict VARCHAR)")
        run("CREATE TABLE suspects (phase VARCHAR, number BIGINT, place BIGINT)")
        run(
            "INSERT INTO suspects SELECT phase, number, place FROM want"
            " ANTI JOIN landed USING (hi, lo, name, person, time, digest)"
            " ANTI JOIN odd USING (phase, number, place) WHERE digest != 0 AND state = 'settled'"
        )
        self._count()

    def _count(self) -> None:
        number, counts = self._database.number, self.counts
        counts["expected"] += number("SELECT count(*) FROM want") - number(
            "SELECT count(*) FROM odd WHERE state != 'settled'"
        )
        kinds = dict(self._database.rows("SELECT kind, count(*) FROM strange GROUP BY kind"))
        counts["others"], counts["replayed"] = kinds.get("other", 0), kinds.get("replayed", 0)
        counts["duplicated"] = kinds.get(DUPLICATED, 0)
        counts["extra"] = kinds.get(EXTRA, 0) + counts["duplicated"]
        counts["found"] += number("SELECT count(*) FROM have") - counts["others"] - counts["replayed"]
        counts["copies"] = number("SELECT sum(copies - 1) FROM have")
        counts[DIFFERENT] = kinds.get(DIFFERENT, 0)
        for what in ("renamed", "retimed", "other_person"):
            counts[what] = number(f"SELECT count(*) FROM missed WHERE there AND {what}")

    # -- what was missing, asked for again ----------------------------------------------------------------

    def missing(self) -> Iterator[list[Missing]]:
        """Planned events of which nothing landed, in lists of ASKED."""
        query = "SELECT nth, hi, lo, name, person, time, day FROM missed WHERE NOT there ORDER BY nth"
        for batch in self._database.stream(query, ASKED):
            rows = zip(*batch.to_pydict().values(), strict=True)
            yield [Missing(nth, uuid_text(hi, lo), *event) for nth, hi, lo, *event in rows]

    def count_missing(self) -> int:
        return self._database.number("SELECT count(*) FROM missed WHERE NOT there")

    def ask_again(self, missing: Sequence[Missing], landed: Mapping[str, list[Row]], marks: Mapping[str, str]) -> None:
        """Decide on events that were missing, by what the service now has under their uuids, whatever their marks.

        An event that is there now was late; one without the import's marks is suspect, since one of its properties
        changed.
        """
        verdicts = []
        for event in missing:
            rows = [(row, identity(*row[1:4])) for row in landed.get(event.uuid, [])]
            own = [row for row, identity in rows if identity == (event.name, event.person, event.time)]
            if own:
                late = any(_has_marks(row, marks) for row in own)
                self.counts["found"] += 1
                self.counts["late"] += late
                verdicts.append(_LATE if late else _SUSPECT)
            elif rows:
                name, person, time = rows[0][1]
                self.counts["renamed"] += name != event.name
                self.counts["other_person"] += person != event.person
                self.counts["retimed"] += time != event.time
                verdicts.append(DIFFERENT)
            else:
                verdicts.append(MISSING)
        self._database.insert("verdicts", zip((event.nth for event in missing), verdicts, strict=True))

    def conclude(self) -> None:
        """Fill `differences`, once everything that needs it was asked for again."""
        own = "phase, number, place, hi, lo, name AS event, day, name, person, time"
        run, number = self._database.run, self._database.number
        run(
            f"CREATE TABLE differences AS SELECT '{MISSING}' AS kind, {own} FROM missed LEFT JOIN verdicts USING (nth)"
            f" WHERE NOT there AND coalesce(verdict, '{MISSING}') = '{MISSING}'"
            f" UNION ALL SELECT '{DIFFERENT}', {own} FROM missed LEFT JOIN verdicts USING (nth)"
            f" WHERE there OR verdict = '{DIFFERENT}'"
            " UNION ALL SELECT kind, planned.phase, planned.number, planned.place, hi, lo, name, day, planned.name,"
            f" planned.person, planned.time FROM strange WHERE kind IN ('{DIFFERENT}', '{DUPLICATED}', '{EXTRA}')"
        )
        run(
            "INSERT INTO suspects SELECT phase, number, place FROM missed JOIN verdicts USING (nth)"
            f" WHERE verdict = '{_SUSPECT}'"
        )
        for kind in (MISSING, DIFFERENT):
            self.counts[kind] = number(f"SELECT count(*) FROM differences WHERE kind = '{kind}'")

    # -- results --------------------------------------------------------------------------------------------

    def lost(self) -> list[BatchKey]:
        """The missing events as runs of neighbours, in order."""
        return [
            BatchKey(*row)
            for row in self._database.rows(
                "SELECT phase, number, min(place), max(place) FROM (SELECT phase, number, place, place - row_number()"
                " OVER (PARTITION BY phase, number ORDER BY place) AS run FROM differences"
                f" WHERE kind = '{MISSING}') GROUP BY phase, number, run ORDER BY phase, number, min(place)"
            )
        ]

    def count_suspects(self) -> int:
        """How many events may have a different value."""
        return self._database.number("SELECT count(*) FROM suspects")

    def suspects(self) -> Iterator[tuple[str, int, int]]:
        """Their places, in order."""
        return self._database.tuples("SELECT DISTINCT * FROM suspects ORDER BY ALL")

    def extras(self) -> list[ExtraEvents]:
        """The cells with the most events that do not belong to the plan."""
        rows = self._database.rows(
            "SELECT name, day, count(*), min({'hi': hi, 'lo': lo}) FROM strange"
            f" WHERE kind IN ('{EXTRA}', 'other') GROUP BY name, day ORDER BY count(*) DESC, day, name LIMIT {SHOWN}"
        )
        return [ExtraEvents(name, day, count, uuid_text(one["hi"], one["lo"])) for name, day, count, one in rows]

    def count_copies(self, accepted: int | None) -> None:
        """Count the copies among all `accepted` events, if that number is known."""
        if accepted is not None:
            there = sum(self.counts[name] for name in ("found", "others", "replayed"))
            self.counts["copies"] = max(0, accepted - there)

    def cells(self) -> CellCounts:
        """How many cells agree, and how many differ; each counts as the worst of what is wrong in it."""
        tally = dict.fromkeys(("match", *WORST), 0)
        rank = f"list_position({list(WORST)}, kind)"
        self._database.run(
            f"CREATE TABLE wrong AS SELECT name, day, min(worst) AS worst FROM (SELECT event AS name, day, {rank} AS"
            f" worst FROM differences UNION ALL SELECT name, day, {WORST.index(DIFFERENT) + 1} FROM strange"
            " WHERE kind = 'paired') GROUP BY name, day"
        )
        for worst, cells in self._database.rows("SELECT worst, count(*) FROM wrong GROUP BY worst"):
            tally[WORST[worst - 1]] = cells
        tally["match"] = self._database.number(
            "SELECT count(*) FROM (SELECT DISTINCT name, day FROM planned) ANTI JOIN wrong USING (name, day)"
        )
        return CellCounts(**tally)


def _has_marks(row: Row, marks: Mapping[str, str]) -> bool:
    properties = landed_properties(row.properties) or {}
    return all(_text(properties.get(name)) == text for name, text in marks.items())


def _text(value: Raw | None) -> object:
    return None if value is None else msgspec.json.decode(value)
