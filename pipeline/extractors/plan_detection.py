"""Folders in which backcast keeps a plan: never an export."""

from __future__ import annotations

import re
from pathlib import Path

_HEAD = re.compile(rb'\s*\{\s*"format"\s*:\s*"backcast\.plan/')
"""What every version of plan.json begins with."""
UNFINISHED, FINISHED = "unfinished-plan", "finished-plan"
"""Folders in one with a plan, while that is made (`pipeline.plan.commit`)."""
MARK = "not-finished.txt"
"""Stands in the first of them."""


def is_plan(folder: Path) -> bool:
    """Whether a plan lies in a folder, finished or not. A folder that cannot be read holds none."""
    return _has_plan(folder) or any(_is_ours(folder / name) for name in (UNFINISHED, FINISHED))


def _has_plan(folder: Path) -> bool:
    try:
        with (folder / "plan.json").open("rb") as file:
            return _HEAD.match(file.read(100)) is not None
    except OSError:
        return False


def _is_ours(folder: Path) -> bool:
    """Whether a folder with one of our names is ours: empty, marked as unfinished, or with a plan."""
    try:
        return (folder / MARK).exists() or _has_plan(folder) or (folder.is_dir() and not any(folder.iterdir()))
    except OSError:
        return False
