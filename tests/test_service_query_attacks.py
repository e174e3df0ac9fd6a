"""A query sees its own project's views and nothing else, changes nothing, and cannot use up the machine.

Each of these came from a key that may ask project 2 alone, while project 1 has events, a shared recording and a refused
request to be stolen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from management_service import Asking, asking

pytestmark = pytest.mark.slow

OTHERS = "phx_test_b"
STOLEN = ("secret-event", "tok-test")


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    """A service with what is not project 2's: an event of project 1, and a recording with a token that opens it."""
    with asking() as ask:
        batch = [{"event": "secret-event", "properties": {"distinct_id": "u1"}}]
        assert ask("POST", "/batch/", {"api_key": "phc_test_a", "batch": batch}, key=None).status_code == 200
        yield ask


def query(ask: Asking, sql: str) -> Any:
    """The answer to a query for project 2."""
    return ask("POST", "/api/projects/2/query/", {"query": {"kind": "HogQLQuery", "query": sql}}, key=OTHERS)


HIDDEN = {
    "outside its WITH": "select * from {t}, (with {t} as (select 1) select * from {t}) x",
    "after its WITH": "(with {t} as (select 1) select * from {t}) union all (select 1 from {t})",
    "in the WITH that has its name": "with {t} as (select * from {t}) select * from {t}",
    "in a WITH before it": "with a as (select * from {t}), {t} as (select 1) select * from a",
    "in the first part of a recursion": "with recursive {t} as (select * from {t} union select * from {t}) from {t}",
    "below an inner WITH": "with a as (with {t} as (select 1) from {t}) select * from {t}, a",
    "behind its schema": 'with "main.{t}" as (select 1) select * from main.{t}',
    "behind its schema, plainly": "with {t} as (select 1) select * from main.{t}",
    "in an order": "select 1 from events order by (with {t} as (select 1 y) from {t}), (select max(1) from {t})",
    "in a limit": "with a as (with {t} as (select 1) from {t}) select 1 limit (select count() from {t})",
    "in a deleting WITH": "with x as (delete from {t} returning *) select * from x",
}  # fmt: skip


@pytest.mark.parametrize("table", ["documents", "accepted", "refused", "people_ids", "duckdb_settings", "pg_tables"])
@pytest.mark.parametrize("where", HIDDEN)
def test_a_name_of_a_with_opens_no_table_elsewhere(ask: Asking, where: str, table: str) -> None:
    """A WITH table is known only where SQL lets it be seen, and never with a schema before it."""
    answer = query(ask, HIDDEN[where].format(t=table))
    assert answer.status_code == 400, answer.text
    assert not any(text in answer.text for text in STOLEN)


SEEN = {
    "beside itself": "with {t} as (select 1 v) select x.v from {t} x, (select * from {t}) y",
    "in a later one": "with {t} as (select 1 v), b as (select v from {t}) select * from b",
    "in a subquery": "with {t} as (select 1 v) select (select max(v) from {t})",
    "in its own recursion": "with recursive {t} as (select 1 v union all select v + 1 from {t} where v < 1) from {t}",
    "in every part of a union": "with {t} as (select 1 v) (select v from {t}) union (select v from {t})",
    "in any case": "with {t} as (select 1 v) select * from DOCUMENTS",
    "twice": "with {t} as (select 2 v) select v from (with {t} as (select v - 1 as v from {t}) from {t})",
}  # fmt: skip


@pytest.mark.parametrize("sql", SEEN.values(), ids=SEEN.keys())
def test_a_with_table_is_taken_where_it_is_seen(ask: Asking, sql: str) -> None:
    """Even by the name of a table of the store, which it hides."""
    answer = query(ask, sql.format(t="documents"))
    assert (answer.status_code, answer.json().get("results")) == (200, [[1]]), answer.text


FUNCTIONS = {
    "a setting": "select current_setting('temp_directory')",
    "a plan of another table": "select json_serialize_plan('select * from documents')",
    "a log": "select write_log('x')",
    "sleep": "select sleep_ms(1)",
    "sleep by another name": "select pg_catalog.pg_sleep(1)",
    "a large text": "select length('x'.repeat(1000000))",
    "a large text in a lambda": "select list_transform([1], lambda x: repeat('x', x))",
    "padding": "select lpad('x', 1000000, 'y')",
    "a large list": "select len(range(1000000))",
    "a large list, opened": "select count() from unnest(range(1000000))",
    "a wide number": "select printf('%1000000d', 1)",
    "inside": "select __internal_compress_string_ubigint('too long for its eight bytes')",
}  # fmt: skip


@pytest.mark.parametrize("sql", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_functions_that_look_about_wait_or_swell_are_refused(ask: Asking, sql: str) -> None:
    """The answer names the function."""
    answer = query(ask, sql)
    assert answer.status_code == 400
    assert "is not accepted" in answer.json()["detail"]


def test_rows_may_be_made_out_of_nothing(ask: Asking) -> None:
    """As a table, where rows come one after another, `range` is harmless."""
    assert query(ask, "select count() from range(1000)").json()["results"] == [[1000]]


LARGE = {
    "brackets": "(" * 20_000 + "select 1" + ")" * 20_000,
    "inner brackets": "select " + "(" * 20_000 + "1" + ")" * 20_000,
    "subqueries": "select * from " + "(select * from " * 800 + "events" + ")" * 800,
    "lists": "select " + "[" * 20_000 + "]" * 20_000,
    "a sum": "select " + "1+" * 50_000 + "1",
    "columns": "select " + ",".join("1" * 40_000),
}


@pytest.mark.parametrize("sql", LARGE.values(), ids=LARGE.keys())
def test_a_monstrous_query_is_no_server_error(ask: Asking, sql: str) -> None:
    """It is answered or refused, and the service goes on."""
    answer = query(ask, sql)
    assert answer.status_code in (200, 400), answer.text[:300]
    assert query(ask, "select 1").json()["results"] == [[1]]


def test_an_answer_is_bounded_in_bytes(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows may be large ones."""
    monkeypatch.setattr("pipeline.service.store.MOST_BYTES", 1000)
    answer = query(ask, "select 'a long enough text' from range(1000)")
    assert answer.status_code == 400
    assert "over" in answer.json()["detail"]
    assert query(ask, "select 'a long enough text' from range(10)").status_code == 200


@pytest.mark.parametrize("sql", ["copy (select 1) to 'x'", "explain select 1", "pivot events on event", "set x = 1"])
def test_another_statement_is_refused_in_plain_words(ask: Asking, sql: str) -> None:
    """Not in those of the database, which speak of serializing."""
    answer = query(ask, sql)
    assert (answer.status_code, answer.json()["detail"]) == (400, "one SELECT statement is expected, and nothing else")
