"""What `backcast start` knows of an export, and what a person answered: start.json in its folder.

The file is for people too: who changes or removes an answer there is asked again, or gets another plan.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping as Map
from collections.abc import Sequence
from glob import has_magic
from itertools import chain, filterfalse
from pathlib import Path

import msgspec

from pipeline import storage
from pipeline.errors import UsageError
from pipeline.extractors.named_files import files_of
from pipeline.files import private, write_atomically
from pipeline.mapper import Mapping
from pipeline.storage import is_remote
from pipeline.survey import Survey
from pipeline.text import pluralize, quoted

FILE = "start.json"


class Surveyed(msgspec.Struct, frozen=True):
    """What a survey showed of the files with this `digest`. `mappings` are the shipped ones that recognise them.

    `clock` is `own` if each time has its own offset or counts from 1970, `UTC` if receive times show it, else "";
    `zones` had the offsets that receive times show.
    """

    digest: str
    sentence: str
    mappings: list[str]
    clock: str
    zones: list[str]


class Answers(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What a person answered; "" for what was not asked. `settings` say how files are read (--set)."""

    settings: dict[str, str] = {}
    mapping: str = ""
    target: str = ""
    timezone: str = ""
    max_rejects: int = 0
    draft: dict[str, str] = {}


class Planned(msgspec.Struct, frozen=True):
    """The plan that was made here last, and a digest of the files, the mapping and the answers that it is made of."""

    made_of: str
    digest: str


class Progress(msgspec.Struct):
    """How far the way from an export to a plan is, in the folder `start` writes into."""

    sources: list[str]
    answers: Answers = msgspec.field(default_factory=Answers)
    survey: Surveyed | None = None
    plan: Planned | None = None
    format: str = "backcast.start/1"


def folder_for(sources: Sequence[str]) -> Path:
    """The folder of an export by default: named after its first file or folder, in the working directory."""
    first = sources[0].rstrip("/")
    while has_magic(first):
        first = os.path.dirname(first)
    name = first.rpartition("/")[2] if is_remote(first) else Path(first or ".").resolve().name
    return Path(f"{name.lstrip('.').partition('.')[0] or 'export'}-import")


def read_progress(folder: Path, sources: Sequence[str]) -> Progress:
    """What was done in a folder so far. Raises UsageError if it is inside the export, where its files would be read as
    rows, contains other files, or is that of another export."""
    for source in map(Path, filterfalse(is_remote, sources)):
        if folder.resolve().is_relative_to(source.resolve()):
            elsewhere = os.path.relpath(source.resolve().with_name(f"{source.resolve().name}-import"))
            raise UsageError(
                f"the folder {folder} would be inside the export {source}",
                hint=f"name a folder elsewhere, such as -o {quoted(elsewhere)}",
            )
    whole = [source if is_remote(source) else os.path.abspath(source) for source in sources]
    if not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir())):
        return Progress(whole)
    try:
        progress = msgspec.json.decode((folder / FILE).read_bytes(), type=Progress)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{folder} contains files that `backcast start` did not write", hint="name a new folder: -o DIR"
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"cannot read {folder / FILE}: {error}", hint="restore that file, or start again in a new folder: -o DIR"
        ) from None
    if progress.sources != whole:
        raise UsageError(
            f"{folder} belongs to another export: {', '.join(progress.sources)}", hint="name another folder: -o DIR"
        )
    return progress


@private()
def write_progress(folder: Path, progress: Progress) -> None:
    """Write it down. Raises UsageError if the folder cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / FILE, msgspec.json.format(msgspec.json.encode(progress), indent=2) + b"\n")
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", hint="name another folder: -o DIR") from None


def set_by(answers: Answers, given: Map[str, str]) -> Answers:
    """The answers with these settings in addition to those that they have. If any changes, the answers about rows are
    gone: the rows are others then."""
    settings = {**answers.settings, **given}
    if settings == answers.settings:
        return answers
    return Answers(settings=settings, target=answers.target, timezone=answers.timezone)


def digest_of_files(sources: Sequence[str], folder: Path, settings: Map[str, str]) -> str:
    """A digest of the names, sizes and times of an export's files, and of how they are read: another one if any
    changed. Raises UsageError if a file of `folder` is among them, and UnreadableExport."""
    found = hashlib.sha256(ascii(sorted(settings.items())).encode())
    files, _ = files_of(sources, None, lambda code, where, detail: None)
    for file in files:
        if not is_remote(file.path) and Path(file.path).is_relative_to(folder.resolve()):
            raise UsageError(f"{folder} is inside the export", hint="move it elsewhere, and name it with -o DIR")
        status = file.status or storage.status(file.path)
        found.update(ascii((file.path, *status)).encode())
    return found.hexdigest()


def surveyed(survey: Survey, digest: str, sources: Sequence[str]) -> Surveyed:
    """What of a survey decides the next steps. Raises UsageError for files of several tools."""
    by_tools: dict[tuple[str, ...], list[str]] = {}
    for part in survey.parts:
        if part.tools:
            by_tools.setdefault(part.tools, []).append(part.path)
    common = set.intersection(*map(set, by_tools)) if by_tools else set()
    if by_tools and not common:
        tools = "; ".join(
            f"{' or '.join(names)}: {pluralize(len(paths), 'file')}, such as {paths[0]}"
            for names, paths in by_tools.items()
        )
        raise UsageError(
            f"the files of this export come from different tools ({tools})",
            hint=f"start with the files of one tool at a time: {_apart([*by_tools.values()], sources)}",
        )
    at_utc = {month.offset for month in survey.zone.months} == {0}
    clock = "own" if (survey.last or "").endswith("Z") else "UTC" if at_utc else ""
    return Surveyed(digest, survey.sentence, sorted(common), clock, ["UTC"] if at_utc else survey.zone.names)


def _apart(files: Sequence[Sequence[str]], sources: Sequence[str]) -> str:
    """The commands that start with the files of one tool each, if these have folders of their own in one source."""
    tops = [sorted({os.path.join(sources[0], re.split("[/!]", path)[0]) for path in paths}) for paths in files]
    if len(sources) > 1 or not os.path.isdir(sources[0]) or len({*chain(*tops)}) != len(tops):
        return "backcast start SOURCE"
    return ", then ".join(f"backcast start {quoted(top)}" for (top,) in tops)


def asks_zone(mapping: Mapping, found: Surveyed) -> bool:
    """Whether the zone has to be named: the mapping reads local times, and nothing shows whose they are."""
    clocks = {clock.zone for clock in mapping.time}
    return ("local" in clocks and found.clock != "own") or ("project" in clocks and not found.clock)


def made_of(found: Surveyed, mapping: Mapping, answers: Answers) -> str:
    """A digest of what decides a plan."""
    decides = found.digest, mapping.text, mapping.code, answers.target, answers.timezone, answers.max_rejects
    return hashlib.sha256(ascii(decides).encode()).hexdigest()
