"""Cases of the models *people* and *target* that the product does not meet yet, ready to move into their tests.

pytest does not collect them by itself; name this file to run them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import pipeline
from pipeline.options import PlanOptions
from tests.models.test_people import (
    Place,
    call,
    compare,
    iso,
    posthog,
)
from tests.support.people import AS_OF, write

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


@pytest.mark.parametrize("name", CASES)
def test_people(name: str) -> None:
    compare(*CASES[name])


def test_groups_of_anonymous_events(tmp_path: Path) -> None:
    """8: groups that are lost with `--persons identified` are counted."""
    rows = [call(1, None, "d", context={"groupId": "acme"})[1]]
    options = PlanOptions(mapping="segment", persons="identified", as_of=AS_OF, workers=0)
    plan = pipeline.plan_export(write(tmp_path / "export", rows), tmp_path / "plan", options)
    assert any("group" in code for code in [*plan.warnings, *plan.skips, *(gate.name for gate in plan.gates)])
