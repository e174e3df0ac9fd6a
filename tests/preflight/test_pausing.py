"""`apply --pause-functions`: functions that would fire are off while events land, and on again, whatever happens."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.deliveries import planned
from tests.support.forked import Forked
from tests.support.management_service import LIST, Asking, key_with, key_without
from tests.support.preflight import function
from tests.support.relays import relay

EVENTS = 30
ELSEWHERE = {"events": [{"id": "Elsewhere", "type": "events"}]}


def enabled(ask: Asking, *made: dict[str, Any]) -> list[bool]:
    return [ask("GET", f"{LIST}{one['id']}/").json()["enabled"] for one in made]


def landed(ask: Asking) -> int:
    ((found,),) = ask.service.select("select count(*) from raw_events")
    return int(found)


def test_functions_are_off_while_events_land_and_on_again_after(ask: Asking, here: Any, tmp_path: Path) -> None:
    """Functions that would or may fire, and no others; what live events miss is reported before the first request
    changes it."""
    directory = planned(tmp_path, EVENTS)
    fires = ask.made(**function(name="Fires"))
    may = ask.made(**function(name="May", filters={"actions": [{"id": "1"}]}))
    scrubs = ask.made(**function(name="Scrubs", type="transformation"))
    other = ask.made(**function(name="Other", filters=ELSEWHERE))
    seen: list[list[bool]] = []

    def look(method: str, path: str) -> None:
        if path == "/batch/":
            seen.append(enabled(ask, fires, may, scrubs, other))

    with relay(ask.service.url, before=look) as to:
        refused = here("apply", directory, "--to", to)
        assert (refused.code, landed(ask)) == (4, 0)
        assert "--pause-functions" in refused.err
        said = here("apply", directory, "--to", to, "--pause-functions", "--json")
    assert said.code == 0, said.err
    assert landed(ask) == EVENTS
    assert {tuple(one) for one in seen} == {(False, False, True, True)}
    assert enabled(ask, fires, may, scrubs, other) == [True] * 4
    assert "2 hog functions will be off" in said.err
    assert f"'Fires' ({fires['id']})" in said.err
    assert "Live events that arrive meanwhile do not reach them" in said.err
    assert not (directory / "paused-functions.json").exists()


@pytest.mark.parametrize(("phase", "nth"), [("before", 2), ("after", 2), ("after", 3), ("after", 4)])
def test_a_kill_at_any_step_leaves_no_function_off_that_is_not_named(
    ask: Asking, here: Any, tmp_path: Path, phase: str, nth: int
) -> None:
    """Killed before or after each change of a function, and each batch: status names what is off; a second run ends
    with every event there once, and every function on. tests/soak/soak_crashes.py has every step."""
    killed_at_a_step(ask, here, tmp_path, phase, nth)


def killed_at_a_step(ask: Asking, here: Any, tmp_path: Path, phase: str, nth: int) -> None:
    directory = planned(tmp_path, EVENTS, batch=EVENTS)
    made = [ask.made(**function(name=f"Hook {number}")) for number in (1, 2)]
    started: list[Forked] = []
    count = 0

    def kill(method: str, path: str) -> None:
        nonlocal count
        count += method == "PATCH" or path == "/batch/"
        if count == nth and (method == "PATCH" or path == "/batch/"):
            count += 1_000
            started[0].send_signal(signal.SIGKILL)
            started[0].wait()
            raise ConnectionError

    with relay(ask.service.url, **{phase: kill}) as to:
        started.append(Forked("apply", directory, "--to", to, "--pause-functions", "--quiet"))
        while started[0].returncode is None:
            time.sleep(0.02)
        assert started[0].returncode == -signal.SIGKILL
        off = {one["id"] for one, on in zip(made, enabled(ask, *made), strict=True) if not on}
        status = here("status", directory, "--json").json
        assert off <= {one["id"] for one in status["paused_functions"]}
        text = here("status", directory).out
        assert all(id in text for id in off)
        assert not off or "resume-functions" in text or "--pause-functions" in text
        if nth % 2 == 0:
            said = here("resume-functions", directory, "--to", to)
            assert (said.code, enabled(ask, *made)) == (0, [True, True]), said.err
        said = here("apply", directory, "--to", to, "--pause-functions")
        assert said.code == 0, said.err
    assert enabled(ask, *made) == [True, True]
    ((found,),) = ask.service.select("select count(distinct uuid) from raw_events")
    assert found == EVENTS
    assert here("status", directory, "--json").json["paused_functions"] == []


def test_a_function_that_changed_meanwhile_is_left_alone_and_named(ask: Asking, here: Any, tmp_path: Path) -> None:
    """A function that was edited while it was off stays off; one that was deleted, or turned on, is no longer
    recorded."""
    directory = planned(tmp_path, EVENTS)
    made = [ask.made(**function(name=name)) for name in ("Edited", "Deleted", "On")]
    edited, deleted, on = (f"{LIST}{one['id']}/" for one in made)

    def meddle(method: str, path: str) -> None:
        if path == "/batch/":
            ask("PATCH", edited, {"description": "as somebody wants it"})
            ask("PATCH", deleted, {"deleted": True})
            ask("PATCH", on, {"enabled": True})

    with relay(ask.service.url, before=meddle) as to:
        said = here("apply", directory, "--to", to, "--pause-functions")
        assert said.code == 0, said.err
        (line,) = [line for line in said.err.splitlines() if "changed since" in line]
        assert "'Edited'" in line
        assert "'Deleted'" not in line
        assert (enabled(ask, made[0]), enabled(ask, made[2])) == ([False], [True])
        (named,) = here("status", directory, "--json").json["paused_functions"]
        assert named == {"id": made[0]["id"], "name": "Edited", "changed": True}
        again = here("resume-functions", directory, "--to", to, "--json")
        assert (again.code, again.json["on"], len(again.json["changed"])) == (0, [], 1)
        assert enabled(ask, made[0]) == [False]
        ask("PATCH", edited, {"enabled": True})
        here("resume-functions", directory, "--to", to)
    assert not (directory / "paused-functions.json").exists()


def test_what_could_not_be_turned_on_is_by_the_next_run(ask: Asking, here: Any, tmp_path: Path) -> None:
    """Exit 6 and its name, if the service does not answer; a key without the permission leaves it off, and the next
    apply turns it on."""
    directory, one = planned(tmp_path, EVENTS), ask.made(**function())
    patches = 0

    def fail(method: str, path: str) -> None:
        nonlocal patches
        patches += method == "PATCH"
        if method == "PATCH" and patches > 1:
            raise ConnectionError

    with relay(ask.service.url, before=fail) as to:
        said = here("apply", directory, "--to", to, "--pause-functions")
        assert said.code == 6, said.err
        assert "could not be turned on again" in said.err
        assert one["id"] in said.out
    assert enabled(ask, one) == [False]
    record = json.loads((directory / "paused-functions.json").read_text())
    (directory / "paused-functions.json").write_text(json.dumps(record | {"api": ask.service.url}))
    key = tmp_path / "personal.key"
    key.write_text("phx_no")
    key.chmod(0o600)
    said = here("resume-functions", directory, "--to", ask.service.url, "--personal-key-file", key)
    assert (said.code, enabled(ask, one)) == (5, [False])
    said = here("apply", directory, "--to", ask.service.url)
    assert enabled(ask, one) == [True], said.err


def test_without_a_key_or_its_scope_nothing_is_sent(
    ask: Asking, here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what is needed; no function stays off or recorded."""
    directory, one = planned(tmp_path, EVENTS), ask.made(**function())
    words = ("apply", directory, "--to", ask.service.url, "--pause-functions")
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", key_without("hog_function:write"))
    said = here(*words)
    assert (said.code, landed(ask), enabled(ask, one)) == (5, 0, [True])
    assert "hog_function:write" in said.err
    assert "nothing was sent" in said.err
    assert not (directory / "paused-functions.json").exists()
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", key_with("project:read"))
    said = here(*words)
    assert (said.code, landed(ask)) == (5, 0)
    assert "hog_function:read" in said.err
    monkeypatch.delenv("BACKCAST_PERSONAL_KEY")
    said = here(*words)
    assert (said.code, landed(ask)) == (2, 0)
    assert "hog_function:write" in said.two_lines[1]
