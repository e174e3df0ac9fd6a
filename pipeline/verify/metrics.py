"""Compares numbers that a person knows from charts: events and users by day, week, month, name, platform and country.

They are computed from the plan's facts, its merges and the stored requests (`$os` and `$geoip_country_code`), and asked
from the target. Both sides take only events that the ledger says are settled, without those that update persons and
groups, and both count in UTC; weeks begin on Monday. A user is a person after all merges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from pipeline.encoder.updates import GROUP_EVENT, PROFILE_EVENT, SealedLink, merge_event
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database, numbers, texts
from pipeline.management.moments import UTC_DAY
from pipeline.models import Step
from pipeline.plan.requests.store import RequestReader, read_requests
from pipeline.plan.sealed.directory import EVENTS, Directory, LinesWriter
from pipeline.plan.settled_facts import settled_lines
from pipeline.verify.expected import encodable
from pipeline.verify.landed import PAGE, quoted
from pipeline.verify.number_findings import Metric, Metrics
from pipeline.verify.provenance import having
from pipeline.verify.session import END, Pages, Session

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

UPDATES = sorted({"$identify", merge_event("alias"), *GROUP_EVENT.values(), *PROFILE_EVENT.values()})
"""The names of events that merge ids or update persons and groups: no chart of the old tool has them."""
MOST_NAMES = 100
"""Names, platforms and countries of a result; the others are one row. The file has all."""
MOST_PERIODS = 120
"""Months of a result, and days or weeks that differ."""
MOST_IDS = 200_000
"""Of at most this many ids the target's persons are read, to say which were split or merged."""
MOST_PEOPLE = 20
_AT_ONCE = 50_000
_DAY = "CAST(make_timestamp(time) AS DATE)"
CHARTS = {
    "day": (_DAY, UTC_DAY),
    "week": (f"CAST(date_trunc('week', {_DAY}) AS DATE)", f"toMonday({UTC_DAY})"),
    "month": (f"CAST(date_trunc('month', {_DAY}) AS DATE)", f"toStartOfMonth({UTC_DAY})"),
    "event": ("name", "event"),
    "platform": ("platform", "JSONExtractString(properties, '$os')"),
    "country": ("country", "JSONExtractString(properties, '$geoip_country_code')"),
}
"""What each metric is counted by: in the plan's table `measured`, and in a query to the target."""
_PERIODS = ("day", "week", "month")
_PROPERTIES = pa.schema([
    ("number", pa.int64()), ("place", pa.int64()), ("platform", pa.string()), ("country", pa.string()),
])  # fmt: skip


class _Two(msgspec.Struct):
    platform: Any = msgspec.field(default="", name="$os")
    country: Any = msgspec.field(default="", name="$geoip_country_code")


class _Event(msgspec.Struct):
    properties: _Two


class _Count(NamedTuple):
    events: int = 0
    users: int = 0


_read = msgspec.json.Decoder(_Event).decode


