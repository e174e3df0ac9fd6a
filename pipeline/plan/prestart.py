"""Worker processes, started while the command that will brief them is still loading."""

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
"""So many files are looked at; a source of small ones starts its processes later."""


def start_plan_workers(sources: Iterable[str], asked: int | None) -> Workers:
    """As many as a plan of these sources will surely want; none where that is not plain to see."""
    size = 0
    for one in islice(_sizes(sources), MAX_FILES):
        size += one
        if size >= SMALL:
            break
    return Workers(count_for(asked, size) if size else 0)


def _sizes(sources: Iterable[str]) -> Iterator[int]:
    """Of the files that are named, and of those in folders that are. What cannot be read is for others to say."""
    for source in sources:
        with contextlib.suppress(OSError):
            yield os.stat(source).st_size if not os.path.isdir(source) else 0
        for folder, _, names in os.walk(source):
            for name in names:
                with contextlib.suppress(OSError):
                    yield os.stat(os.path.join(folder, name)).st_size


def start_apply_workers(directory: Path, phases: Collection[str] | None, asked: int | None) -> Workers:
    """As many as an apply of these phases (None: all) will want; none where nothing of the rows is left to send.

    What is wrong with the plan is left for others to say.
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
