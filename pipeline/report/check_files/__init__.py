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
from os import PathLike, fspath
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pipeline.errors import UsageError
from pipeline.files import write_atomically

if TYPE_CHECKING:
    from pipeline.plan.directory import Directory
    from pipeline.plan.manifest import Plan
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

    So a plan that fails leaves no file that says something else. Raises UsageError for an unknown kind, for a place
    where nothing can be written, and for an existing file of another kind.
    """
    for name, place in reports.items():
        path = _checked_place(name, Path(place))
        if path.parent != directory and not path.parent.is_dir():
            raise UsageError(f"--report {name}: there is no folder {path.parent}", hint="make the folder first")
    if len({os.path.abspath(place) for place in reports.values()}) < len(reports):
        raise UsageError("two reports would be written into one file", hint="give each --report a file of its own")
    for place in reports.values():
        Path(place).unlink(missing_ok=True)


def write_check_files(reports: Mapping[str, str | PathLike[str]], plan: Plan, directory: Directory) -> None:
    """Write each file whole or not at all. Raises UsageError, UnsafePlan, OSError."""
    if not reports:
        return
    from pipeline.report.check_files.checked import checked_plan

    checked = checked_plan(plan, directory)
    for name, place in reports.items():
        path = _checked_place(name, Path(place))
        write_atomically(path, kinds()[name].write(checked))


def _checked_place(name: str, path: Path) -> Path:
    """The path, where a file of this kind may be written. Raises UsageError."""
    known = kinds()
    if name not in known:
        raise UsageError(f"no report is called {name!r}", hint=f"write --report KIND=FILE with {', '.join(known)}")
    hint = "give a path where no other file is"
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(f"--report {name}: {fspath(path)} is no ordinary file", hint=hint)
    if path.exists():
        with path.open("rb") as file:
            head = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
        if head and not head.startswith(known[name].begins):
            raise UsageError(f"--report {name}: {fspath(path)} exists and is no such report", hint=hint)
    return path
