"""Mappings, formats and verbs of an installed package: found, listed, used, sealed, and named where they are wrong.

The package is made of the examples of docs/change/contributing.md and of the entry points that it shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import forked
from tests.test_growth import PLACES, ROWS, example

IMPORTS = {anchor: imports for anchor, (_, imports) in PLACES.items()}
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
        paths = f"{self.packages}:{Path(__file__).parent.parent}"
        return forked.run(*words, cwd=self.folder, env={"PYTHONPATH": paths, "COLUMNS": "200"})


def acme() -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """The entry points and the files of the page's package; its mapping uses its verb."""
    entry_points = tomllib.loads(example("plug-ins"))["project"]["entry-points"]
    mapping = example("add-a-tool").replace("  drop: [", "  set: {squashed: {squash: /data/plan}}\n  drop: [", 1)
    files = {
        "acme_backcast/__init__.py": "raise RuntimeError('a package of mappings is not imported')\n",
        "acme_backcast/mappings/acme.yaml": mapping,
    }
    return entry_points, files


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A folder with the page's package, and an export in its format."""
    entry_points, files = acme()
    files["acme_backcast/__init__.py"] = ""
    for name, anchor in (("commented", "add-a-format"), ("squash", "add-a-verb")):
        files[f"acme_backcast/{name}.py"] = f"{IMPORTS[anchor]}\n\n{example(anchor)}"
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


def test_changed_code_of_a_package_makes_a_plan_stale(site: Site) -> None:
    """Its digest is compared, whatever its version says; a package that is gone is named."""
    assert site.run("plan", "export.txt", "-o", "plan")[0] == 0
    verb = site.packages / "acme_backcast" / "squash.py"
    before = verb.read_text()
    verb.write_text(before.replace('"".join', '"-".join'))
    code, _, errors = site.run("rehearse", "plan")
    assert code == 4
    assert "verb squash of the package acme-backcast: sealed 1.2 (" in errors
    verb.write_text(before)
    metadata = site.packages / "acme_backcast-1.2.dist-info"
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-backcast\nVersion: 1.3\n")
    code, _, errors = site.run("rehearse", "plan")
    assert (code, "planned with acme-backcast 1.2, this is 1.3" in errors) == (0, True), errors
    (metadata / "entry_points.txt").unlink()
    code, _, errors = site.run("rehearse", "plan")
    assert code == 4
    assert "verb squash of the package acme-backcast: it is not installed" in errors


def test_a_mapping_of_a_package_runs_no_code(site: Site) -> None:
    """`python` is for mappings that a person names by their path."""
    mapping = site.packages / "acme_backcast" / "mappings" / "acme.yaml"
    mapping.write_text(mapping.read_text() + "python: clean.py:clean\n")
    code, _, errors = site.run("plan", "export.txt", "-o", "plan")
    assert (code, "only a mapping that is named by its path may have `python`" in errors) == (2, True)


def test_a_name_that_two_have_is_an_error_that_names_both(site: Site) -> None:
    """A shipped mapping, and a format and a verb of another package; what is not concerned goes on."""
    mixpanel = (Path(__file__).parent.parent / "mappings" / "mixpanel.yaml").read_text("utf-8")
    both = {"backcast.formats": {"commented": "other.a"}, "backcast.verbs": {"squash": "other.b", "const": "other.b"}}
    site.install("other", "3", {"backcast.mappings": {"all": "other"}, **both}, {"other/mixpanel.yaml": mixpanel})
    (site.folder / "mixpanel.jsonl").write_text(
        '{"event":"a","properties":{"time":1609329600,"distinct_id":"u","$insert_id":"i"}}\n'
    )
    shipped = "'mixpanel' is there more than once: backcast itself and other 3 ("
    squash = f"the verb 'squash' is there more than once: {ORIGIN} and other 3"
    commented = f"the format 'commented' is there more than once: {ORIGIN} and other 3"
    code, printed, errors = site.run("mapping", "list")
    assert (code, "Matomo" in printed) == (2, True), errors
    taken = "the verb 'const' is there more than once: backcast itself and other 3"
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
    """Help and other mappings go on; a plan says what was left out, and using it says where it is wrong."""
    site = Site(tmp_path)
    entry_points, files = acme()
    files["acme_backcast/commented.py"] = "import nowhere_to_be_found\n"
    files["acme_backcast/mappings/wrong.yaml"] = "format: backcast.mapping/1\ntool: wrong\n"
    site.install("acme-backcast", "1.2", {**entry_points, "backcast.verbs": {"squash": "gone"}}, files)
    (tmp_path / "a.csv").write_text("event,distinct_id,timestamp\na,u,2023-01-02T03:04:05Z\n")
    code, printed, errors = site.run("mapping", "list")
    assert (code, "Mixpanel" in printed, "wrong " in printed) == (2, True, False)
    broken = f"of the package {ORIGIN} cannot be loaded"
    assert f"the format 'commented' {broken}: RuntimeError: a package of mappings is not imported, at " in errors
    assert f"the verb 'squash' {broken}: ModuleNotFoundError: No module named 'gone'" in errors
    assert "wrong.yaml:1:1" in errors
    assert site.run("--help")[0] == 0
    columns = [word for name in ("event", "distinct_id", "timestamp") for word in ("--set", f"{name}={name}")]
    code, _, errors = site.run("plan", "a.csv", "-m", "generic", *columns, "-o", "plan")
    assert code == 0, errors
    plan = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert [(code, where) for code, where, _ in plan["notices"]] == [("broken_plugin", ORIGIN)]
    assert "plugins" not in plan
    code, _, errors = site.run("mapping", "check", "acme")
    assert (code, f"the verb 'squash' {broken}" in errors) == (2, True)


def test_help_and_import_look_for_no_package(site: Site) -> None:
    """Nothing of a package is found or imported before a name of it is needed."""
    script = (
        "import sys, pipeline, pipeline.cli; from pipeline.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "assert not {'pipeline.plugins', 'acme_backcast', 'importlib.metadata'} & sys.modules.keys()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=site.folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{site.packages}:{Path(__file__).parent.parent}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
