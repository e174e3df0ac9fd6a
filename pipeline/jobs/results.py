"""What a run of a job did about each of its windows, and which problem decides how it ends."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import BackcastError, Differences, Refused, Unfinished, UnreadableExport, UnsafePlan
from pipeline.jobs.hooks import JobHooks, WindowRun
from pipeline.jobs.job import plan_directory
from pipeline.jobs.state import Attempt, State
from pipeline.jobs.wording import in_job_words
from pipeline.options import RunOptions
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.state import read_status
from pipeline.text import pluralize

_URGENCY: tuple[type[BackcastError], ...] = (UnsafePlan, UnreadableExport, Refused, Differences, Unfinished)
"""If windows have several kinds of problems, the first kind here decides the exit code."""


class RunResults:
    """Records and reports windows. `runs` is what was done about each; `problems` are the errors of windows that did
    not end the run."""

    def __init__(self, state: State, root: Path, options: RunOptions, hooks: JobHooks) -> None:
        self._state = state
        self._root = root
        self._options = options
        self._hooks = hooks
        self.runs: list[WindowRun] = []
        self.problems: list[BackcastError] = []

    def most_urgent_problem(self) -> BackcastError | None:
        """The problem that decides the exit code; windows without files count together as one problem."""
        problems = list(self.problems)
        waiting = [run for run in self.runs if run.outcome == "waiting"]
        if waiting:
            wait = "waits for its" if len(waiting) == 1 else "wait for their"
            problems.append(
                Unfinished(
                    f"{pluralize(len(waiting), 'window')} {wait} files, the first: {waiting[0].window},"
                    f" {waiting[0].detail}",
                    hint="the next run checks again; with `missing: done` such a window counts as empty",
                )
            )
        return next((problem for kind in _URGENCY for problem in problems if isinstance(problem, kind)), None)

    def mark(self, label: str, state: str, detail: str) -> None:
        """Record and report a window that has no plan."""
        self._state.mark(label, state, detail)
        self.report(label, state, detail)

    def stop(
        self, label: str, detail: str, error: BackcastError, attempt: Attempt | None = None, plan: Plan | None = None,
        *, done: bool = False,
    ) -> None:  # fmt: skip
        """Record and report a window that cannot be sent as it is; the run goes on with others. `done`: its earlier
        content was sent."""
        detail = in_job_words(detail)
        self._state.stop(label, detail, attempt, done=done)
        self.problems.append(error)
        self.report(label, "stopped", detail, attempt and self._state.attempt(attempt.id), plan)

    def report(
        self, label: str, outcome: str, detail: str = "", attempt: Attempt | None = None, plan: Plan | None = None
    ) -> None:
        """Report what was done about a window, and the state of its plan."""
        path = state = ""
        if attempt is not None:
            directory = plan_directory(self._root, label, attempt.number)
            path = "" if self._options.dry_run else str(directory.path)
            state = str(read_status(plan, directory).state) if plan is not None else ""
        self.runs.append(WindowRun(label, outcome, path, attempt, detail, state))
        self._hooks.ended(self.runs[-1])
