"""What landed, read back from the service: counts first, then every event, page by page.

Pages are windows of whole UTC days, since both services store events by day; a day too large for one page is read in
pages by uuid. Each query has a limit, because the service truncates the result of one without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from typing import TYPE_CHECKING

from pipeline.errors import Refused

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

PAGE = 20_000
"""Rows of one page."""
Row = tuple[str, str, str, str]
"""uuid, event, distinct_id, timestamp of one event that landed."""


def landed_cells(client: ManagementClient, page: int = PAGE, where: str = "") -> Counter[tuple[str, str]]:
    """Counts by (event, UTC day as text) of the events that meet a condition."""
    counts: Counter[tuple[str, str]] = Counter()
    while True:
        answer = client.query(
            f"select event, toDate(timestamp) as day, count(*) from events{where and f' where {where}'}"
            f" group by event, day order by event, day limit {page} offset {len(counts)}"
        )
        counts.update({(str(event), str(day)[:10]): int(count) for event, day, count in answer.results})
        if len(answer.results) < page:
            return counts


def landed_copies(client: ManagementClient, where: str = "") -> int | None:
    """How many copies were accepted in all, before any collapsed; None where the service has no such table."""
    try:
        return int(client.query(f"select count(*) from raw_events{where and f' where {where}'}").results[0][0])
    except Refused as error:
        if error.status == 400:
            return None
        raise


def landed_rows(
    client: ManagementClient, cells: Counter[tuple[str, str]], page: int = PAGE, where: str = ""
) -> Iterator[list[Row]]:
    """Every landed event that meets a condition, in pages of about `page` rows; `cells` counts them."""
    for first, last in windows(cells, page):
        yield from _pages(client, first, last + timedelta(days=1), page, where)


def windows(cells: Counter[tuple[str, str]], page: int) -> Iterator[tuple[date, date]]:
    """Runs of days, first and last of each, with at most `page` events, or of one day."""
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


def _pages(client: ManagementClient, since: date, until: date, page: int, where: str) -> Iterator[list[Row]]:
    also = where and f" and {where}"
    after, limit = also, page
    while True:
        answer = client.query(
            "select uuid, event, distinct_id, timestamp from events"
            f" where timestamp >= '{since}' and timestamp < '{until}'{after} order by uuid limit {limit}"
        )
        rows: list[Row] = [(str(u), str(e), str(d), str(t)) for u, e, d, t in answer.results]
        if len(rows) < limit:
            yield rows
            return
        # The last uuid may have rows beyond this page; it is read again.
        complete = [row for row in rows if row[0] != rows[-1][0]]
        if not complete:
            limit *= 2
            continue
        yield complete
        after, limit = f"{also} and uuid > '{complete[-1][0]}'", page


def landed_event(client: ManagementClient, uuid: str) -> list[tuple[str, str, str]]:
    """What landed under one uuid: (event, distinct_id, timestamp) of each."""
    answer = client.query(
        f"select event, distinct_id, timestamp from events where uuid = '{uuid}' order by timestamp limit 100"
    )
    return [(str(event), str(distinct_id), str(timestamp)) for event, distinct_id, timestamp in answer.results]
