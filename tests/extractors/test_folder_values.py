"""Folders `key=value` are columns, whatever the format of the files in them and wherever they are."""

from __future__ import annotations

import csv
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fastavro
import openpyxl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.extractors import blocks, open_source, rows
from pipeline.extractors.file_rules import NO_RULES, FileRules
from pipeline.extractors.folder_values import folder_values
from pipeline.models import Dialect, Part
from pipeline.options import PlanOptions
from tests.support.planned_events import planned_events
from tests.support.services import NOW
from tests.support.stores import a_bucket

ROWS = [{"user": "u1", "at": "2023-01-01T00:00:00Z"}, {"user": "u2", "at": "2023-01-01T00:00:01Z"}]
DAYS = (
    "event_name=sign%20up/dt=2023-01-01",
    "event_name=paid/dt=2023-01-01",
    "event_name=paid/dt=__HIVE_DEFAULT_PARTITION__",
)
Rows = list[dict[str, Any]]


def as_csv(path: Path, some: Rows) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(some[0]))
    writer.writeheader()
    writer.writerows(some)
    path.write_text(text.getvalue(), encoding="utf-8")


def as_avro(path: Path, some: Rows) -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": name, "type": "string"} for name in some[0]]}
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), some)


def as_excel(path: Path, some: Rows) -> None:
    book = openpyxl.Workbook()
    for one in (list(some[0]), *(list(row.values()) for row in some)):
        book.active.append(one)
    book.save(path)


FORMATS: dict[str, Callable[[Path, Rows], object]] = {
    "csv": as_csv,
    "jsonl": lambda path, some: path.write_text("\n".join(map(json.dumps, some)), encoding="utf-8"),
    "json": lambda path, some: path.write_text(json.dumps(some, indent=1), encoding="utf-8"),
    "parquet": lambda path, some: pq.write_table(pa.Table.from_pylist(some), path),
    "orc": lambda path, some: orc.write_table(pa.Table.from_pylist(some), path),
    "avro": as_avro,
    "xlsx": as_excel,
}


def export(folder: Path, form: str) -> Path:
    """The same rows in each of the folders."""
    for day in DAYS:
        (folder / day).mkdir(parents=True)
        FORMATS[form](folder / day / f"part-0.{form}", ROWS)
        for marker in ("_SUCCESS", "_committed_12", f".part-0.{form}.crc"):
            (folder / day / marker).write_bytes(b"crc\0")
    return folder


def read(paths: list[str], rules: FileRules = NO_RULES) -> list[dict[str, Any]]:
    """All rows, as strings."""
    source = open_source(paths, rules=rules)
    assert sum(note.code == "ignored_file" for note in source.notes) <= 1
    found = [record for part in source.parts for block in blocks(part) for record in rows(part, block)]
    return [
        {name: json.loads(bytes(value)) if not isinstance(value, str) else value for name, value in one.items()}
        for one in found
    ]  # type: ignore[union-attr, arg-type]


EXPECTED = [
    {**row, "event_name": name, **day}
    for name, day in (("paid", {"dt": "2023-01-01"}), ("paid", {}), ("sign up", {"dt": "2023-01-01"}))
    for row in ROWS
]


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_has_the_columns_of_its_folders(tmp_path: Path, form: str) -> None:
    """On disk, in an archive, named by the folder, by a glob or file by file; none of them counts as a copy of
    another."""
    folder = export(tmp_path / "table", form)
    by_name = lambda found: sorted(found, key=lambda row: (row["event_name"], row.get("dt", "~"), row["user"]))  # noqa: E731
    for named in ([str(folder)], [f"{folder}/*/*"], [str(folder / day / f"part-0.{form}") for day in DAYS]):
        assert by_name(read(named)) == EXPECTED
    assert read([str(folder)], FileRules(folders="no")) == ROWS * len(DAYS)
    if form != "xlsx":  # a workbook in an archive has to be unpacked first
        with zipfile.ZipFile(tmp_path / "table.zip", "w") as archive:
            for day in DAYS:
                archive.write(folder / day / f"part-0.{form}", f"{day}/part-0.{form}")
        assert by_name(read([str(tmp_path / "table.zip")])) == EXPECTED


def test_a_table_in_a_bucket_is_planned_with_its_folders(tmp_path: Path) -> None:
    """Rows without a key that are equal except for their folder are different rows, with the same uuids as on disk."""
    folder = export(tmp_path / "table", "parquet")
    asked: dict[str, Any] = {"mapping": "generic", "workers": 0, "as_of": NOW}
    asked["settings"] = {"event": "event_name", "distinct_id": "user", "timestamp": "at"}
    with a_bucket() as bucket:
        places = {"disk": str(folder), "bucket": bucket.copy(folder, "table")}
        plans = [pipeline.plan_export(path, tmp_path / name, PlanOptions(**asked)) for name, path in places.items()]
    for plan in plans:
        assert (plan.ready, plan.names, plan.warnings) == (True, {"paid": 4, "sign up": 2}, {})
    on_disk, in_bucket = (sorted(planned_events(tmp_path / name)) for name in places)
    assert on_disk == in_bucket


def test_a_column_of_the_file_wins(tmp_path: Path) -> None:
    """With a warning if it differs; a null in the file is not filled from the folder."""
    folder = tmp_path / "dt=2023-01-02"
    folder.mkdir()
    as_csv(folder / "a.csv", [ROWS[0] | {"dt": "2023-01-02"}, ROWS[1] | {"dt": "2023-01-09"}, ROWS[1] | {"dt": ""}])
    source = open_source([str(folder)])
    (block,) = blocks(source.parts[0])
    found = rows(source.parts[0], block)
    assert [record.get("dt") for record in found if isinstance(record, dict)] == ["2023-01-02", "2023-01-09", None]
    assert [(row, code) for row, code, _ in found.warnings] == [(1, "folder_value"), (2, "folder_value")]
    shutil.rmtree(folder)


NAMES = st.text("abc_-. é/=%", min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(NAMES, NAMES), max_size=4, unique_by=lambda pair: pair[0]), st.booleans())
def test_names_and_values_are_written_as_in_urls(pairs: list[tuple[str, str]], in_archive: bool) -> None:
    """Escapes of a writer are decoded, in the folders directly above the file and in no others."""
    folders = "/".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
    file = f"/data/x=1/export/{folders}/part=0.csv".replace("//", "/")
    member = file.removeprefix("/data/") if in_archive else ""
    part = Part(0, "", "/y=2/a.zip" if in_archive else file, member, (), "csv", Dialect(), 0, 0)
    assert folder_values(part) == tuple(pairs)
