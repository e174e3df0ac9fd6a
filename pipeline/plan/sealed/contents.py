"""Whether the files of a plan are as they were sealed, and the lines of some of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from pipeline.errors import StalePlan, UnsafePlan
from pipeline.plan.sealed.directory import Directory, digest_file, read_lines
from pipeline.plan.sealed.manifest import Plan

T = TypeVar("T")


def check_tables(plan: Plan, directory: Directory, names: Collection[str] | None = None) -> None:
    """Raise StalePlan if a file of the plan (or one of these names) is not the one that was sealed.

    The facts are checked by `pipeline.plan.requests.query.add_facts` when they are opened next to their plan.json, and
    here otherwise.
    """
    checked = "facts/" if directory.plan.exists() else None
    for name, digest in plan.files.items():
        if name not in names if names is not None else checked is not None and name.startswith(checked):
            continue
        path = directory.path / name
        try:
            current = digest_file(path)
        except FileNotFoundError:
            raise StalePlan(
                f"{path} is missing from the plan", differences=[f"{name}: missing"],
                hint="copy the whole directory; plan again only if nothing was sent",
            ) from None  # fmt: skip
        if current != digest:
            raise StalePlan(
                f"{path} was changed after it was sealed",
                differences=[f"{name}: sealed {digest[:12]}, now {current[:12]}"],
                hint="bring the plan's directory back as it was; plan again only if nothing was sent",
            )


def sealed_lines(path: Path, kind: type[T]) -> Iterator[T]:
    """The records of a file of a plan, none if it is not there. Raises UnsafePlan for one that is damaged."""
    try:
        yield from read_lines(path, kind) if path.exists() else ()
    except msgspec.MsgspecError as error:
        raise UnsafePlan(
            f"{path.name} of the plan cannot be read: {error}",
            hint="bring it back as it was; plan again only if nothing was sent",
        ) from None


class _DailyCount(msgspec.Struct):
    event: str
    day: str
    outcome: str
    count: int


def planned_days(directory: Directory) -> Iterator[tuple[str, str, int]]:
    """Events to send by name and UTC day (`2021-03-01`): name, day, count. Raises UnsafePlan."""
    for one in sealed_lines(directory.cells, _DailyCount):
        if one.outcome == "mapped" and one.count:
            yield one.event, one.day, one.count
