"""One run over a plan: exactly what was planned, phase by phase, resumable at every point.

Each batch is begun in the ledger, durably, before a byte of it leaves, and settled when its response comes. So a crash
leaves in doubt what was in flight, and no more. The package's docstring draws the threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from pipeline.batcher import Batch, Envelope, PerEventEnvelope, gaps
from pipeline.delivery.destination import Destination, SeparatesPhases
from pipeline.delivery.outcome import Outcome, RunCounts, SendLimits
from pipeline.delivery.pace import Pace
from pipeline.delivery.recorder import Recorder
from pipeline.delivery.senders import Senders
from pipeline.delivery.size import KeyedBatch, RequestSize
from pipeline.delivery.stopping import StopSignal, with_doubt
from pipeline.delivery.throttle import RateController, Throttle
from pipeline.engines import Engine
from pipeline.engines.local import SMALL, Workers
from pipeline.errors import BackcastError, Interrupted, Unfinished
from pipeline.ledger import BatchKey, Ledger, Totals, read_open_blocks
from pipeline.options.pace import BYTES, RateLimit, slowest
from pipeline.options.pace import EVENTS as EVENTS_A_SECOND
from pipeline.plan.sealed.contents import PlannedBlock, task_of, tasks
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, sealed_file
from pipeline.plan.sealed.manifest import Plan, SealedBlock
from pipeline.plan.sealed.phases import LinesTask, SealedLines, batch_lines, line_blocks
from pipeline.timestamps import format_utc
from pipeline.transform.block import make_batches
from pipeline.transform.tasks import Task, TransformConfig

if TYPE_CHECKING:
    from pipeline.delivery.sender_processes import SenderProcesses
    from pipeline.delivery.shares import BlockShare
    from pipeline.plan.canary import Ranges

__all__ = ["Apply", "Outcome", "RunCounts", "SendLimits"]


RATE_SECONDS = 1.0
"""Seconds of `--rate` that one request has at most."""
LEAST_BYTES = 64 * 1024
"""Bytes of a request that a low `--rate` does not make smaller."""


class _Block(NamedTuple):
    """A block's number, its batches, and the ranges of those that have rows in the ledger, to be sent unchanged."""

    number: int
    batches: Sequence[Batch]
    recorded: Sequence[tuple[int, int]]


class _Stopping(Exception):
    """Ends the preparation of batches once the run is to stop."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one run sends: the phases of a sealed plan, transformed by `config` into batches with the project key.

    `per_event`: to the per-event endpoint, not to `/batch/`. `target_known`: the target took other plans before, so an
    outage is waited for from the first request on. `only` are the ranges that a canary sends, None for everything: one
    request after the other, since of each person many hold one event, and their order decides what the service makes of
    the person. `share` are the blocks that this process sends where there are several, None for all.
    """

    plan: Plan
    directory: Directory
    config: TransformConfig
    project_key: str
    phases: Collection[str] = PHASES
    limits: SendLimits = field(default_factory=SendLimits)
    dry_run: bool = False
    target_known: bool = False
    per_event: bool = False
    only: Ranges | None = None
    share: BlockShare | None = None

    @property
    def envelope(self) -> Envelope:
        """The part of each request around its events."""
        if self.per_event:
            return PerEventEnvelope(format_utc(self.plan.options.as_of))
        return Envelope(self.project_key)


