"""Send exactly the plan: phase by phase, make → begin → send → settle, resumable at every point.

Workers make request bodies; this process alone owns the ledger and the network. Each batch is begun in the ledger,
durably, before a byte leaves, and settled after its answer; all that happened since the last step is written with the
next one, so the disk is asked once a block, not once a request. For that, up to twice as many batches are begun as may
be in flight: a sender whose answer came finds the next one ready, and so many are what a crash can leave in doubt.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import msgspec

from pipeline.batch import Batch, Envelope, pack, unpack
from pipeline.deliver.gate import TICK, Gate
from pipeline.deliver.outcome import Counts, Outcome, Pace, out_of_time, too_many_refused, turned_away, unanswered
from pipeline.deliver.pacing import Pacing
from pipeline.deliver.retry import Sent, Tried, send_patiently
from pipeline.deliver.sink import Answer, Receipt, Sink
from pipeline.deliver.size import Piece, RequestSize, cut, halve
from pipeline.errors import BackcastError, Interrupted, Unfinished
from pipeline.ledger import Ledger, Place, Totals
from pipeline.make import Recipe, Task, make_batches
from pipeline.plan.directory import Directory
from pipeline.plan.phases import EVENTS, PHASES, phase_blocks
from pipeline.plan.reading import Planned, task_of, tasks
from pipeline.plan.sealed import Plan
from pipeline.workers import Workers

__all__ = ["Apply", "Counts", "Outcome", "Pace"]


class _Landed(NamedTuple):
    """What came of one batch: how it was sent, or the error that no answer explains. `ends`: it stops the run."""

    place: Place
    batch: Batch
    sent: Sent
    error: Exception | None
    ends: bool


class _Failed(NamedTuple):
    """One try of a batch in flight that did not settle it; the batch may be tried again."""

    place: Place
    tried: Tried


class _Stopping(Exception):
    """Unwinds the making of batches once the run is to end."""


class Apply:
    """One run over a plan. `run` returns after everything in flight is written down.

    Of its four phases those among `phases` are sent, in their own order, each whole before the next one begins.
    `interrupted` asks for an orderly end: nothing new is begun, what is in flight is settled.
    """

    def __init__(
        self,
        plan: Plan,
        directory: Directory,
        recipe: Recipe,
        sink: Sink,
        ledger: Ledger,
        *,
        project_key: str,
        workers: Workers,
        pace: Pace,
        phases: Collection[str] = PHASES,
        dry_run: bool = False,
        interrupted: threading.Event | None = None,
        progress: Callable[[Counts], None] = lambda counts: None,
    ) -> None:
        self.plan = plan
        self.directory = directory
        self.recipe = recipe
        self.sink = sink
        self.ledger = ledger
        self.project_key = project_key
        self.workers = workers
        self.pace = pace
        self.phases = [phase for phase in PHASES if phase in phases]
        self.dry_run = dry_run
        self.interrupted = interrupted or threading.Event()
        self.progress = progress
        self.counts = Counts()
        self._envelope = Envelope(project_key)
        self._stop = threading.Event()
        self._problem: Exception | None = None
        self._landed: queue.SimpleQueue[_Landed | _Failed] = queue.SimpleQueue()
        self._children: list[Piece] = []
        self._doubted: set[Place] = set()
        self._troubled: dict[Place, str] = {}
        self._since: dict[Place, float] = {}
        self._flying = 0
        self._in_order = False
        self._gate = Gate(Pacing(pace.concurrency, pace.rate))
        self._size = RequestSize(None)
        self._until: float | None = None

    def run(self) -> Outcome:
        """Send what is left. Only a defect raises; what else stopped the run is the outcome's `problem`."""
        started = time.monotonic()
        if self.pace.max_seconds is not None:
            self._until = started + self.pace.max_seconds
        before = self.ledger.totals()
        self.counts.take_up(before, self.plan.events.phases, self.phases)
        self._doubted = self.ledger.doubted()
        self._size = RequestSize(self.ledger.learned())
        senders = ThreadPoolExecutor(self.pace.concurrency, "sender")
        try:
            self._send_all(before, senders)
        except BaseException:
            # A second Ctrl-C, or a ledger that takes nothing more: what is in flight stays begun, and is sent again.
            self._stop.set()
            senders.shutdown(wait=False, cancel_futures=True)
            raise
        senders.shutdown()
        return self._finish(before, time.monotonic() - started)

    def _send_all(self, before: Totals, senders: ThreadPoolExecutor) -> None:
        try:
            for phase in self.phases:
                if not before.of(phase).is_all(self.plan.events.phases.get(phase, 0)):
                    self._send_phase(phase, senders)
        except _Stopping:
            pass
        except Exception as error:
            self._fail(error)
        self._drain(senders)

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

    def _send_phase(self, phase: str, senders: ThreadPoolExecutor) -> None:
        """Send what is left of one phase. All of it is in before the next one begins, which may need it."""
        self.counts.phase = phase
        if phase == EVENTS:
            self._send_rows(senders)
        else:
            self._send_lines(phase, senders)
        self._drain(senders)
        self._check()

    def _send_rows(self, senders: ThreadPoolExecutor) -> None:
        begun = self.ledger.blocks_begun(EVENTS)
        work = tasks(self.plan, self.directory, self.recipe.parts, self._chooser(begun))
        with self.workers as workers:
            workers.brief(self.recipe, self.project_key)
            for task, made in workers.walk(make_batches, work):
                self._send(EVENTS, task.number, made.batches, senders)
            self._drain(senders)  # before the workers end, which takes a while: settled at once is in doubt shorter

    def _send_lines(self, phase: str, senders: ThreadPoolExecutor) -> None:
        """Send a phase that is sealed line by line.

        The first groups are one of each type, and the service numbers types as they come (service-behaviour 1.10): so
        the first request of that phase goes alone, in halves one after the other where it is split.
        """
        mapper = self.recipe.compile(self.recipe.options)
        for number, events in phase_blocks(phase, self.plan, self.directory, mapper, self.recipe.options):
            ended, again = self._known(phase, number)
            batches = list(pack(events, self._envelope, self.recipe.limits, ended, again))
            if phase == "groups" and number == 0:
                self._in_order = True
                self._send(phase, number, batches[:1], senders)
                self._drain(senders)
                self._in_order = False
                batches = batches[1:]
            self._send(phase, number, batches, senders)

    def _chooser(self, begun: set[int]) -> Callable[[Planned], Task | None]:
        def choose(planned: Planned) -> Task | None:
            self._check()
            number = planned.sealed.number
            if not planned.events:
                return None
            task = task_of(self.plan, planned)
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

    def _send(self, phase: str, number: int, batches: list[Batch], senders: ThreadPoolExecutor) -> None:
        """Begin and send a block's batches, as room allows; write down what landed meanwhile."""
        waiting = deque((Place(phase, number, batch.first, batch.last), batch) for batch in batches)
        while waiting or self._children:
            self._check()
            room = (1 if self._in_order else self._gate.limit * 2) - self._flying
            chosen: list[Piece] = []
            while len(chosen) < room and (self._children or waiting):
                if self._children:
                    chosen.append(self._children.pop())
                elif not self._cut(waiting):
                    chosen.append(waiting.popleft())
            self._step(chosen, senders, wait=not chosen)

    def _cut(self, waiting: deque[Piece]) -> bool:
        """Cut the next batch to what the service was found to take, unless it was begun before: that one stays."""
        place, batch = waiting[0]
        if self._size.learned is None or not self._size.is_over(batch):
            return False
        if any(place == known for known, _ in self.ledger.rows_of(place.phase, place.block)):
            return False
        pieces = cut(place, batch, self._size.learned, self._envelope)
        with self.ledger.moment(durable=False):
            self.ledger.cut(place, batch.bytes, [(piece, made.bytes) for piece, made in pieces])
        waiting.popleft()
        waiting.extendleft(reversed(pieces))
        self.counts.batches_split += 1
        return True

    def _drain(self, senders: ThreadPoolExecutor) -> None:
        """Wait for everything in flight; go on with halves of split batches unless the run is stopping."""
        while self._flying or (self._children and not self._halting()):
            begin: list[Piece] = []
            limit = 1 if self._in_order else self._gate.limit
            while self._children and not self._halting() and len(begin) + self._flying < limit:
                begin.append(self._children.pop())
            self._step(begin, senders, wait=not begin)

    def _step(self, begin: list[Piece], senders: ThreadPoolExecutor, *, wait: bool) -> None:
        """One durable moment: settle what landed, begin what is about to leave."""
        landed, failed = self._collect(wait)
        if landed or begin or failed:
            with self.ledger.moment(durable=bool(landed or begin)):
                for try_ in failed:
                    self._note(try_)
                for one in landed:
                    self._record(one)
                for place, batch in begin:
                    self.ledger.begin(place, batch.bytes)
        for place, batch in begin:
            self._flying += 1
            self._since[place] = self._gate.now()
            senders.submit(self._post, place, batch)
        self._tell()

    def _tell(self) -> None:
        """Say how things stand."""
        counts, gate = self.counts, self._gate
        counts.in_flight, counts.limit, counts.held = gate.flying, gate.limit, gate.held()
        counts.trouble = next(reversed(self._troubled.values()), "")
        oldest = min(self._since.values(), default=gate.now())
        counts.idle = gate.idle(oldest)
        counts.patience = max(0.0, self.pace.patience.seconds - counts.idle)
        self.progress(counts)

    def _post(self, place: Place, batch: Batch) -> None:
        """Send one batch; runs in a sender thread, and always leaves a word of what came of it."""
        error: Exception | None = None
        sent = Sent(Receipt(Answer.DOUBT, 0, "sending failed"), 1, True, True)
        try:
            self._halting()
            sent = send_patiently(
                self.sink, batch.body, batch.events, self.pace.patience, self._gate, self._stop,
                lambda tried: self._landed.put(_Failed(place, tried)),
            )  # fmt: skip
        except Exception as defect:
            error = defect
        ends = sent.receipt.answer is Answer.STOP or (
            sent.receipt.answer in (Answer.RETRY, Answer.DOUBT, Answer.UNREACHABLE) and not self._halting()
        )
        if ends:
            self._stop.set()  # here, so that the batch that waits for this thread does not leave
        self._landed.put(_Landed(place, batch, sent, error, ends))

    def _collect(self, wait: bool) -> tuple[list[_Landed], list[_Failed]]:
        """What landed and which tries failed since; with `wait` at least one thing, or a tick without any."""
        landed: list[_Landed] = []
        failed: list[_Failed] = []
        while self._flying:
            try:
                one = self._landed.get(block=wait and not (landed or failed), timeout=TICK)
            except queue.Empty:
                self._halting()
                break
            if isinstance(one, _Failed):
                failed.append(one)
            else:
                landed.append(one)
                self._flying -= 1
                self._since.pop(one.place, None)
        return landed, failed

    # -- what an answer means --------------------------------------------------------------------------

    def _note(self, failed: _Failed) -> None:
        """Write down a try that settled nothing."""
        place, (number, at, seconds, receipt) = failed
        self.ledger.failed(place, number, at, seconds, receipt.status or None, receipt.detail)
        self._troubled.pop(place, None)
        self._troubled[place] = f"{receipt.status or ''} {receipt.detail}".strip() or "no answer"
        if receipt.taken and place not in self._doubted:
            self._doubted.add(place)
            self.counts.add(place.phase, in_doubt=place.events)

    def _record(self, landed: _Landed) -> None:
        """Write one answer down, and decide what it means for the run."""
        place, batch, sent, error, ends = landed
        receipt, counts = sent.receipt, self.counts
        counts.batches_sent += sent.left
        counts.bytes_sent += len(batch.body) * sent.left
        counts.batches_retried += sent.tries > 1
        self._troubled.pop(place, None)
        doubted = place in self._doubted
        if receipt.answer in (Answer.SETTLED, Answer.POISON, Answer.TOO_LARGE) and doubted:
            self._doubted.discard(place)
            counts.add(place.phase, in_doubt=-place.events)
        match receipt.answer:
            case Answer.SETTLED:
                self.ledger.settle(place, receipt.status)
                counts.add(place.phase, accepted=place.events)
                learned = self._size.settled(place, batch.bytes)
                if learned is not None:
                    self.ledger.learn(learned)
            case Answer.POISON | Answer.TOO_LARGE if place.events > 1:
                halves = halve(place, batch, self._envelope)
                self._size.ended(place)
                if receipt.answer is Answer.TOO_LARGE:
                    self._size.refused(batch.bytes, halves)
                sizes = [(half, cut.bytes) for half, cut in halves]
                self.ledger.split(place, sizes, receipt.status, receipt.detail)
                counts.batches_split += 1
                # The last one is taken first: one way down to the poison before the next, so few halves are open.
                self._children.extend(reversed(halves))
            case Answer.POISON | Answer.TOO_LARGE:
                self._size.ended(place)
                self.ledger.refuse(place, _uuid_of(batch), receipt.status, receipt.detail)
                counts.add(place.phase, refused=1)
                if counts.refused > self.pace.max_refused:
                    self._fail(too_many_refused(counts.refused, receipt))
            case _:
                if not (sent.doubtful or doubted):
                    self.ledger.withhold(place)
                if error is not None:
                    self._fail(error)
                elif receipt.answer is Answer.STOP:
                    self._fail(turned_away(self.sink.address, receipt))
                elif ends:
                    self._fail(unanswered(self.sink.address, sent, self.pace.patience))

    # -- ending --------------------------------------------------------------------------------------

    def _fail(self, problem: Exception) -> None:
        self._problem = self._problem or problem
        self._stop.set()

    def _halting(self) -> bool:
        """Whether nothing new may begin; tells the senders to wait no longer."""
        if self.interrupted.is_set():
            self._stop.set()
        elif self._until is not None and time.monotonic() >= self._until and not self._stop.is_set():
            self._fail(out_of_time(self.pace.max_seconds or 0.0))
        return self._stop.is_set()

    def _check(self) -> None:
        if self._halting():
            raise _Stopping


class _Named(msgspec.Struct):
    uuid: str


def _uuid_of(batch: Batch) -> str:
    """The uuid of a batch's first event."""
    return msgspec.json.decode(unpack(batch.body)[0], type=_Named).uuid