def compare_metrics(
    client: ManagementClient,
    session: Session,
    database: Database,
    directory: Directory,
    marks: Mapping[str, str],
    progress: Step,
) -> Metrics:
    """Compare, and write every row to metrics.jsonl. `database` has the views `planned` and `facts`; afterwards also
    the table `links` (an id and the person that it belongs to after the plan's merges)."""
    database.run("CREATE TABLE stated (id UBIGINT, person UBIGINT)")
    links = (link for _, link in settled_lines(directory, "identities") if isinstance(link, SealedLink))
    database.insert("stated", ((hash_id(one.other), hash_id(one.distinct_id)) for one in links))
    database.run("CREATE TABLE links AS SELECT id, min(person) AS person FROM stated GROUP BY id")
    properties = _properties(session, directory, database, progress)
    database.run(
        "CREATE TABLE measured AS SELECT name, time, planned.person AS id,"
        " coalesce(links.person, planned.person) AS person, coalesce(platform, '') AS platform,"
        f" coalesce(country, '') AS country FROM (FROM planned WHERE phase = '{EVENTS}' AND state = 'settled'"
        f" AND name NOT IN ({quoted(UPDATES)})) AS planned LEFT JOIN {properties} AS properties USING (number, place)"
        " LEFT JOIN links ON links.id = planned.person"
    )
    conditions = [f"event not in ({quoted(UPDATES)})", *filter(None, [having(marks)])]
    where = " and ".join(conditions)
    parts, result = _people(client, database, where)
    rows: list[Metric] = []
    for done, metric in enumerate(CHARTS):
        progress("metrics", done, len(CHARTS))
        planned, found = _planned(database, metric), chart_numbers(client, metric, where)
        for name in sorted(planned.keys() | found.keys()):
            counts = (*planned.get(name, _Count()), *found.get(name, _Count()), *parts.get((metric, name), ()))
            rows.append(Metric(metric, name, *counts))
    with LinesWriter(directory.metrics) as writer:
        writer.write_all(rows)
        writer.close()
    count = f"SELECT count(*) FROM planned WHERE phase = '{EVENTS}' AND"
    return msgspec.structs.replace(
        result,
        compared=Counter(row.metric for row in rows),
        rows=shown_rows(rows),
        differing=sum(row.differs for row in rows),
        in_doubt=database.number(f"{count} state != 'settled'"),
        left_out=database.number(f"{count} name IN ({quoted(UPDATES)})"),
    )


def _properties(session: Session, directory: Directory, database: Database, progress: Step) -> str:
    """The platform and the country of each event that was sent, from its request, as a relation."""
    pages = Pages(session, "properties", _PROPERTIES)
    if pages.cursor != END:
        numbers_sent = f"SELECT number, count(*) FROM planned WHERE phase = '{EVENTS}' GROUP BY number"
        sent = dict(database.rows(numbers_sent))
        reached = -1 if pages.cursor is None else int(pages.cursor)
        rows: list[tuple[int, int, str, str]] = []
        with RequestReader(directory) as reader:
            for request in read_requests(directory, EVENTS):
                if request.number not in sent or request.number <= reached:
                    continue
                for place, event in enumerate(reader.events(request)):
                    two = _read(event).properties
                    rows.append((request.number, place, _text(two.platform), _text(two.country)))
                if len(rows) >= _AT_ONCE:
                    _add(pages, rows, request.number)
                    progress("platforms and countries", pages.rows, sum(sent.values()))
        if rows:
            _add(pages, rows, request.number)
        pages.finish()
    return pages.relation


def _add(pages: Pages, rows: list[tuple[int, int, str, str]], cursor: int) -> None:
    number, place, platform, country = zip(*rows, strict=True)
    pages.add([numbers(number), numbers(place), texts(platform), texts(country)], cursor)
    rows.clear()


