"""The rows of a DuckDB query, or of another database by ADBC, become one file, with the database's values."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.errors import Unfinished, UsageError
from pipeline.fetch.database import secret_option
from tests.support.commands import Printed
from tests.support.file_size_limit import file_size_limit
from tests.support.sent_events import planned

Call = Callable[..., Printed]
COLUMNS = {"event": "name", "distinct_id": "person", "timestamp": "at"}
EVENTS = """
create table events as select
    'Step ' || n % 3 as name, 'u-' || n % 5 as person, timestamp '2023-03-01' + interval (n) minute as at,
    1.10::decimal(20, 2) as price, 9007199254740993 + n as big, {'a': n, 'b': null} as nested,
    case when n % 2 = 0 then '{"raw": 1.10}'::json end as document, uuid '0188a5eb-0000-7000-8000-000000000001' as id
from range(4000) as numbers(n)
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a table of events, and the same rows in another order."""
    file = tmp_path_factory.mktemp("database") / "warehouse.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(EVENTS)
        connection.execute("create table shuffled as select * from events order by hash(big)")
    return file


def test_the_order_of_the_database_does_not_matter(database: Path, tmp_path: Path) -> None:
    """Two queries with the same rows in other orders give the same bytes, sorted by all columns. The database is opened
    read-only, so its own bytes do not change."""
    before = database.read_bytes()
    first = pipeline.fetch_query(database, "select * from events", tmp_path / "a.parquet")
    second = pipeline.fetch_query(database, "select * from shuffled -- others\n;", tmp_path / "b.parquet")
    assert (first.rows, first.digest) == (4000, second.digest)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert database.read_bytes() == before


def test_a_query_is_planned(database: Path, tmp_path: Path) -> None:
    """All rows become events, and decimals, large integers and JSON keep their digits."""
    pipeline.fetch_query(database, "select * from events where big % 20 = 13", tmp_path / "export" / "events.parquet")
    plan, events = planned(tmp_path / "plan", [tmp_path / "export"], "generic", zone="UTC", **COLUMNS)
    properties = events[0]["properties"]
    assert (plan.rows.read, len(events), events[0]["timestamp"]) == (200, 200, "2023-03-01T00:00:00Z")
    assert (properties["price"], properties["big"], properties["nested"], properties["document"]) == (
        1.1, 2**53 + 1, {"a": 0, "b": None}, '{"raw": 1.10}'
    )  # fmt: skip


def test_a_query_over_files_needs_no_database(call: Call, tmp_path: Path) -> None:
    """DuckDB reads the files that the query names; the command also takes the query from a file."""
    (tmp_path / "events.csv").write_text("name,n\na,1\nb,2\n")
    (tmp_path / "query.sql").write_text(f"select * from '{tmp_path}/events.csv'")
    done = call("fetch", "duckdb", "--query", f"@{tmp_path}/query.sql", "-o", tmp_path / "out.parquet", "--json")
    assert (done.code, done.json["format"], done.json["rows"]) == (0, "backcast.fetch-query/1", 2)
    again = call("fetch", "duckdb", "--query", "select 1", "-o", tmp_path / "out.parquet")
    assert (again.code, "already exists" in again.two_lines[0]) == (2, True)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("selec 1", "syntax error"),
        ("select 1; select 2", "not a single SELECT"),
        ("drop table events", "not a single SELECT"),
        ("select * from nowhere", "nowhere"),
        ("select count(*)::hugeint as n from events", "type HUGEINT, which Parquet does not support"),
        ("select {'x': interval 1 day} as wait", "column wait"),
        ("select error('half way') from events", "half way"),
    ],
)
def test_a_query_that_cannot_be_written_exactly_is_refused(
    query: str, error: str, database: Path, tmp_path: Path
) -> None:
    """One sentence, and no file is left, not even a part of one."""
    with pytest.raises(UsageError, match=error):
        pipeline.fetch_query(database, query, tmp_path / "out" / "events.parquet")
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_a_plan_reads_no_query() -> None:
    """A query given as a source is an error that names the command which writes its rows."""
    with pytest.raises(UsageError, match="a plan reads only files") as caught:
        pipeline.survey_export(["duckdb:warehouse.duckdb?query=select 1"])
    assert "backcast fetch duckdb" in caught.value.hint


@pytest.mark.parametrize(
    ("database", "query", "file", "error"),
    [
        ("none.duckdb", "select 1", "out.parquet", "does not exist"),
        (None, "from 'TMP/none/*.csv'", "out.parquet", r"cannot answer the query: .*none"),
        (None, "select 1", "events.csv", r"events\.csv does not end in \.parquet"),
        (None, "select 1", ".events.parquet", r"\.events\.parquet begins with a dot"),
    ],
)
def test_what_is_named_has_to_be_there_and_to_be_a_parquet_file(
    database: str | None, query: str, file: str, error: str, tmp_path: Path
) -> None:
    """A misspelt path is an error and creates no database; an error of reading is not reported as one of writing."""
    source = database and tmp_path / database
    with pytest.raises(UsageError, match=error):
        pipeline.fetch_query(source, query.replace("TMP", str(tmp_path)), tmp_path / file)
    assert list(tmp_path.iterdir()) == []


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
    others = f"select * from shuffled where big < {2**53 + 300} -- others\n;"
    first = pipeline.fetch_database("sqlite", "select * from events limit 300", tmp_path / "export" / "a.parquet")
    second = pipeline.fetch_database("sqlite", others, tmp_path / "b.parquet")
    assert (first.rows, first.digest) == (300, second.digest)
    plan, events = planned(tmp_path / "plan", [tmp_path / "export"], "generic", **COLUMNS)
    assert (plan.rows.read, len(events)) == (300, 300)
    assert sorted(one["properties"]["big"] for one in events) == [2**53 + n for n in range(300)]


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
    """Also if the driver stops in the middle of the rows: no part of a file remains, and nothing is deleted."""
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
    done = call("fetch", "adbc", "nodriver", "--query", "select 1", "-o", tmp_path / "out.parquet")
    assert done.code == 2
    assert "pip install adbc-driver-nodriver" in done.two_lines[1]


SECRETS = """
password  uri  databricks.access_token  adbc.databricks.google_credentials  adbc.snowflake.sql.client_option.passcode
adbc.flight.sql.authorization_header  adbc.flight.sql.rpc.call_header.authorization
adbc.flight.sql.rpc.call_header.x-tenant  adbc.flight.sql.rpc.call_header.cookie
adbc.flight.sql.client_option.mtls_private_key  adbc.flight.sql.oauth.client_secret
adbc.flight.sql.oauth.exchange.subject_token  adbc.snowflake.sql.client_option.auth_token
adbc.snowflake.sql.client_option.jwt_private_key_pkcs8_value
adbc.snowflake.sql.client_option.jwt_private_key_pkcs8_password  adbc.bigquery.sql.auth_credentials
adbc.bigquery.sql.auth.client_secret  adbc.bigquery.sql.auth.refresh_token
"""
HARMLESS = """
username  adbc.bigquery.sql.project_id  adbc.bigquery.sql.auth_type  adbc.bigquery.sql.auth.client_id
adbc.snowflake.sql.db  adbc.snowflake.sql.auth_type  adbc.snowflake.sql.uri.host
adbc.snowflake.sql.client_option.cache_mfa_token  adbc.snowflake.sql.client_option.okta_url
adbc.snowflake.sql.client_option.keep_session_alive  adbc.postgresql.batch_size_hint_bytes
adbc.flight.sql.client_option.authority  adbc.flight.sql.client_option.tls_skip_verify
adbc.flight.sql.oauth.flow  adbc.flight.sql.oauth.token_uri  adbc.flight.sql.oauth.exchange.subject_token_type
adbc.flight.sql.rpc.timeout_seconds.query
"""


def test_options_that_may_be_secrets_are_known_by_their_name() -> None:
    """The drivers' names for a password, a token, a key, credentials, or a header of their requests."""
    assert [name for name in SECRETS.split() if not secret_option(name)] == []
    assert [name for name in HARMLESS.split() if secret_option(name)] == []


