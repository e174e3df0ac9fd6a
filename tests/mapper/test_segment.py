"""Segment and RudderStack over whole sources: tables with the same call, formats that must not be confused."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import UsageError
from pipeline.extractors import open_source
from pipeline.mapper import recognise
from pipeline.plan.sealed.freshness import open_plan
from pipeline.report.machine import plan_object
from pipeline.report.wording import mapping_of
from pipeline.survey.recognition import guess_mapping
from tests.golden import samples
from tests.support.plan_config import config_of
from tests.support.planned_events import planned_events
from tests.support.sent_events import planned

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).resolve().parent.parent.parent / "sample_data"
CALL = {
    "anonymous_id": "a-1",
    "user_id": "u-1",
    "timestamp": "2023-04-20 14:30:00.123",
    "received_at": "2023-04-20 14:30:01",
    "uuid_ts": "2023-04-20 14:31:00",
}


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A CSV file with a column for each name in any of the rows."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return path


ORDER = {**CALL, "event": "order_completed", "event_text": "Order Completed"}
TRACKS = [
    {"id": "m-1", **ORDER, "context_ip": "203.0.113.9"},
    {"id": "m-2", **ORDER},
    {"id": "m-3", **CALL, "event": "signed_up", "event_text": "Signed Up", "context_ip": "203.0.113.9"},
]
ORDERS = [
    {"id": "m-2", **ORDER, "plan_type": "free", "total": "0"},
    {"id": "m-1", **ORDER, "plan_type": "pro", "total": "1.10"},
]
SIGNED_UP = [{"id": "m-3", **CALL, "event": "signed_up", "event_text": "Signed Up"}]


@pytest.mark.parametrize("names", [("tracks", "orders", "signed_up"), ("z_tracks", "orders", "a_signed_up")])
@pytest.mark.parametrize("step", [1, -1])
def test_tracks_and_an_events_own_table_are_one_event_with_its_properties(
    tmp_path: Path, names: tuple[str, ...], step: int
) -> None:
    """In any order of files and rows, the row with the custom columns is kept, and no event is doubled."""
    tables = (TRACKS, ORDERS, SIGNED_UP)
    files = [table(tmp_path / f"{name}.csv", rows[::step]) for name, rows in zip(names, tables, strict=True)]
    plan, events = planned(tmp_path / "plan", files[::step])
    own = [event["properties"] for event in events]
    told = {(event["event"], one.get("plan_type"), one.get("total")) for event, one in zip(events, own, strict=True)}
    assert told == {("Order Completed", "pro", 1.1), ("Order Completed", "free", 0), ("Signed Up", None, None)}
    assert (len(events), plan.skips) == (3, {"superseded": 3})
    # If two rows have no custom column, the greater content digest is kept: always the same one, here the event's own.
    assert [event["properties"]["$ip"] for event in events if event["event"] == "Signed Up"] == ["127.0.0.1"]


def test_a_call_of_jitsus_is_one_event_from_tracks_and_its_own_table(tmp_path: Path) -> None:
    """Neither row says when it was received; the one with the properties is kept, whichever file comes first."""
    call = {"anonymous_id": "a-1", "timestamp": "2024-03-10 09:03:00", "event": "Order"}
    call["context_library_name"] = "jitsu"
    rows = {"tracks": [{"message_id": "m-1", **call}], "order": [{"message_id": "m-1", **call, "total": "1.10"}]}
    files = [table(tmp_path / f"{name}.csv", found) for name, found in rows.items()]
    for number, sources in enumerate((files, files[::-1])):
        plan, events = planned(tmp_path / str(number), sources)
        assert (plan.mapping.name, plan.skips) == ("segment-warehouse", {"superseded": 1})
        assert [event["properties"]["total"] for event in events] == [1.1]


@pytest.mark.parametrize(
    ("archive", "warehouse", "names"),
    [
        ("segment", "segment-warehouse", {"Order Completed", "Plan Chosen", "$pageview", "Invoice Paid"}),
        ("rudderstack", "rudderstack-staging", {"Order Completed", "Plan Chosen", "$pageview", "$screen"}),
        ("rudderstack", "rudderstack-lake", {"Lamp Switched", "Invoice Paid", "$pageview"}),
    ],
)
def test_a_call_is_the_same_event_from_the_archive_and_from_the_warehouse(
    archive: str, warehouse: str, names: set[str]
) -> None:
    """uuid, name, person and time (to the millisecond) agree, so sending it again from the other makes no second
    event."""
    read = []
    for name in (archive, warehouse):
        lines = [json.loads(line) for line in samples.path_of(name).read_text("utf-8").splitlines()[1:]]
        events = [line for line in lines if line.get("event") in names]
        read.append(
            {(e["uuid"], e["event"], e["properties"]["distinct_id"], e["timestamp"].rstrip("Z")[:23]) for e in events}
        )
    assert read[0] == read[1] != set()


def test_the_data_lake_counts_microseconds_and_its_own_clock_is_not_the_devices(tmp_path: Path) -> None:
    """`_timestamp` is when it happened; original_timestamp, three years earlier, is from a device with a wrong
    clock."""
    row = {"id": "m-1", "user_id": "u-1", "event": "test_track", "event_text": "Test Track", "test_map_t_1_str": "x"}
    row |= {"_timestamp": 1663683496078000, "original_timestamp": 1565586510909000, "received_at": 1663683496500000}
    pq.write_table(pa.Table.from_pylist([row | {"context_passed_ip": "203.0.113.9"}]), tmp_path / "part-0.parquet")
    plan, events = planned(tmp_path / "plan", [tmp_path / "part-0.parquet"])
    assert plan.mapping.name == "rudderstack-warehouse"
    assert [(event["event"], event["timestamp"]) for event in events] == [("Test Track", "2022-09-20T14:18:16.078Z")]
    assert events[0]["properties"]["test_map_t_1_str"] == "x"
    assert events[0]["properties"]["$ip"] == "203.0.113.9"


IDENTIFIES = [{"id": "i-1", **CALL, "name": "Ada"}, {"id": "i-2", **CALL, "user_id": "u-2", "anonymous_id": "a-2"}]


def test_all_tables_of_a_folder_are_read_in_one_plan_each_as_what_it_is(tmp_path: Path) -> None:
    """The plan seals each file's table; files recognised by their columns have none, and no row is rejected.

    Two mappings have one tool: the plan is compared with the one it was made with.
    """
    plan, events = planned(tmp_path / "plan", [SAMPLES / "segment" / "warehouse"])
    assert (plan.tool, plan.mapping.name, mapping_of(plan)) == (
        "segment", "segment-warehouse", "segment-warehouse (segment)",
    )  # fmt: skip
    assert {part.path: part.table for part in plan.parts if part.table} == {
        "identifies/000000000000.csv": "identifies",
        "pages.parquet": "pages",
        "prod.groups_2023-04-21.csv": "groups",
        "screens/part-0.csv": "screens",
        "users.parquet": "users",
        "aliases.csv": "aliases",
    }
    assert (plan.rows.rejected, plan.events.phases["identities"], plan.events.phases["groups"]) == (0, 4, 1)
    assert {"$screen", "$pageview", "Order Completed"} <= {event["event"] for event in events}


def test_a_sealed_table_stays_when_its_files_move(tmp_path: Path) -> None:
    """An apply reads each part as the plan did, wherever the file is then and whatever its folder is called."""
    home = tmp_path / "identifies"
    home.mkdir()
    file = table(home / "000.csv", IDENTIFIES)
    plan, _ = planned(tmp_path / "plan", [file])
    assert [part.table for part in plan.parts] == ["identifies"]
    sealed, directory = open_plan(tmp_path / "plan")
    config = config_of(sealed, directory)
    assert [part.table for part in config.parts] == ["identifies"]
    assert planned_events(tmp_path / "plan") == []


@pytest.mark.parametrize("archive", [False, True])
def test_an_unrecognised_table_stops_the_plan_with_the_file_and_the_tables(tmp_path: Path, archive: bool) -> None:
    """It is never guessed; `--set table=NAME` reads it nevertheless, and overrides every name."""
    file = table(tmp_path / "dump.csv", IDENTIFIES)
    if archive:
        with zipfile.ZipFile(tmp_path / "dump.zip", "w") as made:
            made.write(file, "in/dump.csv")
        file = tmp_path / "dump.zip"
    with pytest.raises(UsageError, match=r"cannot recognise the table in .*dump\.csv") as stopped:
        planned(tmp_path / "unnamed", [file])
    assert "identifies" in stopped.value.hint
    assert "--set table=NAME" in stopped.value.hint
    plan, _ = planned(tmp_path / "named", [file], table="identifies")
    assert (plan.rows.rejected, plan.people.identities.pairs) == (0, 2)
    plan, _ = planned(tmp_path / "wins", [table(tmp_path / "screens.csv", IDENTIFIES)], table="identifies")
    assert (plan.rows.rejected, plan.people.identities.pairs) == (0, 2)
    # A name that is neither a table's nor an event's is a mistake, not a thousand rejects.
    with pytest.raises(UsageError, match="--set table=identify") as stopped:
        planned(tmp_path / "plan", [file], table="identify")
    assert stopped.value.hint == "did you mean 'identifies'?"


def test_tables_of_calls_in_one_plan(tmp_path: Path) -> None:
    """A later load of an event supersedes an earlier one; if an event's own table has no event_text, the slug is its
    name. A table that is empty this time does not stop the plan, and for rows that do not show their table the part's
    path decides."""
    later = [{**ORDERS[0], "received_at": "2023-05-01 00:00:00", "plan_type": "later"}]
    (tmp_path / "identifies").mkdir()
    files = [
        table(tmp_path / "a.csv", later), table(tmp_path / "b.csv", ORDERS[:1]),
        table(tmp_path / "pages_viewed.csv", [{"id": "m-9", **CALL, "event": "pages_viewed", "pages": "3"}]),
        table(tmp_path / "identifies" / "0.csv", IDENTIFIES), tmp_path / "odd.csv",
    ]  # fmt: skip
    files[-1].write_text("id,received_at,uuid_ts,name\n", "utf-8")
    plan, events = planned(tmp_path / "plan", files)
    told = {event["event"]: event["properties"].get("plan_type", event["properties"].get("pages")) for event in events}
    assert (told, plan.rows.read) == ({"Order Completed": "later", "pages_viewed": "3"}, 5)
    parts: Any = plan_object(plan, "plan")["parts"]
    assert {one["path"]: one["table"] for one in parts if one.get("table")}["identifies/0.csv"] == "identifies"
    assert "table" not in parts[0]


def test_no_row_fits_two_of_the_four() -> None:
    """Segment's message with one key of RudderStack's is recognised only as RudderStack's, and the same holds for
    tables."""
    message = {"type": "track", "messageId": "m-1", "timestamp": "2023-04-20T14:30:00Z", "context": {}}
    assert recognise(dict(message)) == ["segment"]
    for own in ({"rudderId": "r"}, {"request_ip": "198.51.100.7"}):
        assert recognise({**message, **own}) == ["rudderstack"]
    row = {"id": "m-1", **CALL}
    assert recognise(dict(row)) == ["segment-warehouse"]
    assert recognise({name.upper(): value for name, value in row.items()}) == ["segment-warehouse"]
    for own in ({"context_source_id": "s"}, {"context_request_ip": "x"}, {"_timestamp": 1}, {"CONTEXT_PASSED_IP": "x"}):
        assert recognise({**row, **own}) == ["rudderstack-warehouse"]


def test_tables_that_fit_both_tools_are_asked_about(tmp_path: Path) -> None:
    """Both use the same model; a folder that fits both is an error that names them."""
    row = {"id": "m-1", **{name: value for name, value in CALL.items() if name != "uuid_ts"}}
    told = {"context_library_name": "analytics", "event_text": "Seen"}
    for name, value in told.items():
        assert recognise({**row, name: value}) == ["rudderstack-warehouse", "segment-warehouse"]
        assert recognise({**row, name: value, "LOADED_AT": "2023-04-20"}) == ["segment-warehouse"]
    with pytest.raises(UsageError, match="rudderstack-warehouse, segment-warehouse"):
        guess_mapping(open_source([str(table(tmp_path / "pages.csv", [row | told]))]))


def test_a_mixture_of_two_tools_is_an_error(tmp_path: Path) -> None:
    """A mapping for half of the rows of each cannot be guessed."""
    lines = [{"type": "track", "messageId": f"m-{n}", "timestamp": "2023-04-20T14:30:00Z"} for n in range(4)]
    mixed = [line | ({"rudderId": "r"} if n % 2 else {}) for n, line in enumerate(lines)]
    (tmp_path / "mixed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in mixed), encoding="utf-8")
    with pytest.raises(UsageError, match="cannot tell which mapping"):
        guess_mapping(open_source([str(tmp_path / "mixed.jsonl")]))
