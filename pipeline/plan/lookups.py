"""Lookup files: files of an export whose rows are entries of tables (`lookup_files` of a mapping), such as names by id.

A plan reads them once and seals their entries in `lookups.json`. So an event depends on the plan alone, and a plan can
be applied without the lookup files. Tables are held in memory by every worker, so their size has a limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from pipeline.errors import UnfitExport
from pipeline.extractors import blocks as read_blocks
from pipeline.extractors import rows as read_rows
from pipeline.extractors.patterns import matches
from pipeline.files import write_atomically
from pipeline.mapper import Mapping
from pipeline.mapper.codegen.runtime import encode, member_at, text_of
from pipeline.mapper.language.files_section import LookupFile
from pipeline.mapper.program.builder import Tables
from pipeline.mapper.program.references import path_steps
from pipeline.models import BrokenRow, Part, Source
from pipeline.plan.directory import Directory
from pipeline.plan.manifest import Plan
from pipeline.text import pluralize, printable
from pipeline.values import BadValue, Record, Value, is_absent

MOST_ENTRIES = 250_000
"""Of all tables of a mapping together."""
_SHOWN_CHARACTERS = 60


class Lookups(NamedTuple):
    """The entries of each table, and notices (code, file, sentence): how many came from which file, which rows have
    none, and which tables have no file."""

    tables: dict[str, dict[str, str]]
    notices: list[tuple[str, str, str]]


def read_lookups(source: Source, mapping: Mapping) -> Lookups:
    """The tables of a mapping's lookup files, in the order of the export's files.

    Where two rows have one key, the later one counts. Raises UnfitExport for a table without a file that the mapping
    needs, for files without a column that it names, and for too many entries; and UnreadableExport.
    """
    lookups = Lookups({}, [])
    for name, lookup in mapping.lookup_files.items():
        parts = [part for part in source.lookups if matches(part.path, lookup.file)]
        empty = any(note.code == "empty_file" and matches(note.where, lookup.file) for note in source.notes)
        if not parts and not empty:
            patterns = " or ".join(lookup.file)
            if lookup.missing == "stop":
                raise UnfitExport(
                    f"the export has no file {patterns}, from which {mapping.tool} takes its table {name!r}",
                    hint="give that file with the others; it is part of the export",
                )
            sentence = f"the export has no file {patterns}: the table {name!r} is empty"
            lookups.notices.append(("lookup_missing", patterns, sentence))
        table = lookups.tables[name] = {}
        for part in parts:
            lookups.notices.extend(_read(part, name, lookup, table))
            if sum(map(len, lookups.tables.values())) > MOST_ENTRIES:
                raise UnfitExport(
                    f"{part.path} has too many entries for a lookup table (more than {MOST_ENTRIES:,} in all)",
                    hint="join the rows of the export before they are planned, and leave the file out",
                )
    return lookups


def _read(part: Part, name: str, lookup: LookupFile, table: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Add a file's entries to a table; gives the notices about it."""
    rows = entries = without = 0
    changed: dict[str, None] = {}
    broken = ""
    for block in read_blocks(part):
        for row in read_rows(part, block, observe=False):
            rows += 1
            if isinstance(row, BrokenRow):
                broken = broken or f"row {rows}: {row.detail}"
                continue
            key = _text_at(lookup.key, row)
            value = _object_at(lookup.values, row) if lookup.values else _text_at(lookup.value, row)
            if not key or value is None:
                without += 1
                continue
            entries += 1
            if table.get(key, value) != value:
                changed[key] = None
            table[key] = value
            if len(table) > MOST_ENTRIES:
                return  # the caller refuses it
    wanted = f"{' or '.join(lookup.key)} and {' or '.join(lookup.value or lookup.values)}"
    if rows and not entries and not broken and lookup.missing == "stop":
        raise UnfitExport(
            f"no row of {part.path} has {wanted}, from which the table {name!r} is built",
            hint="leave the file out, or correct `key` and `value` of the table under `lookup_files`",
        )
    yield "lookup_file", part.path, f"{pluralize(entries, 'entry')} of the table {name!r}"
    if broken:
        yield "lookup_row", part.path, f"rows of the table {name!r} cannot be read, the first is {broken}"
    if without:
        yield "lookup_row", part.path, f"{pluralize(without, 'row')} without {wanted} for the table {name!r}"
    if changed:
        example = printable(next(iter(changed)), _SHOWN_CHARACTERS)
        sentence = f"{pluralize(len(changed), 'key')} of the table {name!r} had another value before, such as {example}"
        yield "lookup_changed", part.path, f"{sentence}; the value in this file counts"


def _text_at(paths: Sequence[str], row: Record) -> str | None:
    """The text at the first of these paths that has one."""
    return next((text for path in paths if (text := _text(path, row)) is not None), None)


def _object_at(paths: Sequence[str], row: Record) -> str | None:
    """The values at these paths as an object in JSON, by the last names of the paths; None where there is none."""
    values = {path_steps(path)[-1]: value for path in paths if not is_absent(value := _value(path, row))}
    return encode(values).decode() if values else None


def _text(path: str, row: Record) -> str | None:
    try:
        return text_of(_value(path, row))
    except BadValue:
        return None


def _value(path: str, row: Record) -> Value:
    column, *steps = path_steps(path)
    value = row.get(column)
    try:
        for step in steps:
            value = member_at(value, step)
    except BadValue:
        return None
    return value


def save_lookups(directory: Directory, mapping: Mapping, lookups: Lookups) -> dict[str, str]:
    """Write the tables into a plan; the file's name and its digest, or nothing for a mapping without such tables."""
    if not mapping.lookup_files:
        return {}
    text = msgspec.json.format(msgspec.json.encode(lookups.tables, order="sorted"), indent=1) + b"\n"
    write_atomically(directory.lookups, text)
    return {directory.lookups.name: hashlib.sha256(text).hexdigest()}


def load_lookups(plan: Plan, directory: Directory) -> Tables:
    """The tables that a plan sealed; its files were compared with their digests before."""
    if directory.lookups.name not in plan.files:
        return {}
    return msgspec.json.decode(directory.lookups.read_bytes(), type=dict[str, dict[str, str]])
