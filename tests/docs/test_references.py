"""What the documentation names exists: tests, exit codes, states, checks."""

from __future__ import annotations

import re
import sys
from importlib import import_module

import click

from pipeline import errors
from pipeline.report.state import State
from tests.support.doc_blocks import README, ROOT

sys.path.insert(0, str(ROOT / "docs"))
import generate

USE = ROOT / "docs" / "use"


def page(name: str) -> str:
    return (USE / name).read_text(encoding="utf-8")


def everything() -> str:
    """The text of the README and of every page of docs/use."""
    return "\n".join(file.read_text(encoding="utf-8") for file in (README, *USE.rglob("*.md")))


def test_each_failure_names_a_test_that_exists() -> None:
    """Rename tests in the tables of failures, too; no failure stands there without a proof."""
    written = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    known = set(re.findall(r"def (test_\w+)", written))
    named = set(re.findall(r"`(test_\w+)`", everything()))
    assert sorted(named - known) == []
    assert len(named) > 50
    rows = [line for line in (page("failures.md") + page("jobs.md")).splitlines() if "|" in line]
    proved = [line for line in rows if re.search(r"\| (\d+(, \d+)*) \|", line)]
    assert [line for line in proved if "`test_" not in line] == []


def test_the_tables_of_codes_states_and_keys_are_complete() -> None:
    """Each exit code of the errors and success, each state of a plan, and each key of a job file has a row."""
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    text = page("json-and-exit-codes.md")
    assert [code for code in sorted({0, *codes}) if f"| {code} |" not in text] == []
    assert [state for state in State if f"| `{state}` |" not in page("json-and-exit-codes.md")] == []
    from pipeline.jobs.loading import job_keys

    rows = "\n".join(line for line in page("jobs.md").splitlines() if line.startswith("| `"))
    assert [key for key in job_keys() if f"`{key}`" not in rows] == []


def test_each_option_name_and_variable_of_a_page_exists() -> None:
    """An option is one of some command of backcast, or of `dask worker`; modules and functions are where a page says;
    an environment variable is in the code."""
    from pipeline.cli import cli

    tree = generate.command_tree(cli, None, "backcast")
    known = {
        text for command, _ in tree for one in command.params for text in one.opts if isinstance(one, click.Option)
    }
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", everything()))
    assert sorted(named - known - {"--help", "--nthreads", "--nworkers"}) == []
    assert len(named) > 50
    named = set(re.findall(r"\bpipeline(?:\.\w+)+", everything()))
    assert [name for name in sorted(named) if not _there(name)] == []
    assert named
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "pipeline").rglob("*.py"))
    named = set(re.findall(r"(?<!_)BACKCAST_[A-Z_]+", everything()))
    assert [name for name in sorted(named) if name not in code] == []


def _there(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    try:
        import_module(name)
    except ImportError:
        module, _, attribute = name.rpartition(".")
        return bool(module) and hasattr(import_module(module), attribute)
    return True
