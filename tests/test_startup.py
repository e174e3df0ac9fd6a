"""A command loads only what it uses, and a worker process nothing that plans, reports or reads the command line."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline
from pipeline.local_service import LocalService
from pipeline.mapper import registry
from pipeline.mapper.language import loader, parsed
from pipeline.options import PlanOptions

ROOT = Path(__file__).parent.parent

HEAVY = {
    "asyncio", "babel", "duckdb", "fastavro", "httpx", "jinja2", "multiprocessing", "numpy", "openpyxl", "pandas",
    "pipeline.extractors.discovery", "pipeline.local_service.app", "pipeline.mapper.compiler", "pipeline.plan.build",
    "pipeline.transform.block", "pyarrow", "pydantic", "rich", "starlette", "tenacity", "ua_parser", "uvicorn", "yaml",
}  # fmt: skip
"""Libraries and parts of backcast that take long to load."""

TRANSFORMS = {"numpy", "pipeline.mapper.compiler", "pipeline.transform.block"}
READS = {"numpy", "pipeline.extractors.discovery", "rich"}
REPORTS = {"jinja2", "rich", "yaml"}
SERVES = {"asyncio", "duckdb", "multiprocessing", "pipeline.local_service.app", "pyarrow", "starlette", "uvicorn"}
LOADS: dict[str, set[str]] = {
    "--help": set(),
    "status PLAN": {"rich"},
    "status PLAN --json": set(),
    "rejects PLAN": {"rich"},
    "rejects PLAN --json": set(),
    "mapping list": {"rich"},
    "mapping new EXPORT -o NEW": {"numpy", "pipeline.extractors.discovery"},
    "survey EXPORT": {*READS, "pandas", "pyarrow"},
    "plan EXPORT -m mixpanel --timezone America/Los_Angeles -o NEW": {
        *TRANSFORMS, *READS, *REPORTS, "pipeline.plan.build", "duckdb", "pyarrow",
    },
    "apply PLAN --to SERVICE --yes": {*TRANSFORMS, *REPORTS, "httpx"},
    "verify PLAN --to SERVICE --project 1": {*TRANSFORMS, *REPORTS, "httpx", "duckdb", "pyarrow"},
    "rehearse PLAN": {*TRANSFORMS, *REPORTS, *SERVES, "httpx"},
}  # fmt: skip
"""Which of HEAVY each command may load for ten rows of JSON lines that pair no ids, with a shipped mapping."""

ROW = (
    '{"event":"Signed Up","properties":{"time":16075011%02d,"distinct_id":"u-%d","$user_id":"u-%d","$insert_id":"a%d"'
    ',"price":1.10,"mp_processing_time_ms":16075299900%02d}}\n'
)
RUN = (
    "import json, sys\nfrom pipeline import cli\ncode = cli.run(sys.argv[1:])\n"
    "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)\n"
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A small export, a plan of it, and a service to which it was sent."""
    folder = tmp_path_factory.mktemp("startup")
    export, plan = folder / "export.jsonl", folder / "plan"
    export.write_text("".join(ROW % ((number,) * 5) for number in range(10)))
    assert pipeline.plan_export(export, plan, PlanOptions(mapping="mixpanel", timezone="America/Los_Angeles")).ready
    with LocalService() as service:
        pipeline.apply_plan(plan, service.url, project_key=service.capture_key)
        keys = {"BACKCAST_PROJECT_KEY": service.capture_key, "BACKCAST_PERSONAL_KEY": service.personal_key}
        yield {"EXPORT": str(export), "PLAN": str(plan), "SERVICE": service.url, **keys}


def run(script: str, *arguments: str, **variables: str) -> list[str]:
    """The last line that a script in a separate process writes to stderr, and the lines before it."""
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, env=os.environ | variables, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stderr.splitlines()


