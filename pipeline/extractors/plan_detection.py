"""Recognises folders that contain a plan of backcast, which is never an export."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pipeline import storage

_HEAD = re.compile(rb'\s*\{\s*"format"\s*:\s*"backcast\.plan/')
"""The start of plan.json in every version."""
UNFINISHED, FINISHED = "unfinished-plan", "finished-plan"
"""Folders inside a plan's folder while the plan is being written (`pipeline.plan.sealed.commit`)."""
MARK = "not-finished.txt"
"""A file in the first of these folders."""


def is_plan(folder: Path) -> bool:
    """Whether a folder contains a plan, finished or not; False for a folder that cannot be read."""
    return has_plan(str(folder)) or any(_is_ours(folder / name) for name in (UNFINISHED, FINISHED))


def has_plan(folder: str) -> bool:
    """Whether a folder or a prefix has a finished plan; False for one that cannot be read."""
    try:
        return _HEAD.match(storage.read_range(os.path.join(folder, "plan.json"), 0, 100)) is not None
    except OSError:
        return False


def _is_ours(folder: Path) -> bool:
    """Whether a folder with one of our names is really ours: empty, marked as unfinished, or with a plan."""
    try:
        return (folder / MARK).exists() or has_plan(str(folder)) or (folder.is_dir() and not any(folder.iterdir()))
    except OSError:
        return False
