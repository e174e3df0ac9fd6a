"""The table in which a person chooses the event names to import (`survey --scope FILE`).

Every row is read and mapped once, in this process, so that names are those that a plan reads and counts are exact.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.definitions.changes import NewNames
from pipeline.definitions.sources import EVENT, read_definitions
from pipeline.errors import UsageError
from pipeline.extractors.stream import in_turn
from pipeline.mapper.compiler import compile_mapping
from pipeline.models import ItemOutcomes, SealedOptions
from pipeline.options import PlanOptions, SurveyOptions
from pipeline.plan.create import open_export
from pipeline.plan.lookups import read_lookups
from pipeline.plan.precheck import check_first_rows, detect_settings, records
from pipeline.plan.scope import KEEP
from pipeline.plan.sealed.directory import Directory
from pipeline.spreadsheets import write_csv
from pipeline.timestamps import format_utc

COLUMNS = (EVENT, KEEP, "rows", "first", "last", "becomes", "use")
MOST_NAMES = 100_000


class _Names(list[str | None]):
    """The event's names of the plain rows that a mapper makes of one row; it is the `scan` of the mapper."""

    def row(self, row: Any) -> None:
        self.append(None)

    def opened(self, properties: Any) -> None:
        pass

    @property
    def event(self) -> str | None:
        return self[-1]

    @event.setter
    def event(self, name: str | None) -> None:
        self[-1] = name


def write_scope(sources: Sequence[str], options: SurveyOptions) -> None:
    """Write the table, the most frequent names first. Times are read as UTC, if they have no offset.

    Raises UsageError, also if the file exists, MappingError and UnreadableExport.
    """
    file = Path(options.scope or "")
    if "-" in sources:
        raise UsageError("--scope reads the export a second time", hint="save standard input as a file, and name that")
    if file.exists():
        raise UsageError(f"{file} exists", hint="name a new file, so that no choice of a person is lost")
    uses = {
        one.name: one.use for path in options.definitions for one in read_definitions(path).found if one.kind == EVENT
    }
    with tempfile.TemporaryDirectory(prefix="backcast-") as scratch:
        planning = PlanOptions(mapping=options.mapping, settings=options.settings)
        _, mapping, source = open_export(sources, planning, work := Directory(Path(scratch)))
        sealed = SealedOptions(0, zones=(("UTC", ""),), settings=dict(options.settings))
        sealed, _ = detect_settings(source.parts, mapping, sealed)
        seen: dict[str, list[int]] = {}  # rows, first and last in microseconds
        tables = read_lookups(source, mapping, sealed, work).tables
        compiled = cache(
            lambda table: compile_mapping(mapping, sealed.of_table(table), tables, for_members=False).map_row
        )
        for part in in_turn(check_first_rows(source.parts, mapping, sealed)):
            map_row = compiled(part.table)
            for row in records(part, mapping):
                _add(seen, map_row(row, found := _Names()), found)
    names = NewNames(mapping, sealed)
    with file.open("x", encoding="utf-8-sig", newline="") as text:  # a spreadsheet knows UTF-8 by its mark
        by_rows = sorted(seen.items(), key=lambda pair: (-pair[1][0], pair[0]))
        write_csv(text, COLUMNS, (_row(name, counted, names, uses.get(name, "")) for name, counted in by_rows))


def _row(name: str, counted: list[int], names: NewNames, use: str) -> tuple[object, ...]:
    new, why = names.of(EVENT, name)
    days = (format_utc(at)[:10] if at else "" for at in counted[1:])
    return name, "yes", counted[0], *days, ", ".join(new) or f"({why})", use


def _add(seen: dict[str, list[int]], result: Any, names: _Names) -> None:
    outcomes = result if isinstance(result, list) else [result]
    ends = result.ends if isinstance(result, ItemOutcomes) else [len(outcomes)]
    for name, start, end in zip(names, [0, *ends], ends, strict=False):
        if name is None:
            continue
        if name not in seen and len(seen) == MOST_NAMES:
            raise UsageError(
                f"the export has more than {MOST_NAMES:,} event names", hint="map them to fewer names first"
            )
        counted = seen.setdefault(name, [0, 0, 0])
        counted[0] += 1
        for at in (one.time for one in outcomes[start:end] if type(getattr(one, "time", None)) is int):
            counted[1:] = min(counted[1] or at, at), max(counted[2] or at, at)
