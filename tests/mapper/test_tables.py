"""The table of a warehouse in a file: recognised by its path, or by the columns of its rows, never by half."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import values
from pipeline.mapper.table_names import names_in, table_in_path
from pipeline.mapper.verbs.call_table import decoded, unwrapped
from pipeline.models import Dialect, Part
from pipeline.values import BadValue
from tests.support.small_mappings import record

KNOWN = ("tracks", "pages", "screens", "identifies", "users", "groups", "aliases", "rudder_discards")
PART = Part(0, "x.csv", "/exports/x.csv", "", (), "csv", Dialect(), 1, 1)


@pytest.mark.parametrize(
    ("path", "table"),
    [
        ("prod/identifies/000.parquet", "identifies"),
        ("identifies.csv.gz", "identifies"),
        ("segment.identifies_2024-01.csv", "identifies"),
        ("prod.segment.users.json", "users"),
        ("IDENTIFIES/data_0_0_0.snappy.parquet", "identifies"),
        ("groups000000000012.csv.gz", "groups"),
        ("pages_view/000.csv", "pages"),
        ("tracks0000_part_00.gz", "tracks"),
        ("users-part-3.parquet", "users"),
        ("table=screens/dt=2024-01-01/part-0.parquet", "screens"),
        ("rudder-datalake/main/identifies/2023/04/20/21/part-0.parquet", "identifies"),
        ("rudder_discards/000.csv", "rudder_discards"),
        ("users/groups.csv", "groups"),
        ("groups_2024-01-01T00:00:00Z.csv", "groups"),
        ("pages_viewed.csv", ""),
        ("viewed_pages.csv", ""),
        ("user_groups.csv", ""),
        ("superusers.csv", ""),
        ("users_deleted.csv", ""),
        ("users.order_completed.csv", ""),
        ("identifies-backup/000.csv", ""),
        ("export/000.csv", ""),
        ("tracks.csv/", "tracks"),
        ("", ""),
    ],
)
def test_a_path_shows_a_table_if_a_name_in_it_is_the_tables(path: str, table: str) -> None:
    """The innermost name counts; a schema, a date, a number and extensions are not part of it, and other words are."""
    assert table_in_path(path.split("/"), KNOWN) == table


@pytest.mark.parametrize(
    ("path", "known", "table"),
    [
        ("event_type=users.messages.email.Open/date=2023-04-20/version=3/a", "users.*", "users.messages.email.open"),
        ("users.behaviors.Purchase.avro", "users.*", "users.behaviors.purchase"),
        ("events/a.avro", "users.*", ""),
        ("event_type=agents.Called/date=2023-04-20/version=3/a.avro", "event_type=*", "agents.called"),
        ("currents.event_type=users.Seen/part-0.avro", "event_type=*", "users.seen"),
        ("agents.Called/date=2023-04-20/a.avro", "event_type=*", ""),
        ("step_2.csv.gz", "*", "step_2"),
        ("heap.step_2_2024-01.csv", "*", "step_2"),
        ("sync_4/sign_up/part-00000-1f.avro", "*", "sign_up"),
        ("sign_up/000000000000.csv.gz", "*", "sign_up"),
        ("SIGN_UP_0000_part_00.parquet", "*", "sign_up"),
        ("sign_up/data_0_0_0.csv.gz", "*", "sign_up"),
        ("data_sent.csv", "*", "data_sent"),
    ],
)  # fmt: skip
def test_a_star_stands_for_any_name(path: str, known: str, table: str) -> None:
    """A number may belong to the name itself: only a date, a part or a long number does not."""
    assert table_in_path(path.split("/"), (known,)) == table


@given(st.lists(st.text("abz_.-=/0129", max_size=12), max_size=6), st.sampled_from(KNOWN))
def test_a_folder_of_a_tables_name_tells_it_whatever_its_files_are_called(below: list[str], table: str) -> None:
    """If a name is not a table's, the folder above decides."""
    assert table_in_path(["home", table, *below], KNOWN) == table
    assert table_in_path(["home", *below], KNOWN) == ""


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (replace(PART, path="000.csv", file="/data/identifies/000.csv"), ("identifies", "000.csv")),
        (replace(PART, path="a/b.csv", file="/users/me/a/b.csv"), ("me", "a", "b.csv")),
        (replace(PART, path="1.avro", file="/me/t=a/d=1/v=3/1.avro"), ("me", "t=a", "d=1", "v=3", "1.avro")),
        (replace(PART, path="1.avro", file="t=a/1.avro"), ("t=a", "1.avro")),
        (replace(PART, path="x.zip!a/b.csv", file="/d/x.zip", member="a/b.csv"), ("d", "x.zip", "a", "b.csv")),
        (replace(PART, path="stdin", file="/plans/users/stdin"), ()),
    ],
)  # fmt: skip
def test_the_names_of_a_part_begin_with_the_folder_that_was_named(part: Part, names: tuple[str, ...]) -> None:
    """So the folder of one table may be named by itself, and a home directory below /users does not matter."""
    assert names_in(part) == names


CALL = {"id": "m-1", "anonymous_id": "a-1", "user_id": "u-1", "timestamp": "2023-04-20T14:30:00Z"}


