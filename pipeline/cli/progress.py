"""Progress on stderr: a live line on a terminal, a plain line every 30 s elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from pipeline.cli.options import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from pipeline.deliver.apply import Counts

EVERY = 30.0


class _Line:
    """Shows how far something is. Use as a context manager."""

    def __init__(self, title: str, total: int | None, *, quiet: bool, unit: str) -> None:
        self._title = title
        self._total = total or None
        self._quiet = quiet
        self._unit = unit
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._started = self._last = time.monotonic()

    def __enter__(self) -> _Line:
        if not self._quiet and is_terminal():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[detail]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(self._title, total=self._total, detail="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, done: int, detail: str) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, detail=detail)
            return
        now = time.monotonic()
        if not self._quiet and now - self._last >= EVERY:
            self._last = now
            share = f" {done * 100 // self._total}%" if self._total else ""
            print(f"{self._title}{share}: {detail}", file=sys.stderr, flush=True)

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self._started, 1e-9)


class Reading(_Line):
    """Progress of a plan: rows and bytes read. `total` is the bytes on disk, which compressed parts exceed."""

    def __init__(self, total: int | None, *, quiet: bool) -> None:
        super().__init__("Reading", total, quiet=quiet, unit="rows")

    def __enter__(self) -> Reading:
        super().__enter__()
        return self

    def __call__(self, rows: int, length: int) -> None:
        self.show(length, f"{rows:,} rows, {rows / self.seconds:,.0f} rows/s")


class Sending(_Line):
    """Progress of an apply: settled, refused, in doubt, retries, rate."""

    def __init__(self, total: int, *, quiet: bool, title: str = "Sending") -> None:
        super().__init__(title, total, quiet=quiet, unit="events")

    def __enter__(self) -> Sending:
        super().__enter__()
        return self

    def __call__(self, counts: Counts) -> None:
        done = counts.already_settled + counts.accepted + counts.refused
        self.show(
            done,
            f"{done:,} settled, {counts.refused:,} refused, {counts.batches_retried:,} retried,"
            f" {counts.bytes_sent / 1e6:,.1f} MB, {counts.accepted / self.seconds:,.0f} events/s",
        )
