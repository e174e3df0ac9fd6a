"""Which column a draft proposes as the time of events."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline import plan_export
from pipeline.options import PlanOptions
from tests.support.drafts import drafted, events_of, log


@pytest.mark.parametrize("name", ["sold_on", "created_at"])
def test_some_times_that_cannot_be_read_leave_the_column_the_time(tmp_path: Path, name: str) -> None:
    """In two of three rows there is one: no column that does not exist is proposed."""
    times = ["2023-05-01T09:00:00Z", "2023-05-01T10:00:00Z", "soon"]
    path = log(tmp_path, ({"event": "A", "user_id": "u", name: time} for time in times))
    assert f"from: /{name}" in drafted(path).text


def test_without_any_time_the_draft_names_no_column_and_lists_them_all(tmp_path: Path) -> None:
    """The choice has each column with its evidence; a fixed time may be named."""
    path = tmp_path / "people.csv"
    path.write_text("who,colour\nu-1,red\nu-2,blue\n")
    draft = drafted(path)
    (choice,) = [one for one in draft.choices if one.name == "time"]
    assert [one.text for one in choice.options] == ["{const: ''}", "/who", "/colour"]
    assert choice.question.startswith("none of the 2 columns has times, and each event needs one.")
    assert choice.options[2].evidence.startswith("no time; never blank, 2 different values in 2 rows")
    assert "/time" not in draft.text
    fixed = drafted(path, answers={"time": "{const: 2024-01-31T00:00:00Z}", "event": "{const: A}"})
    assert [one["timestamp"] for one in events_of(fixed, path)] == ["2024-01-31T00:00:00Z"] * 2


def test_the_time_of_a_broker_is_not_that_of_the_event(call: Any, tmp_path: Path) -> None:
    """Kafka's own timestamp is when it took the record, which has a time of its own; without one it is the event's."""
    record = {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1_700_000_009_000}
    texts = []
    for inside in ({"event": "Open", "user_id": "u", "ts": 1_700_000_000}, {"event": "Open"}):
        rows = [{**record, "offset": at, "value": json.dumps({**inside, "user_id": f"u-{at % 3}"})} for at in range(30)]
        call("mapping", "new", log(tmp_path, rows), "-o", tmp_path / f"{len(texts)}.yaml")
        texts.append((tmp_path / f"{len(texts)}.yaml").read_text())
    assert "time:\n  - {from: ts, unit: s}\n" in texts[0] or "time:\n  - {from: /value/ts, unit: s}\n" in texts[0]
    assert "received:\n  - {from: /timestamp, unit: ms}\n" in texts[0]
    assert "{from: /timestamp, unit: ms}" in texts[1]


@pytest.mark.parametrize(
    ("form", "wrong", "spec"),
    [
        ("%d.%m.%Y %H:%M", "31.02.2023 10:00", 'unit: format, format: "%d.%m.%Y %H:%M"'),
        ("%Y-%m-%dT%H:%M:%SZ", "2023-02-31T10:00:00Z", "unit: iso"),
    ],
)
def test_an_impossible_date_hides_no_format(tmp_path: Path, form: str, wrong: str, spec: str) -> None:
    """The draft has the format of nearly all times, and says how many it does not read."""
    times = [datetime(2023, 2, day, 10).strftime(form) for day in (1, 13, 14)]
    path = log(tmp_path, ({"event": "A", "user_id": "u", "gekauft": time} for time in [*times, wrong]))
    draft = drafted(path).text
    assert f"{{from: /gekauft, {spec}" in draft
    assert f"# 1 row of 4 cannot be read so, and would be rejected: '{wrong}'" in draft


def test_several_times_of_a_row_may_be_events(tmp_path: Path) -> None:
    """A comment says how, if no column names the events; an update is not one. A plan of the mapping that it describes
    has these events."""
    path = tmp_path / "users.csv"
    path.write_text(
        "user_id,created_at,first_paid_at,updated_at\n"
        "1,2023-01-02T00:00:00Z,2023-01-03T00:00:00Z,2024-01-01T00:00:00Z\n"
        "2,2023-01-04T00:00:00Z,,2024-01-02T00:00:00Z\n"
    )
    decoder = '  decoder: {each_time: {Created: /created_at, "First Paid": /first_paid_at}}\n'
    assert f"# {decoder}" in drafted(path).text
    text = drafted(path, answers={"event": "/event"}).text.replace("from: /created_at", "from: /time")
    assert "# and event, time, created_at, first_paid_at in `drop`" in text
    (tmp_path / "users.yaml").write_text(decoder.strip() + "\n" + text)
    plan = plan_export([str(path)], tmp_path / "plan", PlanOptions(mapping=str(tmp_path / "users.yaml"), workers=0))
    assert plan.names == {"Created": 2, "First Paid": 1}
    times = {"created_at": "2023-01-02T00:00:00Z", "sold_at": "2023-01-02T00:00:00Z"}
    assert "each_time" not in drafted(log(tmp_path, [{"event": "A", "user_id": "u", **times}])).text
