"""Several processes that send the events of one plan at once, each with a ledger of its own.

A process is an `Apply` over some of the blocks, with its own connections, ledger and engine, and a share of the limits:
together they have no more requests in flight, and are no faster, than one process may be. The process that was started
by a person, the *parent*, sends no events meanwhile. It sends the other phases, and before all others the blocks with a
batch that is in doubt or waits to be sent unchanged, so that such batches leave first, and stay in its ledger. A
process that dies is started again and resumes from its ledger; the parent merges the ledgers once all processes have
ended (`pipeline.ledger.sender_ledgers`).

The parent asks for an orderly end through the pipe, and for a pause where the service asked another process for one.
Its own death closes the pipe, which asks for an orderly end, too: the next run waits for that by the locks of the
ledgers.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import replace
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from pipeline.config import Secret
from pipeline.delivery.apply import Apply, Delivery
from pipeline.delivery.destination import Destination
from pipeline.delivery.outcome import ResultCounts, RunCounts
from pipeline.delivery.shares import share_of_limits, shares_of_plan
from pipeline.delivery.stopping import StopSignal, too_many_refused
from pipeline.delivery.throttle import TICK
from pipeline.engines import Engine
from pipeline.engines.processes import picklable, start_quietly
from pipeline.errors import Interrupted, Unfinished
from pipeline.files import private
from pipeline.ledger import Ledger
from pipeline.plan.sealed.directory import EVENTS
from pipeline.text import pluralize

DEATHS = 3
"""A process that died so often without an event that settled in between is not started again."""
STOP = b"stop"
PAUSE = b"pause "
LONGER = 0.5
"""Seconds by which a pause is longer than the one that all processes know of, so that they are asked again."""
LAST = 30
"""Seconds that a process has to end after its last report."""
COUNTERS = ("batches_sent", "batches_retried", "batches_split", "bytes_sent")


class Connect(Protocol):
    """What makes a destination for a project key, in any process."""

    def __call__(self, *, key: Secret) -> Destination: ...


class _Task(NamedTuple):
    """What a process is given. `engine` makes its engine, not started."""

    delivery: Delivery
    connect: Connect
    engine: Callable[[], Engine]
    ledger: Path


class _Report(NamedTuple):
    """What a process reports: its counts, and with the last of them, `ended`, the error that stopped it."""

    counts: RunCounts
    ended: bool = False
    problem: BaseException | None = None


class _Sender(msgspec.Struct):
    """One sender process and the pipe to it, None once it has ended.

    `counts` are what it reported last, `before` the COUNTERS of those that died before it, and `settled` how many
    events had settled when the last one died.
    """

    task: _Task
    process: BaseProcess
    pipe: Connection | None
    counts: RunCounts = msgspec.field(default_factory=RunCounts)
    before: Counter[str] = msgspec.field(default_factory=Counter)
    deaths: int = 0
    settled: int = -1
    asked_to_stop: bool = False

    def tell(self, message: bytes) -> None:
        """Send it a message, which it reads at once."""
        if self.pipe is not None:
            with suppress(OSError):  # it has died, which is noticed where its report is taken
                self.pipe.send_bytes(message)


class SenderProcesses:
    """`count` processes, which send by what `connect` makes of the project key."""

    def __init__(self, count: int, connect: Connect) -> None:
        self.count = count
        self._connect = connect
        self._senders: list[_Sender] = []
        self._paused_until = 0.0

    def run(
        self,
        delivery: Delivery,
        ledger: Ledger,
        engine: Engine,
        stop: StopSignal,
        counts: RunCounts,
        step: Callable[[], None],
    ) -> None:
        """Send what is unsent of all blocks without an open batch, until all of it is sent or `stop` is set.

        `counts` are those of the run, which become what all processes report; `step` is called after each report. What
        stops a process stops the others, by `stop`. Nothing else may write to the ledger meanwhile.
        """
        before = deepcopy(counts)
        limits = delivery.limits
        delivery = replace(delivery, phases=(EVENTS,), target_known=delivery.target_known or ledger.was_answered())
        shares = shares_of_plan(delivery.directory, delivery.config.parts, ledger, self.count)
        if not shares:
            return
        paths = ledger.add_senders(len(shares), version("backcast"), Secret(delivery.project_key))
        with engine.elsewhere(len(shares)) as open_engine:
            try:
                for number, (share, path) in enumerate(zip(shares, paths, strict=True)):
                    own = replace(
                        delivery, share=share, limits=share_of_limits(limits, number, len(shares), counts.refused)
                    )
                    task = _Task(own, self._connect, open_engine, path)
                    self._senders.append(_Sender(task, *_start(task)))
                self._supervise(before, counts, limits.max_refused, stop, step)
            except Exception as error:  # what is in flight is settled first, as where one process sends
                stop.fail(error)
                self._supervise(before, counts, limits.max_refused, stop, lambda: None)
            finally:
                self._end()
        ledger.merge_senders()

    def _supervise(
        self, before: RunCounts, counts: RunCounts, max_refused: int, stop: StopSignal, step: Callable[[], None]
    ) -> None:
        """Take reports until all processes have ended."""
        while pipes := {sender.pipe: sender for sender in self._senders if sender.pipe is not None}:
            if stop.check():
                self._ask_to_stop()
            problems = [self._receive(pipes[pipe], stop) for pipe in wait(list(pipes), TICK)]  # type: ignore[index]
            _add_up(before, counts, self._senders)
            if counts.refused > max(max_refused, before.refused):
                stop.fail(too_many_refused(counts.refused, counts.last_refusal))
            for problem in problems:
                if problem is not None and not isinstance(problem, Interrupted):
                    stop.fail(problem)
            self._spread_pause(counts.paused)
            step()

    def _receive(self, sender: _Sender, stop: StopSignal) -> BaseException | None:
        """Take a report of a process, or start it again where it died. Returns what stopped it."""
        assert sender.pipe is not None
        try:
            report: _Report = pickle.loads(sender.pipe.recv_bytes())
        except (EOFError, OSError):  # the latter, where it died while it reported
            self._restart(sender, stop)
            return None
        sender.counts = report.counts
        if report.ended:
            sender.pipe.close()
            sender.pipe = None
        return report.problem

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
                    f"a sender process died {pluralize(DEATHS + 1, 'time')} without settling anything in between, the"
                    f" last time {_how_it_ended(sender.process.exitcode)}; what it settled is in its ledger",
                    hint="run the same command again to resume; with fewer --senders it needs less memory",
                )
            )
            return
        for name in COUNTERS:
            sender.before[name] += getattr(sender.counts, name)
            setattr(sender.counts, name, 0)
        sender.process, sender.pipe = _start(sender.task)

    def _ask_to_stop(self) -> None:
        """Ask each process once, since more messages would fill the pipe of one that does not read."""
        for sender in self._senders:
            if not sender.asked_to_stop:
                sender.asked_to_stop = True
                sender.tell(STOP)

    def _spread_pause(self, seconds: float) -> None:
        """Let all processes heed the pause that the service asked of one."""
        until = time.monotonic() + seconds
        if seconds and until > self._paused_until + LONGER:
            self._paused_until = until
            for sender in self._senders:
                sender.tell(PAUSE + str(seconds).encode())

    def _end(self) -> None:
        """Wait for processes that have reported their end, and kill any other: then its requests are in doubt."""
        for sender in self._senders:
            if sender.pipe is None:
                sender.process.join(LAST)  # it has closed its ledger, and ends its engine
            else:
                sender.pipe.close()
            sender.process.kill()
            sender.process.join()
        self._senders.clear()


def _start(task: _Task) -> tuple[BaseProcess, Connection]:
    """Start a process. Raises Unfinished where the system has no room for one."""
    context = multiprocessing.get_context("spawn")
    try:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), name="backcast-sender")
        with start_quietly():
            process.start()
    except OSError as error:
        raise Unfinished(
            f"a sender process cannot be started: {error.strerror or error}",
            hint="run the same command again to resume, with fewer --senders",
        ) from None
    theirs.close()
    with suppress(OSError):  # it has died already, which is noticed where its report is taken
        ours.send_bytes(pickle.dumps(task, pickle.HIGHEST_PROTOCOL))
    return process, ours


def _how_it_ended(code: int | None) -> str:
    return f"by signal {-code}" if code is not None and code < 0 else f"with exit {code}"


def _settled(counts: ResultCounts) -> int:
    """Events of a process that settled, in whatever of its runs."""
    return counts.accepted + counts.already_settled


def _add_up(before: RunCounts, counts: RunCounts, senders: Sequence[_Sender]) -> None:
    """Let the counts of the run be those that it had, and what all processes reported."""
    reported = [sender.counts for sender in senders]
    events = [one.phases[EVENTS] for one in reported]
    now = {
        "accepted": sum(map(_settled, events)),
        "refused": sum(one.refused for one in events),
        "in_doubt": sum(one.in_doubt for one in events),
    }
    for name, more in now.items():
        for own, was in ((counts, before), (counts.phases[EVENTS], before.phases[EVENTS])):
            setattr(own, name, getattr(was, name) + more)
    for name in COUNTERS:
        more = sum(sender.before[name] + getattr(sender.counts, name) for sender in senders)
        setattr(counts, name, getattr(before, name) + more)
    going = [sender.counts for sender in senders if sender.pipe is not None and sender.counts.limit]
    for name in ("in_flight", "limit"):
        setattr(counts, name, sum(getattr(one, name) for one in going))
    for name in ("paused", "quiet", "id_wait", "idle"):
        setattr(counts, name, max((getattr(one, name) for one in going), default=0.0))
    counts.gives_up_in = min((one.gives_up_in for one in going), default=0.0)
    counts.last_failure = max((one.last_failure for one in going), default="")
    counts.last_refusal = next((one.last_refusal for one in reported if one.last_refusal), counts.last_refusal)


# -- in a sender process -----------------------------------------------------------------------------


@private()
def _serve(pipe: Connection) -> None:
    """Send a share, and report; the process ends after it."""
    # Whoever ends a whole group of processes lets the parent ask for an orderly end.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        task: _Task = pickle.loads(pipe.recv_bytes())
    except (EOFError, OSError):
        return  # the parent has died
    reporter = _Reporter(pipe)
    problem: BaseException | None
    try:
        problem = _send(task, pipe, reporter)
    except Exception as error:
        problem = picklable(error)
    reporter.end(problem)


def _send(task: _Task, pipe: Connection, report: Callable[[RunCounts], None]) -> BaseException | None:
    """Send a share, or resume doing so. Returns what stopped it."""
    delivery, key, interrupted = task.delivery, Secret(task.delivery.project_key), threading.Event()
    with closing(task.connect(key=key)) as destination, closing(Ledger(task.ledger)) as ledger:
        ledger.open(delivery.plan.digest, version("backcast"), destination.address, key)
        apply = Apply(delivery, destination, ledger, task.engine(), interrupted=interrupted, progress=report)
        threading.Thread(target=_listen, args=(pipe, apply, interrupted), name="listener", daemon=True).start()
        return apply.run().problem


def _listen(pipe: Connection, apply: Apply, interrupted: threading.Event) -> None:
    """Do what the parent asks for, until it has died, which asks for an end."""
    with suppress(EOFError, OSError):
        while True:
            message = pipe.recv_bytes()
            if message.startswith(PAUSE):
                apply.pause(float(message.removeprefix(PAUSE)))
            else:
                interrupted.set()
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
