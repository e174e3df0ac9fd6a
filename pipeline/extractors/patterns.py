"""Patterns of paths: `hit_data*.tsv`, `manifests/*.json`, `*lookup*`."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a run of a path's folders and name matches a pattern; an archive's name counts as a folder."""
    steps = path.replace("!", "/").split("/")
    count = len(steps)
    runs = ["/".join(steps[first:last]) for first in range(count) for last in range(first + 1, count + 1)]
    return any(fnmatchcase(run, pattern) for pattern in patterns for run in runs)
