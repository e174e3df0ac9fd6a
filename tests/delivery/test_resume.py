"""A run that is killed anywhere is finished by the next one: the same set lands, and little is sent twice.

A run kills itself by SIGKILL at a step that it counts, which is a commit of the ledger or a side of a request (`make
soak` tries all of them); or it is killed from outside while the service has one of its requests; or a real `backcast
apply` gets any signal.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.local_service import LocalService
from tests.support.commands import in_process
from tests.support.crashes import KEYS, SCENES, covering, die_at_point, die_at_request, points
from tests.support.deliveries import (
    KEY,
    Asked,
    Reply,
    copies,
    forget,
    identities,
    landed,
    passed_on,
    planned,
    serving,
    uuid,
)
from tests.support.scripted_server import Server

CONCURRENCY = 3
BATCH = 10
ROWS = 200
IN_FLIGHT = 2 * CONCURRENCY * BATCH
"""The most events that can be begun and not settled: those on the wire, and as many whose answers are being
recorded."""
BY_NAME = {scene.name: scene for scene in SCENES}
STEPS = {
    "open", "mark", "transport", "begin", "settle", "cut", "learn", "split", "try", "refuse", "divide", "warn", "finish"
}  # fmt: skip
"""Steps of the ledger, without those of sender processes."""


def words(directory: Path, url: str, *options: str) -> list[str]:
    """The words of an apply; if an option is given twice, the last counts."""
    standing = ["--quiet", "--json", "--max-concurrency", str(CONCURRENCY)]
    return ["apply", str(directory), "--to", url, *standing, *options]


def resumed(directory: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    return in_process(*words(directory, url, *options), env={"BACKCAST_PROJECT_KEY": KEY})


class Run:
    def __init__(self, directory: Path, url: str, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pipeline", *words(directory, url, *options)],
            env=os.environ | {"BACKCAST_PROJECT_KEY": KEY},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)

    def until(self, text: str) -> None:
        """Read stderr until it says this."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"it never said {text!r}")

    def end(self) -> tuple[int, str, str]:
        said, told = self.process.communicate(timeout=60)
        return self.process.returncode, said, told


@contextmanager
def acting(
    service: LocalService, directory: Path, at: int, act: Callable[[Run], None], *options: str, most: int = 10_000
) -> Iterator[tuple[Server, Run]]:
    """A run over a server that passes requests on, and acts at one of them, whose answer is lost if the run is killed.
    A request of more than `most` events is answered 413."""
    runs: list[Run] = []
    started = threading.Event()

    def answer(asked: Asked) -> Reply:
        assert started.wait(30)
        if len(asked.events) > most:
            return Reply(413)
        reply = passed_on(service.url, asked.body)
        if asked.number == at:
            act(runs[0])
        return Reply(0) if asked.number == at and act is Run.kill else reply

    with serving(answer) as server:
        runs.append(Run(directory, server.url, *options))
        started.set()
        yield server, runs[0]


def test_a_killed_run_is_finished_by_the_next(tmp_path: Path) -> None:
    """SIGKILL after a batch is taken: the same set lands, at most what was in flight twice."""
    directory = planned(tmp_path, ROWS, batch=BATCH, files=3)
    with LocalService(keys=KEYS) as service, acting(service, directory, 7, Run.kill) as (server, run):
        code, _, errors = run.end()
        assert code == -signal.SIGKILL
        assert errors == ""
        # Requests of the dead process may still be on their way through the server: the next run has to cope with them.
        again = resumed(directory, server.url)
        assert (again.returncode, again.stderr) == (0, "")
        assert landed(service) == identities(ROWS)
        twice = copies(service)
    assert set(twice.values()) <= {1, 2}
    assert sum(count == 2 for count in twice.values()) <= IN_FLIGHT
    assert json.loads(again.stdout)["balanced"] is True


def test_one_interrupt_ends_in_order(tmp_path: Path) -> None:
    """Ctrl-C once: what is in flight is settled, exit 130, nothing in doubt; the next run sends the rest once."""
    directory = planned(tmp_path, ROWS, batch=BATCH)

    def interrupt(run: Run) -> None:
        run.kill(signal.SIGINT)
        run.until("Finishing what is in flight")
        heard.set()

    heard = threading.Event()
    with LocalService(keys=KEYS) as service, acting(service, directory, 5, interrupt) as (server, run):
        assert heard.wait(30)
        code, said, told = run.end()
        assert code == 130
        assert told.splitlines() == [
            "Error: stopped by hand; what was in flight is settled",
            "Try: run the same command again",
        ]
        assert '"in_doubt": 0' in said
        assert '"balanced": false' in said
        assert resumed(directory, server.url).returncode == 0
        assert landed(service) == identities(ROWS)
        assert set(copies(service).values()) == {1}


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    """Ctrl-C twice while the service does not answer, in the middle of a split batch: exit 130 without waiting for it;
    the next run sends what is left of that batch, and twice only what was in flight."""
    directory = planned(tmp_path, 32, files=1, batch=32)
    over = threading.Event()

    def interrupt(run: Run) -> None:
        run.kill(signal.SIGINT)
        run.until("press Ctrl-C again")
        run.kill(signal.SIGINT)
        assert over.wait(30)

    one = ("--max-concurrency", "1")
    with LocalService(keys=KEYS) as service, acting(service, directory, 3, interrupt, *one, most=8) as (server, run):
        try:
            assert run.process.wait(30) == 130
            told = run.process.stderr.read() if run.process.stderr else ""
        finally:
            over.set()
        run.end()
        said = [line for line in told.splitlines() if line]
        assert said == ["Error: interrupted; nothing is lost", "Try: run the same command again"]
        before = len(server.asked)
        assert resumed(directory, server.url, *one).returncode == 0
        assert landed(service) == identities(32)
        twice = [uuid for uuid, count in copies(service).items() if count > 1]
    sizes = [len(one.events) for one in server.asked]
    assert sizes[:before] == [32, 16, 8, 8]
    assert len(twice) == 8
    assert max(sizes[4:]) <= 16


def test_a_write_ahead_log_cut_short_loses_no_event(tmp_path: Path) -> None:
    """Power is lost, and the log is torn after the last commit: only what was in flight is sent again. Even where the
    disk lost commits that it had confirmed the set is the same, and more is sent again.

    If it lost all of the run, the ledger is refused as an older one, until a person continues without it.
    """
    directory = planned(tmp_path, 80, batch=BATCH)
    with LocalService(keys=KEYS) as service, acting(service, directory, 4, Run.kill) as (server, run):
        run.end()
        before = {one[0] for one in landed(service)}
    for number, (share, tail, codes) in enumerate(
        [(0.0, b"", [4]), (0.5, b"", [0, 4]), (1.0, b"", [0]), (1.0, b"torn", [0]), (1.0, bytes(5_000), [0])]
    ):
        cut = tmp_path / str(number) / "plan"
        shutil.copytree(directory, cut)
        log = cut / "ledger.sqlite-wal"
        log.write_bytes(log.read_bytes()[: int(log.stat().st_size * share)] + tail)
        with serving(lambda asked: Reply(), port=server.port) as later:
            again = resumed(cut, later.url)
            assert again.returncode in codes, again.stderr
            if again.returncode == 4:
                assert later.asked == []
                forget(cut)
                assert resumed(cut, later.url).returncode == 0
        sent = {event["uuid"] for one in later.asked for event in one.events}
        assert before | sent == {uuid(number) for number in range(80)}
        assert share < 1 or len(before & sent) <= IN_FLIGHT


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
