"""Scheduled backfills: an export that grows window by window, and what a job remembers of it.

    job = load_job("job.yaml")                  the job file: strict YAML, every value checked
    job.windows(now)                            the windows that are due, oldest first
    look(job, window, seen)                     what lies there that was not read yet
    open_state(job)                             what was done, and the index of all that was settled

What is planned, sent and recorded is composed in `pipeline.jobs.run`.
"""

from __future__ import annotations

from pipeline.jobs.arrivals import Arrivals, look
from pipeline.jobs.calendar import Window
from pipeline.jobs.job import Job
from pipeline.jobs.loading import load_job
from pipeline.jobs.open import open_scratch, open_state
from pipeline.jobs.paths import counts_of, parts_of, plan_directory, state_file
from pipeline.jobs.state import Attempt, State, WindowState, read_history

__all__ = [
    "Arrivals",
    "Attempt",
    "Job",
    "State",
    "Window",
    "WindowState",
    "counts_of",
    "load_job",
    "look",
    "open_scratch",
    "open_state",
    "parts_of",
    "plan_directory",
    "read_history",
    "state_file",
]
