"""Values that a mapping drops are not judged, and NaN is what `nan` says, in every format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline import extractors
from pipeline.extractors.file_rules import FileRules
from pipeline.options import PlanOptions
from tests.support.services import NOW

MAPPING = """format: backcast.mapping/1
tool: mine
title: mine
event: event
distinct_id: [user]
time: [{{from: at, unit: iso}}]
files: {{nan: {nan}}}
properties: {{drop: [{drop}]}}
"""
EVENT = {"event": "Seen", "user": "u", "at": "2023-01-01T00:00:00Z"}


def table(value: Any) -> pa.Table:
    return pa.Table.from_pylist([{**EVENT, "odd": value}])


def as_avro(path: Path, value: Any) -> None:
    kind = "bytes" if isinstance(value, bytes) else "double"
    fields = [*({"name": name, "type": "string"} for name in EVENT), {"name": "odd", "type": kind}]
    with path.open("wb") as file:
        schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
        fastavro.writer(file, schema, [{**EVENT, "odd": value}])


def as_csv(path: Path, value: Any) -> None:
    path.write_bytes(b"event,user,at,odd\nSeen,u,2023-01-01T00:00:00Z,%b\n" % value)


def as_jsonl(path: Path, value: Any) -> None:
    number = "1e999" if isinstance(value, bytes) else "NaN"
    row = '{"event":"Seen","user":"u","at":"2023-01-01T00:00:00Z","odd":%s,"more":"NaN \\" Infinity"}\n'
    path.write_text(row % number, encoding="utf-8")


def as_json(path: Path, value: Any) -> None:
    as_jsonl(path, value)
    path.write_text(f"[\n{path.read_text()}]\n", encoding="utf-8")


FORMATS: dict[str, Callable[[Path, Any], Any]] = {
    "parquet": lambda path, value: pq.write_table(table(value), path),
    "orc": lambda path, value: orc.write_table(table(value), path),
    "avro": as_avro,
    "csv": as_csv,
    "jsonl": as_jsonl,
    "json": as_json,
}


def planned(folder: Path, form: str, value: Any, nan: str = "null", drop: str = "") -> pipeline.Plan:
    folder.mkdir()
    mapping = folder / "mapping.yaml"
    mapping.write_text(MAPPING.format(nan=nan, drop=f"event, user, at{drop}"), encoding="utf-8")
    FORMATS[form](folder / f"export.{form}", value)
    options = PlanOptions(mapping=str(mapping), workers=0, as_of=NOW)
    return pipeline.plan_export(str(folder / f"export.{form}"), folder / "plan", options)


@pytest.mark.parametrize("form", FORMATS)
def test_a_dropped_column_rejects_no_row(tmp_path: Path, form: str) -> None:
    """Bytes that are not text, and a number that no double can represent; unless the column is dropped the row is a
    reject."""
    assert planned(tmp_path / "kept", form, b"\xff\xfe").rows.rejected == 1
    plan = planned(tmp_path / "dropped", form, b"\xff\xfe", drop=", odd")
    assert (plan.rows.rejected, plan.events.made, dict(plan.warnings)) == (0, 1, {})


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "csv"])
def test_nan_is_null_or_a_reject_in_every_format(tmp_path: Path, form: str) -> None:
    """With a warning; in a dropped column of a format that has such numbers it is neither."""
    value = float("nan")
    plan = planned(tmp_path / "null", form, value)
    assert (plan.rows.rejected, dict(plan.warnings)) == (0, {"nan_value": 1})
    assert planned(tmp_path / "reject", form, value, nan="reject").rows.rejected == 1
    if form in ("parquet", "orc", "avro"):
        for nan in ("null", "reject"):
            plan = planned(tmp_path / f"dropped {nan}", form, value, nan=nan, drop=", odd")
            assert (plan.rows.rejected, dict(plan.warnings)) == (0, {})


def test_a_dropped_cell_is_the_same_however_its_row_is_found(tmp_path: Path) -> None:
    """Right after the row was read, and by its number: bytes that are not text next to escapes, and a null."""
    rows = [b'"x\xff\\"y","1"', rb'"x\"y","2"', rb'\N,"3"', b'"x\xff","4"']
    (tmp_path / "x.csv").write_bytes(b"\n".join([b'"odd","n"', *rows, b""]))
    (part,) = extractors.open_source([str(tmp_path / "x.csv")], rules=FileRules(encoding="utf-8", escape="\\")).parts
    (block,) = extractors.blocks(part)
    read = extractors.rows(part, block, unread=("odd",))
    found = [read.canonical(number) for number, _ in enumerate(read)]
    assert found == [read.canonical(number) for number in range(len(rows))]


def test_a_row_with_nan_is_checked_as_others_are(tmp_path: Path) -> None:
    """A repeated name is reported, and so is an integer beyond 2^53."""
    (tmp_path / "x.jsonl").write_text('{"a":NaN,"a":2,"b":{"c":NaN},"d":9007199254740993}\n', encoding="utf-8")
    (part,) = extractors.open_source([str(tmp_path / "x.jsonl")], rules=FileRules(nan="null")).parts
    (block,) = extractors.blocks(part)
    read = extractors.rows(part, block, opens=("b",))
    record: Any
    (record,) = read
    assert bytes(record["b"]["c"]) == b"null"
    assert [code for _, code, _ in read.warnings] == ["nan_value", "duplicate_key", "unsafe_integer"]
