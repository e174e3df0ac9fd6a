"""What lies at a window's path now, and what of it is new or changed since the window was read."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import UsageError
from pipeline.extractors import digest_of, open_source
from pipeline.extractors.header import asked
from pipeline.jobs.calendar import Window
from pipeline.jobs.job import Job
from pipeline.models import Part, Source
from pipeline.plan.manifest import as_name


class SeenPart(NamedTuple):
    """A part as it was read: relative to the job's folder, members after `!`."""

    path: str
    bytes: int
    mtime_ns: int
    digest: str


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The files of a window that are to be read, and how many parts of them lie there at all.

    `absent` says why there is nothing at the window's path, "" where there is something.
    """

    files: tuple[str, ...] = ()
    parts: int = 0
    absent: str = ""


def look(job: Job, window: Window, seen: Mapping[str, SeenPart]) -> Arrivals:
    """Look for what is new or changed; with nothing `seen` that is everything. Raises UnreadableExport, and
    UsageError for a setting that is none."""
    pattern = job.source.pattern(window.wall, job.folder)
    path = job.source.at(window.wall)
    if not glob.glob(pattern, recursive=True):
        return Arrivals(absent=f"nothing matches {path}")
    header = asked(job.plan.settings)
    try:
        source = open_source([pattern], header=header)
    except UsageError as error:
        return Arrivals(absent=error.message.replace(pattern, path))
    changed = _changed(source, seen, job.folder)
    return Arrivals(tuple(dict.fromkeys(part.file for part in changed)), len(source.parts))


def _changed(source: Source, seen: Mapping[str, SeenPart], folder: Path) -> list[Part]:
    digests = {part.digest for part in seen.values()}
    changed = []
    for part in source.parts:
        before = seen.get(name_of(part.file, part.member, folder))
        if before is not None and (before.bytes, before.mtime_ns) == (part.bytes, part.mtime_ns):
            continue
        if seen and (part.digest or digest_of(part)) in digests:
            continue
        changed.append(part)
    return changed


def name_of(file: str, member: str, folder: Path) -> str:
    """What a job calls a part; `file` and `member` may be as a plan writes them (`pipeline.plan.manifest.as_text`)."""
    shown = os.path.relpath(as_name(file), folder)
    return os.fsencode(f"{shown}!{as_name(member)}" if member else shown).decode("utf-8", "backslashreplace")
