"""Several processes that send the events of one plan at once, each with a ledger of its own.

A process is an `Apply` over every `count`-th block, with its own connections, ledger and engine, and a share of the
limits: together they have no more requests in flight, and are no faster, than one process may be. The process that was
started by a person, the *parent*, sends no events meanwhile. It sends the other phases, and all blocks of which its
own ledger has rows already, so that no block is in two ledgers. A process that dies is started again and resumes from
its ledger; the parent merges the ledgers once all processes have ended (`pipeline.ledger.sender_ledgers`).

The parent says `stop` through the pipe, which asks for an orderly end. Its own death closes the pipe, and asks for the
same, so that nothing is sent for nobody; the next run waits for that by the locks of the ledgers.
"""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple, Protocol

from pipeline.config import Secret
from pipeline.delivery.apply import Apply, BlockShare, Delivery
from pipeline.delivery.destination import Destination
from pipeline.delivery.outcome import ResultCounts, RunCounts, SendLimits
from pipeline.delivery.stopping import StopSignal, too_many_refused
from pipeline.delivery.throttle import TICK
from pipeline.engines import Engine
from pipeline.engines.processes import picklable, start_quietly
from pipeline.errors import Interrupted, Unfinished
from pipeline.files import private
from pipeline.ledger import Ledger
from pipeline.plan.sealed.phases import EVENTS
from pipeline.text import pluralize

DEATHS = 3
"""A process that died so often without an event that settled in between is not started again."""
STOP = b"stop"


class Connect(Protocol):
    """What makes a destination for a project key, in any process."""

    def __call__(self, *, key: Secret) -> Destination: ...


class _Task(NamedTuple):
    """What a process is given. `engine` makes the engine, not started."""

    delivery: Delivery
    connect: Connect
    engine: Callable[[], Engine]
    ledger: Path


class _Report(NamedTuple):
    """What a process reports: its counts, and with the last of them, `ended`, the error that stopped it."""

    counts: RunCounts
    ended: bool = False
    problem: BaseException | None = None


@dataclass(slots=True)
class _Sender:
    """One sender process and the pipe to it, None once it has ended. `settled` is what it had when it died last."""

    task: _Task
    process: BaseProcess
    pipe: Connection | None
    counts: RunCounts = field(default_factory=RunCounts)
    deaths: int = 0
    settled: int = -1


class SenderProcesses:
    """`count` processes, which send by what `connect` makes of the project key."""

    def __init__(self, count: int, connect: Connect) -> None:
        self.count = count
        self._connect = connect
        self._senders: list[_Sender] = []

    def run(
        self,
        delivery: Delivery,
        ledger: Ledger,
        engine: Engine,
        stop: StopSignal,
        counts: RunCounts,
        step: Callable[[], None],
    ) -> None:
        """Send the events of all blocks of which the ledger has no row, until it has them all or `stop` is set.

        `counts` are those of the run, which become what all processes report; `step` is called after each report. What
        stops a process stops the others, by `stop`. Nothing else may write to the ledger meanwhile.
        """
        before = deepcopy(counts)
        begun = frozenset(ledger.blocks_begun(EVENTS))
        delivery = replace(delivery, phases=(EVENTS,), target_known=delivery.target_known or ledger.was_answered())
        paths = ledger.add_senders(self.count, version("backcast"), Secret(delivery.project_key))
        with engine.elsewhere(self.count) as open_engine:
            try:
                for number, path in enumerate(paths):
                    share = replace(
                        delivery,
                        share=BlockShare(number, self.count, begun),
                        limits=_share_of(delivery.limits, number, self.count, counts.refused),
                    )
                    task = _Task(share, self._connect, open_engine, path)
                    self._senders.append(_Sender(task, *_start(task)))
                while pipes := {sender.pipe: sender for sender in self._senders if sender.pipe is not None}:
                    for pipe in wait(list(pipes), TICK):
                        self._receive(pipes[pipe], stop)  # type: ignore[index]
                    _add_up(before, counts, [sender.counts for sender in self._senders])
                    if counts.refused > delivery.limits.max_refused:
                        stop.fail(too_many_refused(counts.refused, counts.last_failure))
                    if stop.check():
                        self._ask_to_stop()
                    step()
            finally:
                self._end()
        ledger.merge_senders()

    def _receive(self, sender: _Sender, stop: StopSignal) -> None:
        """Take a report of a process, or start it again where it died."""
        assert sender.pipe is not None
        try:
            report: _Report = pickle.loads(sender.pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            self._restart(sender, stop)
            return
        sender.counts = report.counts
        if report.ended:
            sender.pipe.close()
            sender.pipe = None
        if report.problem is not None and not isinstance(report.problem, Interrupted):
            stop.fail(report.problem)

    def _restart(self, sender: _Sender, stop: StopSignal) -> None:
        assert sender.pipe is not None
        sender.pipe.close()
        sender.pipe = None
        sender.process.join()
        if stop.check():
            return
        settled = _settled(sender.counts.phases[EVENTS])
        sender.deaths = sender.deaths + 1 if settled == sender.settled else 1
        sender.settled = settled
        if sender.deaths > DEATHS:
            stop.fail(
                Unfinished(
                    f"a sender process ended by itself {pluralize(DEATHS + 1, 'time')}, the last time with exit"
                    f" {sender.process.exitcode}; what it settled is in its ledger",
                    hint="run the same command again to resume; with fewer --senders it needs less memory",
                )
            )
            return
        sender.process, sender.pipe = _start(sender.task)

    def _ask_to_stop(self) -> None:
        for sender in self._senders:
            if sender.pipe is not None:
                with suppress(OSError):  # it has died, which is noticed where its report is taken
                    sender.pipe.send_bytes(STOP)

    def _end(self) -> None:
        """Wait for processes that have reported their end, and kill any other: then its requests are in doubt."""
        for sender in self._senders:
            if sender.pipe is not None:
                sender.process.kill()
                sender.pipe.close()
            sender.process.join()
        self._senders.clear()


def _start(task: _Task) -> tuple[BaseProcess, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), name="backcast-sender")
    with start_quietly():
        process.start()
    theirs.close()
    ours.send_bytes(pickle.dumps(task, pickle.HIGHEST_PROTOCOL))  # not by `args`, which a process of `spawn` may print
    return process, ours


