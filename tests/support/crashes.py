"""Runs that die at a chosen point, in separate processes, and what must be true after the next run.

A point is a step of a run that can be counted: before and after each commit of the ledger, before each request and
after each answer. A run counts its own points and ends itself at one of them by SIGKILL; or it is killed from
outside.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pipeline import storage
from pipeline.batcher import Batch
from pipeline.config import Secret
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.capture import CaptureDestination
from pipeline.delivery.capture_v1 import PerEventDestination
from pipeline.delivery.destination import Response
from pipeline.delivery.file_destination import FileDestination
from pipeline.ledger import Ledger, Totals, read_batches, read_totals
from pipeline.local_service import Keyring, LocalService, Settings
from pipeline.local_service.keys import Project
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import (
    AT_ONCE,
    KEY,
    Asked,
    Identity,
    Reply,
    applying,
    identities,
    planned,
    relayed,
    row,
    run,
    serving,
    uuids,
)

KEYS = Keyring((Project(1, "Rehearsal", KEY),), {"phx_test": frozenset({"*"})})


@dataclass(frozen=True)
class Scene:
    """A plan and a service that make a run go through certain steps. `poison` is an event name that is refused.

    `per_event`: it is sent to the endpoint that answers for each event. `canary`: a sample of at most this number of
    events is sent first. `ordered`: batches of one person go one after the other.
    """

    name: str
    rows: int
    batch: int
    faults: tuple[str, ...]
    concurrency: int
    poison: str | None = None
    files: int = 2
    per_event: bool = False
    canary: int = 0
    ordered: bool = False

    def plan(self, folder: Path) -> Path:
        """The plan's directory, made once; each run gets a copy of it."""
        dialect = "posthog" if self.per_event else "contract"
        return planned(folder, self.rows, batch=self.batch, files=self.files, dialect=dialect, canary=self.canary)

    def service(self) -> LocalService:
        return LocalService(keys=KEYS, faults=self.faults, settings=Settings(per_event="on"))

    def requests(self, names: Sequence[str]) -> int:
        """The number of requests in a run that passed these points."""
        return names.count("sending")

    @property
    def limits(self) -> SendLimits:
        return SendLimits(self.concurrency, AT_ONCE, ordered=self.ordered)

    @property
    def expected(self) -> set[Identity]:
        """What must have landed in the end."""
        return {one for one in identities(self.rows) if one[1] != self.poison}

    @property
    def refused(self) -> int:
        return sum(row(number)["event"] == self.poison for number in range(self.rows))


SCENES = (
    Scene("halving", 144, 24, ("large:1000",), 1),
    Scene("bisecting", 36, 12, ("poison,event=Step 1",), 3, poison="Step 1"),
    Scene("plain", 160, 10, (), 3),
    Scene(
        "verdicts", 72, 12,
        ("verdict:retry,one-in=3,retry-after=0", "verdict:drop,event=Step 1,rounds=99", "verdict:warning,one-in=4"),
        2, poison="Step 1", per_event=True,
    ),
    Scene("canary", 70, 10, (), 3, canary=24),
    Scene("in order", 24, 4, ("poison,event=Step 1", "large:900"), 3, poison="Step 1", ordered=True),
)  # fmt: skip


class Counting:
    """Counts the points of a run, and ends the process at one of them."""

    def __init__(self, at: int | None) -> None:
        self.names: list[str] = []
        self._at = at
        self._lock = threading.Lock()

    def __call__(self, name: str) -> None:
        with self._lock:
            self.names.append(name)
            if self._at == len(self.names) - 1:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, stage: str, steps: Sequence[str]) -> None:
        self(f"{stage} {'+'.join(sorted(set(steps)))}")


class CountedDestination:
    """A destination whose requests and answers are points."""

    def __init__(self, destination: CaptureDestination | PerEventDestination, count: Counting) -> None:
        self._destination = destination
        self._count = count
        self.address = destination.address

    def send(self, batch: Batch) -> Response:
        self._count("sending")
        response = self._destination.send(batch)
        self._count("answered")
        return response

    def close(self) -> None:
        self._destination.close()


