"""Checks of the first rows of every file, before a plan reads everything.

They find which table of a warehouse a file contains, which is sealed with it, and whether the columns that the operator
named exist. If the header or the first row of a file decides this, no more of it is read.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipeline.errors import UnfitExport
from pipeline.extractors import blocks as read_blocks
from pipeline.extractors import has_fixed_columns
from pipeline.extractors import rows as read_rows
from pipeline.extractors.discovery import SAME_FILE
from pipeline.extractors.named_files import natural
from pipeline.extractors.stream import in_turn
from pipeline.mapper import Mapping
from pipeline.mapper.program.blanks import blank_remover
from pipeline.mapper.program.references import NamedColumns, find, has_column, named_columns
from pipeline.mapper.table_names import SETTING, names_in, table_in_path, table_of
from pipeline.models import Part, SealedOptions, Source
from pipeline.text import some_of
from pipeline.values import Record

_SMALL = {"block_bytes": 64 * 1024, "block_rows": 1}
"""The block size for reading a file here; mostly, one row decides."""
MAX_SHOWN = 12
"""An error lists at most this many names."""


def with_tables_apart(source: Source, mapping: Mapping) -> Source:
    """The source, in which files with equal bytes but the names of different tables do not count as copies.

    One action may be a row in several tables, as in Heap, so two tables can be equal to the byte.
    """
    rule = mapping.table_from_path
    if rule is None or not source.copies:
        return source
    seen = {(part.digest, table_in_path(names_in(part), rule.known)) for part in source.parts}
    restored: list[tuple[Part, int]] = []
    for part, size, _ in source.copies:
        key = part.digest, table_in_path(names_in(part), rule.known)
        if key not in seen:
            seen.add(key)
            restored.append((part, size))
    if not restored:
        return source
    paths = {part.path for part, _ in restored}
    ordered = sorted(
        [*zip(source.parts, source.sizes, strict=True), *restored], key=lambda entry: natural(entry[0].path)
    )
    return replace(
        source,
        parts=tuple(replace(part, index=index) for index, (part, _) in enumerate(ordered)),
        notes=tuple(note for note in source.notes if note.code != SAME_FILE or note.where not in paths),
        sizes=tuple(size for _, size in ordered),
        copies=tuple(copy for copy in source.copies if copy[0].path not in paths),
    )


def check_first_rows(parts: Sequence[Part], mapping: Mapping, options: SealedOptions) -> tuple[Part, ...]:
    """The parts, with their tables if the mapping distinguishes tables.

    Raises UnfitExport if the table of a part cannot be recognised, or if no row has a column that the operator named;
    and UnreadableExport.
    """
    named = named_columns(mapping, options)
    if mapping.table_from_path is not None:
        parts = [_with_table(part, mapping, options) for part in in_turn(parts)]
    if named.all:
        _check_columns(parts, mapping, named)
    return tuple(parts)


def detect_settings(
    parts: Sequence[Part], mapping: Mapping, options: SealedOptions
) -> tuple[SealedOptions, list[tuple[str, str, str]]]:
    """The options with the settings that the first rows of parts decide, and a notice (code, part, sentence) for each.

    A setting that the operator gave stays as it is. Raises UnreadableExport.
    """
    undecided = {name: one for name, one in mapping.settings.items() if one.found and not options.settings.get(name)}
    notices: list[tuple[str, str, str]] = []
    for part in in_turn(parts) if undecided else ():
        record = _first_record(part, mapping) if undecided else None
        if record is None:
            continue
        for name, setting in list(undecided.items()):
            if any(find(call, record) is not None for call in setting.found):
                del undecided[name]
                value = setting.one_of[0]
                options = replace(options, settings={**options.settings, name: value})
                notices.append(
                    ("setting_found", part.path, f"planned with --set {name}={value}, because of this file's contents")
                )
    return options, notices


def _first_record(part: Part, mapping: Mapping) -> Record | None:
    """The first row of a part as the mapper reads it, or None."""
    record = next(records(part, mapping, **_SMALL), None)
    remove_blanks = blank_remover(mapping)
    if record is not None and remove_blanks is not None:
        remove_blanks(record)
    return record


def records(part: Part, mapping: Mapping, **sizes: int) -> Iterator[Record]:
    """The rows of a part that can be read, as a mapping reads them; `sizes` are those of blocks."""
    for block in read_blocks(part, **sizes):
        for record in read_rows(part, block, observe=False, blanks=mapping.blanks.in_cells):
            if isinstance(record, dict):
                yield record


def _with_table(part: Part, mapping: Mapping, options: SealedOptions) -> Part:
    record = _first_record(part, mapping)
    if record is None:
        return part
    table = table_of(mapping, options, names_in(part), record)
    if table is not None:
        return replace(part, table=table) if table else part
    rule = mapping.table_from_path
    assert rule is not None
    setting = options.settings.get(SETTING)
    if setting:
        raise UnfitExport(
            f"--set table={setting} does not name a table that {part.path} could be",
            hint=_suggestion(setting, rule.known),
        )
    raise UnfitExport(
        f"cannot recognise the table in {part.path}, neither by its folder or name nor by its columns",
        hint=f"rename its folder or file to the name of its table ({', '.join(rule.known)}),"
        " leave it out, or plan it by itself with --set table=NAME",
    )


def _check_columns(parts: Sequence[Part], mapping: Mapping, named: NamedColumns) -> None:
    """Raise UnfitExport if no part has a named column, or if a part lacks a column that every part needs."""
    missing = dict(named.all)
    columns: dict[str, None] = {}
    for part in parts if all(part.dialect.header for part in parts) else in_turn(parts):
        needed = list(named.needed)
        part_columns: dict[str, None] = {}
        for record in _rows_with_columns(part, mapping):
            if len(part_columns) < MAX_SHOWN:
                part_columns |= dict.fromkeys(record)
            missing = {name: column for name, column in missing.items() if not has_column(mapping, record, column)}
            needed = [
                alternatives
                for alternatives in needed
                if not any(has_column(mapping, record, column) for column in alternatives)
            ]
            if not missing and not needed:
                break
        if part_columns and needed:
            column = min(needed[0])
            name = next(name for name, given in named.all.items() if given == column)
            raise _missing_column(part.path, name, column, list(part_columns))
        columns |= part_columns
    if columns and missing:
        name, column = next(iter(missing.items()))
        raise _missing_column(parts[0].path if len(parts) == 1 else "the export", name, column, list(columns))


def _rows_with_columns(part: Part, mapping: Mapping) -> Iterator[Record]:
    """The rows whose columns may differ; for a format with fixed columns, only its header or first row."""
    of_folders: Record = dict.fromkeys(name for name, _ in part.dialect.folders or ())
    if part.dialect.header:
        yield dict.fromkeys(part.dialect.header) | of_folders
        return
    for record in records(part, mapping, **_SMALL):
        yield of_folders | record
        if has_fixed_columns(part):
            return


def _missing_column(where: str, setting: str, column: str, columns: list[str]) -> UnfitExport:
    return UnfitExport(
        f"no row of {where} has the column {column!r}, which --set {setting} names", hint=_suggestion(column, columns)
    )


def _suggestion(word: str, words: Sequence[str]) -> str:
    """The word that was probably meant, ignoring case; else the first of the words."""
    by_lower_case = {one.lower(): one for one in reversed(words)}
    near = difflib.get_close_matches(word.lower(), by_lower_case, n=1)
    if near:
        return f"did you mean {by_lower_case[near[0]]!r}?"
    return f"available: {some_of(words, MAX_SHOWN)}"
