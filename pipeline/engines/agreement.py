"""What every process of a cluster must have as the process that asked: versions of libraries, and files.

A process may join at any moment, and may be on another machine, so each of them compares these by itself.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from pipeline import storage
from pipeline.errors import BackcastError, UnreadableExport, UsageError
from pipeline.plugins import KINDS, installed
from pipeline.storage import FileStatus
from pipeline.timestamps import format_utc
from pipeline.transform.tasks import SEALING_LIBRARIES

COARSE = 2_000_000_000
"""Nanoseconds by which the times of one file may differ on two machines: some file systems keep whole seconds."""


class Expected(NamedTuple):
    """A file that a process opens by its name, as the process that asked has it: its sha256, "" where that is not known
    yet, and its status. Without a status its bytes are compared. `part` is the path that people see of a file of the
    export, "" for one of the plan."""

    name: str
    digest: str = ""
    status: FileStatus | None = None
    part: str = ""


def this_process() -> str:
    """Where it runs, for people."""
    return f"on {socket.gethostname()} (process {os.getpid()})"


def refuse_other_files(files: Iterable[Expected], known: set[str]) -> None:
    """`refuse_other_file` of each file, once. Of objects in a store it is the first one, whose name is the same
    everywhere, and each status would be one more request."""
    for file in files:
        key = "" if storage.is_remote(file.name) else file.name
        if key not in known:
            refuse_other_file(file)
            known.add(key)


def refuse_other_file(file: Expected) -> None:
    """Raise UsageError where this process cannot read a file, or reads another one; UnreadableExport for another file
    of the export."""
    try:
        found = storage.status(file.name)
        if file.status is not None and _is_alike(found, file.status):
            return
        if file.digest and (file.status is None or found.size == file.status.size):
            with storage.opened(file.name) as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() == file.digest:
                    return
    except (OSError, BackcastError) as error:
        raise UsageError(
            f"the worker {this_process()} cannot read {file.name}: {error}",
            hint="put the export and the plan where every worker has them by the same path, or the export in an"
            " object store",
        ) from None
    if file.status is None or not file.part:
        raise UsageError(
            f"the worker {this_process()} has another file at {file.name} than the one of this plan",
            hint="put the directory of the plan where every worker has it by the same path, or copy all of it there"
            " again",
        )
    raise UnreadableExport(
        f"the worker {this_process()} has another file at {file.name}: {_in_words(found)}; on the machine that"
        f" runs the command it has {_in_words(file.status)}",
        path=file.part,
        hint="wait until the export is complete, and give every worker the same files by the same path: on a shared"
        " file system, in an object store, or as copies that keep their times",
    )


def _is_alike(found: FileStatus, expected: FileStatus) -> bool:
    near = found.size == expected.size and abs(found.mtime_ns - expected.mtime_ns) < COARSE
    return found.is_same(expected) or (near and not (found.etag or expected.etag))


def _in_words(status: FileStatus) -> str:
    return f"{status.size:,} bytes, changed {format_utc(status.mtime_ns // 1_000)}"


def unfit(files: Sequence[Expected]) -> BackcastError | None:
    """Why this process cannot work with these files, None where it can."""
    try:
        refuse_other_files(files, set())
    except BackcastError as error:
        return error
    return None


def versions() -> dict[str, str]:
    """The versions of this process that decide the bytes of an event, by name; those of installed plug-ins, too."""
    found = {plugin.package: plugin.version for group in KINDS for plugin in installed(group)}
    for name in ("backcast", *SEALING_LIBRARIES):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def refuse_other_versions(found: Mapping[str, Mapping[str, str]], expected: Mapping[str, str] | None = None) -> None:
    """Raise UsageError where a process would make other events than this one: `versions` of each, by its name.
    `expected` are those of the process that asked, where that is another one."""
    own, here = (versions(), "here") if expected is None else (expected, "the machine that runs the command has")
    for worker, theirs in sorted(found.items()):
        wrong = [
            f"{f'{name} {theirs[name]}' if name in theirs else f'no {name}'}, and {here} {one}"
            for name, one in own.items()
            if theirs.get(name) != one
        ]
        if wrong:
            raise UsageError(f"the worker {worker} has {'; '.join(wrong)}", hint="install the same versions everywhere")
