"""Preflight checks what the target does to history: events too old or too young for it, and the paid plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.config import Secret
from pipeline.local_service import Settings
from pipeline.preflight.checks.events import check_size
from pipeline.preflight.run import PreflightRequest
from pipeline.preflight.target import PlannedEvents, Target
from tests.support.management_service import asking
from tests.support.preflight import look, planned_rows
from tests.support.scripted_api import answering
from tests.support.scripted_server import Asked, Canned


def row_of(age: timedelta) -> dict[str, str]:
    """An event of this age."""
    return {"event": "e", "distinct_id": "p", "timestamp": (datetime.now(UTC) - age).isoformat()}


@pytest.mark.parametrize(
    ("days", "level", "word"),
    [(None, "ok", "no event"), (30, "stop", "up to 30 of 30 events"), (365 * 100, "ok", "the plan has none")],
)
def test_a_project_that_drops_old_events(thirty: Path, days: int | None, level: str, word: str) -> None:
    """These events are dropped after the 200, historical or not: the plan's are counted by their days."""
    settings = Settings(drop_events_older_than=None if days is None else days * 86400)
    with asking(settings) as ask:
        found = look(ask.service.url, thirty)["dropped_events"]
        without = look(ask.service.url)["dropped_events"]
        hidden = look(ask.service.url, thirty, personal="phx_test_none", project="1")["dropped_events"]
    assert found[0] == level
    assert word in found[1]
    assert without[0] == ("ok" if days is None else "warning")
    assert hidden[0] == "unknown"


def test_events_that_are_too_old_or_too_young_are_counted(tmp_path: Path) -> None:
    """The limit of the setting is in the middle of the plan; --allow-recent admits young ones to a plan, and they may
    be billed."""
    directory = planned_rows(tmp_path, *(row_of(timedelta(days=days)) for days in (5, 50, 500, 501)))
    with asking(Settings(drop_events_older_than=100 * 86400)) as ask:
        found = look(ask.service.url, directory)
    assert "up to 2 of 4 events" in found["dropped_events"][1]
    assert found["recent_events"][0] == "ok"
    directory = planned_rows(tmp_path / "young", row_of(timedelta(hours=1)), allow_recent=True)
    with asking() as ask:
        found = look(ask.service.url, directory)
    assert found["recent_events"][0] == "warning"
    assert "1 event is younger than 48 hours" in found["recent_events"][1]


@pytest.mark.parametrize(
    ("billing", "organization", "level"),
    [
        (Canned(200, {"products": [{"type": "product_analytics", "subscribed": True}]}), "o1", "ok"),
        (Canned(200, {"products": [{"type": "product_analytics", "subscribed": False}]}), "o1", "warning"),
        (Canned(200, {"products": [{"type": "product_analytics", "subscribed": True}]}), "o2", "unknown"),
        (Canned(200, {"products": [{"type": "session_replay", "subscribed": True}]}), "o1", "unknown"),
        (Canned(200, {"has_active_subscription": True}), "o1", "unknown"),
        (Canned(200, []), "o1", "unknown"),
        (Canned(403, {"detail": "API key missing required scope 'billing:read'"}), "o1", "unknown"),
        (Canned(401, {"detail": "no"}), "o1", "unknown"),
        (Canned(404, {"detail": "Not found."}), "o1", "unknown"),
        (Canned(500), "o1", "unknown"),
    ],
)
def test_a_paid_plan_is_never_assumed(billing: Canned, organization: str, level: str) -> None:
    """It is ok only if the service says so about the organization that owns the project."""

    def answer(call: Asked) -> Canned:
        if call.path == "/api/billing/":
            return billing
        if call.path == "/api/projects/":
            return Canned(200, {"count": 1, "next": None, "previous": None, "results": [{"id": 7, "name": "P"}]})
        if call.path in ("/api/projects/7/", "/api/projects/@current/"):
            return Canned(200, {"id": 7, "organization": "o1" if "7" in call.path else organization, "name": "P"})
        return Canned(200, {"count": 0, "next": None, "previous": None, "results": []})

    with answering(answer) as service:
        found = look(service.url, reach=False)
    assert found["paid_plan"][0] == level
    assert found["dropped_events"][0] == "unknown"
    assert found["capture_key_project"][0] == "unknown"


@pytest.mark.parametrize(
    ("length", "told"),
    [(0, "0 bytes"), (999, "999 bytes"), (1_234, "1.2 KiB"), (5_600_000, "5.3 MiB"), (99_900_000_000, "93 GiB")],
)
def test_the_size_has_a_unit_that_says_something(length: int, told: str) -> None:
    """A small plan is not shown as 0.0 GB."""
    target = Target(PreflightRequest("us", None, Secret("")))
    target.planned = PlannedEvents({"e": 3}, {}, length)
    assert check_size(target).detail == f"3 events, {told}"
