"""Before it sends, `apply` looks at its target as `preflight` does: what it says, and what stops it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from pipeline import api
from pipeline.errors import UnsafePlan
from pipeline.local_service import LocalService, Settings
from pipeline.options import ApplyOptions, RehearseOptions
from tests.support.commands import in_process, process
from tests.support.deliveries import planned
from tests.support.management_service import ALL, Asking, asking, key_with
from tests.support.scripted_api import answering
from tests.support.scripted_server import Canned

A = "phc_test_a"
UNPROVED = "The capture key could not be proved: "
FUNCTION = {"type": "destination", "name": "Hook", "hog": "return event", "enabled": True}


def backcast(*words: str, personal: str = "") -> subprocess.CompletedProcess[str]:
    keys = {"BACKCAST_PROJECT_KEY": A} | ({"BACKCAST_PERSONAL_KEY": personal} if personal else {})
    return in_process(*words, env=keys)


def applied(directory: Path, to: str, *words: str, personal: str = "") -> subprocess.CompletedProcess[str]:
    return backcast("apply", str(directory), "--to", to, "--yes", *words, personal=personal)


def afar(ask: Asking) -> str:
    """The service at an address that does not look like this machine's."""
    return f"http://0.0.0.0:{ask.service.port}"


@pytest.mark.parametrize(("home", "quiet"), [(True, ()), (False, ("--quiet",))])
def test_the_first_line_says_that_the_key_is_not_proved(tmp_path: Path, home: bool, quiet: tuple[str, ...]) -> None:
    """It is printed for every target, on stdout, and also with --quiet; a dry run has no such line, as it uses no
    key."""
    directory = planned(tmp_path, 5)
    with asking() as ask:
        dry = applied(directory, ask.service.url, "--dry-run", *(() if home else ("--json",)))
        done = applied(directory, ask.service.url if home else afar(ask), *quiet)
        assert ask.service.count() == 5
    assert done.returncode == 0
    first, *rest = done.stdout.splitlines()
    assert first.startswith(UNPROVED + "there is no personal key")
    assert not any(line.startswith(UNPROVED) for line in [*rest, *done.stderr.splitlines()])
    assert (UNPROVED in dry.stdout, "capture_key" in dry.stdout) == (False, False)


def test_a_key_of_another_project_is_reported_once(tmp_path: Path) -> None:
    """The error says it, and no line before the error does; nothing is sent. If the target is not ready for another
    reason, the line has been printed by then."""
    directory = planned(tmp_path, 5)
    with asking() as ask:
        words = ("apply", str(directory), "--to", ask.service.url, "--project", "1", "--yes")
        done = in_process(*words, env={"BACKCAST_PROJECT_KEY": "phc_test_wrong", "BACKCAST_PERSONAL_KEY": ALL})
        ask.made(**FUNCTION)
        fires = applied(directory, ask.service.url, "--project", "1", personal=key_with("hog_function:read"))
        assert ask.service.count() == 0
    assert (done.returncode, done.stdout) == (4, "")
    error, _ = done.stderr.splitlines()
    assert error.startswith("Error: the target is not ready: the capture key is not that of project")
    assert (fires.returncode, fires.stdout.startswith(UNPROVED)) == (4, True)
    assert fires.stderr.startswith("Error: the target is not ready: ")


@pytest.mark.parametrize(("personal", "proved"), [("", False), (ALL, True)])
def test_the_object_says_whether_the_key_is_proved(tmp_path: Path, personal: str, proved: bool) -> None:
    """With --json stdout is one object, and the first line becomes a field: whose the capture key is, if a personal key
    can find out. Without --yes that is printed before anything is sent, and so is what could not be checked."""
    directory = planned(tmp_path, 5)
    with asking() as ask:
        asked = backcast("apply", str(directory), "--to", afar(ask), personal=personal)
        assert (asked.returncode, ask.service.count()) == (2, 0)
        assert ("project A" in asked.stderr) is proved
        done = applied(directory, afar(ask), "--json", personal=personal)
        assert ask.service.count() == 5
    found = json.loads(done.stdout)["capture_key"]
    assert found["proved"] is proved
    assert found["detail"].startswith("The capture key is that of project A (1)." if proved else UNPROVED)
    assert found["detail"] in done.stderr.splitlines()[0]
    assert ("could not check: paid_plan" in done.stderr) is proved
    assert A not in done.stdout + done.stderr


