"""What became of a row of the export, of an event, or of a person: by what a plan and its ledger hold, nothing else.

    result   the object that says it
    rows     what the plan and its ledger have of rows, events, requests, merges, groups, profiles and people
    view     the object in words, on a terminal and as a page

A plan has a row of facts for each event, so rows are looked up there. It has the text of a row only if the row is in
the sample of `plan --pairs`, or was rejected; what it does not have is stated, never computed again.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.ledger import read_summary
from pipeline.mapper.language.parsed import parse
from pipeline.mapper.namespace import is_importer_key, namespace_of
from pipeline.options import ExplainOptions
from pipeline.plan.requests.query import opened
from pipeline.plan.samples.source_pairs import Shown
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.explain.result import Explanation, Person, Update
from pipeline.report.explain.rows import Known, RowPlace, Rows
from pipeline.report.state import read_status
from pipeline.text import pluralize, quoted
from pipeline.uuids import Hasher

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_FILE_ROW = re.compile("(.+):([0-9][0-9,]{0,17})", re.DOTALL)
_NEAREST = """
SELECT distinct_id FROM (SELECT DISTINCT distinct_id, jaro_winkler_similarity(lower(distinct_id), lower($1)) AS alike
FROM facts) WHERE alike > 0.9 ORDER BY alike DESC, distinct_id LIMIT 3
"""


def explain(plan: Plan, directory: Directory, asked: str | None, options: ExplainOptions) -> Explanation:
    """What became of `FILE:ROW`, of the event with a uuid or with a key of the export, or of a distinct_id; with None,
    of the rows of the sample. Raises UsageError for what the plan does not have, BrokenLedger, UnsafePlan."""
    asked = asked and asked.encode("utf-8", "replace").decode()  # bytes of a command line that are not UTF-8
    with opened(directory) as database:
        known, shown = Known(plan, directory, database), Shown(options.show_values, options.show_ids)
        kind, places, updates, persons = _named(known, asked)
        rows = Rows(known, shown, places)
        explained = [*rows]
        if kind in ("row", "uuid", "key") and places:
            persons = [*rows.persons()]
    summary = read_summary(known.of.ledger, most=0)
    to = summary.history.to if summary.history else ""
    return Explanation(
        directory.name, plan.digest, read_status(plan, directory).state, asked or "", kind, known.stage, to,
        summary.totals.refused, *shown, explained, updates, persons,
    )  # fmt: skip


def _named(known: Known, asked: str | None) -> tuple[str, Sequence[RowPlace], Sequence[Update], Sequence[Person]]:
    """What was asked for: its kind, and its rows, or its updates and people. An event that several rows have is that of
    the row that is sent."""
    if asked is None:
        if known.sampled:
            return "sample", [*known.sampled], [], []
        name = known.directory.name
        raise UsageError(f"{name} has no sample of rows", hint=f"name a row: backcast explain {quoted(name)} FILE:ROW")
    if _UUID.fullmatch(asked):
        uuid = asked.lower()
        if places := known.with_uuid(uuid):
            return "uuid", places, [], []
        # An id may be a uuid, too.
        if updates := [one for one in known.updates([uuid]) if one.uuid == uuid]:
            return "uuid", [], updates, [known.person(one.distinct_id) for one in updates]
    if place := _place_named(known.plan, asked):
        return "row", [place], [], []
    if person := known.person_with_events(asked):
        return "id", [], [], [person]
    mapping, options = parse(known.plan.mapping.text, known.plan.mapping.name), known.plan.options
    parts = 1 if is_importer_key(mapping, options) else len(mapping.key.of) if mapping.key else 0
    if parts == 1 and (places := known.with_uuid(Hasher(namespace_of(mapping, options))(asked))):
        return "key", places, [], []
    raise _unknown(known, asked, parts)


def _place_named(plan: Plan, asked: str) -> RowPlace | None:
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


def _unknown(known: Known, asked: str, parts: int) -> UsageError:
    """The error for a name that nothing has, with the nearest names of files or ids. The keys of rows have so many
    parts."""
    name, paths = known.directory.name, [part.path for part in known.plan.parts]
    if match := _FILE_ROW.fullmatch(asked):
        near = difflib.get_close_matches(match[1], paths, n=3, cutoff=0.4) or paths[:3]
        return UsageError(
            f"the export of {name} has no file {match[1]!r}, and the plan no id {asked!r}",
            hint=f"name a row of one of its files: {', '.join(near)}",
        )
    key = ", the id that the row itself has" if parts == 1 else ""
    hint = f"name FILE:ROW, the uuid of an event{key}, or a distinct_id"
    if parts > 1:
        hint += f"; a row's key is made of {parts} values in this mapping, so one of them alone does not find it"
    if near := [id_ for (id_,) in known.database.rows(_NEAREST, asked)]:
        hint = f"the nearest ids: {', '.join(near)}"
    elif near := difflib.get_close_matches(asked, paths, n=1):
        hint = f"name a row of the file: {quoted(f'{near[0]}:1')}"
    return UsageError(f"{name} has no row, uuid or id {asked!r}", hint=hint)
