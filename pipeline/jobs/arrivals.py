"""The files at a window's path, and which of them are new or changed since the window was recorded."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from hashlib import sha256
from os import fspath
from pathlib import Path
from typing import NamedTuple

from pipeline import storage
from pipeline.errors import UsageError
from pipeline.extractors import choose_parts, digest_of, open_source
from pipeline.extractors.containers import broken
from pipeline.jobs.calendar import Window
from pipeline.jobs.job import Job
from pipeline.mapper import load
from pipeline.mapper.registry import file_rules
from pipeline.mapper.table_names import names_in, table_in_path
from pipeline.models import Part
from pipeline.plan.precheck import with_tables_apart
from pipeline.plan.sealed.manifest import Plan, as_name
from pipeline.storage import FileStatus
from pipeline.survey.file_dates import hours_named
from pipeline.survey.file_hours import lacking_hours, runs_of
from pipeline.timestamps import HOUR
from pipeline.zone_clock import ZoneClock

_ENOUGH_WINDOWS = 4
"""From this number on, windows show which hours have files."""


class RecordedPart(NamedTuple):
    """A part as it was read. `path` is a URL or relative to the job's folder, with an archive's member after `!`."""

    path: str
    bytes: int
    mtime_ns: int
    digest: str


class Arrivals(NamedTuple):
    """The new or changed files of a window. `absent` says why there is no file at all, "" if there are some.

    `replaced` are recorded parts that are gone or now have other content; `touched` are those with the same content
    under the same name, but another time. `content` is a digest of the parts that now have other content. `names` are
    all parts at the window's path.
    """

    files: tuple[str, ...] = ()
    absent: str = ""
    replaced: tuple[str, ...] = ()
    touched: tuple[RecordedPart, ...] = ()
    content: str = ""
    names: tuple[str, ...] = ()


def may_have_changed(job: Job, window: Window, recorded: Mapping[str, RecordedPart]) -> bool:
    """Whether the files at a window's path may differ from the recorded ones, judging only by names, sizes and times.

    No file is opened, so that each run can ask this for every finished window of a job. Files that are gone do not
    count.
    """
    known: dict[str, list[RecordedPart]] = {}
    for part in recorded.values():
        known.setdefault(part.path.partition("!")[0], []).append(part)
    for file, status in _files(job.source.pattern(window.wall, job.folder)):
        parts = known.get(name_of(file, "", job.folder).partition("!")[0])
        if parts is None or any(part.mtime_ns != status.mtime_ns for part in parts):
            return True
        if "!" not in parts[0].path and parts[0].bytes != status.size:
            return True
    return False


def _files(pattern: str) -> Iterator[tuple[str, FileStatus]]:
    """The files at a path, by name. Raises UnreadableExport if a store does not answer."""
    if storage.is_remote(pattern):
        try:
            yield from storage.listed(pattern)
        except OSError as error:
            raise broken(error, pattern) from error
        return
    for match in glob.iglob(pattern, recursive=True):
        path = Path(match)
        for file in path.rglob("*") if path.is_dir() else [path]:
            if path == file or file.is_file():
                yield str(file), storage.status(str(file))


def find_arrivals(job: Job, window: Window, recorded: Mapping[str, RecordedPart]) -> Arrivals:
    """Compare the window's files with the parts `recorded` by their paths. Raises UnreadableExport, and UsageError for
    a bad `header` setting."""
    pattern = job.source.pattern(window.wall, job.folder)
    path = job.source.at(window.wall)
    if not (any(True for _ in _files(pattern)) if storage.is_remote(pattern) else glob.glob(pattern, recursive=True)):
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

    found: set[str] = set()
    touched = []
    content = sha256()

    def is_new(part: Part) -> bool:
        name = name_of(part.file, part.member, job.folder)
        before = recorded.get(name)
        if before is not None and (before.bytes, before.mtime_ns) == (part.bytes, part.mtime_ns):
            found.add(name)
            return False
        if not recorded:
            return True
        digest = part.digest or digest_of(part)
        if before is not None and before.digest == digest:
            found.add(name)
            touched.append(RecordedPart(name, part.bytes, part.mtime_ns, digest))
        if (digest, table_in_path(names_in(part), tables)) in digests:
            return False
        if before is not None:
            content.update(f"{name} {digest}\n".encode())
        return True

    files = tuple(dict.fromkeys(part.file for part in source.parts if is_new(part)))
    replaced = tuple(name for name in recorded if name not in found)
    names = tuple(name_of(part.file, part.member, job.folder) for part in source.parts)
    return Arrivals(files, replaced=replaced, touched=tuple(touched), content=content.hexdigest(), names=names)


def lacks_hours(
    job: Job, window: Window, names: Collection[str], earlier: Callable[[str], Mapping[str, Sequence[str]]]
) -> str:
    """The hours of a day for which its hourly files lack one, in words; "" if none is expected.

    An hour that the calendar does not show is not expected, nor one that few of the latest windows have: of the same
    weekday, once there are enough of them. `earlier` returns the names of the windows before one.
    """
    if job.calendar.kind != "day":
        return ""
    first = (window.wall - datetime(1970, 1, 1)) // timedelta(hours=1)
    clock = ZoneClock([(job.calendar.zone, "")])
    shown = [hour for hour in range(first, first + 24) if clock.to_utc(hour * HOUR)[1] != "nonexistent_time"]
    if not lacking_hours(list(names), [], shown):
        return ""
    days = earlier(window.label)
    weekday = [label for label in days if date.fromisoformat(label).weekday() == window.wall.weekday()]
    alike = next((some for some in (weekday, list(days)) if len(some) >= _ENOUGH_WINDOWS), [])
    lacking = lacking_hours(list(names), [days[label] for label in alike], shown)
    return f"no file for {', '.join(hours_named(*run) for run in runs_of(lacking))}" if lacking else ""


def late_files(arrivals: Arrivals, folder: Path) -> tuple[str, ...]:
    """The files that are not recorded and cannot be recorded files under another name."""
    if not all(is_there(name, folder) for name in arrivals.replaced):
        return ()
    changed = {name.partition("!")[0] for name in arrivals.replaced}
    return tuple(file for file in arrivals.files if name_of(file, "", folder) not in changed)


def parts_of(plan: Plan, folder: Path) -> Iterator[RecordedPart]:
    """The parts of a plan, named as in a job's state."""
    for part in plan.parts:
        yield RecordedPart(name_of(part.file, part.member, folder), part.bytes, part.mtime_ns, part.digest)


def is_there(name: str, folder: Path) -> bool:
    """Whether the file of a part, by its name in a job's state, is still there."""
    file = name.partition("!")[0]
    return storage.is_file(file if storage.is_remote(file) else os.path.join(folder, file))


def name_of(file: str | Path, member: str, folder: Path) -> str:
    """The name of a part in a job's state. `file` and `member` may be written as in a plan
    (`plan.manifest.as_text`)."""
    path = as_name(fspath(file))
    if not storage.is_remote(path):
        path = os.path.relpath(path, folder)
    return os.fsencode(f"{path}!{as_name(member)}" if member else path).decode("utf-8", "backslashreplace")
