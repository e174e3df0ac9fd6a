"""GA4 over whole sources: every way out of BigQuery gives the same events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import UnfitExport
from sample_data.generator import ga4
from tests.support.sent_events import planned


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def avro_type(kind: pa.DataType, name: str) -> Any:
    """The Avro type that BigQuery writes for a column: a record or a list of them, or a scalar that may be null."""
    if pa.types.is_list(kind):
        return {"type": "array", "items": avro_type(kind.value_type, name)}
    if pa.types.is_struct(kind):
        fields = [{"name": one.name, "type": avro_type(one.type, f"{name}_{one.name}")} for one in kind]
        record = {"type": "record", "name": name, "fields": fields}
        return (
            record
            if name == "Root" or kind.get_field_index("key") >= 0 or name.endswith("_items")
            else ["null", record]
        )
    return ["null", {"string": "string", "int64": "long", "double": "double", "bool": "boolean"}[str(kind)]]


def written(folder: Path, form: str, rows: list[ga4.Row]) -> Path:
    """The rows in one of the forms that BigQuery has for them."""
    if form == "parquet":
        pq.write_table(ga4.typed(rows), folder / "rows.parquet")
        return folder / "rows.parquet"
    if form == "avro":
        with (folder / "rows.avro").open("wb") as file:
            fastavro.writer(file, avro_type(pa.struct(list(ga4.SCHEMA)), "Root"), ga4.filled(rows), codec="snappy")
        return folder / "rows.avro"
    spelled = {"extract": ga4.extract_lines, "console": ga4.console_lines, "client": ga4.client_lines}[form]
    return write_lines(folder / "rows.json", spelled(rows))


def test_every_form_of_the_table_gives_the_same_events(tmp_path: Path) -> None:
    """Nulls, texts for numbers and types are how a file is written, and change no event and no uuid: neither of rows
    with a key nor of those without, of which some are equal."""
    rows = ga4.rows()
    bare = [row for row in rows if "batch_event_index" not in row]
    rows += bare[:2]
    _, expected = planned(tmp_path / "extract", [written(tmp_path, "extract", rows)])
    assert bare
    assert len({event["uuid"] for event in expected}) == len(expected) == len(rows)
    for form in ("console", "client", "parquet", "avro"):
        assert planned(tmp_path / form, [written(tmp_path, form, rows)])[1] == expected, form


def test_three_equal_scrolls_of_one_bundle_are_three_events(tmp_path: Path) -> None:
    """With an index in the batch and without, which rows of before 2023 and those of apps lack."""
    scrolls = [row for row in ga4.rows() if row["event_name"] == "scroll"][:3]
    bare = [{name: value for name, value in row.items() if not name.startswith("batch_")} for row in scrolls]
    for name, rows in (("indexed", scrolls), ("bare", bare)):
        plan, events = planned(tmp_path / name, [write_lines(tmp_path / f"{name}.json", ga4.extract_lines(rows))])
        assert (plan.skips, len(events), len({event["uuid"] for event in events})) == ({}, 3, 3)


def test_one_row_in_two_tables_is_one_event(tmp_path: Path) -> None:
    """A row that is exported twice has one key."""
    rows = [row for row in ga4.rows() if "batch_event_index" in row]
    first = write_lines(tmp_path / "first.json", ga4.extract_lines(rows))
    second = write_lines(tmp_path / "second.json", ga4.client_lines(rows[:5]))
    plan, events = planned(tmp_path / "plan", [first, second])
    assert len(events) == len(rows)
    assert sum(plan.skips.values()) == 5


@pytest.mark.parametrize("running", ["events_intraday_20231115", "events_fresh_20231115"])
def test_a_day_with_its_running_table_stops(tmp_path: Path, running: str) -> None:
    """The table of the running day has the day's rows once more; that of another day has others."""
    lines = ga4.extract_lines(ga4.rows())
    for number, name in enumerate(("events_20231115", running, running.replace("15", "16"))):
        (tmp_path / name).mkdir()
        write_lines(tmp_path / name / "000000000000.json", lines[: number + 1])
    with pytest.raises(UnfitExport, match=f"{running}.* have the same events"):
        planned(tmp_path / "plan", [tmp_path / "events_20231115", tmp_path / running])
    plan, _ = planned(tmp_path / "other", [tmp_path / "events_20231115", tmp_path / running.replace("15", "16")])
    assert len(plan.parts) == 2
