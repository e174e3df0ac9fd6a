"""Verify compares the numbers of charts: with the target, and with those of the old tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.verify.number_findings import Against, Metric, Metrics, OldNumber
from tests.support.hogql import like_the_real_service, refusal
from tests.support.people import planned as planned_people
from tests.support.verification import Sent, empty, sent, sent_rows


def metrics(one: Sent, **asked: Any) -> Metrics:
    found = one.verify(fields="none", metrics=True, **asked).metrics
    assert isinstance(found, Metrics)
    return found


def rows(one: Sent, metric: str) -> dict[str, Metric]:
    """All rows of a metric in the file that verify wrote."""
    lines = (one.directory / "metrics.jsonl").read_text("utf-8").splitlines()
    found = [Metric(**json.loads(line)) for line in lines]
    return {row.name: row for row in found if row.metric == metric}


def test_the_metrics_of_both_sides_are_equal(tmp_path: Path) -> None:
    """Users are persons after merges, days are those of UTC whatever the project's zone, updates do not count, and the
    real service could answer each query."""
    one, asked = sent_rows(tmp_path, 120, links=True, room=empty(project_timezone="America/New_York")), list[str]()
    with like_the_real_service(one.room.url, asked) as url:
        found = metrics(one, api=url)
    assert [sql for sql in asked if "counted_by" in sql and refusal(sql)] == []
    assert (found.differing, found.split, found.merged, found.left_out) == (0, 0, 0, 0)
    assert found.compared == {"day": 3, "week": 3, "month": 3, "event": 3, "platform": 1, "country": 1}
    assert rows(one, "day")["2023-01-02"] == Metric("day", "2023-01-02", 40, 7, 40, 7)
    assert list(rows(one, "week")) == ["2023-01-02", "2023-01-30", "2023-02-27"]
    assert [(row.metric, row.name) for row in found.rows][:3] == [
        ("month", "2023-01-01"), ("month", "2023-02-01"), ("month", "2023-03-01")
    ]  # fmt: skip


def test_planted_splits_merges_and_losses_are_found_with_their_numbers(tmp_path: Path) -> None:
    """A device that left its person is a user more, two persons in one are a user fewer, and a lost event is one."""
    one = sent_rows(tmp_path, 120, links=True)
    assert metrics(one).differing == 0
    one.lose(15)  # of person-1, on 2023-01-02
    one.change(
        "delete from people_ids where distinct_id = 'device-3'",
        "update people_ids set person = (select any_value(person) from people_ids where distinct_id = 'person-5'"
        f" and project = {one.room.project}) where distinct_id in ('person-6', 'device-6')",
    )
    found = metrics(one)
    assert (found.split, found.merged) == (1, 1)
    assert found.people == [
        ("split", ["device-3", "person-3"]),
        ("merged", ["device-5", "device-6", "person-5", "person-6"]),
    ]  # fmt: skip
    assert rows(one, "day")["2023-01-02"] == Metric("day", "2023-01-02", 40, 7, 39, 7, split=1, merged=1)
    assert rows(one, "event")["Step 1"] == Metric("event", "Step 1", 40, 7, 40, 6, merged=1)


def test_platforms_and_countries_are_read_from_the_requests(tmp_path: Path) -> None:
    """Events by `$os` and country; a value that is not a string counts as none, as at the target."""
    events = [
        {"event": "A", "distinct_id": f"u{number % 3}", "timestamp": f"2023-01-0{1 + number}T00:00:00Z",
         "uuid": f"0188a5eb-0000-4000-8000-00000000000{number}", "$os": os, "$geoip_country_code": "DE"}
        for number, os in enumerate(["iOS", "iOS", "Android", 7, ""])
    ]  # fmt: skip
    settings = {name: name for name in ("event", "distinct_id", "timestamp", "uuid")}
    planned_people(tmp_path, "generic", events, settings=settings)
    one = sent(tmp_path / "plan")
    assert metrics(one).differing == 0
    assert {name: (row.events, row.users) for name, row in rows(one, "platform").items()} == {
        "": (2, 2), "Android": (1, 1), "iOS": (2, 2)
    }  # fmt: skip
    one.change("update accepted set properties = replace(properties, '\"DE\"', '\"FR\"') where event = 'A'")
    assert metrics(one).differing == 2
    assert rows(one, "country") == {
        "DE": Metric("country", "DE", 5, 3, 0, 0), "FR": Metric("country", "FR", 0, 0, 5, 3)
    }  # fmt: skip


def against(one: Sent, file: Path, text: str, **asked: Any) -> Against:
    file.write_text(text, "utf-8")
    found = metrics(one, against=str(file), **asked).against
    assert isinstance(found, Against)
    return found


def test_numbers_of_the_old_tool_are_explained(tmp_path: Path) -> None:
    """By duplicates, merges and the zone of its days; the rest is named as unexplained, and so is what is not
    compared."""
    at = [f"2023-01-0{day}T{hour}:00:00Z" for day, hour in ((1, "12"), (2, "03"), (2, "12"), (3, "12"))]
    events = [
        {"event": "A", "distinct_id": f"u{number}", "anonymous_id": f"d{number}", "timestamp": time,
         "uuid": f"0188a5eb-0000-4000-8000-00000000000{number}"}
        for number, time in enumerate(at)
    ]  # fmt: skip
    events += [events[3], events[0] | {"distinct_id": "", "uuid": "0188a5eb-0000-4000-8000-000000000009", "event": "B"}]
    update = {"distinct_id": "u9", "anonymous_id": "u9", "uuid": "0188a5eb-0000-4000-8000-00000000000a"}
    events.append(events[3] | update | {"event": "$identify"})
    settings = {name: name for name in ("event", "distinct_id", "timestamp", "uuid", "anonymous_id")}
    planned_people(tmp_path, "generic", events, settings=settings)
    one, file = sent(tmp_path / "plan"), tmp_path / "old.csv"
    long = (
        "metric,period,name,value\nevents,2023-01-01,A,2\nevents,2023-01-02,A,1\nevents,2023-01-03,A,2\n"
        'events,2023-01,A,"1,004"\nmau,2023-01-15,,5\nevents,2023-01-03,Gone,4\n'
    )
    found = against(one, file, long, against_timezone="America/New_York")
    assert (found.numbers, found.equal, found.explained, found.unexplained) == (5, 0, 4, 1)
    assert found.unknown_names == ["Gone"]
    assert (found.names_only_planned, found.periods_only_planned, found.zone) == (1, 0, "America/New_York")
    assert found.rows == [
        OldNumber("events", "2023-01", "A", 1004, 4, {"duplicate_event": 1}, 999),
        OldNumber("events", "2023-01-01", "A", 2, 1, {"zone": 1}, 0),
        OldNumber("events", "2023-01-02", "A", 1, 2, {"zone": -1}, 0),
        OldNumber("events", "2023-01-03", "A", 2, 1, {"duplicate_event": 1}, 0),
        OldNumber("users", "2023-01-15", "", 5, 4, {"merges": 1}, 0),
    ]
    wide = "\ufeffDate;A;users;users: A\n2023-01-01 00:00:00;1,0;1.0;1,00\n2023-01-02;2;;3\n"
    found = against(one, file, wide)
    assert (found.numbers, found.equal, found.unexplained, found.zone) == (5, 4, 1, "UTC")
    assert found.rows == [OldNumber("users", "2023-01-02", "A", 3, 2, {}, 1)]
    assert found.periods_only_planned == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("metric,period,name,value\nevents,March,A,2\n", "line 2 of .*: 'March' is not a day"),
        ("day,A\n2023-01-01,2\n2023-01-02,2.5\n", "line 3 of .*: '2.5' is not a whole number"),
        ("day;A\n2023-01-01;1.004,0\n2023-01-02;1.000\n", "line 3 of .*: '1.000' is not a whole number"),
        ("day,A\n2023-01-01\n", "line 2 of .*: it has 1 cells, and the header has 2"),
        ("", "has no numbers"),
    ],
)
def test_a_file_of_numbers_that_cannot_be_read_names_its_line(tmp_path: Path, text: str, why: str) -> None:
    """Before anything is read from the target."""
    one = sent_rows(tmp_path, 7)
    with pytest.raises(UsageError, match=why):
        against(one, tmp_path / "old.csv", text, api="http://127.0.0.1:9")
    with pytest.raises(UsageError, match="without --against"):
        one.verify(against_timezone="UTC")
