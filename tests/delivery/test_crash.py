"""A run that is killed anywhere is finished by the next one; 50 seeded points of those that `make soak` tries all of.

36 by the run's own SIGKILL at a step that it counts (commits of the ledger and both sides of a request among them), 14
by somebody else's SIGKILL while the service has one of its requests; batches that are half split or half answered are
among both. One scene sends a canary first, by a run of its own.
"""

from __future__ import annotations

import random
import re
import signal
import threading
from pathlib import Path

import pytest

from pipeline.local_service import LocalService
from tests.delivery.test_resume import Run, copies, landed, resumed
from tests.support.crashes import KEYS, SCENES, Scene, chosen, die_at_point, die_at_request, points
from tests.support.deliveries import Asked, Reply, identities, passed_on, planned, serving

pytestmark = pytest.mark.slow

SEED = 413
AT_POINTS = {"halving": 12, "bisecting": 5, "plain": 3, "verdicts": 8, "canary": 8, "in order": 8, "senders": 12}
AT_REQUESTS = {"halving": 4, "bisecting": 3, "plain": 2, "verdicts": 3, "canary": 2, "in order": 3, "senders": 3}
OWN: dict[str, set[str]] = {
    "halving": {"split", "learn", "cut"}, "bisecting": {"split", "refuse"}, "plain": set(),
    "verdicts": {"divide", "warn", "try"}, "canary": set(), "in order": {"split", "refuse"},
    "senders": {"add", "merge"},
}  # fmt: skip
"""Steps of the ledger that a scene alone shows."""


@pytest.fixture(scope="module", params=SCENES, ids=lambda scene: scene.name)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Scene, Path]:
    found: Scene = request.param
    return found, found.plan(tmp_path_factory.mktemp(found.name))


def test_a_run_killed_at_any_step_is_finished_by_the_next(scene: tuple[Scene, Path], tmp_path: Path) -> None:
    """At seeded steps, each kind first: the planned set lands, and only what was in doubt twice."""
    what, plan = scene
    names = points(what, plan, tmp_path / "whole")
    kinds = {word for name in names for word in re.findall("[a-z]+", name)}
    sends = {"begin", "settle", "sending", "answered"} if what.senders == 1 else set()
    assert kinds >= {"before", "after", "open", "finish"} | sends | OWN[what.name]
    for number in chosen(names, AT_POINTS[what.name], SEED):
        die_at_point(what, plan, tmp_path / f"at-{number}-{re.sub('[^a-z]+', '-', names[number])}", number)


def test_a_run_killed_from_outside_is_finished_by_the_next(scene: tuple[Scene, Path], tmp_path: Path) -> None:
    """While a request is under way, before and after the service took it."""
    what, plan = scene
    requests = what.requests(points(what, plan, tmp_path / "whole"))
    for turn, number in enumerate(sorted(random.Random(SEED).sample(range(requests), AT_REQUESTS[what.name]))):
        die_at_request(what, plan, tmp_path / f"at-{number}", number, after=turn % 2 == 0)


def test_two_interrupts_inside_a_split_batch_lose_nothing(tmp_path: Path) -> None:
    """Ctrl-C twice while half of a batch is unanswered: exit 130 at once; the next run sends what is left of it."""
    directory = planned(tmp_path, 32, files=1, batch=32)
    with LocalService(keys=KEYS) as service:
        runs: list[Run] = []
        ready, over = threading.Event(), threading.Event()
        sizes: list[int] = []

        def answer(asked: Asked) -> Reply:
            assert ready.wait(30)
            sizes.append(len(asked.events))
            if len(asked.events) > 8:
                return Reply(413)
            reply = passed_on(service.url, asked.body)
            if len(sizes) == 4:
                runs[0].kill(signal.SIGINT)
                runs[0].until("press Ctrl-C again")
                runs[0].kill(signal.SIGINT)
                assert over.wait(30)
            return reply

        with serving(answer) as server:
            runs.append(Run(directory, server.url, "--max-concurrency", "1"))
            ready.set()
            try:
                assert runs[0].process.wait(30) == 130
            finally:
                over.set()
            runs[0].end()
            first = list(sizes)
            assert resumed(directory, server.url, "--max-concurrency", "1").returncode == 0
        assert landed(service) == identities(32)
        twice = [uuid for uuid, count in copies(service).items() if count > 1]
    assert first == [32, 16, 8, 8]
    assert len(twice) == 8
    assert max(sizes[4:]) <= 16
