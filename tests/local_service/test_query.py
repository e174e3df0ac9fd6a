"""The local service answers read-only queries over what landed, and collapses copies as the real one does."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.local_service import Keyring, LocalService, Settings
from pipeline.local_service.keys import Project
from pipeline.local_service.store.database import BadStore
from tests.support.management_service import ALL, QUERIED, Asking, asking, key_with, problem, query
from tests.support.services import running

U1, U2 = "0188a5eb-0000-7000-8000-000000000001", "0188a5eb-0000-7000-8000-000000000002"


def send(ask: Asking, *events: dict[str, Any], key: str = "phc_test_a") -> None:
    body = {"api_key": key, "historical_migration": True, "batch": list(events)}
    assert ask("POST", "/batch/", body, key=None).status_code == 200


def results(ask: Asking, sql: str, project: int = 1) -> list[list[Any]]:
    found: list[list[Any]] = query(ask, sql, project=project).json()["results"]
    return found


@pytest.mark.parametrize("slash", ["", "/"])
def test_answers_columns_types_and_results(queried: Asking, slash: str) -> None:
    """An answer has its columns, types and rows; instants are strings with microseconds and Z."""
    answer = query(queried, "select * from events", slash=slash)
    wanted = {
        "uuid": ("UUID", U1),
        "event": ("VARCHAR", "Signed up"),
        "distinct_id": ("VARCHAR", "u1"),
        "timestamp": ("TIMESTAMP", "2023-01-02T03:04:05.678901Z"),
        "properties": ("VARCHAR", '{"distinct_id":"u1"}'),
        "person_id": ("UUID", queried.service.persons()[0].id),
        "elements_chain": ("VARCHAR", ""),
        "created_at": ("TIMESTAMP", "2023-11-14T22:13:20.000000Z"),
        **{f"$group_{index}": ("VARCHAR", "") for index in range(5)},
    }
    assert answer.json() == {
        "columns": list(wanted),
        "types": [[name, kind] for name, (kind, _) in wanted.items()],
        "results": [[value for _, value in wanted.values()]],
    }


VALUES: dict[str, tuple[str, Any]] = {
    "a count": ("count()", 1),
    "a sum": ("sum(12)", 12),
    "a decimal": ("1.5", 1.5),
    "a double": ("CAST(0.1 AS DOUBLE)", 0.1),
    "not a number": ("CAST('nan' AS DOUBLE)", "NaN"),
    "null": ("NULL", None),
    "a day": ("toDate(max(timestamp))", "2023-01-02"),
    "a day of text": ("toDate('2023-01-02')", "2023-01-02"),
    "an instant with a zone": ("TIMESTAMPTZ '2023-01-02 03:04:05+02'", "2023-01-02T01:04:05.000000Z"),
    "an instant in a list": ("[max(timestamp)]", ["2023-01-02T03:04:05.678901Z"]),
    "a property": ("max(properties->>'distinct_id')", "u1"),
    "an object": ("{'a': 1}", {"a": 1}),
    "the time zone": ("CAST(to_timestamp(0) AS VARCHAR)", "1970-01-01 00:00:00+00"),
}


def test_answers_values_as_json(queried: Asking) -> None:
    (found,) = results(queried, f"select {', '.join(expression for expression, _ in VALUES.values())} from events")
    assert dict(zip(VALUES, found, strict=True)) == {name: value for name, (_, value) in VALUES.items()}


EXACT: dict[str, tuple[str, str]] = {
    "a far year": ("'290000-01-01'::TIMESTAMP", '"+290000-01-01T00:00:00.000000Z"'),
    "after 9999": ("'9999-12-31 23:59:59.999999'::TIMESTAMP + to_microseconds(1)", '"+010000-01-01T00:00:00.000000Z"'),
    "the first instant of year 1": ("'0001-01-01'::TIMESTAMP", '"0001-01-01T00:00:00.000000Z"'),
    "before year 1": ("'0001-01-01'::TIMESTAMP - INTERVAL 1 microsecond", '"0000-12-31T23:59:59.999999Z"'),
    "before Christ": ("'0044-03-15 (BC)'::TIMESTAMP", '"-000043-03-15T00:00:00.000000Z"'),
    "the last instant": ("'294247-01-10 04:00:54.775806'::TIMESTAMP", '"+294247-01-10T04:00:54.775806Z"'),
    "without end": ("'infinity'::TIMESTAMP", '"infinity"'),
    "without beginning": ("'-infinity'::TIMESTAMPTZ", '"-infinity"'),
    "a far year with a zone": ("'290000-01-01'::TIMESTAMPTZ", '"+290000-01-01T00:00:00.000000Z"'),
    "nanoseconds": ("'2023-01-02 03:04:05.123456789'::TIMESTAMP_NS", '"2023-01-02T03:04:05.123456789Z"'),
    "nanoseconds without end": ("'infinity'::TIMESTAMP_NS", '"infinity"'),
    "milliseconds": ("'2023-01-02 03:04:05.5'::TIMESTAMP_MS", '"2023-01-02T03:04:05.500000Z"'),
    "seconds in a far year": ("'290000-01-01'::TIMESTAMP_S", '"+290000-01-01T00:00:00.000000Z"'),
    "a far day": ("'5874897-12-31'::DATE", '"+5874897-12-31"'),
    "a day before Christ": ("'0044-03-15 (BC)'::DATE", '"-000043-03-15"'),
    "a day without end": ("'infinity'::DATE", '"infinity"'),
    "the last time of a day": ("'24:00:00'::TIME", '"24:00:00"'),
    "a time with a zone": ("'12:00:00+15:59'::TIMETZ", '"12:00:00+15:59"'),
    "a time with nanoseconds": ("'12:00:00.123456789'::TIME_NS", '"12:00:00.123456789"'),
    "an interval": ("INTERVAL '1 year 2 days 3 us'", '"1 year 2 days 00:00:00.000003"'),
    "a long interval": ("to_microseconds(9223372036854775807)", '"2562047788:00:54.775807"'),
    "infinity": ("'inf'::DOUBLE", '"Infinity"'),
    "minus infinity": ("'-inf'::FLOAT", '"-Infinity"'),
    "a huge number": ("170141183460469231731687303715884105727::HUGEINT", "170141183460469231731687303715884105727"),
    "minus a huge number": ("(-170141183460469231731687303715884105728)::HUGEINT",
                            "-170141183460469231731687303715884105728"),
    "the hugest number": ("340282366920938463463374607431768211455::UHUGEINT",
                          "340282366920938463463374607431768211455"),
    "a number of any size": ("123456789012345678901234567890123456789012345::BIGNUM",
                             "123456789012345678901234567890123456789012345"),
    "a long decimal": ("0.1234567890123456789012345678901234567::DECIMAL(38, 37)",
                       "0.1234567890123456789012345678901234567"),
    "a decimal with a last zero": ("1.10::DECIMAL(5, 2)", "1.10"),
    "bytes": (r"'\xAA\x00'::BLOB", '"aa00"'),
    "bits": ("'0101'::BIT", '"0101"'),
    "a name of a list": ("'b'::ENUM('a', 'b')", '"b"'),
    "a uuid": (f"'{U1}'::UUID", f'"{U1}"'),
    "a row": ("row(1, 'x')", '[1,"x"]'),
    "a map": ("map {1: 'a', 2: 'b'}", '[[1,"a"],[2,"b"]]'),
    "a union": ("union_value(k := 1)", "1"),
    "an array": ("['0101'::BIT, NULL]::BIT[2]", '["0101",null]'),
    "a list in a list": ("[[1], NULL, []]", "[[1],null,[]]"),
    "within": (
        "[{'a': '-infinity'::DATE, 'b': map {'x': 340282366920938463463374607431768211455::UHUGEINT}, "
        "'c\"d': row('12:00:00+01'::TIMETZ, union_value(u := '1'::BIT))}, NULL]",
        '[{"a":"-infinity","b":[["x",340282366920938463463374607431768211455]],"c\\"d":["12:00:00+01","1"]},null]',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("expression", "text"), EXACT.values(), ids=EXACT.keys())
def test_a_value_of_any_type_is_exact(queried: Asking, expression: str, text: str) -> None:
    """Any value of the database is answered as it is, alone, next to others and next to null."""
    rows = f"select {expression} union all select null union all select {expression}"
    assert query(queried, rows).text.partition('"results":')[2] == f"[[{text}],[null],[{text}]]}}"


def test_rows_keep_their_order_whatever_their_types(queried: Asking) -> None:
    """Also if a column has to be converted to text in the database."""
    answer = results(queried, "select r, to_days(r::int) from range(5000) t(r) order by r desc")
    assert [number for number, _ in answer] == list(range(4999, -1, -1))
    assert answer[0][1] == "4999 days"


def test_instants_and_days_of_any_year_are_those_that_the_database_writes(queried: Asking) -> None:
    """Each of many random ones equals the database's own text."""
    chosen = random.Random(14)
    micros = [chosen.randrange(-(2**63) + 2, 2**63 - 1) >> chosen.randrange(60) for _ in range(500)]
    listed = ", ".join(map(str, [-9223372022400000000 if one < -9223372022400000000 else one for one in micros]))
    sql = (
        "select t, cast(t as varchar), d, cast(d as varchar) from (select make_timestamp(m) t, "
        f"cast(make_timestamp(m) as date) d from unnest([{listed}]) u(m))"
    )
    rows = results(queried, sql)
    assert len(rows) == 500
    for instant, written, day, day_written in rows:
        assert day == expanded(day_written)
        assert instant == expanded(written)