@pytest.mark.parametrize("case", ["function", "key", "old"])
def test_apply_sends_nothing_to_a_target_that_is_not_ready(tmp_path: Path, case: str) -> None:
    """A function that would fire, a key of another project, a project that drops old events: exit 4, nothing landed.
    --allow-firing turns the first into a warning, in apply and in preflight, and allows nothing else."""
    directory = planned(tmp_path, 5)
    with asking(Settings(drop_events_older_than=86400 if case == "old" else None)) as ask:
        if case == "function":
            ask.made(**FUNCTION)
        personal = "phx_test_b" if case == "key" else ALL  # it can read only the other project
        done = applied(directory, ask.service.url, personal=personal)
        dry = applied(directory, ask.service.url, "--dry-run", personal=personal)
        wrong = applied(directory, ask.service.url, "--allow-firing", "--project", "2", personal=ALL)
        assert ask.service.count() == 0
        words = "preflight", str(directory), "--to", ask.service.url, "--allow-firing", "--json"
        looked = json.loads(backcast(*words, personal=personal).stdout)["checks"]
        allowed = applied(directory, afar(ask), "--allow-firing", personal=personal)
        assert ask.service.count() == (5 if case == "function" else 0)
    assert [one.returncode for one in (done, dry, wrong, allowed)] == [4, 0, 4, 0 if case == "function" else 4]
    lines = done.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["Error", "Try"]
    assert "nothing was sent" in lines[0]
    if case == "function":
        assert "--allow-firing" in done.stderr
        assert {one["name"]: one["level"] for one in looked}["destination"] == "warning"
        assert "warning: destination: destination 'Hook'" in allowed.stderr
        assert "allowed by --allow-firing" in allowed.stderr


@pytest.mark.parametrize("status", [500, 302])
def test_apply_goes_on_where_management_does_not_answer(tmp_path: Path, status: int) -> None:
    """What cannot be checked does not stop the run."""
    taken, broken = Canned(200, b'{"status": "Ok"}'), Canned(status, b"{}")
    with answering(lambda asked: taken if asked.method == "POST" else broken) as service:
        assert applied(planned(tmp_path, 5), service.url, personal=ALL).returncode == 0
    assert service.asked[-1].path == "/batch/"
    assert "/api/projects/" in service.asked[0].path


def test_a_host_that_is_down_does_not_stop_the_run(tmp_path: Path) -> None:
    """The host does not answer: this is printed first, then what could not be checked; the run tries by itself before
    it gives up."""
    directory = planned(tmp_path, 5)
    done = applied(directory, "http://127.0.0.1:1", "--retry-for", "1s", personal=ALL)
    assert done.returncode == 6
    assert done.stdout.startswith(UNPROVED)
    assert done.stderr.startswith("Warning: nothing answers at http://127.0.0.1:1 (Connection refused): start the")
    assert "Error: cannot reach http://127.0.0.1:1: no connection" in done.stderr


def test_a_reader_that_is_gone_keeps_nothing_from_being_sent(tmp_path: Path) -> None:
    """`backcast apply … | true`: the line has no reader, the events land, and the exit code is that of the run."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with asking() as ask:
            words = ("apply", planned(tmp_path, 5), "--to", ask.service.url)
            done = process(*words, env={"BACKCAST_PROJECT_KEY": A}, stdout=writing)
            assert ask.service.count() == 5
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_project_can_be_named(tmp_path: Path) -> None:
    """If the personal key shows no project, the functions are checked when the project is named."""
    personal = key_with("hog_function:read")
    with asking() as ask:
        ask.made(**FUNCTION)
        unnamed = applied(planned(tmp_path / "one", 5), ask.service.url, personal=personal)
        named = applied(planned(tmp_path / "two", 5), ask.service.url, "--project", "1", personal=personal)
        assert ask.service.count() == 5
        other = applied(planned(tmp_path / "three", 5), ask.service.url, "--project", "2", personal=ALL)
        assert ask.service.count() == 5
    assert [one.returncode for one in (unnamed, named, other)] == [0, 4, 4]
    assert "destination 'Hook'" in named.stderr
    assert "the capture key is that of project A (1), not of project B (2)" in other.stderr


REQUIRED = ApplyOptions(require_rehearsal=True)


def test_a_plan_is_sent_only_after_a_whole_rehearsal(tmp_path: Path) -> None:
    """It is refused before any rehearsal and after one with refused events; it is sent after one without."""
    plan = planned(tmp_path, 20)
    with LocalService() as service:
        with pytest.raises(UnsafePlan, match="was not rehearsed") as raised:
            api.apply_plan(plan, service.url, REQUIRED, project_key=service.capture_key)
        assert raised.value.hint == f"rehearse it: backcast rehearse {plan}"
        api.rehearse_plan(plan, RehearseOptions(faults=("poison,event=Step 1",)))
        with pytest.raises(UnsafePlan, match="refused"):
            api.apply_plan(plan, service.url, REQUIRED, project_key=service.capture_key)
        api.rehearse_plan(plan, RehearseOptions())
        assert api.apply_plan(plan, service.url, REQUIRED, project_key=service.capture_key).balanced
