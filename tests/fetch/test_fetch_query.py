"""The rows of a DuckDB query become one file, the same for the same rows, with values as the database has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import pipeline
from pipeline.errors import Unfinished, UsageError
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
    for reading, so its own bytes stay."""
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
    """DuckDB reads the files that the query names; the command takes the query from a file, too."""
    (tmp_path / "events.csv").write_text("name,n\na,1\nb,2\n")
    (tmp_path / "query.sql").write_text(f"select * from '{tmp_path}/events.csv'")
    done = call("fetch", "duckdb", "--query", f"@{tmp_path}/query.sql", "-o", tmp_path / "out.parquet", "--json")
    assert (done.code, done.json["format"], done.json["rows"]) == (0, "backcast.fetch-query/1", 2)
    again = call("fetch", "duckdb", "--query", "select 1", "-o", tmp_path / "out.parquet")
    assert (again.code, "exists already" in again.two_lines[0]) == (2, True)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("selec 1", "syntax error"),
        ("select 1; select 2", "not one SELECT"),
        ("drop table events", "not one SELECT"),
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
    """A query named as a source is an error that names the command which writes its rows."""
    with pytest.raises(UsageError, match="a plan reads files only") as caught:
        pipeline.survey_export(["duckdb:warehouse.duckdb?query=select 1"])
    assert "backcast fetch duckdb" in caught.value.hint


@pytest.mark.parametrize("memory", ["512MB", "60MB"])
def test_a_disk_that_is_full_is_no_fault_of_the_query(
    memory: str, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while the file is written nor while rows are sorted on disk; no part of a file stays."""
    monkeypatch.setattr("pipeline.fetch.query.MEMORY", memory)
    rows = "select repeat(n::varchar, 30) as text, random() as r from range(1500000) as numbers(n)"
    query = rows if memory == "60MB" else "from events"
    with file_size_limit(4096), pytest.raises(Unfinished, match=r"cannot write .*File too large") as caught:
        pipeline.fetch_query(database, query, tmp_path / "out" / "events.parquet")
    assert (caught.value.exit_code, "query" in caught.value.hint) == (6, False)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("database", "query", "file", "error"),
    [
        ("none.duckdb", "select 1", "out.parquet", "there is no database"),
        (None, "from 'TMP/none/*.csv'", "out.parquet", r"cannot answer the query: .*none"),
        (None, "select 1", "events.csv", r"events\.csv does not end in \.parquet"),
        (None, "select 1", ".events.parquet", r"\.events\.parquet begins with a dot"),
    ],
)
def test_what_is_named_has_to_be_there_and_to_be_a_parquet_file(
    database: str | None, query: str, file: str, error: str, tmp_path: Path
) -> None:
    """A misspelt path is an error, and no new database; an error of reading is not one of writing."""
    source = database and tmp_path / database
    with pytest.raises(UsageError, match=error):
        pipeline.fetch_query(source, query.replace("TMP", str(tmp_path)), tmp_path / file)
    assert list(tmp_path.iterdir()) == []