def expanded(written: str) -> str:
    """The database's text of an instant or a day as ISO 8601 with years of any length."""
    found = re.fullmatch(r"(\d+)(-\d\d-\d\d)( \(BC\))?(?: (\d\d:\d\d:\d\d)(\.\d+)?)?", written)
    assert found is not None
    year = 1 - int(found[1]) if found[3] else int(found[1])
    day = (f"{year:04d}" if 0 <= year <= 9999 else f"{year:+07d}") + found[2]
    return day if found[4] is None else f"{day}T{found[4]}{(found[5] or '.').ljust(7, '0')}Z"


COPIES: dict[str, tuple[dict[str, Any], int]] = {
    "equal": ({}, 1),
    "another time of the same UTC day": ({"timestamp": "2023-01-02T23:59:59Z"}, 1),
    "another zone, same UTC day": ({"timestamp": "2023-01-03T01:00:00+02:00"}, 1),
    "other properties": ({"properties": {"distinct_id": "u1", "x": 1}}, 1),
    "another uuid": ({"uuid": U2}, 2),
    "another event": ({"event": "Signed in"}, 2),
    "another distinct_id": ({"properties": {"distinct_id": "u2"}}, 2),
    "another UTC day": ({"timestamp": "2023-01-03T03:04:05.678901Z"}, 2),
    "same local day, another UTC day": ({"timestamp": "2023-01-02T00:30:00+02:00"}, 2),
}


