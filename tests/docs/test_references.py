"""What the documentation names exists: tests, exit codes, states, checks."""

from __future__ import annotations

import re

from pipeline import errors
from pipeline.report.state import State
from tests.support.doc_blocks import ROOT

USE = ROOT / "docs" / "use"


def page(name: str) -> str:
    return (USE / name).read_text(encoding="utf-8")


def test_each_test_that_a_page_names_exists() -> None:
    """The tables of failures name tests that there are."""
    written = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    known = set(re.findall(r"def (test_\w+)", written))
    named = {name for file in USE.rglob("*.md") for name in re.findall(r"`(test_\w+)`", file.read_text("utf-8"))}
    assert sorted(named - known) == []
    assert len(named) > 50


def test_each_row_of_the_failures_names_its_test() -> None:
    """No failure stands there without a proof."""
    rows = [line for line in (page("failures.md") + page("jobs.md")).splitlines() if "|" in line]
    proved = [line for line in rows if re.search(r"\| (\d+(, \d+)*) \|", line)]
    assert [line for line in proved if "`test_" not in line] == []


def test_the_table_of_exit_codes_is_complete() -> None:
    """Each exit code of the errors, and success, has a row."""
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    text = page("json-and-exit-codes.md")
    assert [code for code in sorted({0, *codes}) if f"| {code} |" not in text] == []


def test_the_table_of_states_is_complete() -> None:
    """Each state of a plan has a row, in the words of programs."""
    assert [state for state in State if f"| `{state}` |" not in page("json-and-exit-codes.md")] == []


def test_the_table_of_job_keys_is_complete() -> None:
    """Each key of a job file has a row."""
    from pipeline.jobs.loading import job_keys

    rows = "\n".join(line for line in page("jobs.md").splitlines() if line.startswith("| `"))
    assert [key for key in job_keys() if f"`{key}`" not in rows] == []
