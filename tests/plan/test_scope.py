"""A table decides which event names are imported: what it leaves out has no effect; what it lacks stops the plan."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pipeline
from pipeline.errors import UsageError
from pipeline.options import PlanOptions, SurveyOptions
from pipeline.plan.scope import read_scope
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from tests.golden.samples import AS_OF, SAMPLES
from tests.plan.test_both_ways import PLANS

SAMPLE = SAMPLES / "mixpanel"
GIVEN = {"mapping": "mixpanel", "timezone": "America/New_York", "as_of": AS_OF, "workers": 0}
OUT = {"$mp_click": "Nein", "Lamp Switched": "FALSE", "$merge": "0", "$create_alias": "no"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of the sample, with the use of one event."""
    file = tmp_path_factory.mktemp("scope") / "scope.csv"
    lexicon = file.with_name("lexicon.csv")
    lexicon.write_text("Event Name,Status,30-Day Queries\n$mp_web_page_view,Dropped,12\nElsewhere,,3\n", "utf-8")
    pipeline.survey_export(SAMPLE, SurveyOptions(scope=file, definitions=(str(lexicon),)))
    return file


def read(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def edited(table: Path, file: Path, keep: dict[str, str], without: str = "") -> Path:
    """The table as a German spreadsheet saves it: another delimiter, with a mark, and with these choices."""
    rows = [(row["event"], keep.get(row["event"], "ja"), row["rows"]) for row in read(table) if row["event"] != without]
    file.write_text("".join(";".join(row) + "\r\n" for row in [("event", "keep", "rows"), *rows]), "utf-8-sig")
    return file


def plan(folder: Path, **given: Any) -> Plan:
    return pipeline.plan_export(SAMPLE, folder, PlanOptions(**{**GIVEN, **given}))


def left_out(made: Plan) -> dict[str, int]:
    coverage = msgspec.to_builtins(made.coverage)
    return {one["event"]: one["left_out"].get("out_of_scope", 0) for one in coverage["events"]}


def test_the_table_has_every_name_with_exact_counts_and_days(table: Path) -> None:
    """Also names of rows that become no event, and of those that the mapping skips."""
    rows = {row["event"]: row for row in read(table)}
    assert len(rows) == 21
    assert list(rows["$mp_web_page_view"].values())[1:] == [
        "yes", "21", "2021-11-06", "2021-11-07", "$pageview", "12 queries, dropped",
    ]  # fmt: skip
    assert rows["Signed Up"]["first"] == rows["Signed Up"]["last"] == "2021-03-14"
    assert (rows["$merge"]["rows"], rows["$mp_session_record"]["first"]) == ("1", "")
    with pytest.raises(UsageError, match="exists"):
        pipeline.survey_export(SAMPLE, SurveyOptions(scope=table))


def test_the_table_takes_the_settings_of_a_mapping(tmp_path: Path) -> None:
    """They say which columns of a table have the names and times; without a mapping they are an error."""
    export = tmp_path / "export.csv"
    export.write_text("Name,Who,When\nSigned Up,u-1,2023-01-02T03:04:05Z\n", "utf-8")
    settings = {"event": "Name", "distinct_id": "Who", "timestamp": "When"}
    pipeline.survey_export(export, SurveyOptions(scope=tmp_path / "s.csv", mapping="generic", settings=settings))
    assert [*read(tmp_path / "s.csv")[0].values()][:4] == ["Signed Up", "yes", "1", "2023-01-02"]
    with pytest.raises(UsageError, match="without a mapping"):
        pipeline.survey_export(export, SurveyOptions(scope=tmp_path / "other.csv", settings=settings))
    assert not (tmp_path / "other.csv").exists()


def test_what_is_out_of_scope_has_no_effect_and_is_counted_by_name(table: Path, tmp_path: Path) -> None:
    """The rest is what a plan of an export without these rows has: the same events and no merge of theirs. Python does
    the same as the C part."""
    scope = edited(table, tmp_path / "scope.csv", OUT)
    whole, made = plan(tmp_path / "whole"), plan(tmp_path / "some", scope=scope)
    assert {name: count for name, count in left_out(made).items() if count} == {
        "Lamp Switched": 14, "$mp_click": 10, "$merge": 1, "$create_alias": 1,
    }  # fmt: skip
    assert made.skips == {**whole.skips, "out_of_scope": 26}
    assert (whole.events.phases["identities"], made.events.phases["identities"]) == (3, 1)
    folder = tmp_path / "export"
    folder.mkdir()
    for file in sorted(SAMPLE.iterdir()):
        text = file.read_bytes()
        rows = (gzip.decompress(text) if file.suffix == ".gz" else text).decode().split("\n")
        kept = [row for row in rows if row and json.loads(row)["event"] not in OUT]
        (folder / file.name.removesuffix(".gz")).write_text("".join(f"{row}\n" for row in kept), "utf-8")
    other = pipeline.plan_export(folder, tmp_path / "other", PlanOptions(**GIVEN))
    assert other.events == made.events
    lines = [Directory(tmp_path / name).identities.read_text() for name in ("some", "other")]
    assert lines[0] == lines[1]
    work = json.dumps([[str(SAMPLE), str(tmp_path / "python"), {**GIVEN, "scope": str(scope)}]])
    python = {**os.environ, "BACKCAST_NATIVE": "0"}
    subprocess.run([sys.executable, "-c", PLANS], input=work, env=python, text=True, check=True)
    assert json.loads((tmp_path / "python" / "plan.json").read_bytes())["digest"] == made.digest
    assert not any(gate.name in ("not_in_scope", "scope_unused") for gate in made.gates)


def test_a_name_that_the_table_lacks_stops_the_plan(table: Path, tmp_path: Path) -> None:
    """And a name without rows is a notice, because it may be misspelt."""
    scope = edited(table, tmp_path / "scope.csv", {}, without="Purchase")
    scope.write_text(scope.read_text("utf-8") + "Purchased;ja;1\n", "utf-8")
    made = plan(tmp_path / "plan", scope=scope)
    found = {gate.name: (gate.level, gate.examples) for gate in made.gates}
    assert found["not_in_scope"] == ("stop", ["Purchase (7)"])
    assert found["scope_unused"] == ("notice", ["Purchased"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("event,keep\na,maybe\n", "row 2 of s.csv: 'keep' is neither yes nor no: 'maybe'"),
        ("event,keep\na,yes\nb,\n", "row 3"),
        ("event,keep\na,yes\na,no\n", "listed twice"),
        ("name,keep\na,yes\n", "there is no 'event'"),
        ("event,keep\n", "has no row"),
        ("", "s.csv has 0 tables"),
    ],
)
def test_a_table_that_is_unclear_is_an_error_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    """Nothing is guessed."""
    file = tmp_path / "s.csv"
    file.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=problem):
        read_scope(file)


def test_names_are_read_exactly(tmp_path: Path) -> None:
    """Blanks, quotes, other alphabets, and a name that a spreadsheet would compute."""
    file = tmp_path / "s.csv"
    file.write_text('event,keep\n" a ",yes\n"say ""x"", now",NO\nпросмотр,1\n\'=1+1,false\n\'tis,no\n', "utf-8-sig")
    assert read_scope(file) == {" a ": True, 'say "x", now': False, "просмотр": True, "=1+1": False, "'tis": False}
