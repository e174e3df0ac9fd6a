"""A job as its file describes it: one export that grows window by window, and how each window is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from pipeline.jobs.calendar import Calendar, Window
from pipeline.jobs.template import PathTemplate
from pipeline.options import ApplyOptions, PauseOptions, PlanOptions, VerifyOptions
from pipeline.plan.sealed.directory import Directory

RULES = ("stop", "send-new", "ignore")
"""What a job can do if files of a finished window were exported again."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job file that was read. `first` and `until` are windows; `until` is the first one after the job's last.

    `plan`, `checks`, `apply` and `verify` are the options of each window's steps. Relative paths are relative to
    `folder`, the job file's own. `lag` is in µs: a window is due this long after its end. `keep` is too: the events of
    a window are discarded this long after it was verified; None means never. If `most_merges` is None, merges are held
    back. `changed` is one of RULES, "" if the file has none; `live` is cut or allow.
    """

    file: Path
    name: str
    source: PathTemplate
    calendar: Calendar
    first: Window
    until: Window | None
    lag: int
    lookback: int
    changed: str
    live: str
    most_merges: int | None
    to: str
    state: Path
    missing: str
    keep: int | None
    plan: PlanOptions
    checks: PauseOptions
    apply: ApplyOptions
    verify: VerifyOptions
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.file.absolute().parent)

    def as_of(self, window: Window) -> int:
        """The instant of a window's plans, in µs UTC: when it fell due.

        It is not the clock, so a window that is planned later or again gives the same events (invariant 2). It is never
        ahead of the clock, so an event that is old enough for it is also old enough when it is sent.
        """
        return window.end + self.lag

    def windows(self, now: int) -> list[Window]:
        """Every window that is due at `now` (µs UTC), oldest first."""

        def is_due(window: Window) -> bool:
            return self.as_of(window) <= now and (self.until is None or window.label < self.until.label)

        return list(takewhile(is_due, self.calendar.from_(self.first)))


def state_file(state: Path) -> Path:
    """The database in a job's state folder."""
    return state / "state.sqlite"


def windows_folder(state: Path) -> Path:
    """The folder in a job's state folder that has a folder for each window."""
    return state / "windows"


def plan_directory(state: Path, window: str, number: int) -> Directory:
    """The directory of a plan of a window."""
    return Directory(windows_folder(state) / window / f"plan-{number}")
