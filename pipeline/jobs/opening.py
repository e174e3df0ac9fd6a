"""Opens the state of a job for a run, or for a dry run that changes nothing.

A lost state is rebuilt from the plans and ledgers of the windows, so nothing that was settled is sent again.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import UnsafePlan, UsageError
from pipeline.jobs.arrivals import lacks_hours
from pipeline.jobs.job import Job, plan_directory, state_file, windows_folder
from pipeline.jobs.state import State
from pipeline.ledger import lock_file, read_summary, read_totals, unlock, was_ever_applied
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.discarded import discarded_of
from pipeline.plan.sealed.manifest import Plan, load
from pipeline.report.state import read_status
from pipeline.targets import address_of


@contextmanager
def open_state(job: Job, *, dry_run: bool) -> Iterator[tuple[State, Path]]:
    """The job's state, locked, and the folder for its plans; for a dry run, copies that are deleted at the end.

    Raises UsageError, Busy if another run has the lock, BrokenLedger, Unfinished.
    """
    path = state_file(job.state)
    # Another target or calendar would make the uuids and labels in a state wrong.
    belongs = {
        "job": job.name,
        "target": address_of(job.to),
        "window": job.calendar.kind,
        "window_timezone": job.calendar.zone,
    }
    if dry_run:
        if _is_lost(job):
            raise UsageError(
                f"{path} is missing, although plans next to it were sent",
                hint="run the job once without --dry-run: that rebuilds the file from the plans",
            )
        with tempfile.TemporaryDirectory(prefix="backcast-") as name:
            folder = Path(name)
            with closing(State.scratch(path, folder / path.name, belongs)) as state:
                yield state, folder
        return
    try:
        job.state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write {job.state}: {error.strerror}",
            hint="name a folder that you may write under `state` in the job file",
        ) from None
    lock = lock_file(job.state / "job", f"the job {job.name}, with its state in {job.state},")
    try:
        if _is_lost(job):
            _rebuild(job, path, belongs)
        with closing(State.open(path, belongs)) as state:
            state.remember(folder=os.path.relpath(job.folder, job.state))
            yield state, job.state
    finally:
        unlock(lock)


def plan_counts(plan: Plan) -> dict[str, int]:
    """The columns of an attempt that its plan gives."""
    return {
        "parts": len(plan.parts),
        "rows": plan.rows.read,
        "skipped": plan.rows.skipped,
        "rejected": plan.rows.rejected,
        "already": plan.skips.get("already_settled", 0),
        "changed": plan.warnings.get("changed_since_settled", 0),
        "events": plan.events.made,
        "held": plan.warnings.get("held_link", 0),
    }


def _is_lost(job: Job) -> bool:
    return not state_file(job.state).exists() and windows_folder(job.state).is_dir()


def _rebuild(job: Job, path: Path, belongs: dict[str, str]) -> None:
    """Record every plan that was sent, completely or partly, in the order in which they were sent. Raises UnsafePlan,
    BrokenLedger."""
    new = path.with_name(path.name + ".new")  # an incomplete state must not remain under the final name
    for stale in path.parent.glob(new.name + "*"):
        stale.unlink()
    with closing(State.open(new, belongs)) as state:
        windows = sorted(windows_folder(job.state).iterdir())
        sent = sorted(one for window in windows for one in _sent_plans(window))
        last = {window: number for _, _, window, number in sorted(sent, key=lambda one: one[2:])}
        for _, planned, window, number in sent:
            directory = plan_directory(job.state, window, number)
            plan = load(directory)
            if (gone := discarded_of(plan, directory)) is not None:
                raise UnsafePlan(
                    f"{path} is lost and cannot be rebuilt from the plans: the events of window {window} were"
                    f" discarded at {gone.at}",
                    hint=f"restore {path} from a copy",
                )
            attempt = state.update(state.begin(window, number), started=_utc(planned), **plan_counts(plan))
            totals = read_totals(directory.ledger)
            try:
                if totals.settled + totals.refused == plan.events.made and not totals.in_doubt:
                    attempt = state.record(attempt, plan, directory, job.folder)
                    if (verification := read_status(plan, directory).results.verification) is not None:
                        state.update(attempt, proof="proved" if verification.proved else "differs")
                elif number != last[window]:
                    state.replace(attempt, directory, "its files changed while it was being sent")
                else:
                    state.send(attempt)
            except FileNotFoundError as error:
                raise UnsafePlan(
                    f"{error.filename} is missing, so the lost {path} cannot be rebuilt from the plans",
                    hint=f"restore {windows_folder(job.state)} or {path} from a copy",
                ) from None
            if plan.options.until is not None:  # a window is not cut in any other way
                first = min(plan.options.until, int(state.facts().get("first_live", plan.options.until)))
                state.remember(first_live=str(first))
        for label in (one.label for one in state.windows().values() if one.state == "done"):
            lacks = lacks_hours(job, job.calendar.window(label), state.parts(label), state.parts_before)
            if lacks:
                state.mark(label, "done", lacks)
    new.replace(path)


def _sent_plans(window: Path) -> Iterator[tuple[str, int, str, int]]:
    """The plans of a window that were sent, or had nothing to send: (when its sending began, when it was written in ns,
    window, number)."""
    matches = [(re.fullmatch(r"plan-(\d+)", path.name), path) for path in window.iterdir()]
    for number, path in sorted((int(match[1]), path) for match, path in matches if match):
        directory = Directory(path)
        sent = was_ever_applied(directory.ledger)
        try:
            plan = load(directory)
        except (UsageError, UnsafePlan):
            if sent:
                raise
            continue  # an incomplete plan
        if sent or (plan.ready and not plan.events.made):
            written, history = directory.plan.stat().st_mtime_ns, read_summary(directory.ledger, most=0).history
            yield _utc(written) if history is None else history.began, written, window.name, number


def _utc(ns: int) -> str:
    return datetime.fromtimestamp(ns // 10**9, UTC).isoformat().replace("+00:00", "Z")
