"""What checking a receipt may open: regular files inside one folder, whatever names a receipt, plan or ledger has."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from os import fspath
from pathlib import Path

from pipeline import storage
from pipeline.errors import UnreadableExport, UnsafePlan
from pipeline.option_types import PathText
from pipeline.plan.sealed.directory import Directory

_ROOT = "give --source-root the folder that has the export"


def is_plain(name: str) -> bool:
    """Whether a name is an entry of a folder and leads nowhere else."""
    return name not in ("", ".", "..") and not {"/", "\0"} & set(name)


def refuse_irregular(directory: Directory, root: Path) -> None:
    """Raise UnsafePlan for a symlink, FIFO, socket or device in a plan's directory, or between `root` and it.

    The directory is `root` or below it. `root` is the folder that a person named, which may be a symlink.
    """
    folder = root
    for name in directory.path.relative_to(root).parts:
        folder = folder / name
        _refuse(folder)
    for one in (*folder.iterdir(), *_inside(directory.packs), *_inside(directory.facts)):
        _refuse(one)


def _inside(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())


def _refuse(path: Path) -> None:
    if not (stat.S_ISREG(mode := path.lstat().st_mode) or stat.S_ISDIR(mode)):
        kind = "a symlink" if stat.S_ISLNK(mode) else "not a regular file"
        raise UnsafePlan(
            f"{path} is {kind}, so the plan is not opened", hint="replace it with the file itself, or remove it"
        )


def inside(path: str, root: PathText) -> str:
    """The file below `root` that a receipt names: by its full path, without its first folder, or by its last name.

    Raises UnreadableExport if there is no regular file, or the path leads out of `root`.
    """
    names = [name for name in path.split("/") if name not in ("", ".")]
    while names[:1] == [".."]:  # from a job, whose export may be outside its folder
        del names[0]
    if not names or not all(map(is_plain, names)):
        raise UnreadableExport(f"the path leads out of {fspath(root)}", path=path, hint=_ROOT)
    for some in (names, names[1:] or names, names[-1:]):
        file = os.path.join(fspath(root), *some)
        if not storage.is_file(file):
            continue
        if storage.is_remote(file) or Path(file).resolve().is_relative_to(Path(root).resolve()):
            return file
        raise UnreadableExport(f"the link leads out of {fspath(root)}", path=path, hint=_ROOT)
    raise UnreadableExport(f"{fspath(root)} does not have this file, or not as a regular file", path=path, hint=_ROOT)
