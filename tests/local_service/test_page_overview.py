"""The overview of the local service's page: totals, days and their chart, and every page of an empty store."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from pipeline.local_service import LocalService
from pipeline.local_service.page.chart import chart
from tests.support.page_service import CLIENT, SEED, event, make, read, send, totals, uuids

pytestmark = pytest.mark.slow


@pytest.fixture
def service() -> Iterator[LocalService]:
    with make(SEED) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def empty() -> Iterator[LocalService]:
    with make() as fresh:
        yield fresh


def test_the_overview_counts_what_landed(service: LocalService) -> None:
    """Totals, events by day and by name, each with the right number."""
    send(service, event(1), event(2, "Paid"), event(3, time="2023-01-05T00:00:00Z", id="u2"))
    send(service, event(1), event(4, "$identify", "u1", **{"$anon_distinct_id": "device"}))
    send(service, event(5, id="u3"), historical=False)
    send(service, event(6, "$groupidentify", "u1", **{"$group_type": "company", "$group_key": "acme"}))
    send(service, event(7, "$create_alias", "u1", alias="null"))
    CLIENT.post(service.url + "/batch/", content=b"?")
    page = read(service, "/")
    assert totals(page) == {
        "Events": "7",
        "Not flagged historical": "1",
        "Persons": "3",
        "Groups": "1",
        "Warnings": "1",
        "Rejected requests": "1",
        "Functions that fire": "2",
    }
    assert "8 copies accepted" in page.text
    rows = page.cells()
    assert ["2023-01-02", "6"] in rows
    assert ["2023-01-03", "0"] in rows
    assert ["2023-01-05", "1"] in rows
    assert ["Seen", "3", "42.9 %"] in rows
    assert ["Paid", "1", "14.3 %"] in rows
    assert "2023-01-02 03:04:05 to 2023-01-05 00:00:00" in page.text


def test_the_overview_of_some_days(service: LocalService) -> None:
    """Days bound every count of events; both ends are included."""
    for day in range(1, 6):
        send(service, event(day, f"On {day}", time=f"2023-01-0{day}T23:59:59.999999Z"))
    page = read(service, "/", since="2023-01-02", until="2023-01-04")
    assert totals(page)["Events"] == "3"
    assert [row[0] for row in page.cells() if row[0].startswith("On ")] == ["On 2", "On 3", "On 4"]


def test_what_landed_since_is_shown_at_once(service: LocalService) -> None:
    """Nothing that is remembered outlives the next event."""
    for number in range(1, 4):
        send(service, event(number, id=f"u{number}"))
        assert (totals(read(service, "/"))["Events"], totals(read(service, "/"))["Persons"]) == (f"{number}",) * 2
        assert len(uuids(read(service, "/events"))) == number
    send(service, event(1, id="u1", later=True))
    assert "4 copies accepted" in read(service, "/").text
    assert len(uuids(read(service, "/events"))) == 3


@pytest.mark.parametrize("path", ["/", "/events", "/people", "/groups", "/functions", "/warnings", "/rejected"])
def test_an_empty_store_has_every_page(empty: LocalService, path: str) -> None:
    """Where nothing landed, a page says so."""
    assert re.search(r"Nothing has landed|No \w+|no hog function", read(empty, path).text)


@pytest.mark.parametrize(
    ("days", "unit", "bars", "gaps"),
    [
        ([0], "day", 1, 0),
        ([0, 9], "day", 10, 8),
        ([0, 1199], "day", 1200, 1198),
        ([0, 1200], "month", 40, 38),
        ([-1, 365 * 101], "year", 2, 0),
        ([-719_528, 0], "year", 2, 0),
    ],
)
def test_the_chart_chooses_its_unit(days: list[int], unit: str, bars: int, gaps: int) -> None:
    """By day as long as bars can be told apart, then by month, then by year; nothing is left out of the sum."""
    found = chart([(str(np.datetime64(day, "D")), day % 7 + 1) for day in days])
    assert found is not None
    assert (found.unit, len(found.bars), found.gaps) == (unit, bars, gaps)
    assert sum(bar.count for bar in found.bars) == sum(day % 7 + 1 for day in days)
    assert max(bar.height for bar in found.bars) == 160
    assert found.bars[-1].x < 1000


def test_times_at_the_ends_of_the_calendar(service: LocalService) -> None:
    """Events of the year 0 and of long ago are counted and listed."""
    send(service, event(1, "Old", time="0000-01-01T00:00:00Z"), event(2, "Young", time="2023-01-01T00:00:00Z"))
    assert ["0000", "1"] in read(service, "/").cells()
    assert len(uuids(read(service, "/events"))) == 2