class Apply:
    """One run over a plan. `run` returns after everything in flight is in the ledger.

    The phases are sent in their own order, each whole before the next one begins. `interrupted` asks for an orderly
    end: nothing new is begun, and what is in flight is settled. `others` send the events in place of this process.
    """

    def __init__(
        self,
        delivery: Delivery,
        destination: Destination,
        ledger: Ledger,
        engine: Engine,
        *,
        interrupted: threading.Event | None = None,
        progress: Callable[[RunCounts], None] = lambda counts: None,
        others: SenderProcesses | None = None,
    ) -> None:
        config = _within_rate(delivery.config, delivery.limits.rates)
        if delivery.share is not None and delivery.limits.per_id is not None:
            # A request with more events of an id leaves by itself, which each of the processes would do.
            most = min(config.limits.batch_events, delivery.limits.per_id)
            config = replace(config, limits=replace(config.limits, batch_events=most))
        config = replace(config, people=delivery.limits.ordered or delivery.limits.per_id is not None)
        self._delivery = delivery = replace(delivery, config=config)
        self._plan = delivery.plan
        self._ledger = ledger
        self._engine = engine
        self._processes = ExitStack()
        self._started: Engine | None = None
        self._destination = destination
        self._others = others
        self._sends: Callable[[SealedBlock], bool] = _any_block if delivery.share is None else delivery.share.has
        self._phases = [phase for phase in PHASES if phase in delivery.phases]
        self._progress = progress
        self._counts = RunCounts()
        self._envelope = delivery.envelope
        limits = delivery.limits
        self._stop = StopSignal(interrupted or threading.Event(), limits.max_seconds)
        pace = Pace() if delivery.dry_run else Pace(limits.rates, limits.quiet, limits.zone)
        self._throttle = Throttle(
            RateController(limits.concurrency)
            if delivery.dry_run
            else RateController(limits.concurrency, pace.allowed),
            target_known=delivery.target_known or ledger.was_answered(),
        )
        self._size = RequestSize(ledger.learned())
        self._recorder = Recorder(ledger, self._counts, limits, destination.address, self._stop)
        self._senders = Senders(
            destination, self._throttle, limits, self._envelope, self._size, self._recorder, self._stop
        )
        self._only = None if delivery.only is None else {key: list(ranges) for key, ranges in delivery.only.items()}
        self._senders.in_order = self._in_order = self._only is not None

    def stop_with(self, problem: BackcastError) -> None:
        """Send nothing, because of a problem that came before the first request; `run` gives the outcome."""
        self._stop.fail(problem)

    def pause(self, seconds: float) -> None:
        """Send nothing for so long, as the service asked of another process."""
        self._throttle.pause(seconds)

    def run(self) -> Outcome:
        """Send everything that is unsent. Only a bug raises; any other reason to stop is the outcome's `problem`."""
        before = self._ledger.totals()
        self._counts.start_from(before, self._plan.events.phases, self._phases)
        self._recorder.start()
        if self._only is not None:
            # Otherwise they and those that this run begins would add up to more than were ever in flight.
            for key in self._recorder.in_doubt:
                self._only.setdefault((key.phase, key.block), [])
        try:
            self._send_all(before)
            self._senders.close()
        except BaseException:
            # A second Ctrl-C, or a bug: what is in flight stays begun, and is sent again.
            self._stop.event.set()
            self._senders.stop_taking()
            raise
        finally:
            self._recorder.close()
        return self._finish(before)

    def _send_all(self, before: Totals) -> None:
        try:
            with self._processes:
                for phase in self._phases:
                    if not before.of(phase).is_all(self._plan.events.phases.get(phase, 0)):
                        self._send_phase(phase)
        except _Stopping:
            pass
        except Exception as error:
            self._stop.fail(error)
        self._drain()

    def _finish(self, before: Totals) -> Outcome:
        counts, now, planned = self._counts, self._ledger.totals(), self._plan.events.phases
        counts.finish(before, now, self._ledger.batches_of_run())
        if self._delivery.dry_run:
            counts.as_dry_run()
        problem = self._stop.reason
        if counts.in_doubt:
            problem = with_doubt(problem, counts.in_doubt)
        outcome = Outcome(
            self._plan.digest,
            self._delivery.dry_run,
            self._plan.events.made,
            counts,
            self._stop.seconds,
            problem if isinstance(problem, BackcastError) else None,
            planned,
            tuple(
                phase
                for phase in PHASES
                if phase not in self._phases and not now.of(phase).is_all(planned.get(phase, 0))
            ),
            "v1" if self._delivery.per_event else "batch",
            self._ledger.warnings(),
        )
        if outcome.balanced and isinstance(problem, Interrupted | Unfinished):
            outcome = replace(outcome, problem=None)  # it came when everything was sent
        if problem is not None and not isinstance(problem, BackcastError):
            self._ledger.finish("failed")
            raise problem
        self._ledger.finish("stopped" if outcome.problem or not outcome.balanced else "done")
        return outcome

    # -- preparing batches --------------------------------------------------------------------------------------

    def _send_phase(self, phase: str) -> None:
        """Send what is unsent of one phase, and wait for all of it: the next phase may depend on it."""
        self._counts.phase = phase
        if isinstance(self._destination, SeparatesPhases):
            self._destination.begin_phase(phase)
        if phase == EVENTS and self._others is not None:
            self._share_events(self._others)
            return
        blocks = self._event_blocks if phase == EVENTS else self._sealed_blocks
        self._send(phase, blocks(phase, self._engine_for(phase)))
        self._drain()  # before the processes end, which takes a while
        self._check()

    def _share_events(self, others: SenderProcesses) -> None:
        """Send the events by other processes; by this one only blocks with a batch that is to be sent unchanged."""
        assert self._ledger.path is not None, "a dry run is of one process"
        unended = read_open_blocks(self._ledger.path, EVENTS)
        if unended:
            self._sends = lambda block: block.number in unended
            self._send(EVENTS, self._event_blocks(EVENTS, self._engine_for(EVENTS)))
            self._drain()
            self._check()
        others.run(
            self._delivery, self._ledger, self._engine, self._stop, self._counts, lambda: self._progress(self._counts)
        )
        self._check()

    def _engine_for(self, phase: str) -> Engine:
        """The engine; in its place, this process, where it has not started yet and the phase would take no longer."""
        if self._started is None:
            if phase != EVENTS and sealed_file(phase, self._delivery.directory).stat().st_size < SMALL:
                engine: Engine = Workers(0)
            else:
                engine = self._started = self._processes.enter_context(self._engine)
            engine.configure(self._delivery.config, self._envelope)
            return engine
        return self._started

    def _event_blocks(self, phase: str, engine: Engine) -> Iterator[_Block]:
        begun = self._ledger.blocks_begun(phase)
        work = tasks(self._delivery.directory, lambda block: self._task(block, begun))
        for task, batched in engine.walk(make_batches, work):
            yield _Block(task.number, batched.batches, task.doubtful)

    def _task(self, planned: PlannedBlock, begun: Collection[int]) -> Task | None:
        """The task of a block, None where nothing of it is unsent. `begun` are the blocks with rows in the ledger."""
        self._check()
        number = planned.sealed.number
        left_out = self._left_out(EVENTS, number, planned.events)
        if not planned.events or left_out is None or not self._sends(planned.sealed):
            return None
        task = task_of(self._plan, planned)._replace(most=self._size.learned_bytes)
        before = () if self._delivery.share is None else self._delivery.share.ended.get(number, ())
        if number not in begun:
            return task._replace(ended=[*before, *left_out])
        ended, recorded = _ranges(self._ledger.rows_of(EVENTS, number))
        if not recorded and not any(gaps(planned.events, [*ended, *before])):
            return None
        return task._replace(ended=[*ended, *before, *left_out], doubtful=recorded)

    def _left_out(self, phase: str, block: int, events: int) -> list[tuple[int, int]] | None:
        """The ranges of a block that a canary does not send; None where it sends nothing of it."""
        if self._only is None:
            return []
        ranges = self._only.get((phase, block))
        return None if ranges is None else list(gaps(events, ranges))

    def _sealed_blocks(self, phase: str, engine: Engine) -> Iterator[_Block]:
        """The batches of a phase that is sealed line by line.

        The first groups are one of each type, and the service numbers types as they come (docs/know/service.md#groups):
        so the first request of that phase goes alone, in halves one after the other where it is split.
        """
        for task, batches in engine.walk(batch_lines, self._lines_tasks(phase)):
            if phase == "groups" and task.number == 0:
                self._senders.in_order = True
                yield _Block(task.number, batches[:1], task.doubtful)
                self._drain()
                self._senders.in_order = self._in_order
                yield _Block(task.number, batches[1:], task.doubtful)
            else:
                yield _Block(task.number, batches, task.doubtful)

    def _lines_tasks(self, phase: str) -> Iterator[LinesTask]:
        """The blocks of a phase that is sealed line by line."""
        for number, lines in enumerate(line_blocks(sealed_file(phase, self._delivery.directory))):
            self._check()
            left_out = self._left_out(phase, number, len(lines))
            if left_out is not None:
                ended, recorded = _ranges(self._ledger.rows_of(phase, number))
                content = SealedLines(b"".join(lines))
                yield LinesTask(phase, number, content, [*ended, *left_out], recorded, self._size.learned_bytes)

    # -- sending -------------------------------------------------------------------------------------

    def _send(self, phase: str, blocks: Iterable[_Block]) -> None:
        """Queue the batches of blocks for the senders, as room allows.

        Batches in doubt go first, up to the last block that has any: otherwise those of an earlier run and those that
        this one begins would add up, and a second crash leave more in doubt than was ever in flight. Few batches wait
        for that, since batches are begun in their order.
        """
        in_doubt = {key for key in self._recorder.in_doubt if key.phase == phase}
        last = max((key.block for key in in_doubt), default=-1)
        later: list[KeyedBatch] = []
        for number, batches, recorded in blocks:
            ranges = set(recorded)
            for batch in batches:
                key = BatchKey(phase, number, batch.first, batch.last)
                if key in in_doubt:
                    self._senders.put(KeyedBatch(key, batch, recorded=True), first=True)
                else:
                    later.append(KeyedBatch(key, batch, recorded=(batch.first, batch.last) in ranges))
            if number >= last:
                self._put(later)
            self._check()
            self._report_progress()
        self._put(later)

    def _put(self, batches: list[KeyedBatch]) -> None:
        """Queue batches, each once there is room, and remove them from the list."""
        for batch in batches:
            while not self._senders.wait(self._senders.full, reached=False):
                self._check()
                self._report_progress()
            self._senders.put(batch)
        batches.clear()

    def _drain(self) -> None:
        """Wait for what is in flight and, unless the run is stopping, queued, until all is recorded."""
        while not self._senders.wait(self._senders.idle, reached=True):
            self._stop.check()
            self._report_progress()
        self._recorder.settle()
        self._report_progress()

    def _report_progress(self) -> None:
        """Update the live counts and call `progress`."""
        counts, throttle = self._counts, self._throttle
        counts.in_flight, counts.limit = throttle.controller.in_flight, throttle.controller.limit
        counts.paused, counts.quiet = throttle.controller.paused(throttle.now()), throttle.controller.quiet()
        counts.id_wait = max(0.0, self._senders.lanes.wait_until - throttle.now())
        counts.idle = throttle.idle(self._senders.oldest())
        counts.gives_up_in = max(0.0, self._delivery.limits.retry.seconds - counts.idle)
        self._progress(counts)

    def _check(self) -> None:
        """Raise _Stopping once the run is to stop."""
        if self._stop.check():
            raise _Stopping


def _any_block(_: SealedBlock) -> bool:
    return True


def _within_rate(config: TransformConfig, rates: Sequence[RateLimit]) -> TransformConfig:
    """The config with batches of at most RATE_SECONDS of the operator's lowest rate: a request arrives as a whole, so
    the rate can only be kept between requests. Batches that the ledger has are sent unchanged, whatever the rate is.

    Bytes before gzip are limited as those that travel, of which there are fewer.
    """
    limits = config.limits
    if events := slowest(rates, EVENTS_A_SECOND):
        limits = replace(limits, batch_events=max(1, min(limits.batch_events, int(events * RATE_SECONDS))))
    if size := slowest(rates, BYTES):
        limits = replace(limits, batch_bytes=min(limits.batch_bytes, max(LEAST_BYTES, int(size * RATE_SECONDS))))
    return replace(config, limits=limits)


def _ranges(rows: Iterable[tuple[BatchKey, str]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Ranges of events of a block's recorded batches: of those that are finished, and of those to be sent unchanged."""
    ended: list[tuple[int, int]] = []
    again: list[tuple[int, int]] = []
    for key, state in rows:
        (again if state in ("begun", "waiting") else ended).append((key.first, key.last))
    return ended, again
