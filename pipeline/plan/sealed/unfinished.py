"""What a stopped plan leaves behind: the finished blocks, with which the same command resumes.

They can be used only with the same export, mapping and options. A digest of all of these is stored next to them,
with the instant of the plan.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import msgspec

from pipeline.plan.sealed.directory import Directory

_BEGUN = "begun.json"


class Begun(msgspec.Struct, frozen=True):
    """`made_of` is a digest of what decides the events of a plan, `as_of` its instant, in µs UTC."""

    made_of: str
    as_of: int


def digest_of(decides: Any) -> str:
    """A digest that is the same in another process."""
    values = msgspec.to_builtins(decides, order="deterministic", enc_hook=repr)
    return hashlib.sha256(ascii(values).encode()).hexdigest()


def begun(directory: Directory) -> Begun | None:
    """What was begun in the folder of an unfinished plan."""
    try:
        return msgspec.json.decode((directory.staged / _BEGUN).read_bytes(), type=Begun)
    except (OSError, msgspec.MsgspecError):
        return None


def begin(directory: Directory, one: Begun) -> None:
    """Record what is begun."""
    directory.staged.mkdir(parents=True)
    (directory.staged / _BEGUN).write_bytes(msgspec.json.encode(one))


def remove(directory: Directory) -> None:
    """Forget what was begun."""
    shutil.rmtree(directory.staged, ignore_errors=True)


def blocks_of(directory: Directory) -> int:
    """Roughly how many blocks are finished; blocks that were in progress are included."""
    return sum(file.suffix == ".parquet" for file in directory.block_facts.glob("*"))


def clear(directory: Directory) -> None:
    """Remove everything but finished blocks."""
    if not any((directory.staged / "units").glob("*")):
        shutil.rmtree(directory.path, ignore_errors=True)
        return
    _clear(directory.path, directory.staged.relative_to(directory.path).parts)


def _clear(folder: Path, kept: tuple[str, ...]) -> None:
    for file in folder.iterdir() if kept else ():
        if file.name == kept[0]:
            _clear(file, kept[1:])
        elif file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()