def go(directory: Path, url: str, scene: Scene, at: int | None = None) -> list[str]:
    """Apply a plan in this process, which ends at point `at`; otherwise the names of the points that were passed.

    If the scene has a canary, it is sent by a run of its own first.
    """
    count = Counting(at)
    if scene.canary:
        go_once(directory, url, scene, count, canary=True)
    go_once(directory, url, scene, count)
    return count.names


def go_once(directory: Path, url: str, scene: Scene, count: Counting, *, canary: bool = False) -> None:
    """One run over a plan, or over some ranges of it."""
    plan, place = open_plan(directory)
    per_event = plan.options.dialect == "posthog"
    kind = PerEventDestination if per_event else CaptureDestination
    destination = CountedDestination(kind(url, key=Secret(KEY)), count)
    ledger = Ledger(place.ledger, count.watch)
    ledger.open(plan.digest, "test", destination.address, Secret(KEY))
    ledger.choose_transport("v1" if per_event else "batch")
    try:
        applying(plan, place, destination, ledger, scene.limits, per_event=per_event, canary=canary).run()
    finally:
        ledger.close()
        destination.close()


def forked(target: Callable[..., object], *args: object) -> BaseProcess:
    """A call in a process forked from one that has everything loaded."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # or its threads would be lost in each fork
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=target, args=args)
    process.start()
    return process


def ended(process: BaseProcess) -> int:
    """Wait for a process; its exit code."""
    process.join(120)
    code = process.exitcode
    process.close()
    assert code is not None
    return code


def points(scene: Scene, plan: Path, folder: Path) -> list[str]:
    """The points that an undisturbed run passes."""
    directory = copied(plan, folder)
    with scene.service() as service:
        return go(directory, service.url, scene)


def copied(plan: Path, folder: Path) -> Path:
    """A plan that was not applied."""
    return Path(shutil.copytree(plan, folder / "copy"))


def covering(names: Sequence[str], seen: set[tuple[str, str]]) -> list[int]:
    """As few points as have each kind of step that is not in `seen`, to which they are added: a step of the ledger
    before and after its commit, a request and its answer."""
    kinds = [{(name.partition(" ")[0], step) for step in re.findall("[a-z]+", name)} for name in names]
    found = []
    while news := max((one - seen for one in kinds), key=len):
        found.append(next(number for number, one in enumerate(kinds) if one >= news))
        seen |= kinds[found[-1]]
    return sorted(found)


def die_at_point(scene: Scene, plan: Path, folder: Path, at: int) -> None:
    """Die at a point, by SIGKILL from within, and finish."""
    directory = copied(plan, folder)
    with scene.service() as service:
        code = ended(forked(go, directory, service.url, scene, at))
        # A run may have fewer points than the one that was counted: a failure and its consequence in one moment.
        assert code in (-signal.SIGKILL, 0)
        finish(scene, directory, service)


def die_at_request(scene: Scene, plan: Path, folder: Path, at: int, *, after: bool) -> None:
    """Die by SIGKILL from outside while the service has request `at`: before it is taken, or after."""
    directory = copied(plan, folder)
    started, hit = threading.Event(), threading.Event()
    with scene.service() as service:

        def answer(asked: Asked) -> Reply:
            assert started.wait(60)
            mine = asked.number == at
            reply = Reply(0) if mine and not after else relayed(service.url, asked)
            if mine:
                hit.set()
                process.kill()
            return Reply(0) if mine else reply

        with serving(answer) as server:
            process = forked(go, directory, server.url, scene)
            started.set()
            assert ended(process) == (-signal.SIGKILL if hit.is_set() else 0)
            finish(scene, directory, service, server.url)
            if not scene.per_event:
                asked = len(set(map(tuple, uuids(server.asked))))
                assert read_totals(directory / "ledger.sqlite").batches_sent == asked


def write_files(
    directory: Path, folder: Path, at: int | None = None, bucket: str = "", environment: Mapping[str, str] = {}
) -> list[str]:
    """Write a plan to small files in this process, which ends at point `at`; otherwise the names of the points.

    The points are each commit of the ledger, and before and after each sync and rename of a file and each writing of an
    object. With a `bucket` the files are for it, and its store is found in the `environment`.
    """
    os.environ.update(environment)
    count = Counting(at)
    plan, place = open_plan(directory)
    ledger = Ledger(place.ledger, count.watch)
    ledger.open(plan.digest, "test", bucket or f"file:{folder}")
    with counted_writes(count):
        here = place.files_for(bucket) if bucket else folder
        files = FileDestination(here, plan.digest, plan.tool, bucket=bucket, file_bytes=FILE_BYTES)
        files.check(read_totals(place.ledger))
        outcome = applying(plan, place, files, ledger, SendLimits(1, AT_ONCE)).run()
        assert (outcome.problem, outcome.balanced) == (None, True)
        files.finish()
        files.close()
    ledger.close()
    return count.names


FILE_BYTES = 6_000


@contextmanager
def counted_writes(count: Counting) -> Iterator[None]:
    """Inside, each sync and rename of a file and each write of an object by this process is a point, before and
    after."""
    doing = [(os, "fsync", "sync"), (Path, "rename", "rename")]
    doing += [(storage, name, name) for name in ("create", "upload", "write", "remove", "download")]

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any) -> Any:
            count(f"before {name}")
            result = call(*given)
            count(f"after {name}")
            return result

        return counting

    with ExitStack() as stack:
        for owner, attribute, name in doing:
            stack.enter_context(patch.object(owner, attribute, counted(name, getattr(owner, attribute))))
        yield


def die_writing(plan: Path, folder: Path, at: int, bucket: str = "") -> Path:
    """Die at a point of writing files, by SIGKILL from within, and finish. Returns the folder of the files."""
    directory = copied(plan, folder)
    code = ended(forked(write_files, directory, folder / "out", at, bucket, dict(os.environ)))
    assert code in (-signal.SIGKILL, 0)  # commits of several steps at once make fewer points
    write_files(directory, folder / "out", bucket=bucket)
    return folder / "out"


def spawned(parent: int) -> list[int]:
    """The worker and sender processes of a process, as far as they are started."""
    try:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()
    except OSError:
        return []
    return [int(pid) for pid in children if b"multiprocessing.spawn" in _command(int(pid))]


def await_end(pids: Sequence[int]) -> None:
    """Wait until these processes have ended, as senders do when their parent has died."""
    while any(_command(pid) for pid in pids):
        time.sleep(0.05)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def finish(scene: Scene, directory: Path, service: LocalService, url: str | None = None) -> None:
    """Resume a run that died: the planned set lands, and only what was in doubt may have been sent twice."""
    ledger = directory / "ledger.sqlite"
    doubts = list(read_batches(ledger, "begun"))
    # A request of the per-event endpoint may have several rows, with at most as many events as a batch.
    assert len(doubts) <= scene.concurrency or scene.per_event
    assert sum(place.events for place in doubts) <= scene.concurrency * scene.batch
    adds_up(ledger, parts=scene.per_event)
    outcome = run(directory, url or service.url, send_limits=scene.limits)
    assert (outcome.problem, outcome.balanced) == (None, True)
    assert outcome.counts.refused == scene.refused
    totals = adds_up(ledger, parts=scene.per_event)
    assert totals.settled + totals.refused == scene.rows
    landed = {(one.uuid, one.event, one.distinct_id, one.timestamp) for one in service.events()}
    assert landed == scene.expected
    copies = Counter(str(uuid) for (uuid,) in service.select("select uuid from raw_events"))
    assert set(copies.values()) <= {1, 2}
    twice = sum(place.events for place in doubts)
    assert sum(count == 2 for count in copies.values()) <= twice


def adds_up(ledger: Path, *, parts: bool = False) -> Totals:
    """The totals of a ledger, whose batches agree with its events, however its runs ended.

    `parts`: it may have parts of batches that were never sent by themselves.
    """
    totals = read_totals(ledger)
    places = {state: list(read_batches(ledger, state)) for state in ("begun", "settled", "refused", "split", "waiting")}
    assert totals.batches_made == sum(map(len, places.values()))
    assert totals.settled == sum(place.events for place in places["settled"])
    assert totals.in_doubt == sum(place.events for place in places["begun"])
    assert totals.batches_sent <= totals.batches_made
    assert parts or len(places["settled"]) + len(places["refused"]) <= totals.batches_sent
    assert totals.batches_split == len(places["split"])
    return totals
