"""Send exactly the plan: phase by phase, make → begin → send → settle, resumable at every point.

Workers make request bodies; this process alone owns the ledger and the network. Each batch is begun in the ledger,
durably, before a byte leaves, and settled after its answer; all that happened since the last step is written with the
next one, so the disk is asked once a block, not once a request.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import msgspec

from pipeline.batch import Batch, Envelope, pack, seal_batch, unpack
from pipeline.deliver.outcome import Counts, Outcome, Pace, too_many_refused, turned_away, unanswered
from pipeline.deliver.retry import Sent, send_patiently
from pipeline.deliver.sink import Answer, Receipt, Sink
from pipeline.errors import BackcastError, Interrupted, Unfinished
from pipeline.ledger import Ledger, Place, Totals
from pipeline.make import Recipe, Task, make_batches
from pipeline.plan.directory import Directory
from pipeline.plan.reading import Planned, link_blocks, task_of, tasks
from pipeline.plan.sealed import Plan
from pipeline.workers import Workers

__all__ = ["Apply", "Counts", "Outcome", "Pace"]

TICK = 0.2
"""Seconds between two looks at whether somebody asked for an end, while nothing else happens."""


class _Landed(NamedTuple):
    """What came of one batch: how it was sent, or the error that no answer explains. `ends`: it stops the run."""

    place: Place
    batch: Batch
    sent: Sent
    error: Exception | None
    ends: bool


class _Stopping(Exception):
    """Unwinds the making of batches once the run is to end."""


class Apply:
    """One run over a plan. `run` returns after everything in flight is written down.

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
        workers: int,
        pace: Pace,
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
        self.dry_run = dry_run
        self.interrupted = interrupted or threading.Event()
        self.progress = progress
        self.counts = Counts()
        self._envelope = Envelope(project_key)
        self._stop = threading.Event()
        self._problem: Exception | None = None
        self._landed: queue.SimpleQueue[_Landed] = queue.SimpleQueue()
        self._children: list[tuple[Place, Batch]] = []
        self._doubted: set[Place] = set()
        self._flying = 0

    def run(self) -> Outcome:
        """Send what is left. Only a defect raises; what else stopped the run is the outcome's `problem`."""
        started = time.monotonic()
        before = self.ledger.totals()
        self.counts.already_settled = before.settled
        self.counts.refused = before.refused
        self._doubted = self.ledger.doubted()
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
        if before.settled + before.refused == self.plan.events.made:
            return
        try:
            self._phases(senders)
        except _Stopping:
            pass
        except Exception as error:
            self._fail(error)
        self._drain(senders)

    def _finish(self, before: Totals, seconds: float) -> Outcome:
        counts, now = self.counts, self.ledger.totals()
        # The ledger's word, not what this process remembers of steps that may have failed.
        counts.accepted = now.settled - before.settled
        counts.refused = now.refused
        counts.in_doubt = now.in_doubt
        counts.in_flight = 0
        counts.made = counts.accepted + counts.refused + counts.in_doubt + counts.already_settled
        problem = self._problem
        if self.interrupted.is_set() and (problem is None or isinstance(problem, Unfinished)):
            # Workers die with the terminal's whole group; the person's wish came first.
            problem = Interrupted("stopped by hand; what was in flight is settled", hint="run the same command again")
        known = problem if isinstance(problem, BackcastError) else None
        outcome = Outcome(self.plan.digest, self.dry_run, self.plan.events.made, counts, seconds, known)
        if outcome.balanced and isinstance(known, Interrupted):
            outcome = replace(outcome, problem=None)
        said = "failed" if problem and not known else "stopped" if outcome.problem or not outcome.balanced else "done"
        self.ledger.finish(said, counts.batches_sent, counts.batches_retried, counts.batches_split)
        if problem is not None and known is None:
            raise problem
        return outcome

    # -- making --------------------------------------------------------------------------------------

    def _phases(self, senders: ThreadPoolExecutor) -> None:
        phases = self.plan.events.phases
        if phases.get("identities"):
            for number, batches in self._identities():
                self._send("identities", number, batches, senders)
            # A merge has to be in before the events that need it.
            self._drain(senders)
            self._check()
        if phases.get("events"):
            begun = self.ledger.blocks_begun("events")
            work = tasks(self.plan, self.directory, self.recipe.parts, self._chooser(begun))
            with Workers(self.workers, self.recipe, self.project_key) as workers:
                for task, made in workers.walk(make_batches, work):
                    self._send("events", task.number, made.batches, senders)

    def _identities(self) -> Iterator[tuple[int, list[Batch]]]:
        mapper = self.recipe.compile(self.recipe.options)
        for number, events in link_blocks(self.plan, self.directory, mapper, self.recipe.options):
            ended, again = self._known("identities", number)
            yield number, list(pack(events, self._envelope, self.recipe.limits, ended, again))

    def _chooser(self, begun: set[int]) -> Callable[[Planned], Task | None]:
        def choose(planned: Planned) -> Task | None:
            number = planned.sealed.number
            if not planned.events:
                return None
            task = task_of(self.plan, planned)
            if number not in begun:
                return task
            rows = self.ledger.rows_of("events", number)
            if sum(place.events for place, state in rows if state in ("settled", "refused")) == planned.events:
                return None
            ended, again = self._known("events", number)
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
        self.counts.batches_made += len(waiting)
        while waiting or self._children:
            self._check()
            room = self.pace.concurrency * 2 - self._flying
            chosen: list[tuple[Place, Batch]] = []
            while len(chosen) < room and (self._children or waiting):
                chosen.append(self._children.pop() if self._children else waiting.popleft())
            self._step(chosen, senders, wait=not chosen)

    def _drain(self, senders: ThreadPoolExecutor) -> None:
        """Wait for everything in flight; go on with halves of split batches unless the run is stopping."""
        while self._flying or (self._children and not self._halting()):
            begin: list[tuple[Place, Batch]] = []
            while self._children and not self._halting() and len(begin) + self._flying < self.pace.concurrency:
                begin.append(self._children.pop())
            self._step(begin, senders, wait=not begin)

    def _step(self, begin: list[tuple[Place, Batch]], senders: ThreadPoolExecutor, *, wait: bool) -> None:
        """One durable moment: settle what landed, begin what is about to leave."""
        landed = self._collect(wait)
        if not landed and not begin:
            return
        with self.ledger.moment():
            for one in landed:
                self._record(one)
            for place, batch in begin:
                self.ledger.begin(place, batch.bytes)
        for place, batch in begin:
            self._flying += 1
            senders.submit(self._post, place, batch)
        self.counts.in_flight = self._flying
        self.progress(self.counts)

    def _post(self, place: Place, batch: Batch) -> None:
        """Send one batch; runs in a sender thread, and always leaves a word of what came of it."""
        error: Exception | None = None
        sent = Sent(Receipt(Answer.DOUBT, 0, "sending failed"), 1, True)
        try:
            self._halting()
            sent = send_patiently(self.sink, batch.body, self.pace.patience, self._stop)
        except Exception as defect:
            error = defect
        ends = sent.receipt.answer is Answer.STOP or (
            sent.receipt.answer in (Answer.RETRY, Answer.DOUBT) and not self._halting()
        )
        if ends:
            self._stop.set()  # here, so that the batch that waits for this thread does not leave
        self._landed.put(_Landed(place, batch, sent, error, ends))

    def _collect(self, wait: bool) -> list[_Landed]:
        """What landed since; with `wait` at least one thing, or a tick without any."""
        landed: list[_Landed] = []
        while self._flying:
            try:
                landed.append(self._landed.get(block=wait and not landed, timeout=TICK))
            except queue.Empty:
                self._halting()
                break
            self._flying -= 1
        return landed

    # -- what an answer means --------------------------------------------------------------------------

    def _record(self, landed: _Landed) -> None:
        """Write one answer down, and decide what it means for the run."""
        place, batch, sent, error, ends = landed
        receipt, counts = sent.receipt, self.counts
        counts.batches_sent += sent.tries > 0
        counts.bytes_sent += len(batch.body) * (sent.tries > 0)
        counts.batches_retried += sent.tries > 1
        match receipt.answer:
            case Answer.SETTLED:
                self.ledger.settle(place, sent.tries, receipt.status)
                self._doubted.discard(place)
                counts.accepted += place.events
            case Answer.POISON | Answer.TOO_LARGE if place.events > 1:
                halves = self._halves(place, batch)
                sizes = [(half, cut.bytes) for half, cut in halves]
                self.ledger.split(place, sizes, sent.tries, receipt.status, receipt.detail)
                counts.batches_split += 1
                counts.batches_made += len(halves)
                # The last one is taken first: one way down to the poison before the next, so few halves are open.
                self._children.extend(reversed(halves))
            case Answer.POISON | Answer.TOO_LARGE:
                self.ledger.refuse(place, _uuid_of(batch), sent.tries, receipt.status, receipt.detail)
                counts.refused += 1
                if counts.refused > self.pace.max_refused:
                    self._fail(too_many_refused(counts.refused, receipt))
            case _:
                status = receipt.status or None
                if sent.doubtful or place in self._doubted:
                    self.ledger.doubt(place, sent.tries, status, receipt.detail)
                else:
                    self.ledger.withhold(place, sent.tries, status, receipt.detail)
                if error is not None:
                    self._fail(error)
                elif receipt.answer is Answer.STOP:
                    self._fail(turned_away(self.sink.address, receipt))
                elif ends:
                    self._fail(unanswered(self.sink.address, sent))

    def _halves(self, place: Place, batch: Batch) -> list[tuple[Place, Batch]]:
        events = unpack(batch.body)
        middle = len(events) // 2
        halves = [
            seal_batch(events[:middle], place.first, self._envelope),
            seal_batch(events[middle:], place.first + middle, self._envelope),
        ]
        return [(Place(place.phase, place.block, half.first, half.last), half) for half in halves]

    # -- ending --------------------------------------------------------------------------------------

    def _fail(self, problem: Exception) -> None:
        self._problem = self._problem or problem
        self._stop.set()

    def _halting(self) -> bool:
        """Whether nothing new may begin; tells the senders to wait no longer."""
        if self.interrupted.is_set():
            self._stop.set()
        return self._stop.is_set()

    def _check(self) -> None:
        if self._halting():
            raise _Stopping


class _Named(msgspec.Struct):
    uuid: str


def _uuid_of(batch: Batch) -> str:
    """The uuid of a batch's first event."""
    return msgspec.json.decode(unpack(batch.body)[0], type=_Named).uuid
