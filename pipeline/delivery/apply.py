"""One run over a plan: sends exactly what was planned, phase by phase, and can resume at every point.

Each batch is begun in the ledger, durably, before a byte of it leaves, and settled when its response comes. So a crash
leaves in doubt only what was in flight. The package's docstring draws the threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pipeline.batcher import Batch, Envelope, PerEventEnvelope, gaps, most_bytes, pack
from pipeline.delivery.destination import Destination, SeparatesPhases
from pipeline.delivery.lanes import hot_in
from pipeline.delivery.outcome import Outcome, RunCounts, SendLimits
from pipeline.delivery.pace import Pace
from pipeline.delivery.recorder import Recorder
from pipeline.delivery.senders import Senders
from pipeline.delivery.size import KeyedBatch, RequestSize
from pipeline.delivery.stopping import StopSignal, with_doubt
from pipeline.delivery.throttle import RateController, Throttle
from pipeline.errors import BackcastError, Interrupted, Unfinished
from pipeline.ledger import BatchKey, Ledger, Totals
from pipeline.options import Limits
from pipeline.options.pace import BYTES, RateLimit, slowest
from pipeline.options.pace import EVENTS as EVENTS_A_SECOND
from pipeline.plan.requests.store import PackedRequest, RequestReader, read_requests
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.timestamps import format_utc

__all__ = ["Apply", "Outcome", "RunCounts", "SendLimits"]


RATE_SECONDS = 1.0
"""One request contains at most this many seconds' worth of `--rate`."""
LEAST_BYTES = 64 * 1024
"""A low `--rate` does not make a request smaller than this many bytes."""


Range = tuple[int, int]
"""The first and the last event of a range, both inclusive."""


class _Opened(NamedTuple):
    """A request, its batches, and the ranges of the batches that have rows in the ledger, to be sent unchanged."""

    request: PackedRequest
    batches: Sequence[Batch]
    recorded: Sequence[tuple[int, int]]


class _Stopping(Exception):
    """Ends the preparation of batches once the run is to stop."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one run sends: the requests of these phases of a sealed plan, with the capture key.

    `per_event`: to the per-event endpoint, not to `/batch/`. `target_known`: the target took other plans before, so the
    run waits out an outage from the first request on. `canary`: only the canary's requests are sent, one after the
    other.
    """

    plan: Plan
    directory: Directory
    project_key: str
    phases: Collection[str] = PHASES
    limits: SendLimits = field(default_factory=SendLimits)
    dry_run: bool = False
    target_known: bool = False
    per_event: bool = False
    canary: bool = False

    @property
    def envelope(self) -> Envelope:
        """The part of each request around its events."""
        if self.per_event:
            return PerEventEnvelope(format_utc(self.plan.options.as_of))
        return Envelope(self.project_key)


