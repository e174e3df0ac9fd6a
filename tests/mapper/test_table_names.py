"""A file's path tells the table of a warehouse that it holds, and nothing else does it by half."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.mapper.table_names import names_in, table_in_path
from pipeline.models import Dialect, Part

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
def test_a_path_tells_a_table_where_a_name_in_it_is_that_tables(path: str, table: str) -> None:
    """The innermost name counts; a schema, a date, a number and endings are no part of it, and other words are."""
    assert table_in_path(path.split("/"), KNOWN) == table


@pytest.mark.parametrize(
    ("path", "known", "table"),
    [
        ("event_type=users.messages.email.Open/date=2023-04-20/version=3/a", "users.*", "users.messages.email.open"),
        ("users.behaviors.Purchase.avro", "users.*", "users.behaviors.purchase"),
        ("events/a.avro", "users.*", ""),
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
    """A number may be of the name itself: only a date, a part or a long number is none of it."""
    assert table_in_path(path.split("/"), (known,)) == table


@given(st.lists(st.text("abz_.-=/0129", max_size=12), max_size=6), st.sampled_from(KNOWN))
def test_a_folder_of_a_tables_name_tells_it_whatever_its_files_are_called(below: list[str], table: str) -> None:
    """Names that are no table's pass the word on."""
    assert table_in_path(["home", table, *below], KNOWN) == table
    assert table_in_path(["home", *below], KNOWN) == ""


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (replace(PART, path="000.csv", file="/data/identifies/000.csv"), ("identifies", "000.csv")),
        (replace(PART, path="a/b.csv", file="/users/me/a/b.csv"), ("me", "a", "b.csv")),
        (replace(PART, path="x.zip!a/b.csv", file="/d/x.zip", member="a/b.csv"), ("d", "x.zip", "a", "b.csv")),
        (replace(PART, path="stdin", file="/plans/users/stdin"), ()),
    ],
)  # fmt: skip
def test_the_names_of_a_part_begin_with_the_folder_that_was_named(part: Part, names: tuple[str, ...]) -> None:
    """So the folder of one table may be named by itself, and a home below /users says nothing."""
    assert names_in(part) == names
