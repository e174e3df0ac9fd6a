"""Lookup files: files of an export whose rows are entries of tables (`lookup_files` of a mapping), such as names by id.

A plan reads them once and seals their entries in `lookups.json`. So an event depends only on the plan, and a plan can
be applied without the lookup files. Every worker has these tables in memory. A table with too many entries for that
has files of its own, which are sealed too (`pipeline.plan.lookup_writer`), and is null in `lookups.json`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map
from typing import TYPE_CHECKING, NamedTuple

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
from pipeline.mapper.program.lookup_table import ENTRIES, SLOTS, StoredTable
from pipeline.mapper.program.references import path_steps
from pipeline.models import BrokenRow, Part, Source
from pipeline.plan.sealed.directory import Directory, digest_file
from pipeline.plan.sealed.manifest import Plan
from pipeline.text import pluralize, printable
from pipeline.values import BadValue, Record, Value, is_absent

if TYPE_CHECKING:
    from pipeline.plan.lookup_writer import LookupWriter

MOST_ENTRIES = 250_000
"""At most this many entries are in memory, in all tables of a mapping together."""
_SHOWN_CHARACTERS = 60


class Lookups(NamedTuple):
    """The entries of each table, and notices (code, file, sentence): how many entries each file gave, which rows gave
    none, and which tables have no file."""

    tables: dict[str, Map[str, str]]
    notices: list[tuple[str, str, str]]


class _FileCounts(msgspec.Struct):
    """What one file has for a table. `changed` are the keys that had another value before, as far as memory counts
    them; `broken` is the first row that cannot be read."""

    part: Part
    lookup: LookupFile
    table: str
    rows: int = 0
    entries: int = 0
    without: int = 0
    broken: str = ""
    changed: dict[str, None] = msgspec.field(default_factory=dict)


def read_lookups(source: Source, mapping: Mapping, directory: Directory) -> Lookups:
    """The tables of a mapping's lookup files, which are read in the order of the export's files. Large ones are written
    into the directory of the plan.

    If two rows have the same key, the later one counts. Raises UnfitExport if a required table has no file, or if a
    file lacks a column that the mapping names; and UnreadableExport.
    """
    reader = _Reader(directory)
    notices: list[tuple[str, str, str]] = []
    for name, lookup in mapping.lookup_files.items():
        parts = [part for part in source.lookups if matches(part.path, lookup.file)]
        empty = any(note.code == "empty_file" and matches(note.where, lookup.file) for note in source.notes)
        if not parts and not empty:
            patterns = " or ".join(lookup.file)
            if lookup.missing == "stop":
                raise UnfitExport(
                    f"the export has no file {patterns}, which {mapping.tool} needs for its table {name!r}",
                    hint="pass that file with the others; it is part of the export",
                )
            sentence = f"the export has no file {patterns}: the table {name!r} is empty"
            notices.append(("lookup_missing", patterns, sentence))
        reader.tables[name] = {}
        for part in parts:
            reader.read(part, name, lookup)
    tables = reader.finish()
    for number, counts in enumerate(reader.files):
        notices.extend(_notices(counts, reader.changes(number)))
    return Lookups(tables, notices)


class _Reader:
    """Reads lookup files one after the other. `tables` are those in memory; if they have too many entries together, the
    largest moves to disk. `files` has the counts of each file."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._stored: dict[str, None] = {}
        self._store: LookupWriter | None = None
        self.tables: dict[str, dict[str, str]] = {}
        self.files: list[_FileCounts] = []

    def read(self, part: Part, name: str, lookup: LookupFile) -> None:
        """Add a file's entries to a table. Raises UnfitExport, UnreadableExport."""
        number, counts = len(self.files), _FileCounts(part, lookup, name)
        self.files.append(counts)
        table, others = self.tables[name], sum(map(len, self.tables.values())) - len(self.tables[name])
        for block in read_blocks(part):
            for row in read_rows(part, block, observe=False):
                counts.rows += 1
                if isinstance(row, BrokenRow):
                    counts.broken = counts.broken or f"row {counts.rows}: {row.detail}"
                    continue
                key = _text_at(lookup.key, row)
                value = _object_at(lookup.values, row) if lookup.values else _text_at(lookup.value, row)
                if not key or value is None:
                    counts.without += 1
                    continue
                counts.entries += 1
                if self._store is not None and name in self._stored:
                    self._store.add(name, key, value, number)
                    continue
                if table.get(key, value) != value:
                    counts.changed[key] = None
                table[key] = value
                if len(table) + others > MOST_ENTRIES:
                    self._move_largest()
                    others = sum(map(len, self.tables.values())) - len(table)
        if counts.rows and not counts.entries and not counts.broken and lookup.missing == "stop":
            raise UnfitExport(
                f"no row of {part.path} has {_wanted(lookup)}, which the table {name!r} is built from",
                hint="leave the file out, or correct `key` and `value` of the table under `lookup_files`",
            )

    def _move_largest(self) -> None:
        """Move the table with the most entries to disk. Keys that changed in the file that is being read are marked, so
        that each counts once for this file."""
        from pipeline.plan.lookup_writer import LookupWriter  # this loads a database

        name = max(self.tables, key=lambda one: len(self.tables[one]))
        table, number = self.tables[name], len(self.files) - 1
        current = self.files[number]
        changed = current.changed if current.table == name else {}
        self._store = self._store or LookupWriter(self._directory)
        for key, value in table.items():
            if key not in changed:
                self._store.add(name, key, value, number)
        for key in changed:  # in the order in which they changed, because the first is shown
            self._store.add(name, key, table[key], number, changed=True)
        changed.clear()
        table.clear()
        self._stored[name] = None

    def finish(self) -> dict[str, Map[str, str]]:
        """All tables. Called once."""
        if self._store is None:
            return {**self.tables}
        self._store.finish()
        return {name: self._store.table(name) if name in self._stored else self.tables[name] for name in self.tables}

    def changes(self, number: int) -> tuple[int, str]:
        """How many keys of a file had another value before, and the first of them; after `finish`."""
        counts = self.files[number]
        if counts.table in self._stored and self._store is not None and not counts.changed:
            return self._store.changes.get(number, (0, ""))
        return len(counts.changed), next(iter(counts.changed), "")


