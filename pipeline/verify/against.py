"""Compares the plan with numbers of the old tool's charts, which a person exports to a small CSV (`verify --against`).

The file has the columns `metric,period,name,value`, or is wide, as charts export it: the period, then one column for
each series. What differs is explained by what the plan knows of the period and name: left-out rows, merges, the zone of
the old tool's days, and the plan's window.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from pipeline.errors import UsageError
from pipeline.identity.database import Database
from pipeline.plan.sealed.contents import DailyCount, sealed_lines
from pipeline.plan.sealed.directory import EVENTS, Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.timestamps import format_utc
from pipeline.verify.landed import quoted
from pipeline.verify.metrics import UPDATES
from pipeline.verify.number_findings import Against, OldNumber
from pipeline.zone_clock import QUARTER, ZoneClock

SHOWN = 100
"""Numbers of a result that differ, and unknown names."""
_LONG = ("metric", "period", "name", "value")
_METRICS = {"events": "", "users": "", "dau": "day", "wau": "week", "mau": "month"}
"""What a number may count, and the length of its period if the metric says it."""
_PERIOD = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)(?:[ T]00:00.*)?|(?P<month>\d{4}-\d\d)|(?P<week>\d{4}-W\d\d)|(?P<all>)")
_VALUE = re.compile(r"(\d+|\d{1,3}(?:,\d{3})+)(?:\.00?)?|(\d+|\d{1,3}(?:\.\d{3})+),00?")
"""Whole numbers with commas between thousands, or with points and a decimal comma. `1.000` may be either."""
_DAYS = {"day": 1, "week": 7, "month": 31}
_YEAR_1 = 62_135_596_800 * 1_000_000
"""Microseconds from the year 1 to 1970, a multiple of QUARTER: divisions of positive numbers round down."""
_EXAMPLE = "write it as: day,Signed Up,users (then: 2024-03-01,120,95); or as: metric,period,name,value"
_USERS, _IDS, _EVERYONE = "users", "ids before merges", "users of left-out rows too"
_Table = defaultdict[tuple[str, str, str], Counter[str]]
"""By unit, first day and name: rows by code ("" for accepted events), and users as they are counted above."""


class _Number(NamedTuple):
    """A number of the file. `start` is the first day of its period, "" for all; `unit` is `all` or a key of _DAYS."""

    unit: str
    start: str
    name: str
    metric: str
    period: str
    value: int


def compare_old_numbers(database: Database, plan: Plan, directory: Directory, file: str, timezone: str) -> Against:
    """Compare each number of the file. `database` has the tables of `pipeline.verify.metrics`. `timezone` is the zone
    of the old tool's days; if it is "", they are those of the plan's zone or of UTC, whichever fits better.

    Raises UsageError for a file that cannot be read.
    """
    asked = read_numbers(file)
    named = {one.name for one in asked} - {""}
    skipped = _add_counted(database, directory, ZoneClock(((timezone, ""),) if timezone else plan.options.zones))
    database.run("CREATE TABLE asked (name VARCHAR)")
    database.insert("asked", ((name,) for name in sorted(named)))
    units = {one.unit for one in asked}
    utc, local = (_table(database, units, day, skipped) for day in ("utc_day", "local_day"))
    zone = timezone or plan.zone
    off = [sum(abs(one.value - _value(one, table)) for one in asked) for table in (utc, local)]
    if not timezone and off[0] <= off[1]:
        local, zone = utc, "UTC"
    names = {name for (name,) in database.rows("SELECT DISTINCT name FROM counted")} | {name for name, *_ in skipped}
    rows = [_explained(one, local, utc, plan) for one in asked if one.name in names or not one.name]
    differing = [row for row in rows if row.old != row.planned]
    explained = sum(not row.unexplained for row in differing)
    differing.sort(key=lambda row: (-abs(row.unexplained), -abs(row.old - row.planned), row.period, row.name))
    periods = {(unit, start) for unit, start, name in local if not name}
    return Against(
        file, len(rows), len(rows) - len(differing), explained, len(differing) - explained, zone, differing[:SHOWN],
        sorted(named - names)[:SHOWN], len(names - named - {*UPDATES}) if named else 0,
        len(periods - {(one.unit, one.start) for one in asked}),
    )  # fmt: skip


def _add_counted(database: Database, directory: Directory, clock: ZoneClock) -> list[tuple[str, str, str, int]]:
    """Add the table `counted`, a row for each event of the facts. Returns what only the daily counts have, skipped and
    rejected rows: name, UTC day, code, count."""
    quarter = f"(time + {_YEAR_1}) // {QUARTER}"
    database.run("CREATE TABLE offsets (quarter BIGINT, ahead BIGINT)")
    quarters = database.rows(f"SELECT DISTINCT {quarter} FROM facts")
    database.insert("offsets", ((one, clock.offset_at(one * QUARTER - _YEAR_1)) for (one,) in quarters))
    database.run(
        "CREATE TABLE counted AS SELECT facts.name, CAST(make_timestamp(facts.time) AS DATE) AS utc_day,"
        " CAST(make_timestamp(facts.time + ahead) AS DATE) AS local_day, facts.person AS id,"
        " coalesce(links.person, facts.person) AS person, CASE WHEN code IS NOT NULL THEN code"
        " WHEN state = 'settled' THEN '' WHEN state IS NULL THEN 'refused_or_unsent' ELSE 'in_doubt' END AS fate"
        f" FROM (SELECT *, {quarter} AS quarter FROM facts) AS facts JOIN offsets USING (quarter) LEFT JOIN"
        f" (SELECT number, place, state FROM planned WHERE phase = '{EVENTS}') AS planned"
        " ON planned.number = facts.number AND planned.place = facts.place"
        " LEFT JOIN links ON links.id = facts.person"
    )
    fates = {fate for (fate,) in database.rows("SELECT DISTINCT fate FROM counted")} | {"mapped"}
    counts = sealed_lines(directory.cells, DailyCount)
    return [(one.event, one.day, one.outcome, one.count) for one in counts if one.outcome not in fates]


def _table(database: Database, units: set[str], day: str, skipped: Sequence[tuple[str, str, str, int]]) -> _Table:
    found = _Table(Counter)
    for unit in units:
        start = "''" if unit == "all" else f"CAST(date_trunc('{unit}', {day}) AS DATE)"
        for who, only in (("''", f"NOT IN ({quoted(UPDATES)})"), ("name", "IN (FROM asked)")):
            rows = database.rows(
                "SELECT CAST(start AS VARCHAR), who, fate, count(*), count(DISTINCT person), count(DISTINCT id) FROM"
                f" (SELECT {start} AS start, {who} AS who, fate, person, id FROM counted WHERE name {only})"
                " GROUP BY GROUPING SETS ((start, who, fate), (start, who))"
            )
            for first, name, fate, count, users, ids in rows:
                new = {_EVERYONE: users} if fate is None else {fate: count}
                found[unit, first, name].update(new | ({_USERS: users, _IDS: ids} if fate == "" else {}))
        for name, text, code, count in skipped:
            for who in (name,) if name in UPDATES else (name, ""):
                found[unit, _start(date.fromisoformat(text), unit), who][code] += count
    return found


def _value(one: _Number, table: _Table) -> int:
    return table[one[:3]]["" if one.metric == "events" else _USERS]


def _explained(one: _Number, local: _Table, utc: _Table, plan: Plan) -> OldNumber:
    """The difference in parts, as far as they are known."""
    planned, known = _value(one, utc), local[one[:3]]
    because = {"zone": _value(one, local) - planned}
    rest = one.value - planned - because["zone"]
    if one.metric == "users":
        users = known[_USERS]
        reasons = [("merges", known[_IDS] - users), ("left_out_rows", known[_EVERYONE] - users)]
    else:
        reasons = [each for each in known.most_common() if each[0] not in ("", _USERS, _IDS, _EVERYONE)]
    if _is_cut(one, plan):
        reasons.append(("window", rest))
    for code, most in reasons:
        because[code] = max(0, min(rest, most))
        rest -= because[code]
    because = {code: count for code, count in because.items() if count}
    return OldNumber(one.metric, one.period, one.name, one.value, planned, because, rest)


def _is_cut(one: _Number, plan: Plan) -> bool:
    """Whether the plan's window may leave out a part of the period."""
    since, until = (edge and format_utc(edge) for edge in (plan.options.since, plan.options.until))
    end = one.start and (date.fromisoformat(one.start) + timedelta(days=_DAYS[one.unit])).isoformat()
    return bool((since and f"{one.start}T00:00:00Z" < since) or (until and (not end or end > until[:10])))


