"""Send exactly the plan: phase by phase, make → begin → send → settle, resumable at every point.

Workers make request bodies, this process alone owns the ledger and the network. One thread makes and waits, some send
(`senders`), and one writes down what happens (`recorder`): each batch is begun in the ledger, durably, when a
connection may send it and before a byte leaves, and settled when its answer comes. So what a crash leaves in doubt is
what was in flight, and no more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from pipeline.batcher import Batch, Envelope, pack
from pipeline.delivery.destination import Destination
from pipeline.delivery.outcome import Counts, Outcome, SendLimits, out_of_time
from pipeline.delivery.rate_controller import RateController
from pipeline.delivery.recorder import Recorder
from pipeline.delivery.senders import Senders
from pipeline.delivery.size import Piece, RequestSize
from pipeline.delivery.throttle import Throttle
from pipeline.errors import BackcastError, Interrupted, Unfinished
from pipeline.ledger import Ledger, Place, Totals
from pipeline.plan.contents import PlannedBlock, task_of, tasks
from pipeline.plan.directory import Directory
from pipeline.plan.manifest import Plan
from pipeline.plan.phases import EVENTS, PHASES, phase_blocks
from pipeline.transform.block import Task, TransformConfig, make_batches
from pipeline.transform.workers import Workers

__all__ = ["Apply", "Counts", "Outcome", "SendLimits"]


_Block = tuple[int, list[Batch], Iterable[tuple[int, int]]]
"""The number of a block, its batches, and the ranges of those that the ledger knows and that are sent as they stand."""


class _Stopping(Exception):
    """Unwinds the making of batches once the run is to end."""


class Apply:
    """One run over a plan. `run` returns after everything in flight is written down.

    Of its four phases those among `phases` are sent, in their own order, each whole before the next one begins.
    `answered`: the target is known to be there, from other plans that were sent to it. `interrupted` asks for an
    orderly end: nothing new is begun, what is in flight is settled.
    """

    def __init__(
        self,
        plan: Plan,
        directory: Directory,
        config: TransformConfig,
        destination: Destination,
        ledger: Ledger,
        *,
        project_key: str,
        workers: Workers,
        send_limits: SendLimits,
        phases: Collection[str] = PHASES,
        dry_run: bool = False,
        answered: bool = False,
        interrupted: threading.Event | None = None,
        progress: Callable[[Counts], None] = lambda counts: None,
    ) -> None:
        self.plan = plan
        self.directory = directory
        self.config = config
        self.destination = destination
        self.ledger = ledger
        self.project_key = project_key
        self.workers = workers
        self.send_limits = send_limits
        self.phases = [phase for phase in PHASES if phase in phases]
        self.dry_run = dry_run
        self.interrupted = interrupted or threading.Event()
        self.progress = progress
        self.counts = Counts()
        self._envelope = Envelope(project_key)
        self._stop = threading.Event()
        self._problem: BaseException | None = None
        self._until: float | None = None
        self._throttle = Throttle(RateController(send_limits.concurrency, send_limits.rate), answered=answered)
        self._size = RequestSize(None)
        self._recorder = Recorder(
            ledger, self.counts, send_limits, destination.address, fail=self._fail, stop=self._stop
        )
        self._senders = Senders(
            destination, self._throttle, send_limits, self._envelope, self._size, self._recorder,
            halting=self._halting, stop=self._stop,
        )  # fmt: skip

    def run(self) -> Outcome:
        """Send what is left. Only a defect raises; what else stopped the run is the outcome's `problem`."""
        started = time.monotonic()
        if self.send_limits.max_seconds is not None:
            self._until = started + self.send_limits.max_seconds
        before = self.ledger.totals()
        self.counts.take_up(before, self.plan.events.phases, self.phases)
        self._throttle.answered = self._throttle.answered or self.ledger.answered()
        self._size.learned = self.ledger.learned()
        self._recorder.start()
        try:
            self._send_all(before)
            self._senders.close()
        except BaseException:
            # A second Ctrl-C, or a defect: what is in flight stays begun, and is sent again.
            self._stop.set()
            self._senders.let_go()
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
        counts.wind_up(before, now, self.ledger.batches_begun())
        if self.dry_run:
            counts.only_would()
        problem = self._problem
        if self.interrupted.is_set() and (problem is None or isinstance(problem, Unfinished)):
            # Workers die with the terminal's whole group; the person's wish came first.
            problem = Interrupted("stopped by hand; what was in flight is settled", hint="run the same command again")
        known = problem if isinstance(problem, BackcastError) else None
        planned = self.plan.events.phases
        held = [one for one in PHASES if one not in self.phases and not now.of(one).is_all(planned.get(one, 0))]
        outcome = Outcome(
            self.plan.digest, self.dry_run, self.plan.events.made, counts, seconds, known, planned, tuple(held)
        )
        if outcome.balanced and isinstance(known, Interrupted | Unfinished):
            outcome = replace(outcome, problem=None)  # nothing was left to stop
        said = "failed" if problem and not known else "stopped" if outcome.problem or not outcome.balanced else "done"
        self.ledger.finish(said)
        if problem is not None and known is None:
            raise problem
        return outcome

    # -- making --------------------------------------------------------------------------------------

    def _send_phase(self, phase: str) -> None:
        """Send what is left of one phase. All of it is in before the next one begins, which may need it."""
        self.counts.phase = phase
        if phase == EVENTS:
            with self.workers as workers:
                workers.brief(self.config, self.project_key)
                self._send(phase, self._rows(workers))
                self._drain()  # before the workers end, which takes a while
        else:
            self._send(phase, self._lines(phase))
            self._drain()
        self._check()

    def _rows(self, workers: Workers) -> Iterator[_Block]:
        begun = self.ledger.blocks_begun(EVENTS)
        work = tasks(self.plan, self.directory, self.config.parts, self._chooser(begun))
        for task, made in workers.walk(make_batches, work):
            yield task.number, made.batches, task.doubtful

    def _lines(self, phase: str) -> Iterator[_Block]:
        """The batches of a phase that is sealed line by line.

        The first groups are one of each type, and the service numbers types as they come (docs/know/service.md#groups):
        so the first request of that phase goes alone, in halves one after the other where it is split.
        """
        mapper = self.config.compile(self.config.options)
        for number, events in phase_blocks(phase, self.plan, self.directory, mapper, self.config.options):
            ended, again = self._known(phase, number)
            batches = list(pack(events, self._envelope, self.config.limits, ended, again, most=self._size.learned))
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
            task = task_of(self.plan, planned)._replace(most=self._size.learned)
            if number not in begun:
                return task
            rows = self.ledger.rows_of(EVENTS, number)
            if sum(place.events for place, state in rows if state in ("settled", "refused")) == planned.events:
                return None
            ended, again = self._known(EVENTS, number)
            return task._replace(ended=ended, doubtful=again)

        return choose

    def _known(self, phase: str, number: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Ranges that need no batch any more, and ranges to be sent just as they were begun or left waiting."""
        ended: list[tuple[int, int]] = []
        again: list[tuple[int, int]] = []
        for place, state in self.ledger.rows_of(phase, number):
            (again if state in ("begun", "waiting") else ended).append((place.first, place.last))
        return ended, again

    # -- sending -------------------------------------------------------------------------------------

    def _send(self, phase: str, blocks: Iterable[_Block]) -> None:
        """Hand the batches of blocks to the senders, as room allows.

        What is in doubt goes before what is not, up to the last block that has any: else what an earlier run left and
        what this one begins would add up, and a second crash leave more in doubt than was ever in flight. What is kept
        back for that is little, since batches are begun in their order.
        """
        doubted = {place for place in self._recorder.doubted if place.phase == phase}
        last = max((place.block for place in doubted), default=-1)
        held: list[tuple[Piece, bool]] = []
        for number, batches, again in blocks:
            known = set(again)
            for batch in batches:
                place = Place(phase, number, batch.first, batch.last)
                if place in doubted:
                    self._put((place, batch), known=True, first=True)
                else:
                    held.append(((place, batch), (batch.first, batch.last) in known))
            if number >= last:
                for piece, is_known in held:
                    self._put(piece, known=is_known)
                held.clear()
            self._check()
            self._tell()
        for piece, is_known in held:
            self._put(piece, known=is_known)

    def _put(self, piece: Piece, *, known: bool, first: bool = False) -> None:
        while not (first or self._senders.wait(self._senders.full, reached=False)):
            self._check()
            self._tell()
        self._senders.put([piece], known=known, first=first)

    def _drain(self) -> None:
        """Wait for everything in flight, and for what waits unless the run is stopping; then all is written down."""
        while not self._senders.wait(self._senders.idle, reached=True):
            self._halting()
            self._tell()
        self._recorder.settle()
        self._tell()

    def _tell(self) -> None:
        """Say how things stand."""
        counts, throttle = self.counts, self._throttle
        counts.in_flight, counts.limit, counts.held = throttle.flying, throttle.limit, throttle.held()
        counts.trouble = self._recorder.trouble
        counts.idle = throttle.idle(self._senders.oldest())
        counts.gives_up_in = max(0.0, self.send_limits.retry.seconds - counts.idle)
        self.progress(counts)

    # -- ending --------------------------------------------------------------------------------------

    def _fail(self, problem: BaseException) -> None:
        self._problem = self._problem or problem
        self._stop.set()

    def _halting(self) -> bool:
        """Whether nothing new may begin; tells the senders to wait no longer."""
        if self.interrupted.is_set():
            self._stop.set()
        elif self._until is not None and time.monotonic() >= self._until and not self._stop.is_set():
            self._fail(out_of_time(self.send_limits.max_seconds or 0.0))
        return self._stop.is_set()

    def _check(self) -> None:
        if self._halting():
            raise _Stopping
