"""The undo list has exactly what was sent, each event with its row, and queries that find it at the service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import api
from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.management import ManagementClient
from pipeline.options import UndoListOptions
from tests.support.deliveries import in_ledger, planned, run
from tests.support.verification import PERSONAL, empty, sent, sent_rows


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_the_lists_have_what_was_sent_and_its_rows(tmp_path: Path) -> None:
    """Every event is listed with its file and row, and the queries find the same at the service."""
    plan, room, _ = sent_rows(tmp_path, 60, links=True, name="trial")
    found = api.list_sent(plan)
    undo = plan / "undo-list"
    queries = [query for query in (undo / "queries.sql").read_text().split(";") if "select" in query]
    with ManagementClient(room.url, Secret(PERSONAL), str(room.project)) as client:
        by_day, others, persons = (client.query(query).results for query in queries)
        landed = {row[0] for row in client.query("select uuid from events limit 1000").results}
        known = {row[0] for row in client.query("select distinct distinct_id from events limit 1000").results}
    events = lines(undo / "events.jsonl")
    assert {event["uuid"] for event in events} == landed
    assert (undo / "uuids.txt").read_text().split() == [event["uuid"] for event in events]
    assert (found.events, found.in_doubt) == (len(events), 0)
    for event in events:
        if event["phase"] == "events":
            source = lines(tmp_path / "export" / event["file"].split("/")[-1])[event["row"] - 1]
            assert (source["uuid"], source["event"]) == (event["uuid"], event["event"])
    assert {one["distinct_id"] for one in lines(undo / "ids.jsonl")} == known
    assert sum(one["events"] for one in lines(undo / "ids.jsonl")) == len(events)
    assert {(one["distinct_id"], one["absorbed"]) for one in lines(undo / "merges.jsonl")} == {
        (f"person-{number}", f"device-{number}") for number in range(7)
    }
    assert sum(row[2] for row in by_day) == len(events)
    assert others == [[0]]
    assert persons
    assert {row[2] for row in persons} == {0}


def test_only_what_was_sent_is_listed_and_doubt_is_named(tmp_path: Path) -> None:
    """If a run was stopped, what was not sent is not listed; what has no response yet is listed as in doubt."""
    plan = sent_rows(tmp_path, 60).directory
    in_ledger(plan, "delete from batches where request >= 2")
    in_ledger(plan, "update batches set state = 'begun' where request = 1")
    sent = in_ledger(plan, "select sum(last - first + 1) from batches")[0][0]
    found = api.list_sent(plan)
    events = lines(plan / "undo-list" / "events.jsonl")
    assert found.events == len(events) == sent < 60
    assert found.in_doubt == sum(event["state"] == "in doubt" for event in events) == 10


def test_after_sending_the_export_may_change_or_be_gone(tmp_path: Path) -> None:
    """Everything after `plan` reads only the plan."""
    plan = planned(tmp_path, 60, files=1)
    (source,) = (tmp_path / "export").glob("*.jsonl")
    room = empty()
    source.write_bytes(source.read_bytes() * 2)
    one = sent(plan, room)
    source.unlink()
    assert run(plan, room.url, key=room.key()).balanced
    assert one.verify().proved
    assert api.list_sent(plan).events == 60


def test_a_plan_that_was_not_sent_and_a_folder_with_other_files_are_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path, 10)
    with pytest.raises(UsageError, match=r"nothing of .* was sent"):
        api.list_sent(plan)
    sent(plan)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="contains other files"):
        api.list_sent(plan, UndoListOptions(out=mine))
    assert [path.name for path in mine.iterdir()] == ["notes.txt"]
    api.list_sent(plan)
    first = (plan / "undo-list" / "events.jsonl").read_bytes()
    api.list_sent(plan)
    assert (plan / "undo-list" / "events.jsonl").read_bytes() == first