class Apply:
    """One run over a plan. `run` returns after everything in flight is in the ledger.

    The phases are sent in a fixed order, and each is completed before the next begins. `interrupted` requests an
    orderly end: nothing new is begun, and what is in flight is settled.
    """

    def __init__(
        self,
        delivery: Delivery,
        destination: Destination,
        ledger: Ledger,
        *,
        interrupted: threading.Event | None = None,
        progress: Callable[[RunCounts], None] = lambda counts: None,
    ) -> None:
        self._delivery = delivery
        self._plan = delivery.plan
        self._ledger = ledger
        self._destination = destination
        self._phases = [phase for phase in PHASES if phase in delivery.phases]
        self._progress = progress
        self._counts = RunCounts()
        self._envelope = delivery.envelope
        limits = delivery.limits
        self._batch_limits = _within_rate(delivery.plan.limits, limits.rates)
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
        self._canary = delivery.canary

    def stop_with(self, problem: BackcastError) -> None:
        """Send nothing, because of a problem that arose before the first request; `run` returns the outcome."""
        self._stop.fail(problem)

    def run(self) -> Outcome:
        """Send everything that is unsent. Only a bug raises; any other reason to stop is the outcome's `problem`."""
        before = self._ledger.totals()
        self._counts.start_from(before, self._plan.events.phases, self._phases)
        self._recorder.start()
        try:
            self._send_all(before)
            self._senders.close()
        except BaseException:
            # After a second Ctrl-C, or a bug, what is in flight stays begun, and is sent again.
            self._stop.event.set()
            self._senders.stop_taking()
            raise
        finally:
            self._recorder.close()
        return self._finish(before)

    def _send_all(self, before: Totals) -> None:
        try:
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
            outcome = replace(outcome, problem=None)  # it came after everything was sent
        if problem is not None and not isinstance(problem, BackcastError):
            self._ledger.finish("failed")
            raise problem
        self._ledger.finish("stopped" if outcome.problem or not outcome.balanced else "done")
        return outcome

    # -- preparing batches --------------------------------------------------------------------------------------

    def _send_phase(self, phase: str) -> None:
        """Send what is unsent of one phase, and wait for all of it: the next phase may depend on it.

        The first groups are one of each type, and the service numbers types as they come (docs/know/service.md#groups).
        So the first request of that phase goes alone, and if it is split, its halves go one after the other.
        """
        self._counts.phase = phase
        if isinstance(self._destination, SeparatesPhases):
            self._destination.begin_phase(phase)
        with RequestReader(self._delivery.directory) as reader:
            opened = self._open(phase, reader)
            if phase == "groups":
                self._senders.in_order = True
                first = next(opened, None)
                self._send(phase, [] if first is None else [first])
                self._drain()
            # Without lanes, sending one request after the other keeps the order of a person's events.
            alone = phase == EVENTS and self._delivery.limits.ordered and not self._plan.order_decides
            self._senders.in_order = alone or self._canary
            self._send(phase, opened)
            self._drain()
        self._check()

    def _open(self, phase: str, reader: RequestReader) -> Iterator[_Opened]:
        """The requests of a phase with something unsent."""
        begun = self._ledger.requests_begun(phase)
        in_doubt = {key.request for key in self._recorder.in_doubt if key.phase == phase}
        for request in read_requests(self._delivery.directory, phase):
            self._check()
            rest = self._canary and not request.canary
            if rest and request.number not in in_doubt:
                continue
            ended, recorded = _ranges(self._ledger.rows_of(phase, request.number) if request.number in begun else ())
            if rest:  # In doubt plus newly begun would exceed what was ever in flight.
                ended.append((0, request.events - 1))
            if recorded or any(gaps(request.events, ended)):
                yield _Opened(request, self._batches(request, reader, ended, recorded), recorded)

    def _batches(
        self, request: PackedRequest, reader: RequestReader, ended: list[Range], recorded: list[Range]
    ) -> Sequence[Batch]:
        """What is unsent in a request: as it is packed, or in pieces if it must be cut or written differently."""
        envelope, limits = self._envelope, self._batch_limits
        last = request.events - 1
        size, learned = request.bytes + envelope.length, self._size.learned_bytes
        fits = request.events <= limits.batch_events and request.bytes <= most_bytes(limits)
        fits = fits and (learned is None or size <= learned or request.events == 1)
        if not (ended or envelope.per_event) and (recorded == [(0, last)] or (fits and not recorded)):
            fragment = reader.fragment(request)
            return [Batch(0, last, size, envelope.frame(fragment))]
        events = reader.events(request)
        return list(pack(events, envelope, limits, ended, recorded, most=learned))

    # -- sending -------------------------------------------------------------------------------------

    def _send(self, phase: str, opened: Iterable[_Opened]) -> None:
        """Queue the batches of requests for the senders, as room allows.

        Batches in doubt go first, up to the last request that has any. Otherwise those of an earlier run and those that
        this one begins would add up, and a second crash would leave more in doubt than was ever in flight. Few batches
        wait for this, since batches are begun nearly in order.

        """
        in_doubt = {key for key in self._recorder.in_doubt if key.phase == phase}
        last = max((key.request for key in in_doubt), default=-1)
        later: list[KeyedBatch] = []
        for request, batches, recorded in opened:
            ranges = set(recorded)
            for batch in batches:
                key = BatchKey(phase, request.number, batch.first, batch.last)
                hot = request.hot if batch.events == request.events else hot_in(batch, request.hot)
                queued = KeyedBatch(key, batch, (batch.first, batch.last) in ranges, request.lane, hot)
                if key in in_doubt:
                    self._senders.put(queued, first=True)
                else:
                    later.append(queued)
            if request.number >= last:
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
        """Wait until everything in flight is recorded, and also everything queued unless the run is stopping."""
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


def _within_rate(limits: Limits, rates: Sequence[RateLimit]) -> Limits:
    """The limits of a batch, with at most RATE_SECONDS of the operator's lowest rate. A request arrives as a whole, so
    the rate can only be kept between requests. Batches that the ledger has are sent unchanged, whatever the rate is.

    The byte rate applies to bytes on the wire, but limits the bytes before gzip, of which there are more.
    """
    if events := slowest(rates, EVENTS_A_SECOND):
        limits = replace(limits, batch_events=max(1, min(limits.batch_events, int(events * RATE_SECONDS))))
    if size := slowest(rates, BYTES):
        limits = replace(limits, batch_bytes=min(limits.batch_bytes, max(LEAST_BYTES, int(size * RATE_SECONDS))))
    return limits


def _ranges(rows: Iterable[tuple[BatchKey, str]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The event ranges of a block's recorded batches: of those that are finished, and of those to send unchanged."""
    ended: list[tuple[int, int]] = []
    again: list[tuple[int, int]] = []
    for key, state in rows:
        (again if state in ("begun", "waiting") else ended).append((key.first, key.last))
    return ended, again
