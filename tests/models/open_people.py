"""Cases of the models *people* and *target* that the product does not meet yet, ready to move into their tests.

pytest does not collect them by itself; name this file to run them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.options import PlanOptions
from tests.models.target import person_less_per_event
from tests.models.test_people import (
    SETTINGS,
    Place,
    call,
    compare,
    generic,
    iso,
    posthog,
)
from tests.models.test_target import compare as compare_target
from tests.support.deliveries import run
from tests.support.people import AS_OF, write
from tests.support.rehearsal import event, fresh

CASES: dict[str, tuple[str, list[Place]]] = {
    "3 superseded, of the same user": ("segment", [
        call(1, None, "d"), call(2, "u1", "e"), call(2, "u1", "d", receivedAt=iso(0)),
    ]),
    "3 superseded by a later": ("segment", [
        call(1, None, "d"), call(2, "u1", "d"), call(2, "u2", "d", receivedAt=iso(9)),
    ]),
    "8 a group's key": ("posthog", [
        posthog(at, "a", "$groupidentify", _group_type="company", _group_key=key, _group_set={"seats": at})
        for at, key in enumerate([7, 7.0], 1)
    ]),
}  # fmt: skip
TARGET: dict[str, tuple[bool, list[dict[str, Any]]]] = {
    "7 placeholders of the per-event endpoint": (True, [event("Guest"), event("system", _set={"p": 1}), event("a")]),
    "7 an identify of one": (True, [event("d"), event("NULL", "$identify", _anon_distinct_id="d")]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_people(name: str) -> None:
    compare(*CASES[name])


@pytest.mark.parametrize("name", TARGET)
def test_target(name: str) -> None:
    """What the local service does differently."""
    per_event, events = TARGET[name]
    full = [{**one, "timestamp": one["timestamp"].replace("Z", ".000000Z")} for one in events]
    compare_target(full, per_event, False)


@pytest.mark.parametrize("name", ["system", "NULL", "Nan", "anonymous-user", "u7 ", "é" * 120])
def test_the_other_endpoint(name: str, tmp_path: Path) -> None:
    """7: a plan for the per-event endpoint plans no merge that cannot happen there, nor what is dropped there."""
    rows = [generic(1, None, "d")[1], generic(2, name, "d")[1], generic(3, name.strip(), None)[1]]
    options = PlanOptions(mapping="generic", dialect="posthog", as_of=AS_OF, workers=0, settings=SETTINGS)
    plan = pipeline.plan_export(write(tmp_path / "export", rows), tmp_path / "plan", options)
    if not plan.ready:
        return  # that it stops is right as well
    room = fresh(per_event="on")
    outcome = run(tmp_path / "plan", room.url, key=room.key())
    assert outcome.counts.refused == 0
    assert plan.events.phases["identities"] == 0 or not person_less_per_event(name)
    assert name == name.strip() or plan.warnings, "two ids become one person without a word"


def test_groups_of_anonymous_events(tmp_path: Path) -> None:
    """8: groups that are lost with `--persons identified` are counted."""
    rows = [call(1, None, "d", context={"groupId": "acme"})[1]]
    options = PlanOptions(mapping="segment", persons="identified", as_of=AS_OF, workers=0)
    plan = pipeline.plan_export(write(tmp_path / "export", rows), tmp_path / "plan", options)
    assert any("group" in code for code in [*plan.warnings, *plan.skips, *(gate.name for gate in plan.gates)])
