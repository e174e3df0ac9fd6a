"""Extensions that docs/change/contributing.md shows: in the package itself, and in a package of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import duckdb
import pytest

from tests.support import forked

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
"""For each section of the page: the file for its first example (at its end, if it exists), and its imports, which the
page leaves out."""
OPTION = (
    ("pipeline/options/reading.py", "class RejectsOptions", "    code: "),
    ("pipeline/api.py", "def read_rejects", "    return "),
)
"""The files for an option's two examples, and the lines before which they go: the first such line after a
definition."""
ROWS = (
    '{"id":"1","acme_event":"page","user":"u-1","device":"d-1","at":1672628645000,"data":{"plan":" p r o "}}\n'
    '{"id":"2","acme_event":"SALE","user":"u-1","device":"d-1","at":1672628646000,"data":{}}\n'
)


def example(anchor: str, number: int = 0) -> str:
    """A block of code below an anchor of the page, counted from 0."""
    section = PAGE.read_text("utf-8").split(f"({anchor})=", 1)[1]
    found: list[str] = re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)
    return found[number]


def squashing(mapping: str) -> str:
    """The page's mapping with the page's verb in it."""
    return mapping.replace("  drop: [", "  set: {squashed: {squash: /data/plan}}\n  drop: [", 1)


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with each example in its place."""
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
    mapping.write_text(squashing(mapping.read_text("utf-8")), "utf-8")
    return folder


def python(folder: Path, *words: str, path: str = "") -> tuple[int, str]:
    """The exit code of a Python that imports from this path, or by default from the folder, and what it prints."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path or str(folder), "COLUMNS": "200"},
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
    assert ". Size <span" in (extended / "plan" / "report.html").read_text("utf-8")
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
    """Each example is a whole entry: the page's code and the imports above are all that a person writes."""
    for anchor, (place, imports) in PLACES.items():
        if place.endswith(".py"):
            compile(imports + example(anchor), place, "exec")


ORIGIN = "acme-backcast 1.2"


class Site:
    """A folder of installed packages, and backcast run with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages = folder / "site"

    def install(self, name: str, version: str, entry_points: dict[str, dict[str, str]], files: dict[str, str]) -> None:
        """Write a package's files and its metadata, as an installer does."""
        for path, text in files.items():
            (self.packages / path).parent.mkdir(parents=True, exist_ok=True)
            (self.packages / path).write_text(text, "utf-8")
        metadata = self.packages / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        sections = (
            f"[{group}]\n" + "".join(f"{entry} = {value}\n" for entry, value in entries.items())
            for group, entries in entry_points.items()
        )
        (metadata / "entry_points.txt").write_text("\n".join(sections))

    def run(self, *words: str) -> tuple[int, str, str]:
        """The exit code of a command, what it prints, and its errors."""
        paths = f"{self.packages}:{ROOT}"
        return forked.run(*words, cwd=self.folder, env={"PYTHONPATH": paths, "COLUMNS": "200"})


def acme() -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """The entry points and the files of the page's package; its mapping uses its verb."""
    entry_points = tomllib.loads(example("plug-ins"))["project"]["entry-points"]
    files = {
        "acme_backcast/__init__.py": "raise RuntimeError('a package of mappings is not imported')\n",
        "acme_backcast/mappings/acme.yaml": squashing(example("add-a-tool")),
    }
    return entry_points, files


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A folder with the page's package, and an export in its format."""
    entry_points, files = acme()
    files["acme_backcast/__init__.py"] = ""
    for name, anchor in (("commented", "add-a-format"), ("squash", "add-a-verb")):
        files[f"acme_backcast/{name}.py"] = f"{PLACES[anchor][1]}\n\n{example(anchor)}"
    made = Site(tmp_path)
    made.install("acme-backcast", "1.2", entry_points, files)
    (tmp_path / "export.txt").write_text("# exported by hand\n" + ROWS, "utf-8")
    return made


def test_a_package_adds_a_mapping_a_format_and_a_verb(site: Site) -> None:
    """They are listed with their origin, take part in a plan with worker processes, and are sealed in it."""
    code, printed, _ = site.run("mapping", "list")
    assert code == 0
    for line in (f"Acme events (JSON lines) ({ORIGIN})", f"format commented: commented lines ({ORIGIN})"):
        assert line in printed
    assert f"verb squash: the text without blanks ({ORIGIN})" in printed
    assert site.run("mapping", "test", "acme")[0] == 0
    code, _, errors = site.run("plan", "export.txt", "-o", "plan", "--workers", "2")
    assert code == 0, errors
    plan = json.loads((site.folder / "plan" / "plan.json").read_text())
    sealed = [(one["kind"], one["name"], one["package"], one["version"]) for one in plan["plugins"]]
    names = ("mapping", "acme"), ("format", "commented"), ("verb", "squash")
    assert sealed == [(*name, "acme-backcast", "1.2") for name in names]
    assert plan["notices"] == []
    code, printed, errors = site.run("rehearse", "plan")
    assert code == 0, errors
    code, _, errors = site.run("mapping", "check", "acme")
    assert code == 0, errors


