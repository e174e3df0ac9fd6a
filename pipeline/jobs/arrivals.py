"""The files at a window's path, and which of them are new or changed since the window was recorded."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from os import fspath
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import UsageError
from pipeline.extractors import choose_parts, digest_of, open_source
from pipeline.jobs.calendar import Window
from pipeline.jobs.job import Job
from pipeline.mapper import load
from pipeline.mapper.registry import file_rules
from pipeline.mapper.table_names import names_in, table_in_path
from pipeline.models import Part
from pipeline.plan.manifest import Plan, as_name
from pipeline.plan.precheck import with_tables_apart


class RecordedPart(NamedTuple):
    """A part as it was read. `path` is relative to the job's folder, with an archive's member after `!`."""

    path: str
    bytes: int
    mtime_ns: int
    digest: str


class Arrivals(NamedTuple):
    """The new or changed files of a window. `absent` says why there is no file at all, "" where there are some."""

    files: tuple[str, ...] = ()
    absent: str = ""


def find_arrivals(job: Job, window: Window, recorded: Mapping[str, RecordedPart]) -> Arrivals:
    """Compare the window's files with the parts `recorded` by their paths. Raises UnreadableExport, and UsageError for
    a bad `header` setting."""
    pattern = job.source.pattern(window.wall, job.folder)
    path = job.source.at(window.wall)
    if not glob.glob(pattern, recursive=True):
        return Arrivals(absent=f"nothing matches {path}")
    mapping = load(fspath(job.plan.mapping)) if job.plan.mapping else None
    tables = mapping.table_from_path.known if mapping is not None and mapping.table_from_path is not None else ()
    rules = file_rules(mapping, job.plan.settings)
    try:
        source = open_source([pattern], rules=rules)
        source = choose_parts(with_tables_apart(source, mapping) if mapping is not None else source, rules)
    except UsageError as error:
        return Arrivals(absent=error.message.replace(pattern, path))
    # Equal bytes are a copy only within one table.
    digests = {(part.digest, table_in_path(re.split("[/!]", part.path), tables)) for part in recorded.values()}

    def is_new(part: Part) -> bool:
        before = recorded.get(name_of(part.file, part.member, job.folder))
        if before is not None and (before.bytes, before.mtime_ns) == (part.bytes, part.mtime_ns):
            return False
        return not recorded or (part.digest or digest_of(part), table_in_path(names_in(part), tables)) not in digests

    return Arrivals(tuple(dict.fromkeys(part.file for part in source.parts if is_new(part))))


def parts_of(plan: Plan, folder: Path) -> Iterator[RecordedPart]:
    """The parts of a plan, named as in a job's state."""
    for part in plan.parts:
        yield RecordedPart(name_of(part.file, part.member, folder), part.bytes, part.mtime_ns, part.digest)


def name_of(file: str, member: str, folder: Path) -> str:
    """The name of a part in a job's state. `file` and `member` may be as in a plan (`plan.manifest.as_text`)."""
    path = os.path.relpath(as_name(file), folder)
    return os.fsencode(f"{path}!{as_name(member)}" if member else path).decode("utf-8", "backslashreplace")
