"""A column that was misspelt, or is missing, is reported before the rows are read, once and with what was meant."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.cli import run

ROW = {"event": "Seen", "user": "u-1", "At": "2023-01-02T03:04:05Z", "zip": "00001"}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows in the format that the file's name says."""
    names = list(dict.fromkeys(name for one in rows for name in one))
    if path.suffix == ".parquet":
        pq.write_table(pa.table({name: [one.get(name) for one in rows] for name in names}), path)
    elif path.suffix == ".csv":
        lines = [names, *([str(one.get(name, "")) for name in names] for one in rows)]
        path.write_text("".join(",".join(line) + "\n" for line in lines), "utf-8")
    else:
        text = "".join(json.dumps(one) + "\n" for one in rows)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def plan(place: Path, source: Path, *asked: str, **named: str) -> int:
    """The exit code of `backcast plan` with these columns."""
    columns = {"event": "event", "distinct_id": "user", "timestamp": "At"} | named
    settings = [part for name, column in columns.items() for part in ("--set", f"{name}={column}")]
    where = ["--output", str(place / "plan"), "--workers", "0", "--quiet", "--timezone", "UTC"]
    return run(["plan", str(source), "--mapping", "generic", *where, *settings, *asked])


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.jsonl.gz", "rows.parquet"])
@pytest.mark.parametrize(
    ("setting", "column", "meant"),
    [("timestamp", "at", "did you mean 'At'?"), ("distinct_id", "usr", "did you mean 'user'?"), ("event", "9", "zip")],
)
def test_a_column_that_no_row_has_is_reported_at_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, setting: str, column: str, meant: str
) -> None:
    """Exit 2 and two lines: the file, the setting, and the name that was probably meant."""
    source = write(tmp_path / name, [ROW, ROW | {"user": "u-2"}])
    assert plan(tmp_path, source, **{setting: column}) == 2
    told = capfd.readouterr().err.strip().splitlines()
    assert told[0] == f"Error: no row of {name} has the column {column!r}, which --set {setting} names"
    assert told[1].startswith("Try: ")
    assert meant in told[1]
    assert len(told) == 2
    assert not (tmp_path / "plan" / "plan.json").exists()


def test_a_column_that_comes_late_is_there(tmp_path: Path) -> None:
    """JSON lines leave out missing members: the last row may be the only one with the column, and in another read."""
    rows: list[dict[str, Any]] = [{**ROW, "more": "x" * 1000} for _ in range(200)]
    rows.append(ROW | {"id": "r-1", "old": "a-1"})
    assert plan(tmp_path, write(tmp_path / "rows.jsonl", rows), uuid="id", anonymous_id="old") in (0, 4)
    assert (tmp_path / "plan" / "plan.json").exists()


def test_every_part_needs_its_event_its_person_and_its_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One file with other columns is named; an id that may be missing has to be in the whole export only."""
    export = tmp_path / "export"
    export.mkdir()
    write(export / "1.csv", [ROW | {"device": "a-1"}])
    odd = {"event": "Seen", "device": "a-1", "when": ROW["At"], "zip": "1"}
    write(export / "2.csv", [odd])
    assert plan(tmp_path, export, anonymous_id="device") == 2
    assert "no row of 2.csv has the column 'At', which --set timestamp names" in capfd.readouterr().err
    write(export / "2.csv", [{"event": "Seen", "device": "a-1", "At": ROW["At"]}])
    assert plan(tmp_path, export, anonymous_id="device") == 0
    assert plan(tmp_path, export, anonymous_id="device", uuid="id") == 2
    assert "no row of the export has the column 'id', which --set uuid names" in capfd.readouterr().err


def test_constants_and_blank_columns_are_not_mistakes(tmp_path: Path) -> None:
    """A constant names no column, and a column whose every value is blank exists: its rows say what they lack."""
    rows = [ROW | {"id": ""}, ROW | {"id": "", "user": "u-2"}]
    assert plan(tmp_path, write(tmp_path / "rows.csv", rows), event="=Seen", uuid="id") == 0
    nulls = [{**ROW, "At": None}]
    assert plan(tmp_path, write(tmp_path / "rows.parquet", nulls)) == 4
    assert "missing_timestamp" in (tmp_path / "plan" / "rejects.jsonl").read_text("utf-8")


def test_an_export_of_broken_rows_is_not_called_a_mistake_of_the_command(tmp_path: Path) -> None:
    """If no row can be read, each is a reject of its own."""
    (tmp_path / "rows.jsonl").write_text("{broken\n{broken\n", "utf-8")
    assert plan(tmp_path, tmp_path / "rows.jsonl", timestamp="nowhere") == 4
