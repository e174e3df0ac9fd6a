"""Open what a job remembers: for a run, or for a dry run that leaves no trace."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import UsageError
from pipeline.jobs.job import Job
from pipeline.jobs.paths import state_file, windows_folder
from pipeline.jobs.rebuild import rebuild
from pipeline.jobs.state import State
from pipeline.targets import address_of


def belongs(job: Job) -> dict[str, str]:
    """What a state is only good for. Another address, or other windows, would make its uuids and labels wrong."""
    return {
        "job": job.name,
        "target": address_of(job.to),
        "window": job.calendar.kind,
        "window_timezone": job.calendar.zone,
    }


def open_state(job: Job) -> State:
    """The job's state, made again from its plans where it was lost. For the holder of the job's lock."""
    path = state_file(job.state)
    if not path.exists() and windows_folder(job.state).is_dir():
        _make_again(job, path)
    return State.open(path, belongs(job))


def open_scratch(job: Job, folder: Path) -> State:
    """The same for a dry run: what it learns stays in `folder`."""
    path = state_file(job.state)
    if not path.exists() and windows_folder(job.state).is_dir():
        raise UsageError(
            f"{path} is missing, beside plans that were sent",
            hint="run the job without --dry-run once: it makes the file again from them",
        )
    return State.scratch(path, folder / path.name, belongs(job))


def _make_again(job: Job, path: Path) -> None:
    """Aside first: a crash halfway must not leave a state that has forgotten something."""
    aside = path.with_name(path.name + ".new")
    for stale in path.parent.glob(aside.name + "*"):
        stale.unlink()
    state = State.open(aside, belongs(job))
    try:
        rebuild(state, job)
    finally:
        state.close()
    aside.replace(path)
