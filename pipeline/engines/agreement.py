"""What every process of a cluster must share with the parent: versions of libraries, and the export's files.

A process may join at any moment, and may be on another machine, so each process compares these itself.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from pipeline import storage
from pipeline.errors import BackcastError, UnreadableExport, UsageError
from pipeline.models import Part
from pipeline.plugins import KINDS, installed
from pipeline.storage import FileStatus
from pipeline.timestamps import format_utc
from pipeline.transform.tasks import SEALING_LIBRARIES

COARSE = 2_000_000_000
"""Nanoseconds by which a file's times may differ between two machines: some file systems keep whole seconds."""


def this_process() -> str:
    """Where this process runs, for people."""
    return f"on {socket.gethostname()} (process {os.getpid()})"


def refuse_other_file(part: Part) -> None:
    """Raise UsageError if this process cannot read a file of the export, and UnreadableExport if it sees another
    file."""
    try:
        found = storage.status(part.file)
    except (OSError, BackcastError) as error:
        raise UsageError(
            f"the worker {this_process()} cannot read {part.file}: {error}",
            hint="put the export where every worker sees it under the same path, or in an object store",
        ) from None
    if not _is_alike(found, part.status):
        raise UnreadableExport(
            f"the worker {this_process()} has another file at {part.file}: {_in_words(found)}; the machine that runs"
            f" the command has {_in_words(part.status)}",
            path=part.path,
            hint="wait until the export is complete, and give every worker the same files under the same path: on a"
            " shared file system, in an object store, or as copies that keep their times",
        )


def _is_alike(found: FileStatus, expected: FileStatus) -> bool:
    near = found.size == expected.size and abs(found.mtime_ns - expected.mtime_ns) < COARSE
    return found.is_same(expected) or (near and not (found.etag or expected.etag))


def _in_words(status: FileStatus) -> str:
    return f"{status.size:,} bytes, changed {format_utc(status.mtime_ns // 1_000)}"


def versions() -> dict[str, str]:
    """The versions in this process that decide an event's bytes, by name, including installed plug-ins."""
    found = {plugin.package: plugin.version for group in KINDS for plugin in installed(group)}
    for name in ("backcast", *SEALING_LIBRARIES):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def refuse_other_versions(expected: Mapping[str, str]) -> None:
    """Raise UsageError if this process would make other events than the parent, which has these versions."""
    own = versions()
    wrong = [
        f"{f'{name} {own[name]}' if name in own else f'no {name}'}, but the machine that runs the command has {one}"
        for name, one in expected.items()
        if own.get(name) != one
    ]
    if wrong:
        raise UsageError(
            f"the worker {this_process()} has {'; '.join(wrong)}", hint="install the same versions on every machine"
        )
