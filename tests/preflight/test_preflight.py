"""Preflight as a whole: a ready target, what the command prints and reports, and how the plan fits the target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import generic
from tests.support.deliveries import Reply, export, planned, serving
from tests.support.management_service import ALL, Asking
from tests.support.preflight import A, function, look, planned_rows


def test_a_look_is_ok_proves_what_it_can_and_lands_nothing(ask: Asking, thirty: Path, tmp_path: Path) -> None:
    """What the service shows is proved, a paid plan and workflows are never assumed; a plan in the other dialect, or
    one that is not ready, is a stop; no event, person or function is there afterwards, and no key was sent to
    capture."""
    found = look(ask.service.url, thirty)
    assert {name for name, (level, _) in found.items() if level == "unknown"} == {"paid_plan", "workflows"}
    assert {level for level, _ in found.values()} == {"ok", "unknown"}
    assert found["project"][1] == "A (1)"
    assert set(found) == {
        "address", "capture_key", "capture_host", "clock", "project", "capture_key_project", "paid_plan",
        "dropped_events", "functions", "workflows", "plan", "dialect", "recent_events", "size", "duration",
        "cut_over", "already_there", "other_versions", "live_profiles", "promoted_values", "live_merges",
    }  # fmt: skip
    other = planned(tmp_path, 5, target="eu")
    found = look(ask.service.url, other)
    assert (found["dialect"][0], found["plan"][0]) == ("stop", "warning")
    assert look(ask.service.url, thirty)["dialect"][0] == "ok"
    directory = planned_rows(tmp_path / "rows", {"event": "e", "distinct_id": "", "timestamp": "2024-01-01T00:00:00Z"})
    assert look(ask.service.url, directory)["plan"][0] == "stop"
    before = ask("GET", "/api/projects/1/hog_functions/").json()
    look(ask.service.url, thirty)
    assert ask.service.count() == 0
    assert ask.service.select("select count(*) from raw_events") == [(0,)]
    assert ask.service.persons() == []
    assert ask("GET", "/api/projects/1/hog_functions/").json() == before
    with serving(lambda asked: Reply(400, b"request holds no event")) as server:
        look(server.url, personal="")
    (asked,) = server.asked
    assert A.encode() not in asked.body
    assert asked.events == []


@pytest.mark.parametrize("directory", [True, False])
def test_the_command_prints_the_object(ask: Asking, here: Any, thirty: Path, directory: bool) -> None:
    """`--json` is the documented object and nothing else; exit 0 without a stop, 4 with one; neither shows a key."""
    words = ["preflight", *([thirty] if directory else []), "--to", ask.service.url]
    said = here(*words, "--json")
    found = said.json
    assert (said.code, found["format"], set(found)) == (0, "backcast.preflight/1", {"format", "checks"})
    assert all(set(check) - {"facts"} == {"name", "level", "detail"} for check in found["checks"])
    assert {check["level"] for check in found["checks"]} <= {"ok", "warning", "stop", "unknown"}
    ask.made(**function(name="Chat [red]\x1b[31m"))
    shown = here(*words)
    assert shown.code == 4
    assert "Chat [red]" in shown.out
    assert "\x1b" not in shown.out
    assert "Not ready: 1 stop" in shown.out
    for text in (said.out, said.err, shown.out):
        assert A not in text
        assert ALL not in text


def test_the_report_has_what_the_target_answered(ask: Asking, here: Any, tmp_path: Path) -> None:
    """It is a chapter of the page and an object; a later plan in the directory has neither."""
    directory = planned(tmp_path, 30)
    assert here("preflight", directory, "--to", ask.service.url).code == 0
    page = (directory / "report.html").read_text("utf-8")
    assert "The target before sending" in page
    assert "the project has no live event yet" in page
    recorded = json.loads((directory / "report.json").read_bytes())["preflight"]
    assert {check["name"] for check in recorded["checks"]} >= {"cut_over", "already_there"}
    assert not (directory / "preflight-answers").exists()
    assert here("plan", export(tmp_path / "export", 31), *generic(), "-o", directory).code == 0
    assert "The target before sending" not in (directory / "report.html").read_text("utf-8")
    assert "preflight" not in json.loads((directory / "report.json").read_bytes())
