"""`--log-format json`: everything on stderr is one object per line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from pipeline.cli import common
from pipeline.cli.progress import Sending
from pipeline.delivery.outcome import RunCounts
from pipeline.local_service import LocalService
from tests.support.commands import in_process
from tests.support.deliveries import planned

COMMANDS = ("apply", "plan", "preflight", "rehearse", "resume-functions", "run", "verify")


def objects(text: str) -> list[dict[str, Any]]:
    """The lines of a log."""
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def test_warnings_errors_and_hints_are_objects(tmp_path: Path) -> None:
    """A run that works, one that fails, and a mistyped option; stdout does not change."""
    directory = planned(tmp_path, 20)
    with LocalService() as service:
        words = ("apply", directory, "--to", service.url, "--log-format", "json")
        env = {"BACKCAST_PROJECT_KEY": service.capture_key}
        failed = in_process(*words, "--phases", "event", env=env)
        done = in_process(*words, "--json", env=env)
    (error, hint) = objects(failed.stderr)
    assert (failed.returncode, error["level"], hint["level"]) == (2, "error", "hint")
    assert error["message"] == "'event' is not a phase; did you mean 'events'?"
    assert error["at"].endswith("Z")
    assert done.returncode == 0
    assert json.loads(done.stdout)["events"]["accepted"] == 20
    assert done.stderr == ""
    wrong = in_process(*words, "--rate", "fast")
    assert [one["level"] for one in objects(wrong.stderr)] == ["error", "hint"]
    plain = in_process("status", tmp_path / "none")
    assert plain.stderr.startswith("Error: ")


def test_warnings_and_questions_are_objects_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A question has no end of line; a line separator inside a string does not split its object."""
    monkeypatch.setattr(sys, "stderr", common.JsonLines(sys.stderr))
    common.warn('a "name" of the export\u2028goes on')
    click.echo("Type the number: ", nl=False, err=True)
    warning, question = objects(capsys.readouterr().err)
    assert (warning["level"], warning["message"]) == ("warning", 'a "name" of the export\u2028goes on')
    assert (question["level"], question["message"]) == ("info", "Type the number: ")


def test_progress_has_its_numbers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stderr", common.JsonLines(sys.stderr))
    now = [0.0]
    counts = RunCounts(already_settled=100, accepted=400, in_doubt=3, batches_retried=2, in_flight=4, limit=8)
    counts.phase, counts.paused, counts.quiet, counts.last_failure = "events", 2.5, 60.0, "503 busy"
    with Sending(1_000, quiet=False, clock=lambda: now[0]) as progress:
        progress(counts)
        now[0] = 40.0
        progress(counts)
    (line,) = objects(capsys.readouterr().err)
    assert line["level"] == "progress"
    assert line["message"].startswith("Sending events 50%: 500 settled, ")
    expected = {
        "phase": "events", "done": 500, "total": 1_000, "settled": 500, "in_doubt": 3, "in_flight": 4, "limit": 8,
        "retried": 2, "rate": 10.0, "seconds_left": 50, "pause_seconds": 2.5, "quiet_seconds": 60.0,
        "id_wait_seconds": 0.0,
        "last_failure": "503 busy",
    }  # fmt: skip
    assert {name: line[name] for name in expected} == expected


def test_every_command_that_may_run_for_long_has_it() -> None:
    assert [
        one
        for one in COMMANDS
        if "--log-format" not in in_process(one, "--help-all" if one in ("plan", "apply") else "--help").stdout
    ] == []
