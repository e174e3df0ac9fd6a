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
from pipeline.mapper.codegen.runtime import encode, text_of
from pipeline.mapper.compiler import compile_value
from pipeline.mapper.language.files_section import LookupFile
from pipeline.mapper.language.kinds import Call
from pipeline.mapper.program.builder import Tables
from pipeline.mapper.program.lookup_table import ENTRIES, SLOTS, StoredTable, stored_key
from pipeline.mapper.program.references import definition_of, path_of, path_steps, value_at
from pipeline.models import BrokenRow, Part, RejectReason, SealedOptions, Source, UnvalidatedEvent
from pipeline.plan.lookup_writer import LookupWriter
from pipeline.plan.sealed.directory import Directory, digest_file
from pipeline.plan.sealed.manifest import Plan
from pipeline.text import pluralize, printable
from pipeline.values import BadValue, Record, Value, is_absent

if TYPE_CHECKING:
    from pipeline.plan.lookup_rows import LookupRows

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
    """What one file has for a table. `found` counts what its notices are about, and `first` has an example of each."""

    part: Part
    lookup: LookupFile
    table: str
    rows: int = 0
    entries: int = 0
    found: Counter[str] = msgspec.field(default_factory=Counter)
    first: dict[str, str] = msgspec.field(default_factory=dict)

    def note(self, what: str, example: str) -> None:
        self.found[what] += 1
        self.first.setdefault(what, example)


def read_lookups(source: Source, mapping: Mapping, options: SealedOptions, directory: Directory) -> Lookups:
    """The tables of a mapping's lookup files, which are read in the order of the export's files. Large ones are written
    into the directory of the plan.

    If two rows have the same key, the later one counts. Raises UnfitExport if a required table has no file, or if a
    file lacks a column that the mapping names; and UnreadableExport.
    """
    notices: list[tuple[str, str, str]] = []
    if not mapping.lookup_files:
        return Lookups({}, notices, [])
    from pipeline.plan.lookup_rows import LookupRows  # this loads a database

    reader = _Reader(mapping, options, LookupRows(directory))
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
        for part in parts:
            reader.read(part, name, lookup)
    tables = _collect(reader, directory)
    for counts in reader.files:
        notices.extend(_notices(counts))
    notices.sort(key=lambda notice: notice[0] == "lookup_file")  # first what is left out
    return Lookups(tables, notices, [(counts.table, counts.part.path) for counts in reader.files])


class _Reader:
    """Reads lookup files one after the other. `files` has the counts of each."""

    def __init__(self, mapping: Mapping, options: SealedOptions, found: LookupRows) -> None:
        self.mapping, self._options, self.found = mapping, options, found
        self.files: list[_FileCounts] = []

    def read(self, part: Part, name: str, lookup: LookupFile) -> None:
        """Add the rows of a file. Raises UnfitExport, UnreadableExport."""
        number, counts = len(self.files), _FileCounts(part, lookup, name)
        self.files.append(counts)
        value_of = self._value_reader(lookup, counts)
        for block in read_blocks(part):
            before, found = counts.rows, read_rows(part, block)
            for row in found:
                counts.rows += 1
                if isinstance(row, BrokenRow):
                    counts.note("unread", f"row {counts.rows}: {row.detail}")
                    continue
                key = _text_at(lookup.key, row)
                member = _text_at(lookup.name, row) if lookup.name else None
                value = value_of(row) if key and (member or not lookup.name) else None
                if not key or value is None:
                    counts.note("without", "")
                    continue
                counts.entries += 1
                # Rows of a list are members of different names.
                named = f"{number} {counts.rows}".encode() if lookup.list else encode(member) if lookup.name else b""
                self.found.add(stored_key(name, key), number, counts.rows, named, value)
            for at, _, detail in found.warnings:
                counts.note("odd", f"row {before + at + 1}: {detail}")
        if counts.rows and not counts.entries and lookup.missing == "stop":
            unread = f", and {counts.first['unread']}" if counts.found["unread"] else ""
            raise UnfitExport(
                f"no row of {part.path} has {_wanted(lookup)}, which the table {name!r} is built from{unread}",
                hint="leave the file out, or correct the paths of the table under `lookup_files`",
            )

    def _value_reader(self, lookup: LookupFile, counts: _FileCounts) -> Callable[[Record], bytes | None]:
        """What reads a row's value as it is in an entry: text, or JSON if the entry is an object or a list."""
        if "*" in lookup.list:
            keys = {path.removeprefix("/") for path in lookup.key}
            return lambda row: _object_at([path for path in map(path_of, row) if path[1:] not in keys], row)
        if lookup.values or lookup.list:
            return partial(_object_at, lookup.values or lookup.list)
        readers = [self._computed(call, counts) for call in lookup.value]

        def read(row: Record) -> bytes | None:
            value = next((value for one in readers if not is_absent(value := one(row))), None)
            try:
                if value is None or lookup.name:
                    return None if value is None else encode(value)
                text = text_of(value)
            except BadValue:
                return None
            return None if text is None else text.encode("utf-8", "surrogatepass")

        return read

    def _computed(self, call: Call, counts: _FileCounts) -> Callable[[Record], Value]:
        """What computes a value of the language from a row."""
        if call.verb == "ref" and definition_of(call.arguments["ref"], self.mapping) is None:
            return partial(_value, call.arguments["ref"])
        compute = compile_value(self.mapping, self._options, call)

        def value(row: Record) -> Value:
            outcome = compute(row)
            problem = outcome.detail if isinstance(outcome, RejectReason) else ""
            if isinstance(outcome, UnvalidatedEvent):
                problem = next((detail for _, detail in outcome.warnings), "")
            if problem:
                counts.note("doubtful", f"row {counts.rows}: {problem}")
            return outcome.properties.get("value") if isinstance(outcome, UnvalidatedEvent) else None

        return value


