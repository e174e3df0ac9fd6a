"""Drafts have a person's settings for the files, and cases with rows as a plan reads them."""

from __future__ import annotations

import math
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.api import plan_export
from pipeline.mapper.inspection.cases import run_cases
from pipeline.mapper.language.loader import parse
from pipeline.mapper.language.sections import Mapping
from pipeline.options import PlanOptions
from tests.support.commands import in_process
from tests.support.export_shapes import iso, lines
from tests.support.plan_facts import found


def checked(text: str) -> Mapping:
    """The mapping of a draft whose cases pass."""
    mapping = parse(text, "draft")
    assert mapping.cases
    assert all(outcome.passed for outcome in run_cases(mapping))
    return mapping


def started(folder: Path, path: Path, *asked: str) -> tuple[str, str]:
    """What `mapping new` wrote, and what it printed."""
    (folder / "new.yaml").unlink(missing_ok=True)
    made = in_process("mapping", "new", path, *asked, "-o", folder / "new.yaml")
    assert made.returncode == 0
    return (folder / "new.yaml").read_text("utf-8"), made.stderr


def test_a_draft_has_the_settings_of_the_files(tmp_path: Path) -> None:
    """A plan with it needs no --set, and the command to plan repeats only what a mapping cannot say."""
    path = tmp_path / "events.copy"
    rows = [f"{n}\tu-{n % 7}\tsignup\t2023-05-0{1 + n % 9} 10:00:00+00\ta\\tb\n" for n in range(30)]
    path.write_text("".join(rows), "utf-8")
    asked = ["--set", "columns=id,user_id,event,at,note", "--set", "escape=\\"]
    text, printed = started(tmp_path, path, *asked)
    assert checked(text).files.columns == ("id", "user_id", "event", "at", "note")
    assert f"backcast plan {path} -m {tmp_path}/new.yaml -o plan" in printed
    plan = plan_export(path, tmp_path / "plan", PlanOptions(mapping=str(tmp_path / "new.yaml"), workers=0))
    assert (found(plan.gates), plan.events.made) == ([], 30)
    path = tmp_path / "a.jsonl"
    path.write_text(
        lines({"event": "Seen", "user_id": f"u-{n}", "at": iso(n), "x": math.nan} for n in range(3)), "utf-8"
    )
    text, printed = started(tmp_path, path, "--set", "nan=null")
    assert checked(text).files.nan == "null"
    assert "--set" not in printed


def test_the_cases_of_a_draft_are_rows_as_they_are_read(tmp_path: Path) -> None:
    """Numbers of a workbook stay numbers, and ids that were floats are integers."""
    book = openpyxl.Workbook()
    for cells in (["event", "user_id", "at", "Amount"], *[["Paid", 40 + n, iso(n), n + 0.5] for n in range(4)]):
        book.active.append(cells)
    book.save(tmp_path / "a.xlsx")
    assert '{"Amount":0.5}' in started(tmp_path, tmp_path / "a.xlsx")[0]
    rows = [{"event": "Paid", "user_id": None if n == 2 else 40.0 + n, "at": iso(n)} for n in range(4)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (case, *_) = checked(started(tmp_path, tmp_path / "a.parquet")[0]).cases
    assert case.gives[0]["distinct_id"] == "40"


def test_a_column_of_rounded_ids_is_a_candidate(tmp_path: Path) -> None:
    """It is in the column of the ids."""
    rows = [f"click,9.9{n}214E+15,2023-05-01T10:{n:02d}:00Z,{n / 3:.2f}\n" for n in range(10, 50)]
    (tmp_path / "a.csv").write_text("action,account,at,share\n" + "".join(rows), "utf-8")
    _, printed = started(tmp_path, tmp_path / "a.csv")
    assert "The draft uses [/account]" in printed
    assert "a spreadsheet rounded numbers in account" in printed
