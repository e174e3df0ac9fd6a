"""What one run of a job does about its windows: look, plan, check the gates, send, record.

Each window is a plan like any other, in a directory of its own; what earlier windows settled is left out of it.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pipeline.config import Secret
from pipeline.delivery.send import Hooks, send_plan
from pipeline.errors import (
    BackcastError,
    Differences,
    Interrupted,
    Refused,
    StalePlan,
    Unfinished,
    UnfitExport,
    UnreadableExport,
    UnsafePlan,
)
from pipeline.jobs import Arrivals, Attempt, Job, State, Window, counts_of, look, parts_of, plan_directory
from pipeline.jobs.paths import windows_folder
from pipeline.ledger import read_batches, read_totals, was_ever_applied
from pipeline.options import ApplyOptions, PlanOptions, RunOptions
from pipeline.plan.create import create_plan
from pipeline.plan.directory import Directory
from pipeline.plan.event_uuids import all_uuids, settled_uuids
from pipeline.plan.freshness import open_plan
from pipeline.plan.manifest import Plan
from pipeline.plan.series import Series
from pipeline.plan.window_index import WindowIndex
from pipeline.report.machine import add_applied, write_report
from pipeline.report.rejects import refusal
from pipeline.report.state import read_status

if TYPE_CHECKING:
    from pipeline.delivery.outcome import Outcome, RunCounts
    from pipeline.jobs.proof import Proof


class WindowRun(msgspec.Struct, frozen=True):
    """What a run did about one window.

    `outcome`: done, planned (a dry run), waiting (for files), stopped (a gate, a broken file), unfinished (being sent)
    or replaced (its files changed while it was being sent). `plan` is the directory of the plan and `state` where that
    plan stands (`report.state`), "" without one.
    """

    window: str
    outcome: str
    plan: str = ""
    attempt: Attempt | None = None
    detail: str = ""
    state: str = ""


Reading = Callable[[int, int], None]
"""Called with rows and bytes read so far."""
Sending = Callable[["RunCounts"], None]


@dataclass(frozen=True, slots=True)
class JobHooks:
    """What a job calls while it runs: `ended` and `proved` with each window, `warn` with a sentence for a person.

    `reading` and `sending` give a context manager for the time in which a window is planned, or sent (with its number
    of events); what it gives is called with the progress. Setting `interrupted` asks for an orderly end.
    """

    ended: Callable[[WindowRun], None] = lambda ended: None
    proved: Callable[[Proof], None] = lambda proof: None
    warn: Callable[[str], None] = lambda line: None
    reading: Callable[[str], AbstractContextManager[Reading]] = lambda window: nullcontext(lambda rows, length: None)
    sending: Callable[[str, int], AbstractContextManager[Sending]] = lambda window, events: nullcontext(
        lambda counts: None
    )
    interrupted: threading.Event = field(default_factory=threading.Event)


_URGENCY: tuple[type[BackcastError], ...] = (UnsafePlan, UnreadableExport, Refused, Differences, Unfinished)
"""Of windows in several kinds of trouble the first kind here is the exit code."""


class Windows:
    """The windows of one run; `done` and `problem` are what came of them. Plans go into `root`.

    `proving`: what is sent is read back afterwards (`pipeline.jobs.proof`).
    """

    def __init__(
        self, job: Job, state: State, root: Path, key: Secret, options: RunOptions, hooks: JobHooks, *, proving: bool
    ) -> None:
        self.job = job
        self.state = state
        self.root = root
        self.key = key
        self.dry_run = options.dry_run
        self.workers = options.workers
        self.hooks = hooks
        self.proving = proving
        self.done: list[WindowRun] = []
        self.ending: BackcastError | None = None
        self.troubles: list[BackcastError] = []

    @property
    def problem(self) -> BackcastError | None:
        """What ended the run, else the most urgent trouble of a window."""
        troubles = [*self.troubles, *self.waiting()]
        by_urgency = (one for kind in _URGENCY for one in troubles if isinstance(one, kind))
        return self.ending or next(by_urgency, None)

    def waiting(self) -> list[Unfinished]:
        """The windows without files, as one trouble."""
        windows = [one for one in self.done if one.outcome == "waiting"]
        if not windows:
            return []
        what = "1 window waits for its files" if len(windows) == 1 else f"{len(windows)} windows wait for their files"
        hint = "the next run looks again; with `missing: done` such a window counts as empty"
        return [Unfinished(f"{what}, the first: {windows[0].window}, {windows[0].detail}", hint=hint)]

    def go(self, due: list[Window]) -> None:
        """Finish what was begun, then do the windows that are due."""
        try:
            begun = self.resume()
            for window in self.candidates(due):
                self.check()
                if window.label not in begun:
                    self.take(window)
        except BackcastError as error:
            self.ending = error

    def check(self) -> None:
        """Raise Interrupted once somebody asked for an end."""
        if self.hooks.interrupted.is_set():
            raise Interrupted("stopped by hand; what was in flight is settled", hint="run the same command again")

    def resume(self) -> set[str]:
        """Send what an earlier run left half sent. Gives the windows that a dry run cannot look into."""
        if self.dry_run:
            attempt = self.state.sending()
            if attempt is None:
                return set()
            self.tell(attempt.window, "unfinished", attempt, detail="half sent; the next run finishes it first")
            return {attempt.window}
        while (attempt := self.state.sending()) is not None:
            plan, place = open_plan(plan_directory(self.root, attempt.window, attempt.number).path)
            self.send(attempt, plan, place)
        return set()

    def candidates(self, due: list[Window]) -> list[Window]:
        """The windows that are not done, and the last few that are: their files may have changed."""
        known = self.state.windows()
        done = [one.label for one in due if one.label in known and known[one.label].state == "done"]
        rest = set(done[: len(done) - self.job.lookback] if self.job.lookback else done)
        return [window for window in due if window.label not in rest]

    def take(self, window: Window) -> None:
        """Look at one window, and do what it takes."""
        label = window.label
        before = self.state.window(label)
        seen = self.state.parts(label)
        try:
            arrivals = look(self.job, window, seen)
        except UnreadableExport as error:
            self.state.mark(label, "stopped", error.message)
            self.stopped(label, error)
            return
        if arrivals.files:
            self.plan(window, arrivals)
        elif before is not None and before.state == "done":
            return
        elif (arrivals.absent and not seen) or self.state.was_replaced(label):
            self.missing(label, arrivals.absent or "its changed files are gone")
        else:
            self.state.mark(label, "done", "no rows" if not seen else "what stopped it is gone")
            self.tell(label, "done", detail="no rows in its files" if not seen else "what stopped it is gone")

    def missing(self, label: str, why: str) -> None:
        """There is nothing at the window's path."""
        half = self.state.was_replaced(label)
        if self.job.missing == "done" and not half:
            self.state.mark(label, "done", why)
            self.tell(label, "done", detail=why)
            return
        self.state.mark(label, "waiting", why)
        self.tell(label, "waiting", detail=f"{why}, and a part of it was sent" if half else why)
        if self.job.missing == "stop":
            raise UnreadableExport(
                f"window {label} has no files: {why}",
                hint="bring the export, or say `missing: wait` or `missing: done` in the job file",
            )

    # -- planning ------------------------------------------------------------------------------------

    def plan(self, window: Window, arrivals: Arrivals) -> None:
        """Plan what is new in a window; send it if the gates let it."""
        label, number = window.label, self.state.next_number(window.label)
        place = plan_directory(self.root, label, number)
        attempt = self.state.attempt(self.state.begin(label, number))
        started = time.monotonic()
        try:
            with self.hooks.reading(label) as told:
                plan = create_plan(
                    arrivals.files, place.path, self.plan_options(window),
                    progress=lambda *read: self.reading(told, *read),
                    series=Series(self.state.settled, self.state.known, self.job.most_merges),
                )  # fmt: skip
        except (UnreadableExport, UnfitExport) as error:
            self.state.stop(attempt, error.message)
            self.stopped(label, UnreadableExport(error.message, hint=error.hint), attempt)
            return
        write_report(place, plan)
        self.state.note(attempt.id, seconds=time.monotonic() - started, **counts_of(plan))
        stops = [gate.detail for gate in plan.gates if gate.level == "stop"]
        events = plan.events.phases.get("events", 0)
        if self.job.plan.person_properties == "final" and events:
            # The oldest value would win: fill-only is never corrected by a later window.
            stops.append(f"it holds {events} events, and `persons: {{properties: final}}` is for profiles alone")
        if stops:
            self.gated(attempt, plan, place, "; ".join(stops))
        elif self.dry_run:
            self.state.record(
                attempt, parts_of(plan, self.job.folder), all_uuids(place), WindowIndex.from_plan(plan, place)
            )
            self.tell(label, "planned", attempt)
            shutil.rmtree(place.path)
        elif not plan.events.made:
            self.record(attempt, plan, place)
        else:
            self.state.send(attempt)
            self.send(self.state.attempt(attempt.id), plan, place)

    def plan_options(self, window: Window) -> PlanOptions:
        """The options of a window's plan."""
        return replace(
            self.job.plan, as_of=self.job.as_of(window), profile_policy="fill-only", earlier=self.merged_before(),
            workers=self.workers,
        )  # fmt: skip

    def merged_before(self) -> list[Path]:
        """The plans whose merges a new one must not contradict; none where merges are held back."""
        if self.job.most_merges is None:
            return []
        plans = sorted(windows_folder(self.job.state).glob("*/plan-*"))
        return [path for path in plans if was_ever_applied(Directory(path).ledger)]

    def reading(self, told: Reading, rows: int, length: int) -> None:
        """Called while a plan is made: nothing is at stake yet, so an end may come at once."""
        self.check()
        told(rows, length)

    def gated(self, attempt: Attempt, plan: Plan, place: Directory, detail: str) -> None:
        """A gate stopped the plan."""
        self.state.stop(attempt, detail)
        hint = "mend its files, the mapping or the job; the next run plans it again"
        if not self.dry_run:
            hint = f"see {place.report_html}; {hint}"
        error = UnsafePlan(f"window {attempt.window} is stopped: {detail}", hint=hint)
        self.stopped(attempt.window, error, attempt, plan)

    def stopped(
        self, label: str, error: BackcastError, attempt: Attempt | None = None, plan: Plan | None = None
    ) -> None:
        """This window cannot go on; others can."""
        self.troubles.append(error)
        detail = error.message.removeprefix(f"window {label} is stopped: ")
        self.tell(label, "stopped", attempt, detail=detail, plan=plan)

    # -- sending -------------------------------------------------------------------------------------

    def send(self, attempt: Attempt, plan: Plan, place: Directory) -> None:
        """Send a plan, or what is left of it, and record the window. Raises what stops the sending."""
        current = read_status(plan, place)
        if current.unsent or current.totals.in_doubt:
            try:
                with self.hooks.sending(attempt.window, plan.events.made) as told:
                    outcome = send_plan(
                        plan, place, self.job.to, self.key, self.apply_options(plan),
                        Hooks(told, self.hooks.warn, self.hooks.interrupted), target_known=self.state.sent_before(),
                    )  # fmt: skip
            except StalePlan as error:
                self.replace(attempt, plan, place, error)
                return
            problem = add_applied(place, plan)
            if problem:
                self.hooks.warn(problem)
            totals = read_totals(place.ledger)
            seconds = attempt.seconds + outcome.seconds
            self.state.note(attempt.id, seconds=seconds, sent=totals.settled, refused=totals.refused)
            if isinstance(outcome.problem, StalePlan):
                self.replace(attempt, plan, place, outcome.problem)
                return
            if outcome.problem is not None or not outcome.balanced:
                self.tell(attempt.window, "unfinished", attempt, detail=_left(outcome), plan=plan)
                raise outcome.problem or Unfinished(
                    f"window {attempt.window} is not sent to its end: {_left(outcome)}",
                    hint="run the same command again to resume",
                )
        self.record(attempt, plan, place)

    def apply_options(self, plan: Plan) -> ApplyOptions:
        """The options of sending a window. The job file's target is the consent, its `merges` the approval."""
        return replace(self.job.apply, approve_merges=plan.events.phases.get("identities", 0), workers=self.workers)

    def record(self, attempt: Attempt, plan: Plan, place: Directory) -> None:
        """Everything of the plan is settled or refused: the window is done."""
        totals = read_totals(place.ledger)
        settled = settled_uuids(place, read_batches(place.ledger, "settled"))
        self.state.record(
            attempt, parts_of(plan, self.job.folder), settled, WindowIndex.from_plan(plan, place),
            sent=totals.settled, refused=totals.refused, proof="pending" if self.proving and totals.settled else "",
        )  # fmt: skip
        self.tell(attempt.window, "done", attempt, plan=plan)
        if totals.refused:
            error = refusal(place)
            hint = f"{error.hint}; they are sent again only if their file changes"
            self.troubles.append(Refused(f"window {attempt.window}: {error.message}", status=error.status, hint=hint))

    def replace(self, attempt: Attempt, plan: Plan, place: Directory, error: StalePlan) -> None:
        """What was sealed is no more: keep what was settled, and plan the rest anew."""
        totals = read_totals(place.ledger)
        settled = settled_uuids(place, read_batches(place.ledger, "settled"))
        doubt = f", {totals.in_doubt} in doubt are planned again with the same uuids" if totals.in_doubt else ""
        detail = f"{totals.settled} events are settled{doubt}; {error.message}"
        self.state.replace(
            attempt,
            settled,
            WindowIndex.from_unfinished_plan(place),
            detail,
            sent=totals.settled,
            refused=totals.refused,
        )
        self.tell(attempt.window, "replaced", attempt, detail=detail, plan=plan)

    def tell(
        self,
        label: str,
        outcome: str,
        attempt: Attempt | None = None,
        *,
        detail: str = "",
        plan: Plan | None = None,
    ) -> None:
        """Say what came of a window, and where its plan stands."""
        where = state = ""
        if attempt is not None:
            attempt = self.state.attempt(attempt.id)
            place = plan_directory(self.root, label, attempt.number)
            where = "" if self.dry_run else str(place.path)
            state = str(read_status(plan, place).state) if plan is not None else ""
        ended = WindowRun(label, outcome, where, attempt, detail, state)
        self.done.append(ended)
        self.hooks.ended(ended)


def _left(outcome: Outcome) -> str:
    return f"{outcome.unsent} events unsent, {outcome.counts.in_doubt} in doubt"
