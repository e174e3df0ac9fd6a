"""Start worker processes early, while the command that will use them is still importing its modules."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path

from pipeline.errors import BackcastError
from pipeline.ledger import read_totals
from pipeline.plan.directory import Directory
from pipeline.plan.manifest import load
from pipeline.transform.workers import SMALL, Workers, count_for

MAX_FILES = 1_000
"""Files that are measured at most; the processes of a source with more files are started later."""


def start_plan_workers(sources: Iterable[str], asked: int | None) -> Workers:
    """Start as many workers as a plan of these sources will surely use; none where that is uncertain."""
    size = 0
    for one in islice(_sizes(sources), MAX_FILES):
        size += one
        if size >= SMALL:
            break
    return Workers(count_for(asked, size) if size else 0)


def _sizes(sources: Iterable[str]) -> Iterator[int]:
    """The sizes of the files that are named, and of those in folders. Files that cannot be read are reported later."""
    for source in sources:
        with contextlib.suppress(OSError):
            yield os.stat(source).st_size if not os.path.isdir(source) else 0
        for folder, _, names in os.walk(source):
            for name in names:
                with contextlib.suppress(OSError):
                    yield os.stat(os.path.join(folder, name)).st_size


def start_apply_workers(directory: Path, phases: Collection[str] | None, asked: int | None) -> Workers:
    """Start as many workers as an apply of these phases (None: all) will use; none where no event of a row is left.

    Errors of the plan are reported later.
    """
    try:
        place = Directory(directory)
        plan = load(place)
        rows = plan.events.phases.get("events", 0)
        wanted = plan.ready and (phases is None or "events" in phases)
        if not wanted or read_totals(place.ledger).of("events").is_all(rows):
            return Workers(0)
        return Workers(count_for(asked, sum(part.bytes for part in plan.parts)))
    except BackcastError:
        return Workers(0)
