"""The checks of preflight for a target, for the tests of these checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from pipeline import api
from pipeline.config import Secret
from pipeline.options import PlanOptions, PreflightOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.preflight.run import Preflight, PreflightRequest, check_target
from tests.support.management_service import ALL, Asking
from tests.support.plain_http import PLAIN

A = "phc_test_a"
HOG = "return event"
Found = dict[str, tuple[str, str]]


def states(found: Preflight) -> Found:
    """By name of a check: its level and its detail. If a name of a function appears twice, the first counts."""
    seen: Found = {}
    for check in found.checks:
        seen.setdefault(check.name, (check.level, check.detail))
    return seen


def look(to: str, directory: Path | None = None, *, key: str | None = A, personal: str = ALL, **more: Any) -> Found:
    """The result of preflight for a target."""
    given = None if key is None else Secret(key)
    plan, place = open_plan(directory) if directory else (None, None)
    return states(check_target(PreflightRequest(to, given, Secret(personal), PreflightOptions(**more)), plan, place))


def planned_rows(folder: Path, *rows: dict[str, Any], **asked: Any) -> Path:
    """A plan of these rows, whose columns have the names of an event's fields."""
    folder.mkdir(exist_ok=True)
    source = folder / "export.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    columns = {name: name for name in ("event", "distinct_id", "timestamp", "anonymous_id") if name in rows[0]}
    options = PlanOptions(mapping="generic", settings=columns, workers=0, **asked)
    api.plan_export(source, folder / "plan", options)
    return folder / "plan"


def send(ask: Asking, *events: dict[str, Any]) -> None:
    """Send live events to project 1; one without `properties` has only its `distinct_id`."""
    names = ("event", "timestamp", "uuid")
    batch = [
        {name: one[name] for name in names if name in one}
        | {"properties": one.get("properties") or {"distinct_id": one["distinct_id"]}}
        for one in events
    ]
    sent = httpx.post(f"{ask.service.url}/batch/", json={"api_key": A, "batch": batch}, timeout=30, **PLAIN)
    assert sent.status_code == 200


def function(**fields: Any) -> dict[str, Any]:
    """A hog function that fires on every event, with fields replaced."""
    return {"type": "destination", "name": "Hook", "hog": HOG, "enabled": True} | fields
