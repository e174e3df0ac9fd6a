"""Apply looks at its target as preflight does before it sends: what it says, and what keeps it from sending."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from answers import answering
from deliveries import planned
from management_service import ALL, Asking, asking
from preflighting import A, function
from scripted_server import Said

from pipeline.cli import run
from pipeline.service import Settings

pytestmark = pytest.mark.slow


def applied(directory: Path, to: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {name: text for name, text in os.environ.items() if not name.startswith("BACKCAST_")}
    command = [sys.executable, "-m", "pipeline", "apply", str(directory), "--to", to, "--workers", "0", *words]
    return subprocess.run(command, env=own | environment, capture_output=True, text=True, check=False, timeout=120)


def afar(ask: Asking) -> str:
    """The service by an address that is not plainly this machine's."""
    return f"http://0.0.0.0:{ask.service.port}"


def test_apply_says_first_that_nobody_proved_the_key(tmp_path: Path) -> None:
    """Without a personal key it is the first line, on stderr; there is none to say on this machine itself."""
    directory = planned(tmp_path, 5)
    with asking() as ask:
        done = applied(directory, afar(ask), "--yes", "--json", BACKCAST_PROJECT_KEY=A)
        assert ask.service.count() == 5
        home = applied(planned(tmp_path / "other", 5), ask.service.url, BACKCAST_PROJECT_KEY=A)
    assert (done.returncode, home.returncode) == (0, 0)
    assert json.loads(done.stdout)["events"]["accepted"] == 5
    assert done.stderr.startswith("The capture key could not be proved: no personal key was given")
    assert home.stderr == ""


def test_apply_names_the_project_when_it_can(tmp_path: Path) -> None:
    """With a personal key the first line is whose the capture key is, and what could not be checked follows."""
    directory = planned(tmp_path, 5)
    keys = {"BACKCAST_PROJECT_KEY": A, "BACKCAST_PERSONAL_KEY": ALL}
    with asking() as ask:
        asked = applied(directory, afar(ask), **keys)
        assert ask.service.count() == 0
        done = applied(directory, afar(ask), "--yes", **keys)
        assert ask.service.count() == 5
    assert (asked.returncode, done.returncode) == (2, 0)
    assert "project A" in asked.stderr
    assert done.stdout.splitlines()[0] == "The capture key is that of project A (1)."
    assert "could not check: paid_plan" in done.stderr


@pytest.mark.parametrize("case", ["function", "key", "old"])
def test_apply_sends_nothing_to_a_target_that_is_not_ready(tmp_path: Path, case: str) -> None:
    """A function that would fire, a key of another project, a project that drops old events: exit 4, nothing landed."""
    directory = planned(tmp_path, 5)
    with asking(Settings(drop_events_older_than=86400 if case == "old" else None)) as ask:
        if case == "function":
            ask.made(**function())
        personal = "phx_test_b" if case == "key" else ALL  # it reaches the other project alone
        keys = {"BACKCAST_PROJECT_KEY": A, "BACKCAST_PERSONAL_KEY": personal}
        done = applied(directory, ask.service.url, **keys)
        dry = applied(directory, ask.service.url, "--dry-run", **keys)
        assert ask.service.count() == 0
    assert done.returncode == 4
    lines = done.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["Error", "Try"]
    assert "nothing was sent" in lines[0]
    assert dry.returncode == 0


@pytest.mark.parametrize("status", [500, 404, 302])
def test_apply_goes_on_where_management_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """What nobody can tell keeps nobody from sending."""
    directory = planned(tmp_path, 5)
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", A)
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", ALL)
    taken, broken = Said(200, b'{"status": "Ok"}'), Said(status, b"{}")
    with answering(lambda asked: taken if asked.method == "POST" else broken) as service:
        assert run(["apply", str(directory), "--to", service.url, "--workers", "0"]) == 0
    assert service.asked[-1].path == "/batch/"
    assert "/api/projects/" in service.asked[0].path