def _text(value: object) -> str:
    """A property as the target's query reads it: "" if it is not a string."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _planned(database: Database, metric: str) -> dict[str, _Count]:
    pairs = f"SELECT {CHARTS[metric][0]} AS name, person, count(*) AS events FROM measured GROUP BY ALL"
    rows = database.rows(f"SELECT CAST(name AS VARCHAR), sum(events), count(*) FROM ({pairs}) GROUP BY name")
    return {name: _Count(int(events), users) for name, events, users in rows}


def chart_numbers(client: ManagementClient, metric: str, where: str) -> dict[str, _Count]:
    """The numbers of a metric at a service, of events that meet a condition, by name."""
    query = (
        f"select {CHARTS[metric][1]} as counted_by, count(*), count(distinct person_id) from events where {where}"
        " group by counted_by order by counted_by"
    )
    length = len("2024-03-01") if metric in _PERIODS else None  # the target may answer with a day's midnight
    return {str(name)[:length]: _Count(int(events), int(users)) for name, events, users in paged(client, query)}


def paged(client: ManagementClient, query: str) -> Iterator[list[Any]]:
    """The rows of an ordered query."""
    done, answer = 0, None
    while answer is None or len(answer) == PAGE:
        answer = client.query(f"{query} limit {PAGE} offset {done}").results
        yield from answer
        done += len(answer)


def _people(
    client: ManagementClient, database: Database, where: str
) -> tuple[dict[tuple[str, str], tuple[int, int]], Metrics]:
    """How many users were split and merged at the target, by metric and name, and who.

    Each pair of a plan's person and a target's person is an edge; with as many edges as the plan has persons, none is
    split, and with as many as the target has, none are merged. So users differ by what is split, less what is merged,
    and less those whose events are missing.
    """
    query = f"select distinct_id, min(person_id) as person from events where {where} group by distinct_id"
    parts: dict[tuple[str, str], tuple[int, int]] = {}
    persons = list(islice(paged(client, f"{query} order by distinct_id"), MOST_IDS + 1))
    if len(persons) > MOST_IDS:
        unknown = f"which persons are split or merged at the target, since there are more than {MOST_IDS:,} ids"
        return parts, Metrics(unknown=unknown)
    database.run("CREATE TABLE theirs (id UBIGINT, theirs UBIGINT, distinct_id VARCHAR)")
    database.insert("theirs", ((hash_id(str(id)), hash_id(str(person)), encodable(str(id))) for id, person in persons))
    database.run("CREATE TABLE edges AS SELECT * FROM measured JOIN theirs USING (id)")
    for metric, (by, _) in CHARTS.items():
        pairs = f"SELECT DISTINCT {by} AS name, person, theirs FROM edges"
        query = (
            "SELECT CAST(name AS VARCHAR), count(*), count(DISTINCT person), count(DISTINCT theirs)"
            f" FROM ({pairs}) GROUP BY name"
        )
        for name, edges, ours, theirs in database.rows(query):
            parts[metric, name] = edges - ours, edges - theirs
    database.run(f"CREATE TABLE odd_people AS {several('split')} UNION ALL {several('merged')}")
    counts = Counter(dict(database.rows("SELECT kind, count(*) FROM odd_people GROUP BY kind")))
    return parts, Metrics(people=shown_people(database), split=counts["split"], merged=counts["merged"])


def several(kind: str, code: str = "NULL") -> str:
    """A query for the persons who are `split` or `merged`, with an expression for a `code` and five of their ids. The
    table `edges` has the persons of an id on both sides, `person` and `theirs`."""
    one, other = ("person", "theirs") if kind == "split" else ("theirs", "person")
    return (
        f"SELECT '{kind}' AS kind, {code} AS code, list(DISTINCT distinct_id ORDER BY distinct_id)[:5] AS ids"
        f" FROM edges WHERE person IS NOT NULL AND theirs IS NOT NULL GROUP BY {one}"
        f" HAVING min({other}) != max({other})"
    )


def shown_people(database: Database) -> list[tuple[str, list[str]]]:
    """Some ids of each kind of the table `odd_people`, of persons without a code."""
    rows = database.rows(
        "SELECT kind, ids FROM odd_people WHERE code IS NULL"
        f" QUALIFY row_number() OVER (PARTITION BY kind ORDER BY ids) <= {MOST_PEOPLE} ORDER BY kind DESC, ids"
    )
    return [(kind, list(ids)) for kind, ids in rows]


def shown_rows(rows: Iterable[Metric]) -> list[Metric]:
    """The rows of a result: months, days and weeks that differ, the most frequent names; one row for other names."""
    shown: list[Metric] = []
    for metric in ("month", "week", "day", *(name for name in CHARTS if name not in _PERIODS)):
        own = [row for row in rows if row.metric == metric]
        if metric in _PERIODS:
            shown += [row for row in own if metric == "month" or row.differs][-MOST_PERIODS:]
            continue
        own.sort(key=lambda row: (-max(row.events, row.events_found), row.name))
        shown += own[:MOST_NAMES]
        if rest := own[MOST_NAMES:]:
            events, found = (sum(getattr(row, name) for row in rest) for name in ("events", "events_found"))
            shown.append(Metric(metric, "", events, None, found, None, others=len(rest)))
    return shown