@pytest.mark.parametrize("command", LOADS)
def test_a_command_loads_what_it_uses(command: str, places: dict[str, str], tmp_path: Path) -> None:
    """No other library of HEAVY, and no other part."""
    known = {**places, "NEW": str(tmp_path / "new")}
    keys = ("PROJECT", "PERSONAL") if command.startswith("verify") else ("PROJECT",)
    said = run(
        RUN, *(known.get(word, word) for word in command.split()),
        **{name: places[name] for name in (f"BACKCAST_{key}_KEY" for key in keys)},
    )  # fmt: skip
    code, modules = json.loads(said[-1])
    assert code == 0, said
    assert HEAVY.intersection(modules) <= LOADS[command]


def test_importing_the_package_is_cheap() -> None:
    """`import pipeline` loads none of them."""
    script = "import json, sys, pipeline; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    assert HEAVY.intersection(json.loads(run(script)[-1])) == set()


WORK = """
import json, sys
import pipeline
from pipeline.engines.local import Workers
from pipeline.options import ApplyOptions, PlanOptions
from tests.test_startup import loaded

modules, end = set(), Workers.__exit__

def ask(workers, *raised):
    if workers._workers:
        modules.update(*(found for _, found in workers.map(loaded, [None])))
    end(workers, *raised)

Workers.__exit__ = ask
pipeline.plan_export(sys.argv[1], sys.argv[2], PlanOptions(mapping="mixpanel", timezone="America/New_York", workers=1))
pipeline.apply_plan(sys.argv[2], "http://127.0.0.1:9", ApplyOptions(dry_run=True), project_key="phc_none")
print(json.dumps(sorted(modules)), file=sys.stderr)
"""


def loaded(*_: object) -> list[str]:
    """Called in a worker process: the modules that it has loaded."""
    return sorted(sys.modules)


def test_a_worker_loads_no_planner_no_report_and_no_command_line(tmp_path: Path) -> None:
    """Unpickling the functions that a plan and an apply send to it loads none of these."""
    modules = json.loads(run(WORK, str(ROOT / "sample_data" / "mixpanel"), str(tmp_path / "plan"))[-1])
    others = ("pipeline.plan.build", "pipeline.plan.create", "pipeline.plan.walk", "pipeline.report", "pipeline.cli")
    assert "pipeline.transform.block" in modules
    assert [name for name in modules if name.startswith((*others, "pipeline.delivery", "pipeline.survey"))] == []


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The index of the shipped mappings, as the build writes it."""
    monkeypatch.setattr(parsed, "INDEX", tmp_path / "parsed.pickle")
    parsed.write_index(parsed.INDEX, [path.read_text("utf-8") for path in registry.folder().glob("*.yaml")])
    for cached in (parsed._index, parsed.parse):
        cached.cache_clear()
    yield parsed.INDEX
    for cached in (parsed._index, parsed.parse):
        cached.cache_clear()


def test_the_index_has_what_the_loader_parses(index: Path) -> None:
    """Every shipped mapping, under any name that file errors use, and the places of its keys."""
    for path in registry.folder().glob("*.yaml"):
        text = path.read_text("utf-8")
        assert parsed._entry(text) is not None
        assert parsed.parse(text, "some.yaml") == loader.parse(text, "some.yaml")
        pickled = parsed._entry(text)
        assert pickled is not None
        assert pickle.loads(pickled[1]) == loader.outline(text, "some.yaml")


def test_the_index_is_for_the_files_and_the_code_that_it_was_written_with(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed mapping is parsed, and so is every mapping if the language was changed or the index is damaged."""
    text = (registry.folder() / "mixpanel.yaml").read_text("utf-8")
    assert parsed._entry(text) is not None
    assert parsed._entry(text + "# changed\n") is None
    monkeypatch.setattr(parsed, "_code", lambda: b"of another language")
    parsed._index.cache_clear()
    assert parsed._entry(text) is None
    monkeypatch.undo()
    for content in (b"", index.read_bytes()[:-9]):
        index.write_bytes(content)
        monkeypatch.setattr(parsed, "INDEX", index)
        parsed._index.cache_clear()
        assert parsed._entry(text) is None
        assert parsed.parse(text, "mixpanel.yaml").tool == "mixpanel"