def table_of(row: dict[str, Any], named: str = "") -> str:
    return str(decoded(dict(row), named).get("table", ""))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({**CALL, "event": "a_b", "event_text": "A b"}, "tracks"),
        ({**CALL, "event": "a_b"}, ""),
        ({**CALL, "previous_id": "a-1"}, "aliases"),
        ({**CALL, "previous_id": "a-1", "email": "x"}, ""),
        ({**CALL, "group_id": "g"}, ""),
        ({**CALL, "url": "https://a.example/", "context_page_url": "https://a.example/"}, "pages"),
        ({**CALL, "path": "/", "context_page_path": "/"}, "pages"),
        ({**CALL, "url": "https://ada.example/", "context_page_url": "https://a.example/"}, ""),
        ({**CALL, "url": "", "context_page_url": ""}, ""),
        ({**CALL, "name": "Ada"}, ""),
        ({"id": "u-1", "received_at": "2023-04-20T14:30:00Z", "email": "x"}, "users"),
        ({"id": "u-1", "received_at": "2023-04-20T14:30:00Z", "anonymous_id": "", "email": "x"}, "users"),
        ({"row_id": "m-1", "column_name": "n", "column_value": None, "table_name": "tracks"}, "rudder_discards"),
    ],
)
def test_a_table_is_recognised_only_if_its_columns_leave_no_doubt(row: dict[str, Any], told: str) -> None:
    """An identify call may have a trait of any name, so a single column proves little."""
    assert table_of(row) == told


@pytest.mark.parametrize(
    ("named", "row", "told"),
    [
        ("identifies", {**CALL, "event_text": "x"}, "identifies"),
        ("product_track", {**CALL, "event": "product_track"}, "tracks"),
        ("products", {**CALL, "sku": "x"}, ""),
        ("rudder_identity_mappings", {"merge_property_type": "user_id"}, "rudder_identity_mappings"),
    ],
)
def test_a_table_that_is_named_is_believed(named: str, row: dict[str, Any], told: str) -> None:
    """Any other name is an event's own table, if the row is of an event."""
    assert table_of(row, named) == told


def test_a_staging_line_is_its_row_and_the_name_of_its_table() -> None:
    """The name is in lower case, because some warehouses write upper case."""
    line = record('{"data":{"ID":"m-1"},"metadata":{"table":"USERS"},"userId":""}')
    row, named = unwrapped(line)
    assert (values.text(row["ID"]), named) == ("m-1", "users")
    assert unwrapped({"id": "m-1"}) == ({"id": "m-1"}, "")
    for broken in ('{"data":{"id":1}}', '{"metadata":{"table":"users"}}', '{"data":[1],"metadata":{}}'):
        with pytest.raises(BadValue):
            unwrapped(record(broken))


@pytest.mark.parametrize(
    ("held", "time"),
    [
        (1663683496078000, "2022-09-20T14:18:16.078Z"),
        ("1663683496078001", "2022-09-20T14:18:16.078001Z"),
        ("2015-12-12 19:11:01.152+00", "2015-12-12 19:11:01.152+00"),
        (1663683496, 1663683496),
    ],
)
def test_odd_spellings_of_a_time_become_iso(held: Any, time: Any) -> None:
    """The data lake counts microseconds; BigQuery writes out its zone; anything else is left to the clock."""
    assert decoded({"id": "m-1", "_timestamp": held}, "")["timestamp"] == time
    assert decoded({"id": "m-1", "received_at": held}, "")["received_at"] == time


def test_a_blank_column_is_a_value_of_an_event_and_a_null_of_a_person() -> None:
    """CSV cannot write a null, and a blank trait would overwrite what is known."""
    event = decoded({**CALL, "event_text": "x", "plan": "", "seats": None}, "")
    person = decoded({**CALL, "plan": "", "email": "x"}, "identifies")
    assert (event["columns"], person["columns"]) == ({"plan": ""}, {"email": "x"})


NAMES = st.sampled_from(
    ["id", "anonymous_id", "user_id", "event", "event_text", "received_at", "group_id", "previous_id", "url", "name",
     "context_ip", "context_page_url", "context_traits_email", "plan_type", "table", "columns", "loaded_at"]
)  # fmt: skip
ROWS = st.dictionaries(NAMES, st.one_of(st.none(), st.text(max_size=3), st.integers(0, 9)))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ROWS, st.sampled_from(["", "tracks", "identifies", "groups", "aliases", "users", "pages"]))
def test_no_column_is_lost_or_made_up(row: dict[str, Any], named: str) -> None:
    """Everything in a row is found again in one of three places, except nulls and blanks."""
    made = decoded(dict(row), named)
    told = made.pop("table", None)
    columns: Any = made.pop("columns", {})
    traits: Any = made.pop("context_traits", {})
    found = {**made, **columns, **{f"context_traits_{name}": value for name, value in traits.items()}}
    assert told in (None, "tracks", "identifies", "groups", "aliases", "users", "pages")
    assert {name: value for name, value in row.items() if value not in (None, "")}.items() <= found.items()
    assert found.items() <= row.items()
    json.dumps(found)
