"""A query sees only its own project's views, changes nothing, and cannot exhaust the machine: each of these uses a key
of project 2, while project 1 has events, a shared recording and a refused request to steal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.management_service import Asking, problem, query

STOLEN = ("Signed up", "tok-test")


def ask_for(queried: Asking, sql: str) -> Any:
    """The answer to a query for project 2."""
    return query(queried, sql, "phx_test_b", 2)


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
def test_a_name_of_a_with_opens_no_table_elsewhere(queried: Asking, table: str) -> None:
    """A WITH table is known only where SQL makes it visible, and never with a schema before it."""
    for where, sql in HIDDEN.items():
        answer = ask_for(queried, sql.format(t=table))
        assert (answer.status_code, [text for text in STOLEN if text in answer.text]) == (400, []), where


ANSWERED = {
    "beside itself": ("with {t} as (select 1 v) select x.v from {t} x, (select * from {t}) y", 1),
    "in a later one": ("with {t} as (select 1 v), b as (select v from {t}) select * from b", 1),
    "in a subquery": ("with {t} as (select 1 v) select (select max(v) from {t})", 1),
    "in a recursion": ("with recursive {t} as (select 1 v union all select v + 1 from {t} where v < 1) from {t}", 1),
    "in every part of a union": ("with {t} as (select 1 v) (select v from {t}) union (select v from {t})", 1),
    "in any case": ("with {t} as (select 1 v) select * from DOCUMENTS", 1),
    "twice": ("with {t} as (select 2 v) select v from (with {t} as (select v - 1 as v from {t}) from {t})", 1),
    "sleep": ("select sleep_ms(1)", None),
    "a large text": ("select length('x'.repeat(1000000))", 1_000_000),
    "a large text in a lambda": ("select len(list_transform([1000], lambda x: repeat('x', x))[1])", 1000),
    "padding": ("select length(lpad('x', 1000000, 'y'))", 1_000_000),
    "a large list": ("select len(range(1000000))", 1_000_000),
    "a large list, opened": ("select count() from unnest(range(1000000))", 1_000_000),
    "rows": ("select count() from range(1000)", 1000),
    "a wide number": ("select length(printf('%1000000d', 1))", 1_000_000),
}


def test_what_is_seen_or_bounded_is_answered(queried: Asking) -> None:
    """A WITH table hides a table of the store with the same name. Any function may be called, within the limits of the
    process."""
    found = {name: ask_for(queried, sql.format(t="documents")).json() for name, (sql, _) in ANSWERED.items()}
    results = {name: answer.get("results") for name, answer in found.items()}
    assert results == {name: [[value]] for name, (_, value) in ANSWERED.items()}


FUNCTIONS = {
    "a setting": "select current_setting('temp_directory')",
    "a plan of another table": "select json_serialize_plan('select * from documents')",
    "a log": "select write_log('x')",
    "a look at the tables": "select pg_catalog.pg_sleep(1)",
    "the bounds of a column of every project": "select stats(uuid) from events",
    "inside": "select __internal_compress_string_ubigint('too long for its eight bytes')",
}  # fmt: skip


def test_functions_that_look_about_are_refused(queried: Asking) -> None:
    """The error names the function."""
    for name, sql in FUNCTIONS.items():
        answer = ask_for(queried, sql)
        assert (answer.status_code, "is not accepted" in answer.json()["detail"]) == (400, True), name


@pytest.mark.parametrize("sql", ["select len(range(1000000000))", "select length(printf('%2000000000d', 1))"])
def test_the_memory_of_a_query_is_bounded(queried: Asking, sql: str) -> None:
    """Above the limit there is an error, whatever function needs the memory, and the next query is answered."""
    answer = ask_for(queried, sql)
    assert (answer.status_code, answer.json()["type"]) == (513, "server_error"), answer.text[:300]
    assert answer.json()["code"] == "clickhouse_memory_limit_exceeded"
    assert answer.json()["detail"].startswith("The query needs more memory than is available: ")
    assert ask_for(queried, "select 1").json()["results"] == [[1]]


LARGE = {
    "brackets": "(" * 20_000 + "select 1" + ")" * 20_000,
    "inner brackets": "select " + "(" * 20_000 + "1" + ")" * 20_000,
    "subqueries": "select * from " + "(select * from " * 800 + "events" + ")" * 800,
    "lists": "select " + "[" * 20_000 + "]" * 20_000,
    "a sum": "select " + "1+" * 50_000 + "1",
    "columns": "select " + ",".join("1" * 20_000),
}


@pytest.mark.parametrize("sql", LARGE.values(), ids=LARGE.keys())
def test_a_monstrous_query_is_not_a_server_error(queried: Asking, sql: str) -> None:
    """It is answered, refused or too large, and the service continues."""
    answer = ask_for(queried, sql)
    assert answer.status_code in (200, 400, 513), answer.text[:300]
    assert ask_for(queried, "select 1").json()["results"] == [[1]]


def test_another_statement_is_refused_in_plain_words(queried: Asking) -> None:
    """The error does not quote the database, which speaks of serializing."""
    for sql in ("copy (select 1) to 'x'", "explain select 1", "pivot events on event", "set x = 1"):
        answer = ask_for(queried, sql)
        assert problem(answer, 400)[0] == "invalid_input"
        assert answer.json()["detail"] == "one SELECT statement is expected, and nothing else", sql
