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
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from pipeline.batch import Batch, Envelope, pack, seal_batch, unpack
from pipeline.deliver.retry import Patience, Sent, send_patiently
from pipeline.deliver.sink import Answer, Sink
from pipeline.errors import Interrupted, Refused, Unfinished
from pipeline.ledger import Ledger, Place
from pipeline.make import Made, Recipe, Task, make_batches
from pipeline.plan.directory import Directory
from pipeline.plan.reading import Planned, link_blocks, planned_blocks, task_of, tasks
from pipeline.plan.sealed import Plan
from pipeline.workers import Workers

PHASES = ("identities", "groups", "events", "persons")


@dataclass(frozen=True, slots=True)
class Pace:
    """How hard to push: requests in flight, patience with each, refused events before giving up."""

    concurrency: int = 8
    patience: Patience = field(default_factory=Patience)
    max_refused: int = 100


class Counts(msgspec.Struct):
    """What this run did, in events and in batches; `already_settled` is the work of earlier runs."""

    made: int = 0
    accepted: int = 0
    refused: int = 0
    in_doubt: int = 0
    already_settled: int = 0
    batches_made: int = 0
    batches_sent: int = 0
    batches_retried: int = 0
    batches_split: int = 0
    bytes_sent: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `planned` = settled before + accepted + refused + in doubt + `unsent` (law 1)."""

    digest: str
    dry_run: bool
    planned: int
    counts: Counts
    seconds: float

    @property
    def unsent(self) -> int:
        counts = self.counts
        return self.planned - counts.already_settled - counts.accepted - counts.refused - counts.in_doubt

    @property
    def balanced(self) -> bool:
        return self.unsent == 0 and self.counts.in_doubt == 0


class _Flight(NamedTuple):
    place: Place
    batch: Batch


class _Landed(NamedTuple):
    flight: _Flight
    sent: Sent


class Apply:
    """One run over a plan. `run` returns the outcome, or raises after everything in flight is written down.

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
        self._landed: queue.SimpleQueue[Future[_Landed]] = queue.SimpleQueue()
        self._children: deque[tuple[Place, Batch]] = deque()
        self._flying = 0

    def run(self) -> Outcome:
        started = time.monotonic()
        before = self.ledger.totals()
        self.counts.already_settled = before.settled
        self.counts.refused = before.refused
        outcome = "failed"
        try:
            with ThreadPoolExecutor(self.pace.concurrency, "sender") as senders:
                try:
                    self._phases(senders)
                    outcome = "done"
                except BaseException:
                    self._stop.set()
                    raise
                finally:
                    self._drain(senders)
                self._raise_problem()
        except (Interrupted, Unfinished):
            outcome = "stopped"
            raise
        finally:
            self.counts.in_doubt = self.ledger.totals().in_doubt
            if outcome == "done" and (self.counts.in_doubt or self._problem):
                outcome = "stopped"
            counts = self.counts
            self.ledger.finish(outcome, counts.batches_sent, counts.batches_retried, counts.batches_split)
            counts.made = counts.accepted + counts.refused + counts.in_doubt + counts.already_settled
        return Outcome(self.plan.digest, self.dry_run, self.plan.events.made, self.counts, time.monotonic() - started)

    # -- making --------------------------------------------------------------------------------------

    def _phases(self, senders: ThreadPoolExecutor) -> None:
        phases = self.plan.events.phases
        if phases.get("identities"):
            for number, batches in self._identities():
                self._send("identities", number, batches, senders)
            # A merge has to be in before the events that need it.
            self._drain(senders)
            self._raise_problem()
        if phases.get("events"):
            with Workers(self.workers, self.recipe, self.project_key) as workers:
                begun = self.ledger.blocks_begun("events")
                choose = self._chooser(begun)
                for task, made in workers.walk(
                    make_batches, tasks(self.plan, self.directory, self.recipe.parts, choose)
                ):
                    self._send_made(task, made, senders)
                self._drain(senders)

    def _identities(self) -> Iterator[tuple[int, list[Batch]]]:
        mapper = self.recipe.compile(self.recipe.options)
        for number, events in link_blocks(self.plan, self.directory, mapper, self.recipe.options):
            ended, doubtful = self._known("identities", number)
            yield number, list(pack(events, self._envelope, self.recipe.limits, ended, doubtful))

    def _chooser(self, begun: set[int]) -> Callable[[Planned], Task | None]:
        def choose(planned: Planned) -> Task | None:
            number = planned.sealed.number
            if not planned.events:
                return None
            task = task_of(self.plan, planned)
            if number not in begun:
                return task
            ended, doubtful = self._known("events", number)
            rows = self.ledger.rows_of("events", number)
            done = sum(place.events for place, state in rows if state in ("settled", "refused"))
            if done == planned.events:
                return None
            return task._replace(ended=ended, doubtful=doubtful)

        return choose

    def _known(self, phase: str, number: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        rows = self.ledger.rows_of(phase, number)
        ended = [(place.first, place.last) for place, state in rows if state != "begun"]
        doubtful = [(place.first, place.last) for place, state in rows if state == "begun"]
        return ended, doubtful

    def _send_made(self, task: Task, made: Made, senders: ThreadPoolExecutor) -> None:
        self._send("events", task.number, made.batches, senders)

    # -- sending -------------------------------------------------------------------------------------

    def _send(self, phase: str, number: int, batches: list[Batch], senders: ThreadPoolExecutor) -> None:
        """Begin and send a block's batches, as room allows; write down what landed meanwhile."""
        waiting = deque((Place(phase, number, batch.first, batch.last), batch) for batch in batches)
        self.counts.batches_made += len(waiting)
        while waiting or self._children:
            self._raise_problem()
            room = self.pace.concurrency * 2 - self._flying
            if room <= 0:
                self._step([], senders, wait=True)
                continue
            chosen = []
            while room > 0 and (self._children or waiting):
                chosen.append(self._children.popleft() if self._children else waiting.popleft())
                room -= 1
            self._step(chosen, senders, wait=False)

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
            future = senders.submit(self._post, _Flight(place, batch))
            future.add_done_callback(self._landed.put)
        self.counts.in_flight = self._flying
        self.progress(self.counts)

    def _post(self, flight: _Flight) -> _Landed:
        return _Landed(flight, send_patiently(self.sink, flight.batch.body, self.pace.patience, self._stop))

    def _collect(self, wait: bool) -> list[_Landed]:
        landed = []
        while self._flying:
            try:
                future = self._landed.get(block=wait and not landed, timeout=0.2)
            except queue.Empty:
                if wait and not landed and not self.interrupted.is_set():
                    continue
                break
            self._flying -= 1
            landed.append(future.result())
        return landed

    def _record(self, landed: _Landed) -> None:
        """Write one answer down, and decide what it means for the run."""
        place, batch = landed.flight
        sent, receipt = landed.sent, landed.sent.receipt
        counts = self.counts
        counts.batches_sent += 1
        counts.bytes_sent += len(batch.body)
        counts.batches_retried += sent.tries > 1
        match receipt.answer:
            case Answer.SETTLED:
                self.ledger.settle(place, sent.tries, receipt.status)
                counts.accepted += place.events
            case Answer.POISON | Answer.TOO_LARGE if place.events > 1:
                self.ledger.split(place, sent.tries, receipt.status, receipt.detail)
                counts.batches_split += 1
                for half in self._halves(place, batch):
                    self.ledger.begin(*half[:1], half[1].bytes)
                    self._children.append(half)
            case Answer.POISON | Answer.TOO_LARGE:
                uuid = unpack(batch.body)[0][-38:-2].decode()
                self.ledger.refuse(place, uuid, sent.tries, receipt.status, receipt.detail)
                counts.refused += 1
                if counts.refused > self.pace.max_refused:
                    self._fail(
                        Refused(
                            f"the service refused {counts.refused} events; the last: {receipt.status} {receipt.detail}",
                            status=receipt.status,
                            hint="see `backcast status`; raise --max-refused to go on all the same",
                        )
                    )
            case Answer.STOP:
                self.ledger.doubt(place, sent.tries, receipt.status, receipt.detail)
                self._fail(
                    Refused(
                        f"the service answered {receipt.status}: {receipt.detail}",
                        status=receipt.status,
                        hint="nothing is lost; mend the cause and run the same command again",
                    )
                )
            case Answer.RETRY | Answer.DOUBT:
                self.ledger.doubt(place, sent.tries, receipt.status or None, receipt.detail)
                self._fail(
                    Unfinished(
                        f"no answer that settles a batch after {sent.tries} tries; the last:"
                        f" {receipt.status or 'none'} {receipt.detail}",
                        hint="run the same command again to resume",
                    )
                )

    def _halves(self, place: Place, batch: Batch) -> list[tuple[Place, Batch]]:
        events = unpack(batch.body)
        middle = len(events) // 2
        halves = [
            seal_batch(events[:middle], place.first, self._envelope),
            seal_batch(events[middle:], place.first + middle, self._envelope),
        ]
        return [(Place(place.phase, place.block, half.first, half.last), half) for half in halves]

    def _fail(self, problem: Exception) -> None:
        self._problem = self._problem or problem
        self._stop.set()

    def _raise_problem(self) -> None:
        if self._problem is not None:
            raise self._problem
        if self.interrupted.is_set():
            raise Interrupted("stopped by hand; what was in flight is settled", hint="run the same command to resume")

    def _drain(self, senders: ThreadPoolExecutor) -> None:
        """Wait for everything in flight; go on with halves of split batches unless the run is stopping."""
        while self._flying or (self._children and not self._stop.is_set() and not self.interrupted.is_set()):
            begin = []
            while self._children and not self._stop.is_set() and len(begin) < self.pace.concurrency:
                begin.append(self._children.popleft())
            self._step(begin, senders, wait=not begin)


def planned_total(directory: Directory) -> int:
    """Events of the events phase after the tables, summed from the blocks."""
    return sum(planned.events for planned in planned_blocks(directory))
