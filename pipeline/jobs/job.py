"""A job as its file states it: one export that grows window by window, and how each window is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.jobs.calendar import Calendar, Window
from pipeline.jobs.template import PathTemplate


@dataclass(frozen=True, slots=True)
class Job:
    """What a job file says. `first` and `until` are windows, the latter the first that is no more the job's.

    Relative paths are relative to `folder`, the job file's own. `lag` is in µs: a window is due so long after its end.
    `person_properties` final is for windows that hold profiles alone. `most_merges` None holds merges back. `rate` is
    events a second at most, None without a limit.
    """

    file: Path
    name: str
    source: PathTemplate
    mapping: str
    settings: Mapping[str, str]
    zones: tuple[tuple[str, str], ...]
    calendar: Calendar
    first: Window
    until: Window | None
    lag: int
    lookback: int
    collapse: bool
    person_properties: str
    most_merges: int | None
    to: str
    state: Path
    missing: str
    max_rejects: str
    key_conflicts: bool
    rate: float | None
    import_name: str = ""
    exclude_ids: Path | None = None
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.file.absolute().parent)

    def as_of(self, window: Window) -> int:
        """The instant of a window's plans, in µs UTC: when it fell due.

        Not the clock, so that a window planned late, or planned again, gives the same events
        (docs/know/promises.md#purity). It never lies ahead of the clock, so an event that is old enough for it is old
        enough when it is sent.
        """
        return window.end + self.lag

    def windows(self, now: int) -> list[Window]:
        """Every window that is due at `now` (µs UTC), oldest first."""
        found = []
        for window in self.calendar.from_(self.first):
            if self.as_of(window) > now or (self.until is not None and window.label >= self.until.label):
                break
            found.append(window)
        return found
