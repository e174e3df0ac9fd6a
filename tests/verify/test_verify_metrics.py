"""Verify compares the numbers of charts with those of the target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.verify.findings import Metric, Metrics
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
        "update people_ids set person = (select any_value(person) from people_ids where distinct_id = 'person-5')"
        " where distinct_id in ('person-6', 'device-6')",
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
