"""What a crash can leave in doubt: at any moment at most what is in flight, over any number of crashes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.delivery.apply import Outcome, RunCounts, SendLimits
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.retry import RetryPolicy
from pipeline.ledger import Ledger
from pipeline.options.pace import RateLimit
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import (
    ANY_ANSWERS,
    AT_ONCE,
    OK,
    CallDestination,
    applying,
    forget,
    in_ledger,
    planned,
    uuid,
    uuids_in,
)

BEGUN = "select count(*) from batches where state = 'begun'"
ROWS = 60


class Commits:
    """Looks at the ledger after each commit of a run, and keeps the disk's content after one of them."""

    def __init__(self, directory: Path, at: int = -1) -> None:
        self.begun: list[int] = []
        self.steps: list[Sequence[str]] = []
        self.seen = threading.Condition()
        self.ledger = Ledger(directory / "ledger.sqlite", self._watch)
        self._directory = directory
        self._at = at

    def _watch(self, stage: str, steps: Sequence[str]) -> None:
        if stage == "before":
            return
        with self.seen:
            self.begun.append(self.ledger._db.execute(BEGUN).fetchone()[0])
            self.steps.append(steps)
            if len(self.begun) == self._at:
                for name in ("ledger.sqlite", "ledger.sqlite-wal"):
                    copy(self._directory / name, self._directory / f"at-{name}")
            self.seen.notify_all()

    def run(self, send: Callable[[bytes], Response], send_limits: SendLimits, **asked: Any) -> Outcome:
        plan, place = open_plan(self._directory)
        destination = CallDestination(send)
        with closing(self.ledger.open(plan.digest, "test", destination.address)):
            return applying(plan, place, destination, self.ledger, send_limits, **asked).run()

    def crash(self) -> None:
        """Restore the directory as it was after that commit; do nothing if there were fewer commits."""
        kept = [self._directory / f"at-{name}" for name in ("ledger.sqlite", "ledger.sqlite-wal")]
        if kept[0].exists():
            for leftover in self._directory.glob("ledger.sqlite*"):
                leftover.unlink()
            for path in kept:
                path.rename(self._directory / path.name.removeprefix("at-"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned(tmp_path_factory.mktemp("in-flight"), ROWS, batch=4)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(st.sampled_from(ANY_ANSWERS), max_size=60),
    concurrency=st.integers(1, 5),
    crashes=st.lists(st.integers(2, 40), min_size=1, max_size=3),
)
def test_no_commit_has_more_in_doubt_than_may_be_in_flight(
    source: Path, script: list[Response], concurrency: int, crashes: list[int]
) -> None:
    """Whatever the service answers, and wherever run after run is killed; the last run finishes the set."""
    forget(source)
    answers = iter(script)
    lock = threading.Lock()
    taken: set[str] = set()

    def send(body: bytes) -> Response:
        with lock:
            response = next(answers, OK)
            if response.kind is ResponseKind.SETTLED:
                taken.update(uuids_in(body))
            return response

    retry_policy = RetryPolicy(tries=1, first=0)
    for at in [*crashes, -1]:
        commits = Commits(source, at)
        outcome = commits.run(send, SendLimits(concurrency, retry_policy))
        assert max(commits.begun) <= concurrency
        commits.crash()
    for _ in range(60):
        if outcome.balanced:
            break
        outcome = Commits(source).run(send, SendLimits(concurrency, retry_policy))
    assert outcome.balanced
    refused = {str(one) for (one,) in in_ledger(source, "select uuid from refused_events")}
    assert taken | refused == {uuid(number) for number in range(ROWS)}


def test_a_batch_that_the_rate_holds_back_is_not_begun(tmp_path: Path) -> None:
    """While `--rate` lets one batch leave, the ledger has only that one."""
    directory = planned(tmp_path, 80, files=1)
    interrupted = threading.Event()

    def send(body: bytes) -> Response:
        interrupted.set()
        return OK

    commits = Commits(directory)
    commits.run(send, SendLimits(8, AT_ONCE, rates=(RateLimit(0.001),)), interrupted=interrupted)
    assert max(commits.begun) == 1
    assert in_ledger(directory, "select count(*) from batches") == [(1,)]


def test_a_batch_that_the_service_holds_back_is_not_begun(tmp_path: Path) -> None:
    """Two are in flight, one asks for a pause, the other settles: no other begins before the pause is over."""
    directory = planned(tmp_path, 80, files=1)
    both = threading.Barrier(2)
    paused, interrupted = threading.Event(), threading.Event()

    def send(body: bytes) -> Response:
        if both.wait(30):
            return Response(ResponseKind.RETRY, 429, "", 3000.0, taken=False)
        assert paused.wait(30)
        return OK

    def progress(counts: RunCounts) -> None:
        if counts.paused:
            paused.set()
        if counts.accepted:
            interrupted.set()

    commits = Commits(directory)
    commits.run(send, SendLimits(2, RetryPolicy(seconds=9000)), interrupted=interrupted, progress=progress)
    assert max(commits.begun) == 2
    assert in_ledger(directory, "select count(*) from batches") == [(2,)]


def test_what_is_in_doubt_is_sent_before_all_others(tmp_path: Path) -> None:
    """A run killed with later batches in doubt and earlier ones waiting begins with the doubt."""
    directory = planned(tmp_path, 40, files=2, batch=5)
    commits = Commits(directory, at=2)
    commits.run(lambda body: OK, SendLimits(1, AT_ONCE))
    commits.crash()
    with closing(sqlite3.connect(directory / "ledger.sqlite")) as database, database:
        database.execute("delete from batches")
        database.executemany(
            "insert into batches (phase, request, first, last, state, bytes, run, begun)"
            " values ('events', ?, ?, ?, ?, 1, 1, '')",
            [(0, 0, 4, "waiting"), (2, 0, 4, "begun"), (5, 0, 4, "begun")],
        )
    sent: list[str] = []

    def send(body: bytes) -> Response:
        sent.append(uuids_in(body)[0])
        return OK

    assert Commits(directory).run(send, SendLimits(1, AT_ONCE)).balanced
    # Each file has every second row.
    assert sent[:3] == [uuid(20), uuid(11), uuid(0)]
    assert len(sent) == 8