def test_a_secret_option_is_read_from_the_environment(
    call: Call, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option that the command line refuses reaches the driver, and no error repeats its value or a part of it."""
    out = tmp_path / "out.parquet"
    header = "adbc.flight.sql.authorization_header"
    refused = call("fetch", "adbc", "sqlite", "--option", f"{header}=Bearer hunter2", "--query", "x", "-o", out)
    assert (refused.code, "hunter2" in refused.err, "BACKCAST_ADBC_OPTIONS" in refused.two_lines[1]) == (2, False, True)
    monkeypatch.setenv("BACKCAST_ADBC_OPTIONS", json.dumps({header: "Bearer hunter2"}))
    failed = call("fetch", "adbc", "sqlite", "--query", "select 1 from events", "-o", out)
    assert (failed.code, f"Unknown database option {header}='***'" in failed.two_lines[0]) == (2, True)
    with pytest.raises(UsageError) as caught:
        pipeline.fetch_database("sqlite", "select 1", out, options={header: "Bearer hunter2"}, environment={})
    assert "hunter2" not in str(caught.value)


def test_options_of_the_environment_that_cannot_be_read_are_not_shown(tmp_path: Path) -> None:
    """The error names the variable and its form."""
    for text in ("hunter2", '["hunter2"]', '{"name": {"password": "hunter2"}}', '{"name": 7}'):
        environment = {"BACKCAST_ADBC_OPTIONS": text}
        with pytest.raises(UsageError, match="BACKCAST_ADBC_OPTIONS") as caught:
            pipeline.fetch_database("sqlite", "select 1", tmp_path / "a.parquet", environment=environment)
        assert "hunter2" not in str(caught.value)


ROWS = "select * from events"
SORTED = "select repeat(n::varchar, 30) as text, random() as r from range(1500000) as numbers(n)"


@pytest.mark.usefixtures("uri")
@pytest.mark.parametrize(
    ("fetch", "query"),
    [(pipeline.fetch_query, ROWS), (pipeline.fetch_query, SORTED), (pipeline.fetch_database, ROWS)],
)
def test_a_full_disk_is_not_a_fault_of_the_query(
    fetch: Any, query: str, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while the file is written nor while rows are sorted on disk; no part of a file remains. If its folder
    cannot be made, that error has its own message."""
    source = database if fetch is pipeline.fetch_query else "sqlite"
    out = tmp_path / "out" / "events.parquet"
    monkeypatch.setattr("pipeline.fetch.query.MEMORY", "60MB" if query == SORTED else "512MB")
    with file_size_limit(4096), pytest.raises(Unfinished, match=r"cannot write .*File too large") as caught:
        fetch(source, query, out)
    assert (caught.value.exit_code, "query" in caught.value.hint) == (6, False)
    assert list(out.parent.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        pipeline.fetch_database("sqlite", "select 1", tmp_path / "file" / "a.parquet")
