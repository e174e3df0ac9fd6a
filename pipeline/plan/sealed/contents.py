"""Checks whether the files of a plan are as they were sealed, and reads the lines of some of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from pipeline.errors import UnsafePlan
from pipeline.plan.requests.store import check_digest
from pipeline.plan.sealed.directory import Directory, read_lines
from pipeline.plan.sealed.manifest import Plan

T = TypeVar("T")


def check_tables(plan: Plan, directory: Directory, names: Collection[str] | None = None) -> None:
    """Raise StalePlan if a file of the plan (or one of these names) changed after it was sealed.

    `pipeline.plan.requests.query.add_facts` checks facts when it opens them next to their plan.json; this function
    checks them otherwise.
    """
    checked = "facts/" if directory.plan.exists() else None
    for name, digest in plan.files.items():
        if name not in names if names is not None else checked is not None and name.startswith(checked):
            continue
        check_digest(directory, name, digest)


def sealed_lines(path: Path, kind: type[T]) -> Iterator[T]:
    """The records of a file of a plan; none if the file does not exist. Raises UnsafePlan if it is damaged."""
    try:
        yield from read_lines(path, kind) if path.exists() else ()
    except msgspec.MsgspecError as error:
        raise UnsafePlan(
            f"{path.name} of the plan cannot be read: {error}",
            hint="restore it from a copy; plan again only if nothing was sent",
        ) from None


class DailyCount(msgspec.Struct):
    """Rows of one name and UTC day (`2021-03-01`) with one outcome: `mapped` for events to send, or a code."""

    event: str
    day: str
    outcome: str
    count: int


def planned_days(directory: Directory) -> Iterator[tuple[str, str, int]]:
    """Events to send by name and UTC day (`2021-03-01`): name, day, count. Raises UnsafePlan."""
    for one in sealed_lines(directory.cells, DailyCount):
        if one.outcome == "mapped" and one.count:
            yield one.event, one.day, one.count