def _start(day: date, unit: str) -> str:
    """The first day of the period of a day."""
    back = {"day": 0, "week": day.weekday(), "month": day.day - 1}
    return "" if unit == "all" else (day - timedelta(days=back[unit])).isoformat()


def read_numbers(file: str) -> list[_Number]:
    """The numbers of a file, without empty cells. Raises UsageError, which names the line."""
    try:
        with open(file, encoding="utf-8-sig", newline="") as lines:
            first = lines.readline()
            lines.seek(0)
            header, *rows = [*csv.reader(lines, delimiter=max(",;\t", key=first.count))] or [[""]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"--against: {file} cannot be read: {error}", hint=_EXAMPLE) from None
    names = [cell.strip().lower() for cell in header]
    long = [names.index(name) for name in _LONG] if set(_LONG) <= set(names) else []
    numbers: list[_Number] = []
    for line, row in enumerate(rows, 2):
        cells = [cell.strip() for cell in row]
        try:
            if any(cells) and len(cells) != len(header):
                raise ValueError(f"it has {len(cells)} cells, and the header has {len(header)}")
            if long and any(cells):
                numbers += _number(*(cells[column] for column in long))
            for series, value in zip(() if long else header[1:], cells[1:], strict=False):
                kind, _, name = series.strip().partition(": ")
                metric = kind if kind in ("events", "users") else "events"
                numbers += _number(metric, cells[0], name if metric == kind else series.strip(), value, names[0])
        except ValueError as error:
            raise UsageError(f"--against: line {line} of {file}: {error}", hint=_EXAMPLE) from None
    if not numbers:
        raise UsageError(f"--against: {file} has no numbers", hint=_EXAMPLE)
    return numbers


def _number(metric: str, period: str, name: str, value: str, column: str = "") -> Iterator[_Number]:
    """The number of these cells, if it has a value. `column`: the name of the periods' column. Raises ValueError."""
    if metric not in _METRICS:
        raise ValueError(f"{metric!r} is not a metric ({', '.join(_METRICS)})")
    found = _PERIOD.fullmatch(period)
    if found is None or found.lastgroup is None:
        raise ValueError(f"{period!r} is not a day (2024-03-01), a week (2024-W09) or a month (2024-03)")
    if value and _VALUE.fullmatch(value) is None:
        raise ValueError(f"{value!r} is not a whole number")
    unit, text, long = found.lastgroup, found[found.lastgroup], _METRICS[metric] or column
    if value:
        day = text + {"day": "", "week": "-1", "month": "-01", "all": ""}[unit]
        unit = long if unit == "day" and long in ("week", "month") else unit
        start = _start(date.fromisoformat(day), unit) if day else ""
        count = int(re.sub(r"[.,]00?$|[.,](?=\d{3})", "", value))
        yield _Number(unit, start, name, "users" if _METRICS[metric] else metric, period, count)