@pytest.fixture(scope="module")
def filled() -> Iterator[Asking]:
    """A service on a machine in a distant time zone, with copies of many events in many projects."""
    projects = [Project(number, f"Project {number}", f"phc_test_{number}") for number in range(1, len(COPIES) + 4)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Pacific/Kiritimati")
        keys = Keyring(tuple(projects), {ALL: frozenset({"*"})})
        with running(keys, Settings(query_most_rows=10_000)) as service:
            ask = Asking(service)
            for number, (changes, _) in enumerate(COPIES.values(), 1):
                for sent in (QUERIED, QUERIED | changes):
                    send(ask, sent, key=f"phc_test_{number}")
            yield ask
            ask.client.close()


def test_collapses_copies(filled: Asking) -> None:
    """Only if uuid, event, distinct_id and UTC day are all equal, in each project by itself; every copy is kept."""
    found = {
        name: results(filled, "select (select count() from events), (select count() from raw_events)", number)
        for number, name in enumerate(COPIES, 1)
    }
    assert found == {name: [[left, 2]] for name, (_, left) in COPIES.items()}
    assert filled.service.count() >= sum(left for _, left in COPIES.values())


def test_days_are_utc_days_whatever_the_machine(filled: Asking) -> None:
    """An instant just before midnight UTC belongs to that day in any zone of the host."""
    project = len(COPIES) + 1
    send(filled, QUERIED | {"timestamp": "2023-01-02T23:59:59.999999Z"}, key=f"phc_test_{project}")
    sql = "select toDate(timestamp), timestamp, toDate(TIMESTAMPTZ '2023-01-02 23:00:00Z') from events"
    assert results(filled, sql, project) == [["2023-01-02", "2023-01-02T23:59:59.999999Z", "2023-01-02"]]


def test_the_copy_received_last_wins(filled: Asking) -> None:
    """The copy received last remains, within a batch and across batches, whatever its time."""
    project = len(COPIES) + 2
    for number in (1, 3):
        first = {"properties": {"distinct_id": "u1", "n": number}, "timestamp": "2023-01-02T09:00:00Z"}
        second = {"properties": {"distinct_id": "u1", "n": number + 1}, "timestamp": "2023-01-02T01:00:00Z"}
        send(filled, QUERIED | first, QUERIED | second, key=f"phc_test_{project}")
    found = results(filled, "select properties->>'n', timestamp from events", project)
    assert found == [["4", "2023-01-02T01:00:00.000000Z"]]
    numbers = results(filled, "select properties->>'n', receipt from raw_events order by receipt", project)
    assert [number for number, _ in numbers] == ["1", "2", "3", "4"]
    assert [receipt - numbers[0][1] for _, receipt in numbers] == [0, 1, 2, 3]


def test_reads_many_rows_back_and_says_where_there_are_too_many(filled: Asking) -> None:
    """Rows are exactly as they were sent. A query with more rows than the limit is refused, and the error says what to
    do; the library has no such limit."""
    project = len(COPIES) + 3
    sent = [
        QUERIED | {"uuid": f"0188a5eb-0000-7000-8000-{number:012x}", "properties": {"distinct_id": f"user {number}"}}
        for number in range(10_000)
    ]
    for half in (sent[:5000], sent[5000:]):
        send(filled, *half, key=f"phc_test_{project}")
    sql = "select uuid, distinct_id, properties from events order by uuid"
    assert [(uuid, name, json.loads(text)) for uuid, name, text in results(filled, sql, project)] == [
        (one["uuid"], one["properties"]["distinct_id"], one["properties"]) for one in sent
    ]
    refused = query(filled, "select 1 from range(10001)")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
    assert (
        refused.json()["detail"]
        == "the answer has more than 10000 rows; ask for fewer with LIMIT, and read them in pages"
    )
    assert len(filled.service.select("select 1 from range(10001)")) == 10_001


def test_takes_any_one_select(queried: Asking) -> None:
    """Joins, subqueries, named subqueries, comments and a final semicolon are all one SELECT."""
    for sql in (
        "with days as (select toDate(timestamp) d from events) select count() from days",
        "select count() from (select uuid from events union all select uuid from raw_events where false)",
        "from events select count()",
        "select count() from events e join raw_events r on e.uuid = r.uuid, unnest([1])",
        "select /* ; */ count() from EVENTS where event <> ';' -- ;",
        "select count() from events;",
    ):
        assert results(queried, sql) == [[1]], sql


def forbidden(folder: Path) -> dict[str, str]:
    file = folder / "secret.txt"
    return {
        "two statements": "select 1; select 2",
        "no statement": " ",
        "a write": "insert into events values (1)",
        "a write to the table below": "delete from accepted",
        "a new table": "create table x as select 1",
        "a drop": "drop view events",
        "a copy to a file": f"copy (select 1) to '{folder / 'out.csv'}'",
        "an attached database": f"attach '{folder / 'x.duckdb'}'",
        "a setting": "set enable_external_access = true",
        "a setting, second": "select 1; set lock_configuration = false",
        "a pragma": "pragma database_list",
        "an extension": "install httpfs",
        "a file by name": f"select * from '{file}'",
        "a file by function": f"select * from read_text('{file}')",
        "a CSV by function": f"select * from read_csv('{file}')",
        "a folder": f"select * from glob('{folder}/*')",
        "a file in a subquery": f"select (select content from read_text('{file}'))",
        "a file in a named subquery": f"with x as (from read_blob('{file}')) select * from x",
        "a file behind a known name": f'with "{file}" as (select 1) select * from main."{file}"',
        "memory by address": "select * from arrow_scan(1, 2, 3)",
        "SQL inside text": "select * from query('select 1')",
        "a table by text": "select * from query_table('accepted')",
        "the table below": "select * from accepted",
        "the table below, with its schema": "select * from main.accepted",
        "the other project's view": "select * from collapsed",
        "the catalogue": "select * from duckdb_settings()",
        "the catalogue as a table": "select * from information_schema.tables",
        "a list of tables": "show tables",
        "bad syntax": "selec 1",
        "an unknown column": "select nothing from events",
        "an unknown function": "select nothing(1)",
        "a bad cast": "select CAST(event AS INTEGER) from events",
    }


@pytest.mark.parametrize("name", forbidden(Path("unused")).keys())
def test_refuses_everything_else(queried: Asking, tmp_path: Path, name: str) -> None:
    """Anything but one valid SELECT over the views is a 400 with the envelope, and changes nothing."""
    (tmp_path / "secret.txt").write_text("not to be read")
    answer = query(queried, forbidden(tmp_path)[name])
    assert problem(answer, 400) == ("invalid_input", "query")
    assert (list(answer.json()), answer.json()["type"]) == (["type", "code", "detail", "attr"], "validation_error")
    assert "not to be read" not in answer.text
    assert os.listdir(tmp_path) == ["secret.txt"]
    assert results(queried, "select count() from events") == [[1]]


def test_refuses_bodies_without_a_query(queried: Asking) -> None:
    """A body without a query is a 400 that names the member."""
    for body, code, attr in (
        (b"no json", "parse_error", None),
        (b"[]", "invalid_input", "query"),
        (b'{"query": "select 1"}', "invalid_input", "query"),
        (b"{}", "required", "query"),
        (b'{"query": {"kind": "HogQLQuery"}}', "required", "query__query"),
        (b'{"query": {"kind": "TrendsQuery"}}', "invalid_input", "query__kind"),
        (b'{"query": {"kind": "HogQLQuery", "query": 1}}', "invalid_input", "query__query"),
    ):
        answer = queried("POST", "/api/projects/1/query/", content=body)
        assert problem(answer, 400) == (code, attr), body
        assert answer.json()["type"] == "validation_error"


def test_lets_in_only_who_may(queried: Asking) -> None:
    """A missing or wrong key is 401, a missing scope 403, an unknown project 404. The query scope is enough."""
    for key, project, status, kind, code in (
        (None, 1, 401, "authentication_error", "not_authenticated"),
        ("phx_other", 1, 401, "authentication_error", "authentication_failed"),
        ("phc_test_a", 1, 401, "authentication_error", "authentication_failed"),
        (key_with("hog_function:write"), 1, 403, "authentication_error", "permission_denied"),
        (ALL, 9, 404, "invalid_request", "not_found"),
        (ALL, "one", 404, "invalid_request", "not_found"),
    ):
        answer = query(queried, "select 1", key, project)
        assert problem(answer, status) == (code, None)
        assert answer.json()["type"] == kind
        assert "phx_" not in answer.text
    assert query(queried, "select 1", key_with("query:read")).json()["results"] == [[1]]


ENDLESS = (
    "select count(*) from range(100000000) a, range(100000) b where a.range + b.range = 7",
    "select levenshtein(string_agg('ab', ''), string_agg('ba', '')) from range(500000)",  # nothing interrupts it
)


def test_a_query_has_its_time_its_bytes_and_its_rows() -> None:
    """A query that takes too long is stopped, whatever it does, and the next one is answered. Few rows may be large
    ones. With `query_default_rows` a query without LIMIT is cut off there, and the answer says whether there were
    more."""
    with asking(Settings(query_seconds=0.5, query_most_bytes=2**20, query_default_rows=2000)) as ask:
        for sql in ENDLESS:
            stopped = query(ask, sql)
            assert (stopped.status_code, stopped.json()["type"]) == (504, "server_error")
            assert stopped.json()["detail"] == "The query took longer than 0.5 seconds and was stopped."
            assert results(ask, "select 1") == [[1]]
        large = query(ask, "select repeat('x', 1000) from range(2000)")
        assert (large.status_code, large.json()["attr"]) == (400, "query")
        assert large.json()["detail"] == "the answer is over 1 MiB; ask for fewer rows or columns"
        assert len(results(ask, "select repeat('x', 1000) from range(1000)")) == 1000
        cut = query(ask, "select range from (select range from range(2001) limit 2001)").json()
        assert (len(cut["results"]), cut["limit"], cut["hasMore"]) == (2000, 2000, True)
        assert query(ask, "select 1 from range(2000)").json()["hasMore"] is False
        assert len(results(ask, "select 1 from range(2001) limit 2001")) == 2001


def test_answers_over_every_table_but_those_below(queried: Asking) -> None:
    """Each view has only this project; the tables under the views have every project, so no query may name them."""
    described = queried("GET", "/openapi.json", key=None).json()["paths"]["/api/projects/{project_id}/query/"]["post"]
    for name in ("events", "raw_events", "persons", "person_distinct_ids", "groups", "warnings", "rejections"):
        assert name in described["description"]
    for name in ("raw_events", "persons", "person_distinct_ids", "groups", "group_types", "warnings", "rejections"):
        assert results(queried, f"select count(*) from {name.upper()}", project=2) == [[0]]
        assert query(queried, f"select * from {name}").status_code == 200
    for name in ("accepted", "people", "people_ids", "noticed", "folded", "kept", "documents", "main.persons"):
        assert [query(queried, f"select * from {place}{name}").status_code for place in ("", "main.")] == [400, 400]


def test_a_file_that_is_not_a_store_is_refused(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / "text").write_text("no database " * 1000)
    with pytest.raises(BadStore, match=re.escape(f"the store {tmp_path / 'text'} cannot be opened")):
        LocalService(tmp_path / "text")
