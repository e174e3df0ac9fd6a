"""Lookup files: files of an export whose rows are entries of tables (`lookup_files` of a mapping), such as names by id.

A plan reads them once and seals their entries in `lookups.json`. So an event depends only on the plan, and a plan can
be applied without the lookup files. Every worker has these tables in memory. A table with too many entries for that
has files of its own, which are sealed too (`pipeline.plan.lookup_writer`), and is null in `lookups.json`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Map
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pipeline.errors import UnfitExport
from pipeline.extractors import blocks as read_blocks
from pipeline.extractors import rows as read_rows
from pipeline.extractors.patterns import matches
from pipeline.files import write_atomically
from pipeline.mapper import Mapping
from pipeline.mapper.codegen.runtime import encode, member_at, text_of
from pipeline.mapper.compiler import compile_value
from pipeline.mapper.language.files_section import LookupFile
from pipeline.mapper.language.kinds import Call
from pipeline.mapper.program.builder import Tables
from pipeline.mapper.program.lookup_table import ENTRIES, SLOTS, StoredTable
from pipeline.mapper.program.references import definition_of, path_of, path_steps
from pipeline.models import BrokenRow, Part, RejectReason, SealedOptions, Source, UnvalidatedEvent
from pipeline.plan.sealed.directory import Directory, digest_file
from pipeline.plan.sealed.manifest import Plan
from pipeline.text import pluralize, printable
from pipeline.values import BadValue, Record, Value, is_absent

if TYPE_CHECKING:
    from pipeline.plan.joined_rows import JoinedRows
    from pipeline.plan.lookup_writer import LookupWriter

MOST_ENTRIES = 250_000
"""At most this many entries are in memory, in all tables of a mapping together."""
_ENTRY_CHARACTERS = 256
_SHOWN_CHARACTERS = 60


class Lookups(NamedTuple):
    """The entries of each table, and notices (code, file, sentence): how many entries each file gave, which rows gave
    none, and which tables have no file. `files` are the tables' names and the paths of all files, by their numbers."""

    tables: dict[str, Map[str, str]]
    notices: list[tuple[str, str, str]]
    files: list[tuple[str, str]]


class _FileCounts(msgspec.Struct):
    """What one file has for a table. `changed` are the keys that had another value before, as far as memory counts
    them; `broken` is the first row that cannot be read, and `doubt` the first value that cannot be computed.
    `renewed` counts the names of joined rows whose key had another value for them, and `renewal` is one of these;
    `too_large` counts the keys that begin in the file and have more than an event can carry, such as `large`."""

    part: Part
    lookup: LookupFile
    table: str
    rows: int = 0
    entries: int = 0
    without: int = 0
    unread: int = 0
    broken: str = ""
    doubtful: int = 0
    doubt: str = ""
    renewed: int = 0
    renewal: str = ""
    too_large: int = 0
    large: str = ""
    changed: dict[str, None] = msgspec.field(default_factory=dict)


def read_lookups(source: Source, mapping: Mapping, options: SealedOptions, directory: Directory) -> Lookups:
    """The tables of a mapping's lookup files, which are read in the order of the export's files. Large ones are written
    into the directory of the plan.

    If two rows have the same key, the later one counts. Raises UnfitExport if a required table has no file, or if a
    file lacks a column that the mapping names; and UnreadableExport.
    """
    reader = _Reader(directory, mapping, options)
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
    return Lookups(tables, notices, [(counts.table, counts.part.path) for counts in reader.files])


