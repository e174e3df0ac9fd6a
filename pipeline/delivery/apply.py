"""One run over a plan: exactly what was planned, phase by phase, resumable at every point.

Each batch is begun in the ledger, durably, before a byte of it leaves, and settled when its response comes. So a crash
leaves in doubt what was in flight, and no more. The package's docstring draws the threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from pipeline.batcher import Batch, Envelope, pack
from pipeline.delivery.destination import Destination
from pipeline.delivery.outcome import Outcome, RunCounts, SendLimits, out_of_time
from pipeline.delivery.recorder import Recorder
from pipeline.delivery.senders import Senders
from pipeline.delivery.size import Piece, RequestSize
from pipeline.delivery.throttle import RateController, Throttle
from pipeline.errors import BackcastError, Interrupted, Unfinished
from pipeline.ledger import BatchKey, Ledger, Totals
from pipeline.plan.contents import PlannedBlock, task_of, tasks
from pipeline.plan.directory import Directory
from pipeline.plan.manifest import Plan
from pipeline.plan.phases import EVENTS, PHASES, phase_blocks
from pipeline.transform.block import make_batches
from pipeline.transform.tasks import Task, TransformConfig
from pipeline.transform.workers import Workers

__all__ = ["Apply", "Outcome", "RunCounts", "SendLimits"]


_Block = tuple[int, list[Batch], Iterable[tuple[int, int]]]
"""The number of a block, its batches, and the ranges of those that have rows in the ledger and are sent unchanged."""


class _Stopping(Exception):
    """Ends the preparation of batches once the run is to stop."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one run sends: the phases of a sealed plan, transformed by `config` into batches with the project key.

    `target_known`: the target took other plans before, so an outage is waited for from the first request on.
    """

    plan: Plan
    directory: Directory
    config: TransformConfig
    project_key: str
    phases: Collection[str] = PHASES
    limits: SendLimits = field(default_factory=SendLimits)
    dry_run: bool = False
    target_known: bool = False


class Apply:
    """One run over a plan. `run` returns after everything in flight is in the ledger.

    The phases are sent in their own order, each whole before the next one begins. `interrupted` asks for an orderly
    end: nothing new is begun, and what is in flight is settled.
    """

    def __init__(
        self,
        delivery: Delivery,
        destination: Destination,
        ledger: Ledger,
        workers: Workers,
        *,
        interrupted: threading.Event | None = None,
        progress: Callable[[RunCounts], None] = lambda counts: None,
    ) -> None:
        self.delivery = delivery
        self.plan = delivery.plan
        self.limits = delivery.limits
        self.ledger = ledger
        self.workers = workers
        self.phases = [phase for phase in PHASES if phase in delivery.phases]
        self.interrupted = interrupted or threading.Event()
        self.progress = progress
        self.counts = RunCounts()
        self._envelope = Envelope(delivery.project_key)
        self._stop = threading.Event()
        self._problem: BaseException | None = None
        self._until: float | None = None
        self._throttle = Throttle(
            RateController(self.limits.concurrency, self.limits.rate), target_known=delivery.target_known
        )
        self._size = RequestSize(None)
        self._recorder = Recorder(
            ledger, self.counts, self.limits, destination.address, fail=self._fail, stop=self._stop
        )
        self._senders = Senders(
            destination, self._throttle, self.limits, self._envelope, self._size, self._recorder,
            halting=self._halting, stop=self._stop,
        )  # fmt: skip

    def run(self) -> Outcome:
        """Send what is left. Only a bug raises; any other reason to stop is the outcome's `problem`."""
        started = time.monotonic()
        if self.limits.max_seconds is not None:
            self._until = started + self.limits.max_seconds
        before = self.ledger.totals()
        self.counts.start_from(before, self.plan.events.phases, self.phases)
        self._throttle.target_known = self._throttle.target_known or self.ledger.was_answered()
        self._size.learned_bytes = self.ledger.learned()
        self._recorder.start()
        try:
            self._send_all(before)
            self._senders.close()
        except BaseException:
            # A second Ctrl-C, or a bug: what is in flight stays begun, and is sent again.
            self._stop.set()
            self._senders.stop_taking()
            raise
        finally:
            self._recorder.close()
        return self._finish(before, time.monotonic() - started)

    def _send_all(self, before: Totals) -> None:
        try:
            for phase in self.phases:
                if not before.of(phase).is_all(self.plan.events.phases.get(phase, 0)):
                    self._send_phase(phase)
        except _Stopping:
            pass
        except Exception as error:
            self._fail(error)
        self._drain()

    def _finish(self, before: Totals, seconds: float) -> Outcome:
        counts, now = self.counts, self.ledger.totals()
        counts.finish(before, now, self.ledger.batches_begun())
        if self.delivery.dry_run:
            counts.as_dry_run()
        problem = self._problem
        if self.interrupted.is_set() and (problem is None or isinstance(problem, Unfinished)):
            # Ctrl-C ends the workers too, which is no failure of theirs.
            problem = Interrupted("stopped by hand; what was in flight is settled", hint="run the same command again")
        known = problem if isinstance(problem, BackcastError) else None
        planned = self.plan.events.phases
        left_out = [one for one in PHASES if one not in self.phases and not now.of(one).is_all(planned.get(one, 0))]
        outcome = Outcome(
            self.plan.digest,
            self.delivery.dry_run,
            self.plan.events.made,
            counts,
            seconds,
            known,
            planned,
            tuple(left_out),
        )
        if outcome.balanced and isinstance(known, Interrupted | Unfinished):
            outcome = replace(outcome, problem=None)  # nothing was left to stop
        ending = "failed" if problem and not known else "stopped" if outcome.problem or not outcome.balanced else "done"
        self.ledger.finish(ending)
        if problem is not None and known is None:
            raise problem
        return outcome

    # -- preparing batches --------------------------------------------------------------------------------------

    def _send_phase(self, phase: str) -> None:
        """Send what is left of one phase, and wait for all of it: the next phase may depend on it."""
        self.counts.phase = phase
        if phase == EVENTS:
            with self.workers as workers:
                workers.configure(self.delivery.config, self.delivery.project_key)
                self._send(phase, self._rows(workers))
                self._drain()  # before the workers end, which takes a while
        else:
            self._send(phase, self._lines(phase))
            self._drain()
        self._check()

    def _rows(self, workers: Workers) -> Iterator[_Block]:
        begun = self.ledger.blocks_begun(EVENTS)
        work = tasks(self.plan, self.delivery.directory, self.delivery.config.parts, self._chooser(begun))
        for task, batched in workers.walk(make_batches, work):
            yield task.number, batched.batches, task.doubtful

    def _lines(self, phase: str) -> Iterator[_Block]:
        """The batches of a phase that is sealed line by line.

        The first groups are one of each type, and the service numbers types as they come (docs/know/service.md#groups):
        so the first request of that phase goes alone, in halves one after the other where it is split.
        """
        mapper = self.delivery.config.compile(self.delivery.config.options)
        for number, events in phase_blocks(
            phase, self.plan, self.delivery.directory, mapper, self.delivery.config.options
        ):
            ended, again = self._known(phase, number)
            batches = list(
                pack(events, self._envelope, self.delivery.config.limits, ended, again, most=self._size.learned_bytes)
            )
            if phase == "groups" and number == 0:
                self._senders.in_order = True
                yield number, batches[:1], again
                self._drain()
                self._senders.in_order = False
                batches = batches[1:]
            yield number, batches, again

    def _chooser(self, begun: set[int]) -> Callable[[PlannedBlock], Task | None]:
        def choose(planned: PlannedBlock) -> Task | None:
            self._check()
            number = planned.sealed.number
            if not planned.events:
                return None
            task = task_of(self.plan, planned)._replace(most=self._size.learned_bytes)
            if number not in begun:
                return task
            rows = self.ledger.rows_of(EVENTS, number)
            if sum(key.events for key, state in rows if state in ("settled", "refused")) == planned.events:
                return None
            ended, again = self._known(EVENTS, number)
            return task._replace(ended=ended, doubtful=again)

        return choose

    def _known(self, phase: str, number: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Ranges of events that are finished, and ranges that are sent again exactly as they were."""
        ended: list[tuple[int, int]] = []
        again: list[tuple[int, int]] = []
        for key, state in self.ledger.rows_of(phase, number):
            (again if state in ("begun", "waiting") else ended).append((key.first, key.last))
        return ended, again

    # -- sending -------------------------------------------------------------------------------------

    def _send(self, phase: str, blocks: Iterable[_Block]) -> None:
        """Queue the batches of blocks for the senders, as room allows.

        Batches in doubt go first, up to the last block that has any: otherwise those of an earlier run and those that
        this one begins would add up, and a second crash leave more in doubt than was ever in flight. Few batches wait
        for that, since batches are begun in their order.
        """
        in_doubt = {key for key in self._recorder.in_doubt if key.phase == phase}
        last = max((key.block for key in in_doubt), default=-1)
        later: list[tuple[Piece, bool]] = []
        for number, batches, again in blocks:
            known = set(again)
            for batch in batches:
                key = BatchKey(phase, number, batch.first, batch.last)
                if key in in_doubt:
                    self._put((key, batch), known=True, first=True)
                else:
                    later.append(((key, batch), (batch.first, batch.last) in known))
            if number >= last:
                for piece, is_known in later:
                    self._put(piece, known=is_known)
                later.clear()
            self._check()
            self._report_progress()
        for piece, is_known in later:
            self._put(piece, known=is_known)

    def _put(self, piece: Piece, *, known: bool, first: bool = False) -> None:
        while not (first or self._senders.wait(self._senders.full, reached=False)):
            self._check()
            self._report_progress()
        self._senders.put([piece], known=known, first=first)

    def _drain(self) -> None:
        """Wait for what is in flight and, unless the run is stopping, queued, until all is recorded."""
        while not self._senders.wait(self._senders.idle, reached=True):
            self._halting()
            self._report_progress()
        self._recorder.settle()
        self._report_progress()

    def _report_progress(self) -> None:
        """Update the live counts and call `progress`."""
        counts, throttle = self.counts, self._throttle
        counts.in_flight, counts.limit, counts.paused = throttle.flying, throttle.limit, throttle.paused()
        counts.last_failure = self._recorder.last_failure
        counts.idle = throttle.idle(self._senders.oldest())
        counts.gives_up_in = max(0.0, self.limits.retry.seconds - counts.idle)
        self.progress(counts)

    # -- ending --------------------------------------------------------------------------------------

    def _fail(self, problem: BaseException) -> None:
        self._problem = self._problem or problem
        self._stop.set()

    def _halting(self) -> bool:
        """Whether nothing new may begin; if so, the senders stop waiting."""
        if self.interrupted.is_set():
            self._stop.set()
        elif self._until is not None and time.monotonic() >= self._until and not self._stop.is_set():
            self._fail(out_of_time(self.limits.max_seconds or 0.0))
        return self._stop.is_set()

    def _check(self) -> None:
        if self._halting():
            raise _Stopping
