"""Processes the windows of one run of a job: finds their new files, plans them, checks the plan, sends and records it.

Each window is a plan like any other, in its own directory. What earlier windows settled is left out of it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config import Secret
from pipeline.delivery.send import Hooks
from pipeline.errors import (
    Differences,
    Interrupted,
    Refused,
    StalePlan,
    Unfinished,
    UnfitExport,
    UnreadableExport,
    UnsafePlan,
)
from pipeline.jobs.arrivals import Arrivals, find_arrivals, is_there, lacks_hours, late_files, may_have_changed, name_of
from pipeline.jobs.calendar import Window
from pipeline.jobs.hooks import JobHooks
from pipeline.jobs.job import Job, plan_directory, windows_folder
from pipeline.jobs.opening import plan_counts
from pipeline.jobs.proof import already_there
from pipeline.jobs.results import RunResults
from pipeline.jobs.sending import send_window
from pipeline.jobs.state import EXPORTED_AGAIN, IGNORED, Attempt, State
from pipeline.ledger import read_totals, was_ever_applied
from pipeline.option_types import PathText
from pipeline.options import RehearseOptions, RunOptions
from pipeline.plan.create import create_plan
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.series import Series
from pipeline.preflight.run import PreflightRequest
from pipeline.rehearsal import rehearse
from pipeline.report.machine import write_report
from pipeline.report.rejects import refusal
from pipeline.report.state import check_rehearsed, read_status
from pipeline.text import are, pluralize, some_of
from pipeline.timestamps import SECOND

if TYPE_CHECKING:
    from pipeline.delivery.outcome import RunCounts


MOST_NAMED = 3
"""For a window that was exported again, at most this many files are named."""
BeforeSending = Callable[[Plan, Directory], None]


class WindowRunner:
    """Processes the windows of one run, with their plans below `root`.

    `results` is what was done about each. `request` has the personal key, if any, with which sent events are compared
    with what landed (`pipeline.jobs.proof`). `before_sending` is called with each plan that is about to be sent. Events
    from `until` on (µs UTC) are left out.
    """

    def __init__(
        self,
        job: Job,
        state: State,
        root: Path,
        key: Secret,
        options: RunOptions,
        hooks: JobHooks,
        request: PreflightRequest,
    ) -> None:
        self.job = job
        self.state = state
        self.root = root
        self.key = key
        self.options = options
        self.hooks = hooks
        self.before_sending: BeforeSending = lambda plan, directory: None
        self.until: int | None = None
        self.reader = request.personal_key
        self.request = request
        self.results = RunResults(state, root, options, hooks)

    def process(self, due: list[Window]) -> None:
        """Finish sending the window that an earlier run began, then process those that are due, oldest first.

        Raises what ends the run.
        """
        unfinished = self._resume()
        before = self.state.windows()
        done = [window.label for window in due if window.label in before and before[window.label].state == "done"]
        # The last windows may still get more files; in the others, a change is unexpected.
        finished = {*done[: max(0, len(done) - self.job.lookback)]}
        for window in due:
            self.check_interrupted()
            label = window.label
            if label == unfinished:
                continue
            noticed = before[label].detail if label in done and before[label].exported_again else ""
            if label in finished:
                self._look_again(window, noticed)
            else:
                self._process(window, noticed, done=label in done)

    def check_interrupted(self) -> None:
        """Raise Interrupted once a person has asked for an end."""
        if self.hooks.interrupted.is_set():
            raise Interrupted("stopped by hand; what was in flight is settled", hint="run the same command again")

    def _resume(self) -> str:
        """Finish what an earlier run did not send completely. Returns the window that a dry run leaves as it is."""
        while (attempt := self.state.sending()) is not None:
            if self.options.dry_run:
                detail = "partly sent; the next run finishes it first"
                self.results.report(attempt.window, "unfinished", detail, attempt)
                return attempt.window
            self._send(attempt, *open_plan(plan_directory(self.root, attempt.window, attempt.number).path))
        return ""

    def _process(self, window: Window, noticed: str, *, done: bool) -> None:
        """Plan what is new in a window; `noticed` was reported before about a window that is done."""
        label = window.label
        recorded = self.state.parts(label)
        try:
            arrivals = find_arrivals(self.job, window, recorded)
        except UnreadableExport as error:
            self.results.stop(label, error.message, error)
            return
        self._refresh(label, arrivals)
        if done and arrivals.files and arrivals.replaced and self.job.changed:
            late = late_files(arrivals, self.job.folder) if self.job.changed == "ignore" else ()
            changed = tuple(file for file in arrivals.files if file not in late)
            self._apply_rule(self.job.changed, window, arrivals._replace(files=changed), noticed)
            if late:
                self._plan(window, late)
        elif arrivals.files:
            lacks = "" if done or self.job.missing == "done" else self._lacks_hours(window, arrivals.names)
            if lacks:
                self._miss(label, lacks)
            else:
                self._plan(window, arrivals.files)
        elif done:
            self._end_notice(label, noticed)
        elif (arrivals.absent and not recorded) or self.state.was_replaced(label):
            self._miss(label, arrivals.absent or "its changed files are gone")
        else:
            self.results.mark(
                label, "done", "the file that stopped it is gone" if recorded else "its files have no rows"
            )

    def _look_again(self, window: Window, noticed: str) -> None:
        """Check whether the files of a finished window were exported again; `noticed` was reported before."""
        label = window.label
        recorded = self.state.parts(label)
        try:
            changed = may_have_changed(self.job, window, recorded)
            arrivals = find_arrivals(self.job, window, recorded) if changed else Arrivals()
        except UnreadableExport as error:
            self.results.stop(
                label, f"{EXPORTED_AGAIN}; its files cannot be read now: {error.message}", error, done=True
            )
            return
        self._refresh(label, arrivals)
        if arrivals.files:
            self._apply_rule(self.job.changed or "stop", window, arrivals, noticed)
        else:
            self._end_notice(label, noticed)

    def _end_notice(self, label: str, noticed: str) -> None:
        """Drop the notice, since the files of a finished window are as they were."""
        if noticed:
            self.state.mark(label, "done", "")

    def _refresh(self, label: str, arrivals: Arrivals) -> None:
        if arrivals.touched:
            self.state.refresh(label, arrivals.touched)

    def _apply_rule(self, rule: str, window: Window, arrivals: Arrivals, noticed: str = "") -> None:
        """Do what the rule says about files of a finished window that were exported again."""
        names = [name_of(file, "", self.job.folder) for file in arrivals.files]
        detail = f"{EXPORTED_AGAIN}: {some_of(names, MOST_NAMED)}"
        if rule != "ignore":
            self._plan(window, arrivals.files, again=detail if rule == "stop" else "")
            if rule == "send-new":
                gone = [name for name in arrivals.replaced if not is_there(name, self.job.folder)]
                self.state.forget(window.label, gone)
        elif (f"{detail}{IGNORED}", arrivals.content) != (noticed, self.state.facts().get(f"ignored {window.label}")):
            self.state.remember(**{f"ignored {window.label}": arrivals.content})
            self.results.mark(window.label, "done", f"{detail}{IGNORED}")

    def _lacks_hours(self, window: Window, names: Collection[str]) -> str:
        return lacks_hours(self.job, window, names, self.state.parts_before)

    def _miss(self, label: str, why: str) -> None:
        """Report that no file is at the window's path, or not those of all hours."""
        if self.state.was_replaced(label):
            self.results.mark(label, "waiting", f"{why}, but a part of it was sent")
        else:
            self.results.mark(label, "done" if self.job.missing == "done" else "waiting", why)
        if self.job.missing == "stop":
            raise UnreadableExport(
                f"window {label} lacks files: {why}",
                hint="add the files, or write `missing: wait` or `missing: done` in the job file",
            )

    # -- planning ------------------------------------------------------------------------------------

    def _plan(self, window: Window, files: tuple[str, ...], again: str = "") -> None:
        """Plan the new files of a window, and send the plan if its checks pass.

        `again` says that files of a finished window were exported again: then the window is stopped, unless everything
        in them was sent before, unchanged.
        """
        label, number = window.label, self.state.next_number(window.label)
        directory = plan_directory(self.root, label, number)
        attempt = self.state.begin(label, number)
        options = replace(
            self.job.plan, as_of=self.job.as_of(window), profile_policy="fill-only", earlier=self._earlier_plans(),
            until=self.until, workers=self.options.workers,
        )  # fmt: skip
        started = time.monotonic()
        try:
            with self.hooks.reading(label) as progress:

                def read(rows: int, length: int) -> None:
                    self.check_interrupted()  # nothing was sent yet, so the run may end at any row
                    progress(rows, length)

                series = Series(
                    self.state.settled, self.state.identities, self.job.most_merges, self.state.groups, {*files}
                )
                source = self.job.source.pattern(window.wall, self.job.folder)
                plan = create_plan([source], directory.path, options, progress=read, series=series)
        except (UnreadableExport, UnfitExport) as error:
            unreadable = UnreadableExport(error.message, hint=error.hint)
            self.results.stop(
                label, "; ".join(filter(None, (again, error.message))), unreadable, attempt, done=bool(again)
            )
            return
        write_report(directory, plan)
        attempt = self.state.update(attempt, seconds=time.monotonic() - started, **plan_counts(plan))
        stops = [check.detail for check in plan.gates if check.level == "stop"]
        if again and (plan.events.made or attempt.changed):
            self._stop_changed(attempt, plan, directory, again)
            return
        if not (stops or self.options.dry_run or not plan.events.made):
            stops += self._rehearse(plan, directory)
            if self.reader and not self.state.was_replaced(label):  # after a replacement, events are in doubt
                alone, warn = not self.state.has_sent(label), self.hooks.warn
                stops += already_there(self.request, plan, directory, alone=alone, warn=warn)
        events = plan.events.phases.get("events", 0)
        if self.job.plan.person_properties == "final" and events:
            # The oldest value would win: a later window never corrects what fill-only wrote.
            stops.append(
                f"it has {pluralize(events, 'event')}, but `persons: {{properties: final}}` is only for exports"
                " of profiles"
            )
        if stops:
            if again:
                stops.insert(0, again)
            detail = "; ".join(stops)
            hint = "fix its files, the mapping or the job; the next run plans it again"
            if not self.options.dry_run:
                hint = f"see {directory.report_html}; {hint}"
            unsafe = UnsafePlan(f"window {label} is stopped: {detail}", hint=hint)
            self.results.stop(label, detail, unsafe, attempt, plan, done=bool(again))
        elif self.options.dry_run:
            attempt = self.state.record(attempt, plan, directory, self.job.folder, dry_run=True)
            self.results.report(label, "planned", attempt=attempt)
            shutil.rmtree(directory.path)
        elif not plan.events.made:
            self._record(attempt, plan, directory)
        else:
            self.state.send(attempt)
            self._send(attempt, plan, directory)

    def _stop_changed(self, attempt: Attempt, plan: Plan, directory: Directory, again: str) -> None:
        """Stop a finished window whose files have new events, or other values for events that were sent."""
        detail = f"{again}; {attempt.events:,} events are new, {attempt.already:,} were sent before"
        detail += f", {attempt.changed:,} of them with other values now" if attempt.changed else ""
        hint = "write `changed: send-new` in the job file to send what is new, or `changed: ignore`, or restore them"
        if not self.options.dry_run:
            hint = f"see {directory.report_html}; {hint}"
        unsafe = UnsafePlan(f"window {attempt.window} is stopped: {detail}", hint=hint)
        self.results.stop(attempt.window, detail, unsafe, attempt, plan, done=True)

    def _rehearse(self, plan: Plan, directory: Directory) -> Iterator[str]:
        """Rehearse a plan if the job asks for that. Yields why it must not be sent."""
        if not self.job.apply.require_rehearsal:
            return
        try:
            rehearse(plan, directory, RehearseOptions(), Hooks(warn=self.hooks.warn))
            check_rehearsed(plan, directory)
        except (Refused, Unfinished, UnsafePlan) as error:
            yield f"its rehearsal: {error.message}"
        else:
            shutil.rmtree(directory.rehearsal, ignore_errors=True)  # its results are in the report

    def _earlier_plans(self) -> list[PathText]:
        """The plans whose merges a new one must not contradict; none if merges are held back."""
        if self.job.most_merges is None:
            return []
        plans = sorted(windows_folder(self.job.state).glob("*/plan-*"))
        return [*(self.job.plan.earlier or ()), *(path for path in plans if was_ever_applied(Directory(path).ledger))]

    # -- sending -------------------------------------------------------------------------------------

    def _send(self, attempt: Attempt, plan: Plan, directory: Directory) -> None:
        """Send a plan, or what is unsent of it, and record the window. Raises what ends the run."""
        status = read_status(plan, directory)
        if status.unsent or status.totals.in_doubt:
            try:
                self.before_sending(plan, directory)
                with self.hooks.sending(attempt.window, plan.events.made) as progress:
                    run = Hooks(self._with_lag(attempt.window, progress), self.hooks.warn, self.hooks.interrupted)
                    known = self.state.sent_before()
                    outcome = send_window(self.job, plan, directory, (self.key, self.reader), run, target_known=known)
            except StalePlan as error:
                self._replace(attempt, plan, directory, error)
                return
            except (Differences, Refused) as error:  # from the canary: the rest stays unsent, and a later run resumes
                self.results.report(attempt.window, "unfinished", error.message, attempt, plan)
                raise
            totals = read_totals(directory.ledger)
            seconds = attempt.seconds + outcome.seconds
            attempt = self.state.update(attempt, seconds=seconds, sent=totals.settled, refused=totals.refused)
            if isinstance(outcome.problem, StalePlan):
                self._replace(attempt, plan, directory, outcome.problem)
                return
            if outcome.problem is not None or not outcome.balanced:
                detail = f"{pluralize(outcome.unsent, 'event')} unsent, {outcome.counts.in_doubt} in doubt"
                self.results.report(attempt.window, "unfinished", detail, attempt, plan)
                raise outcome.problem or Unfinished(
                    f"window {attempt.window} is not completely sent: {detail}",
                    hint="run the same command again to resume",
                )
        self._record(attempt, plan, directory)

    def _with_lag(self, label: str, progress: Callable[[RunCounts], None]) -> Callable[[RunCounts], None]:
        """The progress hook, with counts that say how long ago the window ended."""
        end = self.job.calendar.window(label).end / SECOND

        def report(counts: RunCounts) -> None:
            counts.behind = time.time() - end
            progress(counts)

        return report

    def _record(self, attempt: Attempt, plan: Plan, directory: Directory) -> None:
        """Record that everything of the plan is settled or refused, so the window is done."""
        attempt = self.state.record(attempt, plan, directory, self.job.folder, read_back=bool(self.reader))
        lacks = self._lacks_hours(self.job.calendar.window(attempt.window), self.state.parts(attempt.window))
        if lacks:
            self.state.mark(attempt.window, "done", lacks)
        self.results.report(attempt.window, "done", lacks, attempt, plan)
        if attempt.refused:
            error = refusal(directory)
            hint = f"{error.hint}; they are sent again only if their file changes"
            self.results.problems.append(
                Refused(f"window {attempt.window}: {error.message}", status=error.status, hint=hint)
            )

    def _replace(self, attempt: Attempt, plan: Plan, directory: Directory, error: StalePlan) -> None:
        """Replace a sealed plan whose files changed: what was settled stays, and a new plan sends the rest."""
        totals = read_totals(directory.ledger)
        doubt = f", {totals.in_doubt} in doubt are planned again with the same uuids" if totals.in_doubt else ""
        detail = f"{pluralize(totals.settled, 'event')} {are(totals.settled)} settled{doubt}; {error.message}"
        self.state.replace(attempt, directory, detail)
        self.results.report(attempt.window, "replaced", detail, self.state.attempt(attempt.id), plan)
