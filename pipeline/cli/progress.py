"""Progress on stderr: a live line on a terminal, a plain line every 30 s elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pipeline.cli import common
from pipeline.text import pluralize, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from pipeline.delivery.apply import RunCounts

EVERY = 30.0
SILENT = 10.0
"""Seconds of nothing but failures after which a quiet run prints the last failure."""
SILENT_EVERY = 600.0
"""Seconds between two such lines."""
NOW_SECONDS = 10.0
"""The current rate is measured over this many seconds."""
FAILURE_CHARACTERS = 60
"""Characters of the last failure that the line shows."""
MAX_MESSAGE = 300
BAR, SHORT_BAR = 16, 4
"""Columns of the bar."""
BAR_FROM = 60
"""Columns of a terminal that have room for a whole bar."""


class Line:
    """A line of progress, also of work that consists of steps. Use as a context manager."""

    def __init__(
        self, title: str, total: int | None = None, *, quiet: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._title = title
        self._total = total or None
        self._quiet = quiet
        self._clock = clock
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._started = self._last = clock()

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn
            from rich.table import Column

            console = Console(stderr=True)
            self._progress = Progress(
                TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
                BarColumn(bar_width=_bar_width(console.width)),
                TextColumn(
                    "{task.fields[detail]}",
                    markup=False,
                    table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
                ),
                console=console,
                transient=True,
                expand=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(self._title, total=self._total, detail="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(
        self,
        done: int,
        detail: Callable[[], str],
        *,
        about: str = "",
        total: int | None = None,
        numbers: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        """Update the line; `detail` and `numbers` are called only when it is written.

        `about` is the phase; `total` replaces the total of the constructor, which may be too large. `numbers` are for
        `--log-format json`.
        """
        if self._quiet:
            return
        whole = self._total if total is None else total or None
        share = f" {done * 100 // whole}%" if whole else ""
        title = f"{self._title} {about}{share}" if about else self._title + share
        if self._progress is not None and self._task is not None:
            from rich.cells import cell_len

            title, width = printable(title), self._progress.console.width
            shown = _whole_parts(detail(), width - cell_len(title) - _bar_width(width) - 2)
            self._progress.update(self._task, completed=done, total=whole, detail=shown, description=title)
            return
        now = self._clock()
        if now - self._last >= EVERY:
            self._last = now
            common.show_progress(
                f"{title}: {detail()}",
                lambda: {"task": self._title, "phase": about, "done": done, "total": whole, **numbers()},
            )

    @property
    def seconds(self) -> float:
        return max(self._clock() - self._started, 1e-9)

    def step(self, name: str, done: int, total: int) -> None:
        """A step, by its name, and how many of its events, or MB if it says so, are done."""
        self.show(done, lambda: f"{done:,} of {total:,}" if total else f"{done:,}", about=name, total=total)

    def pause(self) -> None:
        """Remove the live line, since something is asked; the next step shows it again."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class Reading(Line):
    """Progress of a plan: the rows read, and their rate."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__("Reading", quiet=quiet)

    def __call__(self, rows: int, length: int) -> None:
        self.show(length, lambda: f"{pluralize(rows, 'row')}, {rows / self.seconds:,.0f} rows/s")


class Fetching(Line):
    """Progress of a fetch: the window that is being asked for, and how much of the whole is done."""

    def __init__(self, title: str, *, quiet: bool) -> None:
        super().__init__(f"Fetching {title}:", quiet=quiet)

    def __call__(self, window: str, done: int, total: int) -> None:
        self.show(done, lambda: f"{done / 86_400:,.1f} of {total / 86_400:,.1f} days", about=window, total=total)


class Sending(Line):
    """Progress of an apply: counts of events and bytes, rates, and the last failure, also while nothing settles."""

    def __init__(
        self,
        total: int,
        *,
        quiet: bool,
        title: str = "Sending",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(title, total, quiet=quiet, clock=clock)
        self._planned = total
        self._refused_before: int | None = None
        self._recent: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._waited: float | None = None

    def __call__(self, counts: RunCounts) -> None:
        if self._quiet:
            self._print_waiting(counts)
            return
        if self._refused_before is None:
            self._refused_before = counts.refused
        ended = counts.accepted + counts.refused - self._refused_before
        self._remember(ended)
        done = counts.already_settled + counts.accepted + counts.refused
        total = self._planned - counts.other_phases
        self.show(
            done,
            lambda: self._detail(counts, ended, total - done),
            about=counts.phase,
            total=total,
            numbers=lambda: self._numbers(counts, ended, total - done),
        )

    def _print_waiting(self, counts: RunCounts) -> None:
        """Print a line every 10 minutes while nothing settles, since a quiet run would otherwise seem to work."""
        if not counts.last_failure or counts.idle < SILENT:
            return
        now = self._clock()
        if self._waited is not None and now - self._waited < SILENT_EVERY:
            return
        self._waited = now
        until = datetime.now().astimezone() + timedelta(seconds=counts.gives_up_in)
        common.show_progress(
            f"No progress for {_long(counts.idle)}; last failure: {printable(counts.last_failure, MAX_MESSAGE)}."
            f" Trying on until {until:%Y-%m-%d %H:%M:%S %Z} (--retry-for)",
            lambda: self._numbers(counts, 0, 0),
        )

    def _remember(self, ended: int) -> None:
        now = self._clock()
        if now - self._recent[-1][0] >= NOW_SECONDS / 20:
            self._recent.append((now, ended))
        while len(self._recent) > 2 and self._recent[1][0] <= now - NOW_SECONDS:
            self._recent.popleft()

    def _numbers(self, counts: RunCounts, ended: int, unsent: int) -> dict[str, object]:
        average = ended / self.seconds
        return {
            "settled": counts.already_settled + counts.accepted,
            "accepted": counts.accepted,
            "refused": counts.refused,
            "in_doubt": counts.in_doubt,
            "in_flight": counts.in_flight,
            "limit": counts.limit,
            "requests": counts.batches_sent,
            "retried": counts.batches_retried,
            "split": counts.batches_split,
            "bytes": counts.bytes_sent,
            "rate_now": round(self._rate_now(ended), 1),
            "rate": round(average, 1),
            "seconds_left": round(unsent / average) if average and unsent > 0 else None,
            "pause_seconds": round(counts.paused, 1),
            "quiet_seconds": round(counts.quiet, 1),
            "id_wait_seconds": round(counts.id_wait, 1),
            "idle_seconds": round(counts.idle, 1),
            **({} if counts.behind is None else {"behind_seconds": round(counts.behind)}),
            "last_failure": printable(counts.last_failure, MAX_MESSAGE),
        }

    def _rate_now(self, ended: int) -> float:
        start, before = self._recent[0]
        return (ended - before) / max(self._clock() - start, 1e-9)

    def _detail(self, counts: RunCounts, ended: int, unsent: int) -> str:
        now, average = self._rate_now(ended), ended / self.seconds
        parts = [  # the most important first: a narrow terminal shows the beginning
            f"{counts.already_settled + counts.accepted:,} settled",
            f"{counts.refused:,} refused" if counts.refused else "",
            f"{_long(unsent / average)} left" if average and unsent > 0 else "",
            f"quiet hours for {_long(counts.quiet)}" if counts.quiet >= 1 else "",
            f"waits {_long(counts.paused)} as asked" if counts.paused >= 1 else "",
            f"one id waits {_long(counts.id_wait)}" if counts.id_wait >= 1 else "",
            f"last failure: {printable(counts.last_failure, FAILURE_CHARACTERS)}" if counts.last_failure else "",
            f"{now:,.0f}/s now, {average:,.0f}/s on average",
            f"{counts.in_doubt:,} in doubt",
            f"{counts.in_flight:,} in flight, limit {counts.limit:,}",
            f"{counts.bytes_sent / 1e6:,.1f} MB",
            f"{counts.batches_retried:,} retried",
        ]
        return ", ".join(part for part in parts if part)


def _bar_width(width: int) -> int:
    return BAR if width >= BAR_FROM else SHORT_BAR


def _whole_parts(detail: str, room: int) -> str:
    """The first parts of a detail that fit into this many columns; all of it if not even one does."""
    if len(detail) <= room:
        return detail
    return ", ".join(detail[: room + 2].split(", ")[:-1]) or detail


def _long(seconds: float) -> str:
    """A length of time: 45s, 12m, 3h05m, 4d02h."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02d}h"