class _Reader:
    """Reads lookup files one after the other. `tables` are those in memory; if they have too many entries together, the
    largest moves to disk. `files` has the counts of each file."""

    def __init__(self, directory: Directory, mapping: Mapping, options: SealedOptions) -> None:
        self._directory = directory
        self._mapping, self._options = mapping, options
        self._joined: JoinedRows | None = None
        self._sizes: Counter[str] = Counter()
        """The sizes of the tables in memory, in entries."""
        self._stored: dict[str, None] = {}
        self._store: LookupWriter | None = None
        self.tables: dict[str, dict[str, str]] = {}
        self.files: list[_FileCounts] = []

    def read(self, part: Part, name: str, lookup: LookupFile) -> None:
        """Add a file's entries to a table. Raises UnfitExport, UnreadableExport."""
        number, counts = len(self.files), _FileCounts(part, lookup, name)
        self.files.append(counts)
        if lookup.is_joined and self._joined is None:
            from pipeline.plan.joined_rows import JoinedRows  # this loads a database

            self._joined = JoinedRows(self._directory)
        value_of = self._value_reader(lookup, counts)
        for block in read_blocks(part):
            for row in read_rows(part, block, observe=False):
                counts.rows += 1
                if isinstance(row, BrokenRow):
                    counts.unread += 1
                    counts.broken = counts.broken or f"row {counts.rows}: {row.detail}"
                    continue
                key = _text_at(lookup.key, row)
                member = _text_at(lookup.name, row) if lookup.name else None
                value = value_of(row) if key and (member or not lookup.name) else None
                if not key or value is None:
                    counts.without += 1
                    continue
                counts.entries += 1
                if lookup.is_joined and self._joined is not None:
                    named = encode(member) if lookup.name else b""
                    self._joined.add(name, key, number, counts.rows, named, value.encode("utf-8", "surrogatepass"))
                else:
                    self._add(name, key, value, number)
        if counts.rows and not counts.entries and not counts.broken and lookup.missing == "stop":
            raise UnfitExport(
                f"no row of {part.path} has {_wanted(lookup)}, which the table {name!r} is built from",
                hint="leave the file out, or correct `key` and `value` of the table under `lookup_files`",
            )

    def _value_reader(self, lookup: LookupFile, counts: _FileCounts) -> Callable[[Record], str | None]:
        """What reads a row's value as it is in an entry: text, or JSON if the entry is an object or a list."""
        if lookup.values:
            return partial(_object_at, lookup.values)
        if lookup.list == ("*",):
            keys = {path.removeprefix("/") for path in lookup.key}
            return lambda row: _object_at([path for path in map(path_of, row) if path[1:] not in keys], row)
        if lookup.list:
            return partial(_object_at, lookup.list)
        readers = [self._computed(call, counts) for call in lookup.value]

        def read(row: Record) -> str | None:
            value = next((value for one in readers if not is_absent(value := one(row))), None)
            try:
                return None if value is None else encode(value).decode() if lookup.name else text_of(value)
            except BadValue:
                return None

        return read

    def _computed(self, call: Call, counts: _FileCounts) -> Callable[[Record], Value]:
        """What computes a value of the language from a row."""
        if call.verb == "ref" and definition_of(call.arguments["ref"], self._mapping) is None:
            return partial(_value, call.arguments["ref"])
        compute = compile_value(self._mapping, self._options, call)

        def value(row: Record) -> Value:
            outcome = compute(row)
            problem = outcome.detail if isinstance(outcome, RejectReason) else ""
            if isinstance(outcome, UnvalidatedEvent):
                problem = next((detail for _, detail in outcome.warnings), "")
            if problem:
                counts.doubtful += 1
                counts.doubt = counts.doubt or f"row {counts.rows}: {problem}"
            return outcome.properties.get("value") if isinstance(outcome, UnvalidatedEvent) else None

        return value

    def _add(self, name: str, key: str, value: str, number: int) -> None:
        """Add an entry, which counts before earlier ones with its key."""
        if self._store is not None and name in self._stored:
            self._store.add(name, key, value, number)
            return
        table = self.tables[name]
        before = table.get(key)
        if before is not None:
            self._sizes[name] -= _size(before)
            if before != value:
                self.files[number].changed[key] = None
        table[key] = value
        self._sizes[name] += _size(value)
        if self._sizes.total() > MOST_ENTRIES:
            self._move_largest()

    def _move_largest(self) -> None:
        """Move the table with the most entries to disk. Keys that changed in the file that is being read are marked, so
        that each counts once for this file."""
        from pipeline.plan.lookup_writer import LookupWriter  # this loads a database

        ((name, _),) = self._sizes.most_common(1)
        del self._sizes[name]
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
        for one in () if self._joined is None else self._joined.collect():
            counts = self.files[one.file]
            if not one.pieces:
                counts.too_large += 1
                counts.large = counts.large or f"{printable(one.key, _SHOWN_CHARACTERS)} ({one.rows:,} rows)"
                continue
            entry, changed = one.entry(counts.lookup)
            for file, name in changed:
                self.files[file].renewed += 1
                named = f"{name.decode()} of {one.key}" if name else one.key
                self.files[file].renewal = self.files[file].renewal or named
            self._add(one.table, one.key, entry, len(self.files) - 1)
        if self._store is None:
            return {**self.tables}
        self._store.finish()
        return {name: self._store.table(name) if name in self._stored else self.tables[name] for name in self.tables}

    def changes(self, number: int) -> tuple[int, str]:
        """How many keys of a file had another value before, and the first of them; after `finish`."""
        counts = self.files[number]
        if counts.lookup.is_joined:
            return counts.renewed, counts.renewal
        if counts.table in self._stored and self._store is not None and not counts.changed:
            return self._store.changes.get(number, (0, ""))
        return len(counts.changed), next(iter(counts.changed), "")


def _size(value: str) -> int:
    """How many entries a value counts as: a long one as several."""
    return 1 + len(value) // _ENTRY_CHARACTERS


def _wanted(lookup: LookupFile) -> str:
    values = [call.arguments.get("ref", "a value") for call in lookup.value]
    named = f", {' or '.join(lookup.name)}" if lookup.name else ""
    return f"{' or '.join(lookup.key)}{named} and {' or '.join(values or lookup.values or lookup.list)}"


def _notices(counts: _FileCounts, changes: tuple[int, str]) -> Iterator[tuple[str, str, str]]:
    """The notices about a file."""
    path, table = counts.part.path, counts.table
    yield "lookup_file", path, f"{pluralize(counts.entries, 'entry')} of the table {table!r}"
    if counts.broken:
        rows = pluralize(counts.unread, "row")
        yield "lookup_row", path, f"{rows} of the table {table!r} cannot be read; the first is {counts.broken}"
    if counts.without:
        rows = pluralize(counts.without, "row")
        yield "lookup_row", path, f"{rows} without {_wanted(counts.lookup)} for the table {table!r}"
    if counts.doubtful:
        values = pluralize(counts.doubtful, "value")
        yield "lookup_row", path, f"{values} of the table {table!r} cannot be converted; the first is {counts.doubt}"
    if counts.too_large:
        keys = pluralize(counts.too_large, "key")
        sentence = f"the rows of {keys} of the table {table!r} are left out, because no event can carry so many"
        yield "lookup_row", path, f"{sentence}: {counts.large}"
    changed, example = changes
    if changed:
        what = "name" if counts.lookup.name else "key"
        sentence = f"{pluralize(changed, what)} of the table {table!r} had another value before, such as"
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
