"""What landed, read back from the service page by page, in ranges of the uuid so that no page is large."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipeline.management import ManagementClient
from pipeline.verify.expected import SIGHT, sight

PAGE = 20_000
"""Events of a page, about."""


def landed_cells(client: ManagementClient, table: str = "events") -> Counter[tuple[str, str]]:
    """Counts by (event, UTC day as text)."""
    answer = client.query(f"select event, toDate(timestamp) as day, count(*) from {table} group by event, day")
    return Counter({(str(event), str(day)[:10]): int(count) for event, day, count in answer.results})


def landed_sights(client: ManagementClient, total: int) -> Iterator[NDArray[np.void]]:
    """Every landed event as a sight, page by page, pages in uuid order."""
    pages = max(1, -(-total // PAGE))
    bounds = [_bound(index, pages) for index in range(pages)]
    for index, low in enumerate(bounds):
        high = bounds[index + 1] if index + 1 < pages else None
        where = f"uuid >= '{low}'" + (f" and uuid < '{high}'" if high else "")
        answer = client.query(f"select uuid, event, distinct_id, timestamp from events where {where}")
        rows = [(*sight(str(u), str(e), str(d), str(t)), -1, 0) for u, e, d, t in answer.results]
        yield np.array(rows, SIGHT)


def landed_event(client: ManagementClient, uuid: str) -> list[tuple[str, str, str]]:
    """What landed under one uuid: (event, distinct_id, timestamp) of each."""
    answer = client.query(f"select event, distinct_id, timestamp from events where uuid = '{uuid}'")
    return [(str(event), str(distinct_id), str(timestamp)) for event, distinct_id, timestamp in answer.results]


def _bound(index: int, pages: int) -> str:
    digits = f"{index * (1 << 128) // pages:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