def _wanted(lookup: LookupFile) -> str:
    return f"{' or '.join(lookup.key)} and {' or '.join(lookup.value or lookup.values)}"


def _notices(counts: _FileCounts, changes: tuple[int, str]) -> Iterator[tuple[str, str, str]]:
    """The notices about a file."""
    path, table = counts.part.path, counts.table
    yield "lookup_file", path, f"{pluralize(counts.entries, 'entry')} of the table {table!r}"
    if counts.broken:
        yield "lookup_row", path, f"rows of the table {table!r} cannot be read; the first is {counts.broken}"
    if counts.without:
        rows = pluralize(counts.without, "row")
        yield "lookup_row", path, f"{rows} without {_wanted(counts.lookup)} for the table {table!r}"
    changed, example = changes
    if changed:
        sentence = f"{pluralize(changed, 'key')} of the table {table!r} had another value before, such as"
        shown = printable(example, _SHOWN_CHARACTERS)
        yield "lookup_changed", path, f"{sentence} {shown}; the value in this file counts"


def _text_at(paths: Sequence[str], row: Record) -> str | None:
    """The string at the first of these paths that has one."""
    return next((text for path in paths if (text := _text(path, row)) is not None), None)


def _object_at(paths: Sequence[str], row: Record) -> str | None:
    """The values at these paths as a JSON object, by the last names of the paths; None if there are no values."""
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
    """Write the tables into a plan. Returns its files with their digests; nothing for a mapping without tables."""
    if not mapping.lookup_files:
        return {}
    tables = {name: None if isinstance(one, StoredTable) else one for name, one in lookups.tables.items()}
    text = msgspec.json.format(msgspec.json.encode(tables, order="sorted"), indent=1) + b"\n"
    write_atomically(directory.lookups, text)
    stored = [ENTRIES, SLOTS] if None in tables.values() else []
    return {
        directory.lookups.name: hashlib.sha256(text).hexdigest(),
        **{name: digest_file(directory.path / name) for name in stored},
    }


def load_lookups(plan: Plan, directory: Directory) -> Tables:
    """The tables that a plan sealed. Its files were compared with their digests before."""
    if directory.lookups.name not in plan.files:
        return {}
    tables = msgspec.json.decode(directory.lookups.read_bytes(), type=dict[str, dict[str, str] | None])
    return {name: StoredTable(directory.path, name) if one is None else one for name, one in tables.items()}