def _collect(reader: _Reader, directory: Directory) -> dict[str, Map[str, str]]:
    """All tables. If they have too many entries for memory, the largest are on disk."""
    tables: dict[str, dict[str, str]] = {name: {} for name in reader.mapping.lookup_files}
    sizes, stored = Counter[str](), set[str]()
    joined = [number for number, counts in enumerate(reader.files) if counts.lookup.is_joined]
    with LookupWriter(directory, reader.found.count()) as writer:
        for one in reader.found.collect(joined):
            counts = reader.files[one.file]
            key = one.key.decode("utf-8", "surrogatepass").partition("\0")[2]
            if one.members is None:
                counts.note("too_large", f"{printable(key, _SHOWN_CHARACTERS)} ({one.rows:,} rows)")
                continue
            for file, name in one.changed:
                reader.files[file].note(
                    "changed", printable(f"{name.decode()} of {key}" if name else key, _SHOWN_CHARACTERS)
                )
            entry = _entry(counts.lookup, one.members)
            writer.add(one.hash, one.key, entry)
            if counts.table not in stored:
                tables[counts.table][key] = entry.decode("utf-8", "surrogatepass")
                sizes[counts.table] += _size(tables[counts.table][key])
            if sizes.total() > MOST_ENTRIES:
                ((largest, _),) = sizes.most_common(1)
                stored.add(largest)
                del sizes[largest]
                tables[largest].clear()
    if not stored:
        directory.lookup_entries.unlink()
        directory.lookup_slots.unlink()
    return {name: StoredTable(directory.path, name) if name in stored else table for name, table in tables.items()}


def _entry(lookup: LookupFile, members: dict[bytes, bytes]) -> bytes:
    """The entry of a key: a list, an object of its members, or the value of its last row."""
    if lookup.list:
        return b"[%s]" % b",".join(members.values())
    if lookup.name:
        return b"{%s}" % b",".join(b"%s:%s" % pair for pair in members.items())
    return members[b""]


def _size(value: str) -> int:
    """How many entries a value counts as: a long one as several."""
    return 1 + len(value) // _ENTRY_CHARACTERS


def _wanted(lookup: LookupFile) -> str:
    values = [call.arguments.get("ref", "a value") for call in lookup.value]
    named = f", {' or '.join(lookup.name)}" if lookup.name else ""
    columns = ["another column" if path == "*" else path for path in lookup.list]
    return f"{' or '.join(lookup.key)}{named} and {' or '.join(values or lookup.values or columns)}"


_NOTICES = {
    "unread": ("lookup_row", "row", "{} of the table {!r} cannot be read; the first is {}"),
    "odd": ("lookup_row", "row", "{} of the table {!r} with a warning; the first is {}"),
    "without": ("lookup_row", "row", "{0} without {3} for the table {1!r}"),
    "doubtful": ("lookup_row", "value", "{} of the table {!r} cannot be converted; the first is {}"),
    "too_large": (
        "lookup_row", "key", "the rows of {} of the table {!r} are left out, because no event can carry so many: {}"
    ),
    "changed": (
        "lookup_changed", "key",
        "{} of the table {!r} had another value before, such as {}; the value in this file counts",
    ),
}  # fmt: skip
"""The code and the sentence about what was counted, and what is counted."""


def _notices(counts: _FileCounts) -> Iterator[tuple[str, str, str]]:
    """The notices about a file."""
    path, table = counts.part.path, counts.table
    yield "lookup_file", path, f"{pluralize(counts.entries, 'entry')} of the table {table!r}"
    for what, (code, noun, sentence) in _NOTICES.items():
        if counts.found[what]:
            number = pluralize(counts.found[what], "name" if counts.lookup.name and what == "changed" else noun)
            yield code, path, sentence.format(number, table, counts.first[what], _wanted(counts.lookup))


def _text_at(paths: Sequence[str], row: Record) -> str | None:
    """The string at the first of these paths that has one."""
    return next((text for path in paths if (text := _text(path, row)) is not None), None)


def _object_at(paths: Sequence[str], row: Record) -> bytes | None:
    """The values at these paths as a JSON object, by the last names of the paths; None if there are no values."""
    values = {path_steps(path)[-1]: value for path in paths if not is_absent(value := _value(path, row))}
    return encode(values) if values else None


def _text(path: str, row: Record) -> str | None:
    try:
        return text_of(value_at(path, row))
    except BadValue:
        return None


def _value(path: str, row: Record) -> Value:
    try:
        return value_at(path, row)
    except BadValue:
        return None


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
