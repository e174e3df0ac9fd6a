"""The rows of a query of another database become one file, by a real driver of ADBC."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.errors import UsageError
from pipeline.fetch.database import secret_option
from tests.support.commands import Printed
from tests.support.sent_events import planned

Call = Callable[..., Printed]
COLUMNS = {"event": "name", "distinct_id": "person", "timestamp": "at"}


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a SQLite database with a table of events and the same rows in another order."""
    file = tmp_path / "warehouse.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("create table events (name text, person text, at text, big integer, share real, raw blob)")
        connection.executemany(
            "insert into events values (?, ?, ?, ?, ?, null)",
            [(f"Step {n % 3}", f"u-{n % 5}", f"2023-03-01T00:00:{n % 60:02}Z", 2**53 + n, n / 8) for n in range(3000)],
        )
        connection.execute("create table shuffled as select * from events order by big * 7919 % 3001")
    monkeypatch.setenv("BACKCAST_ADBC_URI", f"file:{file}?mode=rw")
    return f"file:{file}?mode=rw"


@pytest.mark.usefixtures("uri")
def test_the_rows_are_planned_whatever_their_order(tmp_path: Path) -> None:
    """The same rows in another order give the same bytes, and all of them become events with their digits."""
    first = pipeline.fetch_database("sqlite", "select * from events", tmp_path / "export" / "a.parquet")
    second = pipeline.fetch_database("sqlite", "select * from shuffled -- others\n;", tmp_path / "b.parquet")
    assert (first.rows, first.digest) == (3000, second.digest)
    plan, events = planned(tmp_path / "plan", [tmp_path / "export"], "generic", **COLUMNS)
    assert (plan.rows.read, len(events)) == (3000, 3000)
    assert sorted(one["properties"]["big"] for one in events) == [2**53 + n for n in range(3000)]


@pytest.mark.usefixtures("uri")
@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("selec 1", "syntax error"),
        ("delete from events", "syntax error"),
        ("select 1; delete from events", "syntax error"),
        ("select * from nowhere", "no such table: nowhere"),
        ("select case when big < 9007199254742992 then big else 'text' end as mixed from events", "Type mismatch"),
    ],
)
def test_what_the_database_refuses_is_one_sentence(query: str, error: str, tmp_path: Path) -> None:
    """Also where the driver stops in the middle of the rows: no part of a file stays, and nothing is deleted."""
    with pytest.raises(UsageError, match=error) as caught:
        pipeline.fetch_database("sqlite", query, tmp_path / "out" / "events.parquet")
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert list((tmp_path / "out").iterdir()) == []
    assert pipeline.fetch_database("sqlite", "select 1 from events", tmp_path / "all.parquet").rows == 3000


def test_the_command_takes_no_secret_and_shows_none(call: Call, uri: str, tmp_path: Path) -> None:
    """Options that may be secrets are refused; an address with a password is not in the error."""
    out = tmp_path / "out.parquet"
    done = call("fetch", "adbc", "sqlite", "--query", "select count(*) as n from events", "-o", out, "--json")
    assert (done.code, done.json["rows"], pq.read_table(out).to_pydict()) == (0, 1, {"n": [3000]})
    refused = call("fetch", "adbc", "sqlite", "--option", "adbc.snowflake.sql.auth_token=x", "--query", "x", "-o", "x")
    assert (refused.code, "may be a secret" in refused.two_lines[0]) == (2, True)
    environment = {"BACKCAST_ADBC_URI": "file:/hunter2/none.db?mode=ro", "BACKCAST_ADBC_PASSWORD": "hunter2"}
    with pytest.raises(UsageError) as caught:
        pipeline.fetch_database("sqlite", "select 1", tmp_path / "two.parquet", environment=environment)
    assert "hunter2" not in str(caught.value)


def test_a_driver_that_is_not_installed_is_named(call: Call, tmp_path: Path) -> None:
    """The error names the package to install."""
    done = call("fetch", "adbc", "nodriver", "--query", "select 1", "-o", tmp_path / "out.parquet")
    assert done.code == 2
    assert "pip install adbc-driver-nodriver" in done.two_lines[1]


@pytest.mark.parametrize(
    ("name", "secret"),
    [("password", True), ("adbc.snowflake.sql.client_option.auth_token", True), ("uri", True),
     ("adbc.bigquery.sql.auth.client_secret", True), ("adbc.bigquery.sql.project_id", False),
     ("adbc.snowflake.sql.db", False), ("adbc.postgresql.batch_size_hint_bytes", False)],
)  # fmt: skip
def test_options_that_may_be_secrets_are_known_by_their_name(name: str, secret: bool) -> None:
    """What the drivers' documentation calls a password, a token, a key or credentials."""
    assert secret_option(name) is secret
