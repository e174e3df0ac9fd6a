"""A run that is killed anywhere is finished by the next one: at each kind of step, of which `make soak` tries all.

By the run's own SIGKILL at a step that it counts, a commit of the ledger or a side of a request, or by somebody else's
while the service has one of its requests; batches that are half split or half answered are among both.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.crashes import SCENES, covering, die_at_point, die_at_request, points

pytestmark = pytest.mark.slow

BY_NAME = {scene.name: scene for scene in SCENES}
STEPS = {
    "open", "mark", "transport", "begin", "settle", "cut", "learn", "split", "try", "refuse", "divide", "warn", "finish"
}  # fmt: skip
"""Steps of the ledger, without those of sender processes."""


def test_a_run_killed_at_any_step_is_finished_by_the_next(tmp_path: Path) -> None:
    """At each kind of step once: the planned set lands, and only what was in doubt twice."""
    seen: set[tuple[str, str]] = set()
    for name in ("halving", "bisecting", "verdicts"):
        scene, plan = BY_NAME[name], BY_NAME[name].plan(tmp_path / name)
        for number in covering(points(scene, plan, tmp_path / name / "whole"), seen):
            die_at_point(scene, plan, tmp_path / name / str(number), number)
    sides = {(side, step) for side in ("before", "after") for step in STEPS | {side}}
    assert seen == sides | {("sending", "sending"), ("answered", "answered")}


@pytest.mark.parametrize(
    ("name", "number", "after"), [("halving", 5, True), ("canary", 4, False), ("in order", 9, True)]
)
def test_a_run_killed_from_outside_is_finished_by_the_next(name: str, number: int, after: bool, tmp_path: Path) -> None:
    """While a request is under way, before and after the service took it: also inside a canary, and where batches of
    one person go one after the other."""
    die_at_request(BY_NAME[name], BY_NAME[name].plan(tmp_path), tmp_path / "run", number, after=after)


def test_senders_whose_parent_is_killed_are_finished_by_the_next_run(tmp_path: Path) -> None:
    """They settle what is in flight, and nobody else sends meanwhile."""
    die_at_request(BY_NAME["senders"], BY_NAME["senders"].plan(tmp_path), tmp_path / "run", 3, after=False)