def test_a_mapping_of_a_package_runs_no_code(site: Site) -> None:
    """`python` is for mappings that a person names by their path."""
    mapping = site.packages / "acme_backcast" / "mappings" / "acme.yaml"
    mapping.write_text(mapping.read_text() + "python: clean.py:clean\n")
    code, _, errors = site.run("plan", "export.txt", "-o", "plan")
    assert (code, "only a mapping that is named by its path may have `python`" in errors) == (2, True)


def test_a_name_that_two_have_is_an_error_that_names_both(site: Site) -> None:
    """A shipped mapping, and a format and a verb of another package; everything else works."""
    mixpanel = (ROOT / "mappings" / "mixpanel.yaml").read_text("utf-8")
    both = {"backcast.formats": {"commented": "other.a"}, "backcast.verbs": {"squash": "other.b", "const": "other.b"}}
    site.install("other", "3", {"backcast.mappings": {"all": "other"}, **both}, {"other/mixpanel.yaml": mixpanel})
    (site.folder / "mixpanel.jsonl").write_text(
        '{"event":"a","properties":{"time":1609329600,"distinct_id":"u","$insert_id":"i"}}\n'
    )
    shipped = "'mixpanel' exists more than once: backcast itself and other 3 ("
    squash = f"the verb 'squash' exists more than once: {ORIGIN} and other 3"
    commented = f"the format 'commented' exists more than once: {ORIGIN} and other 3"
    code, printed, errors = site.run("mapping", "list")
    assert (code, "Matomo" in printed) == (2, True), errors
    taken = "the verb 'const' exists more than once: backcast itself and other 3"
    for message in (shipped, squash, commented, taken):
        assert message in errors
    for words, message in (
        (("plan", "mixpanel.jsonl", "-m", "mixpanel", "--timezone", "UTC", "-o", "a"), shipped),
        (("plan", "mixpanel.jsonl", "--timezone", "UTC", "-o", "b"), shipped),
        (("mapping", "check", "acme"), squash),
    ):
        code, _, errors = site.run(*words)
        assert (code, message in errors) == (2, True), errors
    assert site.run("mapping", "check", "amplitude")[0] == 0


def test_a_broken_package_is_named_and_breaks_nothing_else(tmp_path: Path) -> None:
    """Help and other mappings work; a plan says what was left out, and using it says where it is wrong."""
    site = Site(tmp_path)
    entry_points, files = acme()
    files["acme_backcast/commented.py"] = "import nowhere_to_be_found\n"
    files["acme_backcast/mappings/wrong.yaml"] = "format: backcast.mapping/1\ntool: wrong\n"
    site.install("acme-backcast", "1.2", {**entry_points, "backcast.verbs": {"squash": "gone"}}, files)
    (tmp_path / "a.csv").write_text("event,distinct_id,timestamp\na,u,2023-01-02T03:04:05Z\n")
    code, printed, errors = site.run("mapping", "list")
    assert (code, "Mixpanel" in printed, "wrong " in printed) == (2, True, False)
    origin = f"of the package {ORIGIN}"
    not_imported = (
        f"cannot load the format 'commented' {origin}: RuntimeError: a package of mappings is not imported, at "
    )
    assert not_imported in errors
    assert f"cannot load the verb 'squash' {origin}: ModuleNotFoundError: No module named 'gone'" in errors
    assert "wrong.yaml:1:1" in errors
    assert site.run("--help")[0] == 0
    columns = [word for name in ("event", "distinct_id", "timestamp") for word in ("--set", f"{name}={name}")]
    code, _, errors = site.run("plan", "a.csv", "-m", "generic", *columns, "-o", "plan")
    assert code == 0, errors
    plan = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert [(code, where) for code, where, _ in plan["notices"]] == [("broken_plugin", ORIGIN)]
    assert "plugins" not in plan
    code, _, errors = site.run("mapping", "check", "acme")
    assert (code, f"cannot load the verb 'squash' {origin}" in errors) == (2, True)


def test_help_and_import_look_for_no_package(site: Site) -> None:
    """Nothing of a package is found or imported before one of its names is needed."""
    script = (
        "import sys, pipeline, pipeline.cli; from pipeline.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "assert not {'pipeline.plugins', 'acme_backcast', 'importlib.metadata'} & sys.modules.keys()"
    )
    code, printed = python(site.folder, "-c", script, path=f"{site.packages}:{ROOT}")
    assert code == 0, printed
