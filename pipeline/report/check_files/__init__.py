"""The files of `plan --report KIND=FILE`: the checks of a plan for the programs that run a pipeline.

A kind is one module of this package, found by itself, with a function that turns the checks into the bytes of a file:

    @check_file("tap", begins=(b"TAP version",))
    def tap(checked: Checked) -> bytes:
        return b"TAP version 14\\n"

`begins` are the first bytes of such a file, white space left out: an existing file that begins otherwise is something
else, and is never written over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pipeline.errors import UsageError
from pipeline.files import may_replace, write_atomically

if TYPE_CHECKING:
    from pipeline.plan.sealed.directory import Directory
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.report.check_files.checked import Checked

Write = Callable[["Checked"], bytes]
W = TypeVar("W", bound=Write)


class Kind(NamedTuple):
    """A kind of file: its writer, and how such a file begins."""

    write: Write
    begins: tuple[bytes, ...]


KINDS: dict[str, Kind] = {}


def check_file(name: str, *, begins: tuple[bytes, ...]) -> Callable[[W], W]:
    """Register a function as the writer of `--report NAME=FILE`."""

    def register(write: W) -> W:
        KINDS[name] = Kind(write, begins)
        return write

    return register


def kinds() -> Mapping[str, Kind]:
    """Every kind, by its name."""
    for module in iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
    return dict(sorted(KINDS.items()))


def prepare(reports: Mapping[str, str | PathLike[str]], directory: Path) -> None:
    """Look at the places of the files before an export is read, and remove what an earlier plan wrote there.

    So a plan that fails leaves no file that says something else. `directory` is the plan's, which may not exist yet.
    Raises UsageError for an unknown kind, for a place where nothing can be written, and for an existing file of another
    kind.
    """
    paths = [Path(place) for place in reports.values()]
    for name, path in zip(reports, paths, strict=True):
        kind = _kind(name)
        if path.parent != directory or directory.is_dir():
            may_replace(path, kind.begins, f"--report {name}")
    if len({os.path.abspath(path) for path in paths}) < len(paths):
        raise UsageError("two reports would be written into one file", hint="give each --report a file of its own")
    for path in paths:
        path.unlink(missing_ok=True)


def write_check_files(reports: Mapping[str, str | PathLike[str]], plan: Plan, directory: Directory) -> None:
    """Write each file whole or not at all. Raises UsageError, UnsafePlan, OSError."""
    if not reports:
        return
    from pipeline.report.check_files.checked import checked_plan

    checked = checked_plan(plan, directory)
    for name, place in reports.items():
        kind, path = _kind(name), Path(place)
        may_replace(path, kind.begins, f"--report {name}")
        write_atomically(path, kind.write(checked))


def _kind(name: str) -> Kind:
    known = kinds()
    if name not in known:
        raise UsageError(f"no report is called {name!r}", hint=f"write --report KIND=FILE with {', '.join(known)}")
    return known[name]
