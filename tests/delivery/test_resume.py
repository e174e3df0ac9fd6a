"""Kill a real `backcast apply` at many moments; the next run finishes the same set, and little is sent twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from tests.support.commands import in_process
from tests.support.deliveries import Asked, Reply, forget, identities, passed_on, planned, serving

pytestmark = pytest.mark.slow

KEY = "phc_testMARKED"
KEYS = Keyring((Project(1, "Rehearsal", KEY),), {"phx_personal": frozenset({"*"})})
CONCURRENCY = 3
BATCH = 10
ROWS = 200
IN_FLIGHT = 2 * CONCURRENCY * BATCH
"""Events begun and not settled at most: those on the wire, and as many whose answers are being written down."""


def words(directory: Path, url: str, *options: str) -> list[str]:
    """The words of an apply; of options that are given twice the last counts."""
    standing = ["--quiet", "--json", "--workers", "0", "--max-concurrency", str(CONCURRENCY)]
    return ["apply", str(directory), "--to", url, *standing, *options]


def resumed(directory: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A run after one that died."""
    return in_process(*words(directory, url, *options), env={"BACKCAST_PROJECT_KEY": KEY})


class Run:
    """A `backcast apply` process."""

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
        """Read what it says on stderr until it says this."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"it never said {text!r}")

    def end(self) -> tuple[int, str, str]:
        said, told = self.process.communicate(timeout=60)
        return self.process.returncode, said, told


@contextmanager
def killing(
    service: LocalService, at: int, act: Callable[[Run], None], *, after: bool
) -> Iterator[tuple[str, list[Run]]]:
    """A server that passes requests on, and does something to the process at one of them, before or after."""
    runs: list[Run] = []
    started = threading.Event()
    done = threading.Lock()
    acted: list[int] = []

    def answer(asked: Asked) -> Reply:
        assert started.wait(30)
        with done:
            now = asked.number >= at and not acted
            if now:
                acted.append(asked.number)
        if now and not after:
            act(runs[-1])
            return Reply(0)
        reply = passed_on(service.url, asked.body)
        if now:
            act(runs[-1])
            return Reply(0)
        return reply

    with serving(answer) as server:
        runs = _Started(started)
        yield server.url, runs


class _Started(list[Run]):
    """Runs; tells when the first one is known."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__()
        self._event = event

    def append(self, run: Run) -> None:
        super().append(run)
        self._event.set()


def landed(service: LocalService) -> set[tuple[str, str, str, str]]:
    return {(one.uuid, one.event, one.distinct_id, one.timestamp) for one in service.events()}


def copies(service: LocalService) -> Counter[str]:
    return Counter(str(uuid) for (uuid,) in service.select("select uuid from raw_events"))


@pytest.mark.parametrize(
    ("at", "after", "workers"),
    [(0, False, 2), (7, True, 2), (7, False, 0), (19, True, 0)],
    ids=["before-the-first", "after-one", "before-one", "after-the-last"],
)
def test_a_killed_run_is_finished_by_the_next(tmp_path: Path, at: int, after: bool, workers: int) -> None:
    """SIGKILL before or after a batch is taken: the same set lands, and at most what was in flight twice."""
    directory = planned(tmp_path, ROWS, batch=BATCH, files=3)
    with LocalService(keys=KEYS) as service, killing(service, at, Run.kill, after=after) as (url, runs):
        runs.append(Run(directory, url, "--workers", str(workers)))
        code, _, told = runs[0].end()
        assert (code, told) == (-signal.SIGKILL, "")
        # Requests of the dead process may still be on their way through the server: the next run must stand them too.
        again = resumed(directory, url)
        assert (again.returncode, again.stderr) == (0, "")
        assert landed(service) == identities(ROWS)
        twice = copies(service)
    assert set(twice.values()) <= {1, 2}
    assert sum(count == 2 for count in twice.values()) <= IN_FLIGHT
    assert json.loads(again.stdout)["balanced"] is True


def test_a_kill_inside_a_half_split_batch_resumes(tmp_path: Path) -> None:
    """A batch too large is in halves when the process dies; the next run sends what is left of them, not the whole."""
    directory = planned(tmp_path, 64, files=1, batch=64)
    with LocalService(keys=KEYS) as service:
        runs: list[Run] = []
        sizes: list[int] = []
        ready = threading.Event()

        def answer(asked: Asked) -> Reply:
            assert ready.wait(30)
            sizes.append(len(asked.events))
            if len(asked.events) > 16:
                return Reply(413)
            reply = passed_on(service.url, asked.body)
            if len(sizes) == 4:
                runs[0].kill()
                return Reply(0)
            return reply

        with serving(answer) as server:
            runs.append(Run(directory, server.url, "--max-concurrency", "1"))
            ready.set()
            code, _, told = runs[0].end()
            assert (code, told) == (-signal.SIGKILL, "")
            first = list(sizes)
            assert resumed(directory, server.url, "--max-concurrency", "1").returncode == 0
        assert landed(service) == identities(64)
        assert sum(count == 2 for count in copies(service).values()) <= 16
    assert first == [64, 32, 16, 16]
    assert 64 not in sizes[4:]


