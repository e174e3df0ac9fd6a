"""What a person may name to have it explained: a row, an event by its uuid, or an id."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import UsageError
from pipeline.identity.database import Database
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.text import pluralize, quoted

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_FILE_ROW = re.compile("(.+):([0-9][0-9,]{0,17})", re.DOTALL)
_NEAREST = """
SELECT distinct_id FROM (SELECT DISTINCT distinct_id, jaro_winkler_similarity(lower(distinct_id), lower($1)) AS alike
FROM facts) WHERE alike > 0.9 ORDER BY alike DESC, distinct_id LIMIT 3
"""


class RowPlace(NamedTuple):
    """The number of a file of the export, and of a row in it, from 1."""

    part: int
    row: int


def uuid_named(asked: str) -> tuple[int, int] | None:
    """The halves of a uuid; None for anything else."""
    digits = asked.replace("-", "")
    return (int(digits[:16], 16), int(digits[16:], 16)) if _UUID.fullmatch(asked) else None


def place_named(plan: Plan, asked: str) -> RowPlace | None:
    """The place that `FILE:ROW` names; None if it names no file of the export. Raises UsageError."""
    match = _FILE_ROW.fullmatch(asked)
    found = _files_named(plan, asked if match is None else match[1])
    if not found:
        return None
    if match is None:
        raise UsageError(f"{asked!r} is a file of the export", hint=f"name a row of it: {quoted(f'{asked}:1')}")
    if len(found) > 1:
        some = ", ".join(plan.parts[part].path for part in found[:5])
        raise UsageError(f"{pluralize(len(found), 'file')} of the export end in {match[1]!r}", hint=f"name one: {some}")
    part, row = plan.parts[found[0]], int(match[2].replace(",", ""))
    if not 1 <= row <= part.rows:
        hint = f"rows count from 1, without a header: 1 to {part.rows}" if part.rows else "name another file"
        raise UsageError(f"{part.path} has {pluralize(part.rows, 'row')}, not a row {row}", hint=hint)
    return RowPlace(found[0], row)


def _files_named(plan: Plan, file: str) -> list[int]:
    """The files with this path in the export, or this path on this machine, or else whose path ends so."""
    whole = str(Path(file).absolute())
    numbered = [*enumerate(plan.parts)]
    exact = [number for number, part in numbered if part.path == file]
    here = [number for number, part in numbered if not part.member and part.file == whole]
    return exact or here or [number for number, part in numbered if _ends_in(part.path, file)]


def _ends_in(path: str, file: str) -> bool:
    """Whether a path of the export ends in `file`, or `file` in it, at the border of a name."""
    longer, shorter = sorted((path.replace("\\", "/"), file.replace("\\", "/").removeprefix("./")), key=len)[::-1]
    return longer == shorter or (bool(shorter) and longer.endswith(shorter) and longer[-len(shorter) - 1] in "/!")


def unknown(plan: Plan, directory: Directory, database: Database, asked: str) -> UsageError:
    """The error for a name that nothing has, with the nearest names of files or ids."""
    paths = [part.path for part in plan.parts]
    if match := _FILE_ROW.fullmatch(asked):
        near = difflib.get_close_matches(match[1], paths, n=3, cutoff=0.4) or paths[:3]
        return UsageError(
            f"the export of {directory.name} has no file {match[1]!r}, and the plan no id {asked!r}",
            hint=f"name a row of one of its files: {', '.join(near)}",
        )
    hint = "name FILE:ROW, the uuid of an event, or a distinct_id"
    if near := [id_ for (id_,) in database.rows(_NEAREST, asked)]:
        hint = f"the nearest ids: {', '.join(near)}"
    elif near := difflib.get_close_matches(asked, paths, n=1):
        hint = f"name a row of the file: {quoted(f'{near[0]}:1')}"
    return UsageError(f"{directory.name} has no row, uuid or id {asked!r}", hint=hint)
