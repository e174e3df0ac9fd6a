"""Scheduled backfills: an export that grows window by window, and the state of a job that plans and sends it.

job = load_job("job.yaml")                  the job file: strict YAML, every value checked
run_due_windows(job, project_key)           plan, send and record the windows that are due (`pipeline.jobs.run`)
read_history(state_file(job.state))         what was done so far
"""

from __future__ import annotations

from pipeline.jobs.job import Job, state_file
from pipeline.jobs.loading import load_job
from pipeline.jobs.state import Attempt, WindowState, read_history

__all__ = ["Attempt", "Job", "WindowState", "load_job", "read_history", "state_file"]
