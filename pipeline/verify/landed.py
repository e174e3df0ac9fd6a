"""What landed, read back from the service: counts first, then every event, page by page.

Pages are windows of whole UTC days, since both services store events by day; a day too large for one page is read in
pages by uuid. Each query has a limit, because the service truncates the result of a query without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pipeline.errors import Refused
from pipeline.management.moments import UTC_DAY, between, in_utc

if TYPE_CHECKING:
    from pipeline.management.client import QueryAnswer

T = TypeVar("T")


class Asker(Protocol):
    """Answers queries: a client, or an object that keeps a client's answers."""

    def query(self, sql: str) -> QueryAnswer:
        """The answer to one SELECT."""


PAGE = 20_000
"""Rows in one page."""
VALUES_PAGE = 2_000
"""Rows in one page if it includes the properties of the events."""
ASKED = 200
"""How many uuids or ids one query asks for."""


class Row(NamedTuple):
    """One event that landed. `properties` is its JSON text, None if it was not requested."""

    uuid: str
    event: str
    distinct_id: str
    timestamp: str
    properties: Any = None


class Cursor(NamedTuple):
    """Where the next page begins: in which window, and after which of its uuids ("": at its beginning)."""

    window: int = 0
    after: str = ""


BEGIN = Cursor()


def landed_cells(client: Asker, page: int = PAGE, where: str = "") -> Counter[tuple[str, str]]:
    """Counts, by (event, UTC day as a string), of the events that meet a condition."""
    counts: Counter[tuple[str, str]] = Counter()
    while True:
        answer = client.query(
            f"select event, {UTC_DAY} as day, count(*) from events{where and f' where {where}'}"
            f" group by event, day order by event, day limit {page} offset {len(counts)}"
        )
        counts.update({(str(event), str(day)[:10]): int(count) for event, day, count in answer.results})
        if len(answer.results) < page:
            return counts


def landed_copies(client: Asker, where: str = "") -> int | None:
    """How many copies were accepted in all, before any collapsed; None if the service has no such table."""
    try:
        return int(client.query(f"select count(*) from raw_events{where and f' where {where}'}").results[0][0])
    except Refused as error:
        if error.status == 400:
            return None
        raise


def landed_pages(
    client: Asker,
    cells: Counter[tuple[str, str]],
    page: int = PAGE,
    where: str = "",
    *,
    values: bool = False,
    start: Cursor = BEGIN,
) -> Iterator[tuple[list[Row], Cursor]]:
    """Every landed event that meets a condition, in pages of about `page` rows, from `start` on; `cells` has their
    counts.

    Each page comes with the cursor of the next one.
    """
    for number, (first, last) in enumerate(windows(cells, page)):
        if number >= start.window:
            after = start.after if number == start.window else ""
            days = first, last + timedelta(days=1)
            for rows, following in _pages(client, days, page, where, after, values):
                yield rows, Cursor(number, following) if following else Cursor(number + 1)


def windows(cells: Counter[tuple[str, str]], page: int) -> Iterator[tuple[date, date]]:
    """Runs of days (first and last of each) with at most `page` events, or of a single day."""
    days: Counter[date] = Counter()
    for (_, text), count in cells.items():
        days[date.fromisoformat(text)] += count
    run: list[date] = []
    events = 0
    for day in sorted(days):
        if run and events + days[day] > page:
            yield run[0], run[-1]
            run, events = [], 0
        run.append(day)
        events += days[day]
    if run:
        yield run[0], run[-1]


def _pages(
    client: Asker, days: tuple[date, date], page: int, where: str, after: str, values: bool
) -> Iterator[tuple[list[Row], str]]:
    """The pages of a window, each with its last uuid, "" for the last page."""
    limit = page
    columns = "uuid, event, distinct_id, timestamp" + (", properties" if values else "")
    while True:
        conditions = [between(*days)] + ([where] if where else [])
        conditions += [f"uuid > '{after}'"] if after else []
        answer = client.query(
            f"select {columns} from events where {' and '.join(conditions)} order by uuid limit {limit}"
        )
        rows = [_row(*row) for row in answer.results]
        if len(rows) < limit:
            yield rows, ""
            return
        # The last uuid may have more rows after this page, so it is read again.
        complete = [row for row in rows if row.uuid != rows[-1].uuid]
        if not complete:
            limit *= 2
            continue
        after, limit = complete[-1].uuid, page
        yield complete, after


def landed_events(
    client: Asker, uuids: Sequence[str], days: Collection[str] = (), *, values: bool = False
) -> dict[str, list[Row]]:
    """What landed under each of these uuids, ordered by time; with `days`, only between the first and the last day."""
    columns = "uuid, event, distinct_id, timestamp" + (", properties" if values else "")
    landed: dict[str, list[Row]] = {}
    for some in in_chunks(uuids):
        within = ""
        if days:
            until = date.fromisoformat(max(days)) + timedelta(days=1)
            within = f"{between(min(days), until)} and "
        answer = client.query(
            f"select {columns} from events where {within}uuid in ({quoted(some)})"
            f" order by uuid, timestamp limit {50 * ASKED}"
        )
        for row in answer.results:
            one = _row(*row)
            landed.setdefault(one.uuid, []).append(one)
    return landed


def in_chunks(values: Iterable[T], size: int = ASKED) -> Iterator[list[T]]:
    """The values, `size` at a time."""
    remaining = iter(values)
    while chunk := list(islice(remaining, size)):
        yield chunk


def persons_of(asker: Asker, ids: Iterable[str]) -> dict[str, str]:
    """The person of each id that has one and that a query can ask for."""
    query = "select distinct_id, person_id from person_distinct_ids where distinct_id in ({}) order by distinct_id"
    return {str(id): str(person) for id, person in in_lists(asker, query, ids)}


def in_lists(asker: Asker, query: str, texts: Iterable[str]) -> Iterator[list[Any]]:
    """The rows of a query with `{}` for a list of different strings, in chunks; strings that a query cannot contain are
    left out."""
    for some in in_chunks(sorted({text for text in texts if can_ask(text)})):
        # The service may also answer with an older row of a person.
        yield from asker.query(f"{query.format(quoted(some))} limit {len(some) * 10}").results


def can_ask(*texts: str) -> bool:
    """Whether a query may contain these strings: the two services read a backslash differently."""
    return not any("\\" in text for text in texts)


def quoted(texts: Sequence[str]) -> str:
    """Strings as a list in a query; none may contain a backslash, which the two services read differently."""
    return ", ".join("'{}'".format(text.replace("'", "''")) for text in texts)


def _row(uuid: object, event: object, distinct_id: object, timestamp: object, properties: object = None) -> Row:
    return Row(str(uuid), str(event), str(distinct_id), in_utc(str(timestamp)), properties)
