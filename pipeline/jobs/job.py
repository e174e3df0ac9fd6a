"""A job as its file describes it: one export that grows window by window, where its files are, and how each window is
sent."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.jobs.calendar import Calendar, Window
from pipeline.options import ApplyOptions, PauseOptions, PlanOptions, VerifyOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.storage import is_remote, refuse_foreign

RULES = ("stop", "send-new", "ignore")
"""What a job can do if files of a finished window were exported again."""


DIRECTIVES: Mapping[str, Callable[[datetime], str]] = {
    "%Y": lambda wall: f"{wall.year:04d}",
    "%y": lambda wall: f"{wall.year % 100:02d}",
    "%m": lambda wall: f"{wall.month:02d}",
    "%d": lambda wall: f"{wall.day:02d}",
    "%j": lambda wall: f"{wall.timetuple().tm_yday:03d}",
    "%H": lambda wall: f"{wall.hour:02d}",
    "%M": lambda wall: "00",
    "%S": lambda wall: "00",
    "%%": lambda wall: "%",
}
"""The directives of strftime that are the same in every locale and on every platform."""
_DATE = re.compile(r"\{date:([^{}]*)\}")
_HINT = "write the date as in exports/{date:%Y/%m/%d}/*.jsonl.gz"


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """The path of a window's files: a path, URL or pattern in which `{date:%Y/%m/%d}` stands for the window's date.

    Raises UsageError if windows of this kind would share their files."""

    text: str
    kind: str

    def __post_init__(self) -> None:
        refuse_foreign(self.text)
        rest = _DATE.sub("", self.text)
        if "{" in rest or "}" in rest:
            raise UsageError(f"only {{date:…}} is allowed in braces: {self.text!r}", hint=_HINT)
        first = datetime(2001, 1, 1)
        others = [datetime(2001, 1, 2), datetime(2001, 2, 1), datetime(2002, 1, 1)]
        if self.kind == "hour":
            others.append(first + timedelta(hours=1))
        if any(self.at(first) == self.at(other) for other in others):
            hint = "write the hour too: {date:%Y/%m/%d/%H}" if self.kind == "hour" else _HINT
            raise UsageError(f"several {self.kind}s would have the same path: {self.text!r}", hint=hint)

    def at(self, wall: datetime) -> str:
        """The path of the window whose clock shows this time."""
        return _DATE.sub(lambda match: _formatted(match[1], wall), self.text)

    def pattern(self, wall: datetime, folder: Path) -> str:
        """The path as a pattern for `glob`, relative to a folder; in a store, its URL."""
        if is_remote(self.text):
            return self.at(wall)
        return os.path.join(glob.escape(str(folder)), self.at(wall))


def _formatted(form: str, wall: datetime) -> str:
    def formatted(match: re.Match[str]) -> str:
        if match[0] not in DIRECTIVES:
            raise UsageError(f"{match[0]!r} is not allowed in a date", hint=f"use {', '.join(DIRECTIVES)}")
        return DIRECTIVES[match[0]](wall)

    return re.sub(r"%.?", formatted, form)


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
