"""`import pipeline` offers the steps as functions, documented, typed and cheap to import."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import pipeline
from pipeline import errors
from pipeline.options import ApplyOptions, PlanOptions, RehearseOptions, VerifyOptions
from tests.support.deliveries import COLUMNS, Reply, add, export, planned, scripted, serving
from tests.support.services import running


def test_every_function_is_there_typed_documented_and_listed() -> None:
    """Each has a docstring, and a type for every parameter and the result; dir() lists `__all__`."""
    for name in pipeline.__all__:
        signature = inspect.signature(getattr(pipeline, name))
        types = [signature.return_annotation, *(one.annotation for one in signature.parameters.values())]
        assert (bool(inspect.getdoc(getattr(pipeline, name))), inspect.Signature.empty in types) == (True, False), name
    assert set(pipeline.__all__) <= set(dir(pipeline))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        pipeline.nonsense  # noqa: B018


def test_a_script_without_a_main_guard_may_use_workers(tmp_path: Path) -> None:
    """A script that plans, rehearses and applies from its top level runs once, with a worker process."""
    export(tmp_path / "export", 60, files=4)
    script = tmp_path / "migrate.py"
    script.write_text(
        f"""
import sys
import pipeline

print("running")
options = pipeline.options
plan = pipeline.plan_export(
    "export", "plan", options.PlanOptions(mapping="generic", settings={COLUMNS!r}, workers=1)
)
if plan.ready and pipeline.rehearse_plan("plan", options.RehearseOptions()).verification.proved:
    outcome = pipeline.apply_plan("plan", sys.argv[1], options.ApplyOptions(), project_key="phc_any")
    print(outcome.counts.accepted, pipeline.plan_status("plan").state)
""",
        "utf-8",
    )
    with serving(scripted(Reply())) as server:
        done = subprocess.run(
            [sys.executable, str(script), server.url],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False, env=os.environ,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["running", "60 sent"]


def test_apply_raises_what_stopped_it(tmp_path: Path) -> None:
    """A refusal of us is an exception with its status, and the next call resumes."""
    directory = planned(tmp_path, 20)
    with serving(lambda asked: Reply(401) if asked.number == 0 else Reply()) as server:
        with pytest.raises(errors.Refused) as told:
            pipeline.apply_plan(directory, server.url, ApplyOptions(), project_key="phc_any")
        assert told.value.status == 401
        assert pipeline.plan_status(directory).state == "stopped"
        assert pipeline.apply_plan(directory, server.url, ApplyOptions(), project_key="phc_any").balanced


def test_a_rehearsal_can_go_through_faults(tmp_path: Path) -> None:
    """The result has the faults, and what landed nevertheless."""
    done = pipeline.rehearse_plan(planned(tmp_path, 40), RehearseOptions(faults=["before:503,times=2"], fault_seed=7))
    assert done.verification.proved
    assert [tally.acted > 0 for tally in done.faults] == [True]
    with pytest.raises(errors.UsageError, match="there is no fault 'status'"):
        pipeline.rehearse_plan(tmp_path / "plan", RehearseOptions(faults=["status:503"]))


def test_verify_adds_its_result_to_the_report(tmp_path: Path) -> None:
    """A plan that was applied to a local service is verified from Python."""
    directory = planned(tmp_path, 20)
    with running() as service:
        pipeline.apply_plan(directory, service.url, ApplyOptions(), project_key=service.capture_key)
        found = pipeline.verify_plan(directory, service.url, VerifyOptions(), personal_key=service.personal_key)
    assert found.proved
    assert '"proved": true' in (directory / "report.json").read_text("utf-8")


def test_times_are_half_open_and_rejects_and_surveys_are_read(tmp_path: Path) -> None:
    """`since` and `until` take aware datetimes, naive ones are a usage error; each reject has its code and place; a
    survey is that of `backcast survey`."""
    since = datetime(2023, 2, 1, tzinfo=UTC)
    plan = pipeline.load_plan(planned(tmp_path, 30, since=since))
    assert plan.events.made == 20
    with pytest.raises(errors.UsageError, match="since has no offset"):
        planned(tmp_path / "naive", 3, since=datetime(2023, 2, 1))
    source = export(tmp_path / "rejects", 2, files=1)
    add(source / "part-0.jsonl", b"{broken\n")
    pipeline.plan_export(
        source, tmp_path / "plan", PlanOptions(mapping="generic", settings=COLUMNS, max_rejects="1", workers=0)
    )
    assert [(one.code, one.row) for one in pipeline.read_rejects(tmp_path / "plan")] == [("bad_json", 3)]
    assert pipeline.survey_export(export(tmp_path / "export", 5)).rows == 5
