"""The other parts of the local service's page: totals, days, functions that would fire, warnings, rejected requests."""

from __future__ import annotations

import re

from pipeline.local_service import LocalService
from tests.support.page_service import CLIENT, PERSONAL, event, make, read, send, totals, uuid, uuids


def test_the_overview_counts_what_landed(seeded: LocalService) -> None:
    send(seeded, event(1), event(2, "Paid"), event(3, time="2023-01-05T00:00:00Z", id="u2"))
    send(seeded, event(1), event(4, "$identify", "u1", **{"$anon_distinct_id": "device"}))
    send(seeded, event(5, id="u3"), historical=False)
    send(seeded, event(6, "$groupidentify", "u1", **{"$group_type": "company", "$group_key": "acme"}))
    send(seeded, event(7, "$create_alias", "u1", alias="null"))
    CLIENT.post(seeded.url + "/batch/", content=b"?")
    page = read(seeded, "/")
    assert totals(page) == {
        "Events": "7", "Not flagged historical": "1", "Persons": "3", "Groups": "1", "Warnings": "1",
        "Rejected requests": "1", "Functions that fire": "2",
    }  # fmt: skip
    assert "8 copies accepted" in page.text
    rows = page.cells()
    assert ["2023-01", "", "5", "", "", "1", *[""] * 26, "6"] in rows
    assert "1 profile or group update is not drawn" in page.text
    assert ["Seen", "3", "42.9%"] in rows
    assert ["Paid", "1", "14.3%"] in rows
    assert "2023-01-02 03:04:05 to 2023-01-05 00:00:00" in page.text


def test_the_overview_of_some_days(seeded: LocalService) -> None:
    """Days limit every count of events; both ends are included."""
    for day in range(1, 6):
        send(seeded, event(day, f"On {day}", time=f"2023-01-0{day}T23:59:59.999999Z"))
    page = read(seeded, "/", since="2023-01-02", until="2023-01-04")
    assert totals(page)["Events"] == "3"
    assert [row[0] for row in page.cells() if row[0].startswith("On ")] == ["On 2", "On 3", "On 4"]


def test_profile_updates_are_not_events_of_the_day_of_planning(seeded: LocalService) -> None:
    """They are counted, and drawn only if the filter has their name. A merge stays among the events."""
    planned = "2023-11-01T00:00:00Z"
    send(seeded, event(1), event(2, "$set", time=planned), event(3, "$identify", time=planned))
    send(seeded, event(4, "$identify", "u1", **{"$anon_distinct_id": "device"}))
    for page in (read(seeded, "/"), read(seeded, "/events")):
        assert ["2023-01", "", "2", *[""] * 29, "2"] in page.cells()
        assert "2 profile or group updates are not drawn" in page.text
    assert totals(read(seeded, "/"))["Events"] == "4"
    assert "2023-01-02 03:04:05 to 2023-01-02 03:04:05" in read(seeded, "/").text
    assert ["2023-11", "1", *[""] * 30, "1"] in read(seeded, "/events", event="$set").cells()


def test_what_landed_since_is_shown_at_once(seeded: LocalService) -> None:
    """No cached value outlives the next event."""
    for number in range(1, 3):
        send(seeded, event(number, id=f"u{number}"))
        assert (totals(read(seeded, "/"))["Events"], totals(read(seeded, "/"))["Persons"]) == (f"{number}",) * 2
        assert len(uuids(read(seeded, "/events"))) == number
    send(seeded, event(1, id="u1", later=True))
    assert "3 copies accepted" in read(seeded, "/").text
    assert len(uuids(read(seeded, "/events"))) == 2


def test_an_empty_store_has_every_page() -> None:
    with make(None) as empty:
        for path in ("/", "/events", "/people", "/groups", "/functions", "/warnings", "/rejected"):
            assert re.search(r"Nothing has landed|No \w+|no hog function", read(empty, path).text), path


def test_the_chart_says_what_stands_out(seeded: LocalService) -> None:
    """The axis ends at four medians; a higher bar shows its count, days without events their dates, each day a link."""
    events = [event(day, time=f"2023-01-{day:02}T12:00:00Z") for day in range(1, 21) if day not in (11, 12)]
    events += [event(100 + number, "Burst", time="2023-01-15T12:00:00Z") for number in range(9)]
    send(seeded, *events)
    page = read(seeded, "/")
    assert "2023-01-15: 10 (bar cut at 4)" in page.text
    assert "no events from 2023-01-11 to 2023-01-12 (2 days)" in page.text
    assert ["2023-01", *"1111111111", "", "", "1", "1", "10", *"11111", *[""] * 11, "27"] in page.cells()
    found = read(seeded, "/events", event="Burst")
    assert "All events are of one day, 2023-01-15: 9." in found.text
    assert ["2023-01", *[""] * 14, "9", *[""] * 16, "9"] in found.cells()


def test_times_at_the_ends_of_the_calendar(seeded: LocalService) -> None:
    """Events of the year 0 and of long ago are counted and listed."""
    send(seeded, event(1, "Old", time="0000-01-01T00:00:00Z"), event(2, "Young", time="2023-01-01T00:00:00Z"))
    assert ["0000", "1"] in read(seeded, "/").cells()
    assert len(uuids(read(seeded, "/events"))) == 2


def test_functions_with_what_they_would_meet(seeded: LocalService) -> None:
    send(seeded, event(1, "Paid"), event(2, "Paid"), event(3))
    rows = {row[0].split(" ")[0]: row[2:5] for row in read(seeded, "/functions").cells()[1:]}
    assert rows == {"Pay": ["yes", "2", "0"], "Narrow": ["yes", "0", "3"], "Off": ["no", "0", "0"]}


def test_a_deleted_function_is_gone(seeded: LocalService) -> None:
    send(seeded, event(1, "Paid"))
    address = f"{seeded.url}/api/projects/1/hog_functions/"
    headers = {"authorization": f"Bearer {PERSONAL}"}
    pay = next(one for one in CLIENT.get(address, headers=headers).json()["results"] if one["name"].startswith("Pay"))
    assert CLIENT.patch(f"{address}{pay['id']}/", headers=headers, json={"deleted": True}).status_code == 200
    assert [row[0].split()[0] for row in read(seeded, "/functions").cells()[1:]] == ["Narrow", "Off"]
    assert "would fire" not in read(seeded, f"/events/{uuid(1)}").text
    assert totals(read(seeded, "/"))["Functions that fire"] == "1"


def test_warnings_and_rejected_requests_are_paged(seeded: LocalService) -> None:
    """The warnings of a type, and the rejected requests with reason and body, the last first."""
    send(seeded, *(event(n, "$create_alias", alias="null") for n in range(1, 61)))
    send(seeded, event(99, id="i" * 300))
    page = read(seeded, "/warnings", type="cannot_merge_with_illegal_distinct_id")
    assert "60 warnings" in page.text
    assert "Page 1 of 2" in page.text
    assert len(set(uuids(page))) == 50
    assert set(uuids(read(seeded, "/warnings", type="distinct_id_shortened"))) == {uuid(99)}
    for number in range(55):
        CLIENT.post(seeded.url + "/batch/", content=f"not json: {number}")
    first, second = read(seeded, "/rejected"), read(seeded, "/rejected", page=2)
    assert "55 requests rejected" in first.text
    bodies = [row[3] for page in (first, second) for row in page.cells()[1:]]
    assert sorted(bodies) == sorted(f"not json: {number}" for number in range(55))
