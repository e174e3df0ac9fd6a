"""Each extension that docs/change/contributing.md shows is one file or one entry, found by itself.

The examples of that page are put into a copy of the package, and one job is planned and rehearsed with all of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "change" / "contributing.md"

PLACES = {
    "add-a-tool": ("mappings/acme.yaml", ""),
    "add-a-format": (
        "pipeline/extractors/formats/commented.py",
        "from collections.abc import Iterator\n"
        "from pipeline.extractors import line_blocks\n"
        "from pipeline.extractors.format import Format, Recognized, RowOptions, Sample\n"
        "from pipeline.extractors.jsonl_rows import JsonlRows\n"
        "from pipeline.extractors.rows import Rows\n"
        "from pipeline.models import Block, Dialect, Part\n",
    ),
    "add-a-verb": (
        "pipeline/mapper/verbs/squash.py",
        "from pipeline.mapper.program.builder import Builder\n"
        "from pipeline.mapper.program.functions import function\n"
        "from pipeline.mapper.language.kinds import VALUE, Field, verb\n"
        "from pipeline.mapper.language.sections import Call\n"
        "from pipeline.mapper.program.expressions import Apply, Value\n",
    ),
    "add-a-rule": ("pipeline/validator/rules.py", ""),
    "add-a-check": (
        "pipeline/plan/checks/few_rows.py",
        "from pipeline.plan.checks import PlanFacts, check\nfrom pipeline.text import pluralize\n",
    ),
    "add-a-fault": (
        "pipeline/local_service/faults/kinds/teapot.py",
        "from dataclasses import dataclass\n"
        "from pipeline.local_service.faults.base import Ending, Fault, Forward\n"
        "from pipeline.local_service.faults.request import CaptureRequest\n"
        "from pipeline.local_service.faults.request import HttpReply\n",
    ),
    "add-a-report-section": (
        "pipeline/report/sections/size.py",
        "from rich.console import Console\n"
        "from rich.text import Text\n"
        "from pipeline.plan.sealed.manifest import Plan\n"
        "from pipeline.report.contents import Report\n"
        "from pipeline.report.registry import Values, on_page, on_terminal\n",
    ),
}
"""For each section of the page: the file that its first example goes into (at the end, where it exists), and its
imports, which the page leaves out."""
OPTION = (
    ("pipeline/options/reading.py", "class RejectsOptions", "    source_root: "),
    ("pipeline/api.py", "def read_rejects", "    return "),
)
"""The files of an option's two examples, and the lines before which they go: the first such line after a definition."""
ROWS = (
    '{"id":"1","acme_event":"page","user":"u-1","device":"d-1","at":1672628645000,"data":{"plan":" p r o "}}\n'
    '{"id":"2","acme_event":"SALE","user":"u-1","device":"d-1","at":1672628646000,"data":{}}\n'
)


def example(anchor: str, number: int = 0) -> str:
    """A block of code below an anchor of the page, counted from 0."""
    section = PAGE.read_text("utf-8").split(f"({anchor})=", 1)[1]
    found: list[str] = re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)
    return found[number]


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which each example stands in its place."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "pipeline", folder / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "mappings", folder / "mappings")
    for anchor, (place, imports) in PLACES.items():
        path = folder / place
        before = path.read_text("utf-8") if path.exists() else ""
        path.write_text(f"{before}{imports}\n\n{example(anchor)}", "utf-8")
    template = folder / "pipeline" / "report" / "page" / "templates" / "sections" / "size.html.j2"
    template.write_text(example("add-a-report-section", 1), "utf-8")
    for number, (place, definition, line) in enumerate(OPTION):
        before, found, after = (folder / place).read_text("utf-8").partition(definition)
        added = textwrap.indent(example("add-an-option", number), "    ")
        (folder / place).write_text(before + found + after.replace(f"\n{line}", f"\n{added}{line}", 1), "utf-8")
    mapping = folder / "mappings" / "acme.yaml"
    text = mapping.read_text("utf-8")
    mapping.write_text(text.replace("  drop: [", "  set: {squashed: {squash: /data/plan}}\n  drop: [", 1), "utf-8")
    return folder


def python(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code of a Python that imports the extended package, and what it prints."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_every_example_takes_part_in_a_job(extended: Path) -> None:
    """A format, a tool, a verb, a rule, a check, a report section and a fault are found without other edits, and an
    option is a flag of the command, an argument of the library and a line of the help."""

    def run(*words: str) -> tuple[int, str]:
        return python(extended, "-m", "pipeline", *words)

    for name in ("a", "b"):
        rows = ROWS.replace('"id":"', f'"id":"{name}')
        (extended / f"{name}.txt").write_text(f"# exported by hand\n{rows}not JSON {name}\n", "utf-8")
    code, printed = run("plan", "a.txt", "b.txt", "-o", "plan", "--max-rejects", "4")
    assert code == 0, printed
    assert "acme" in printed  # the tool was recognised in rows of the new format
    assert "shouted_event" in printed
    assert "few_rows" in printed
    assert "Size: " in printed
    assert "<h2>Size</h2>" in (extended / "plan" / "report.html").read_text("utf-8")
    code, printed = run("rehearse", "plan", "--fault", "teapot,times=1")
    assert (code, "418: short and stout" in printed) == (5, True), printed
    code, printed = run("rehearse", "plan")
    assert code == 0, printed
    with duckdb.connect(str(extended / "plan" / "rehearsal" / "store.duckdb"), read_only=True) as store:
        landed = [json.loads(text) for (text,) in store.execute("select properties from accepted").fetchall()]
    assert {one["squashed"] for one in landed if "squashed" in one} == {"pro"}
    code, printed = run("rejects", "plan", "--part", "b.txt", "--code", "bad_json", "--format", "jsonl")
    assert (code, [json.loads(line)["record"] for line in printed.splitlines()]) == (0, ["not JSON b"]), printed
    library = (
        "import pipeline; from pipeline.cli import run; from pipeline.options import RejectsOptions;"
        "found = pipeline.read_rejects('plan', RejectsOptions(part='a.txt', code='bad_json'));"
        "print([one.record for one in found]); run(['rejects', '--help'])"
    )
    code, printed = python(extended, "-c", library)
    assert (code, printed.splitlines()[0]) == (0, "['not JSON a']")
    assert "Only those of this file of the export." in printed


def test_what_an_example_leaves_out_is_its_imports_alone() -> None:
    """Each example is a whole entry: the page's text and the imports above are all that a person writes."""
    for anchor, (place, imports) in PLACES.items():
        if place.endswith(".py"):
            compile(imports + example(anchor), place, "exec")