def _share_of(limits: SendLimits, number: int, count: int, refused: int) -> SendLimits:
    """The limits of one of `count` processes. `refused` events of the plan were refused already.

    Each may have all of the refused events that are left, since they may all be in its blocks; the parent adds up.
    """
    return replace(
        limits,
        concurrency=limits.concurrency // count + (number < limits.concurrency % count),
        rates=tuple(rate._replace(most=rate.most / count) for rate in limits.rates),
        max_refused=max(0, limits.max_refused - refused),
        max_seconds=None,
        per_id=None if limits.per_id is None else max(1, limits.per_id // count),
    )


def _settled(counts: ResultCounts) -> int:
    """Events of a process that settled, in whatever of its runs."""
    return counts.accepted + counts.already_settled


def _add_up(before: RunCounts, counts: RunCounts, reported: Sequence[RunCounts]) -> None:
    """Let the counts of the run be those that it had, and what all processes reported."""
    events = [one.phases[EVENTS] for one in reported]
    now = {
        "accepted": sum(map(_settled, events)),
        "refused": sum(one.refused for one in events),
        "in_doubt": sum(one.in_doubt for one in events),
    }
    for name, more in now.items():
        for own, was in ((counts, before), (counts.phases[EVENTS], before.phases[EVENTS])):
            setattr(own, name, getattr(was, name) + more)
    for name in ("batches_sent", "batches_retried", "batches_split", "bytes_sent"):
        setattr(counts, name, getattr(before, name) + sum(getattr(one, name) for one in reported))
    for name in ("in_flight", "limit"):
        setattr(counts, name, sum(getattr(one, name) for one in reported))
    for name in ("paused", "quiet", "id_wait", "idle", "last_failure"):
        setattr(counts, name, max(getattr(one, name) for one in reported))
    counts.gives_up_in = min(one.gives_up_in for one in reported)


# -- in a sender process -----------------------------------------------------------------------------


@private()
def _serve(pipe: Connection) -> None:
    """Send a share, and report; the process ends after it."""
    task: _Task = pickle.loads(pipe.recv_bytes())
    interrupted = threading.Event()
    threading.Thread(target=_listen, args=(pipe, interrupted), name="listener", daemon=True).start()
    reporter = _Reporter(pipe)
    problem: BaseException | None
    try:
        problem = _send(task, interrupted, reporter)
    except BaseException as error:
        problem = picklable(error) if isinstance(error, Exception) else RuntimeError(type(error).__name__)
    reporter.end(problem)


def _send(task: _Task, interrupted: threading.Event, report: Callable[[RunCounts], None]) -> BaseException | None:
    """Send a share, or resume doing so. Returns what stopped it."""
    delivery, key = task.delivery, Secret(task.delivery.project_key)
    with closing(task.connect(key=key)) as destination, closing(Ledger(task.ledger)) as ledger:
        ledger.open(delivery.plan.digest, version("backcast"), destination.address, key)
        apply = Apply(delivery, destination, ledger, task.engine(), interrupted=interrupted, progress=report)
        return apply.run().problem


def _listen(pipe: Connection, interrupted: threading.Event) -> None:
    """Wait until the parent asks for an end, or has died."""
    with suppress(EOFError, OSError):
        pipe.recv_bytes()
    interrupted.set()


class _Reporter:
    """Reports the counts of this process, not more often than the parent looks at them."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._counts = RunCounts()
        self._next = 0.0

    def __call__(self, counts: RunCounts) -> None:
        self._counts = counts
        now = time.monotonic()
        if now >= self._next:
            self._next = now + TICK
            self._put(_Report(counts))

    def end(self, problem: BaseException | None) -> None:
        self._put(_Report(self._counts, True, problem))

    def _put(self, report: _Report) -> None:
        with suppress(OSError):  # the parent has died, which `_listen` notices
            self._pipe.send_bytes(pickle.dumps(report, pickle.HIGHEST_PROTOCOL))
