"""Heap over whole sources: syncs of S3, tables of warehouses, and names that the operator gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.errors import UnfitExport
from pipeline.extractors import open_source
from pipeline.survey.recognition import guess_mapping
from sample_data.generator import heap
from tests.support.sent_events import planned

ALL_EVENTS = ["event_id", "user_id", "session_id", "time", "event_table_name"]
Expected = tuple[Any, list[dict[str, Any]]]


def bucket(folder: Path) -> Path:
    """The bucket of the sample."""
    for name, content in heap.bucket().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def unloaded(folder: Path, form: str) -> Path:
    """The same tables as a warehouse unloads them: CSV, CSV of Snowflake, or Parquet of BigQuery's tables `…_raw`."""
    folder.mkdir()
    (folder / "heap_names.csv").write_bytes(heap.bucket()["heap_names.csv"])
    for name, rows in heap.tables().items():
        files = {"snowflake": f"{name.upper()}/data_0_0_0.csv", "parquet": f"{name}_raw/000000000000.parquet"}
        path = folder / files.get(form, f"{name}.csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        if form == "parquet":
            pq.write_table(heap.parquet_table(name, [*rows, *rows[:1]]), path)
        else:
            path.write_bytes(heap.table_text(list(heap.COLUMNS[name]), rows, capitals=form == "snowflake"))
    return folder


def typed(event: dict[str, Any]) -> dict[str, Any]:
    """An event whose custom number is text, as in every CSV."""
    properties = event["properties"]
    return {**event, "properties": properties | ({"seats": str(properties["seats"])} if "seats" in properties else {})}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    """The plan of the bucket, and its events."""
    folder = tmp_path_factory.mktemp("heap")
    return planned(folder / "plan", [bucket(folder / "bucket")])


@pytest.mark.parametrize("form", ["csv", "snowflake", "parquet"])
def test_tables_of_a_warehouse_give_the_events_of_the_bucket(tmp_path: Path, form: str, expected: Expected) -> None:
    """Every event with its uuid, every merge and every profile."""
    plan, events = planned(tmp_path / "plan", [unloaded(tmp_path / "tables", form)])
    assert plan.mapping.name == "heap"
    assert plan.rejects == {}
    assert [typed(event) for event in events] == [typed(event) for event in expected[1]]
    assert plan.events.phases == expected[0].events.phases


def test_all_events_adds_only_what_no_other_table_has(tmp_path: Path, expected: Expected) -> None:
    """Beside the tables it changes nothing; where a table is missing, its events come without their properties."""
    folder = unloaded(tmp_path / "tables", "csv")
    (folder / "all_events.csv").write_bytes(heap.table_text(ALL_EVENTS, heap.all_events()))
    plan, events = planned(tmp_path / "one", [folder])
    assert [typed(event) for event in events] == [typed(event) for event in expected[1]]
    assert plan.skips == {"session_event": 6, "duplicate_event": 1, "superseded": 31}
    (folder / "sign_up.csv").unlink()
    _, events = planned(tmp_path / "two", [folder])
    found = [event for event in events if event["event"] == "Signed Up"]
    assert [event["uuid"] for event in found] == [e["uuid"] for e in expected[1] if e["event"] == "Signed Up"]
    assert "plan_name" not in found[0]["properties"]


def test_names_of_events_change_no_uuid(tmp_path: Path, expected: Expected) -> None:
    """A table without a name keeps its own; a plan without the file says so."""
    source = bucket(tmp_path / "bucket")
    (source / "heap_names.csv").unlink()
    plan, events = planned(tmp_path / "plan", [source])
    assert [event["uuid"] for event in events] == [event["uuid"] for event in expected[1]]
    assert {event["event"] for event in events} ^ {event["event"] for event in expected[1]} == {"sign_up", "Signed Up"}
    assert [where for code, where, _ in plan.notices if code == "lookup_missing"] == ["heap_names.*"]


def test_a_bucket_is_recognised_by_its_manifests(tmp_path: Path) -> None:
    """They come before all other files, also as documents over several lines."""
    for number in range(25):
        content = json.loads(heap.bucket()["manifests/sync_1.json"]) | {"dump_id": number}
        (tmp_path / f"sync_{number}.json").write_text(json.dumps(content, indent=number % 2 or None))
    assert guess_mapping(open_source([str(tmp_path)])) == "heap"


def test_two_tables_of_equal_bytes_are_two_tables(tmp_path: Path) -> None:
    """They are no copies of each other, but a second file of one table is."""
    row = {"event_id": 1, "user_id": 2, "session_id": 3, "time": "2024-03-10 09:03:00", "library": "web"}
    text = heap.table_text(list(row), [row])
    for name in ("click_buy.csv", "click_buy_on_shop.csv", "copies/click_buy.csv"):
        (tmp_path / "tables" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tables" / name).write_bytes(text)
    plan, events = planned(tmp_path / "plan", [tmp_path / "tables"])
    assert {event["event"] for event in events} == {"click_buy", "click_buy_on_shop"}
    assert [where for code, where, _ in plan.notices if code == "same_file"] == ["copies/click_buy.csv"]


def test_a_file_that_names_no_table_stops_the_plan(tmp_path: Path) -> None:
    """Its events would have no name."""
    row = {"event_id": 1, "user_id": 2, "session_id": 3, "time": "2024-03-10 09:03:00", "library": "web"}
    (tmp_path / "2024").mkdir()
    (tmp_path / "2024" / "0001.csv").write_bytes(heap.table_text(list(row), [row]))
    with pytest.raises(UnfitExport, match="cannot recognise the table"):
        planned(tmp_path / "plan", [tmp_path / "2024" / "0001.csv"])
    _, events = planned(tmp_path / "other", [tmp_path / "2024"], table="Sign_Up")
    assert {event["event"] for event in events} == {"sign_up"}