def test_one_interrupt_ends_in_order(tmp_path: Path) -> None:
    """Ctrl-C once: what is in flight is settled, exit 130, nothing in doubt; the next run sends the rest once."""
    directory = planned(tmp_path, ROWS, batch=BATCH)
    with LocalService(keys=KEYS) as service:
        runs: list[Run] = []
        ready = threading.Event()
        interrupted = threading.Event()

        def answer(asked: Asked) -> Reply:
            assert ready.wait(30)
            if asked.number == 5:
                runs[0].kill(signal.SIGINT)
                runs[0].until("Finishing what is in flight")
                interrupted.set()
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            runs.append(Run(directory, server.url))
            ready.set()
            assert interrupted.wait(30)
            code, said, told = runs[0].end()
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
    """Ctrl-C twice while the service does not answer: exit 130 without waiting for it, and the next run resumes."""
    directory = planned(tmp_path, 40, batch=BATCH)
    with LocalService(keys=KEYS) as service:
        runs: list[Run] = []
        ready, over = threading.Event(), threading.Event()

        def answer(asked: Asked) -> Reply:
            assert ready.wait(30)
            if asked.number == 0:
                runs[0].kill(signal.SIGINT)
                runs[0].until("press Ctrl-C again")
                runs[0].kill(signal.SIGINT)
            if not over.is_set():
                assert over.wait(30)
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            runs.append(Run(directory, server.url))
            ready.set()
            try:
                code = runs[0].process.wait(20)
                told = runs[0].process.stderr.read() if runs[0].process.stderr else ""
            finally:
                over.set()
            runs[0].end()
            assert code == 130
            said = [line for line in told.splitlines() if line]
            assert said == ["Error: interrupted; nothing is lost", "Try: run the same command again"]
            assert resumed(directory, server.url).returncode == 0
        assert landed(service) == identities(40)


def test_a_killed_worker_is_exit_6_and_resumable(tmp_path: Path) -> None:
    """A worker process that is killed ends the run with a clear message; the next run finishes."""
    directory = planned(tmp_path, 60, batch=BATCH, files=6)
    with LocalService(keys=KEYS) as service:
        runs: list[Run] = []
        ready = threading.Event()

        def answer(asked: Asked) -> Reply:
            assert ready.wait(30)
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            runs.append(Run(directory, server.url, "--workers", "1"))
            worker = _first_child(runs[0].process.pid)
            os.kill(worker, signal.SIGKILL)
            ready.set()
            code, _, told = runs[0].end()
            assert (code, told.splitlines()[0]) == (6, "Error: a worker process ended by itself (exit -9)")
            assert len(told.splitlines()) == 2
            assert resumed(directory, server.url).returncode == 0
        assert landed(service) == identities(60)


def _first_child(parent: int) -> int:
    """The first worker process of a run, as soon as there is one."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    while True:
        for child in children.read_text().split():
            try:
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
            except FileNotFoundError:
                continue


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.0])
def test_a_write_ahead_log_cut_short_loses_no_event(tmp_path: Path, share: float) -> None:
    """Even where the disk lost commits that it had confirmed: more is sent again, and the set is the same.

    Where it lost all of the run, the ledger is refused as an older one, until a person says to go on without it.
    """
    directory = planned(tmp_path, 80, batch=BATCH)
    with LocalService(keys=KEYS) as service:
        with killing(service, 4, Run.kill, after=True) as (url, runs):
            runs.append(Run(directory, url))
            runs[0].end()
        # That server has ended, and with it the requests of the dead process: what lands from here on is of the next.
        log = directory / "ledger.sqlite-wal"
        if log.exists():
            os.truncate(log, int(log.stat().st_size * share))
        before = landed(service)
        with serving(lambda asked: passed_on(service.url, asked.body), port=urlsplit(url).port or 0):
            again = resumed(directory, url)
            code = again.returncode
            assert code in {0.0: [4], 1.0: [0]}.get(share, [0, 4]), again.stderr
            if code == 4:
                assert landed(service) == before
                forget(directory)
                assert resumed(directory, url).returncode == 0
        assert landed(service) == identities(80)
