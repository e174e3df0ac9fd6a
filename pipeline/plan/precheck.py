"""A look at the first rows of every part before a plan reads them all: what would spoil each row is told at once.

Two things are found out: which table of a warehouse a part holds, which is sealed with it, and whether the columns that
the operator named are there at all. A part of which this is plain from its header or its first row costs no more.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipeline.errors import UnfitExport
from pipeline.extractors import blocks as read_blocks
from pipeline.extractors import has_fixed_columns
from pipeline.extractors import rows as read_rows
from pipeline.mapper import Mapping
from pipeline.mapper.references import find
from pipeline.mapper.setting_columns import NamedColumns, has_column, named_columns
from pipeline.mapper.table_names import SETTING, names_in, table_of
from pipeline.models import Part, SealedOptions
from pipeline.values import Record

FEW_BYTES, FEW_ROWS = 64 * 1024, 1
"""The first block is read in pieces of this size: a look is at one row, mostly."""
MOST_SHOWN = 12
"""So many names are shown in an error."""


def look_first(parts: Sequence[Part], mapping: Mapping, options: SealedOptions) -> tuple[Part, ...]:
    """The parts, with their tables where the mapping asks for them.

    Raises UnfitExport for a part whose table nothing tells, and for a column that no row of a part has; and
    UnreadableExport.
    """
    named = named_columns(mapping, options)
    if mapping.table_from_path is None and not named.all:
        return tuple(parts)
    told = [_tabled(part, mapping, options) for part in parts] if mapping.table_from_path is not None else list(parts)
    if named.all:
        _check_columns(told, mapping, named)
    return tuple(told)


def found_settings(
    parts: Sequence[Part], mapping: Mapping, options: SealedOptions
) -> tuple[SealedOptions, list[tuple[str, str, str]]]:
    """The options with the settings that the first rows of parts decide, and a notice (code, part, sentence) for each.

    What was given stays. Raises UnreadableExport.
    """
    wanted = {name: one for name, one in mapping.settings.items() if one.found and not options.settings.get(name)}
    notices: list[tuple[str, str, str]] = []
    for part in parts if wanted else ():
        record = next(_records(part, mapping), None)
        if record is None:
            continue
        for name, setting in list(wanted.items()):
            if any(find(call, record) is not None for call in setting.found):
                del wanted[name]
                value = setting.one_of[0]
                options = replace(options, settings={**options.settings, name: value})
                notices.append(
                    ("setting_found", part.path, f"planned with --set {name}={value}, for what this file is")
                )
        if not wanted:
            break
    return options, notices


def _records(part: Part, mapping: Mapping) -> Iterator[Record]:
    for block in read_blocks(part, block_bytes=FEW_BYTES, block_rows=FEW_ROWS):
        for record in read_rows(part, block, observe=False, blanks=mapping.blanks.in_cells):
            if isinstance(record, dict):
                yield record


def _tabled(part: Part, mapping: Mapping, options: SealedOptions) -> Part:
    record = next(_records(part, mapping), None)
    if record is None:
        return part
    table = table_of(mapping, options, names_in(part), record)
    if table is not None:
        return replace(part, table=table) if table else part
    rule = mapping.table_from_path
    assert rule is not None
    asked = options.settings.get(SETTING)
    if asked:
        raise UnfitExport(
            f"--set table={asked} names no table that {part.path} could be", hint=_near(asked, rule.known)
        )
    raise UnfitExport(
        f"nothing tells which table {part.path} holds, neither its folder or name nor its columns",
        hint=f"name its folder or file for its table ({', '.join(rule.known)}),"
        " leave it out, or plan it by itself with --set table=NAME",
    )


def _check_columns(parts: Sequence[Part], mapping: Mapping, named: NamedColumns) -> None:
    wanted = dict(named.all)
    columns: dict[str, None] = {}
    where = ""
    for part in parts:
        needed = list(named.needed)
        seen: dict[str, None] = {}
        for record in _rows_that_differ(part, mapping):
            if not seen or len(seen) < MOST_SHOWN:
                seen |= dict.fromkeys(record)
            wanted = {name: column for name, column in wanted.items() if not has_column(mapping, record, column)}
            needed = [some for some in needed if not any(has_column(mapping, record, column) for column in some)]
            if not wanted and not needed:
                break
        if seen and needed:
            column = min(needed[0])
            name = next(name for name, given in named.all.items() if given == column)
            raise _missing(part.path, name, column, list(seen))
        columns, where = columns | seen, where or (part.path if seen else "")
    if columns and wanted:
        name, column = next(iter(wanted.items()))
        raise _missing(where if len(parts) == 1 else "the export", name, column, list(columns))


def _rows_that_differ(part: Part, mapping: Mapping) -> Iterator[Record]:
    """Rows whose columns may be others than those of the row before: of a table, its header or first row alone."""
    if part.dialect.header:
        yield dict.fromkeys(part.dialect.header)
        return
    for record in _records(part, mapping):
        yield record
        if has_fixed_columns(part):
            return


def _missing(where: str, setting: str, column: str, columns: list[str]) -> UnfitExport:
    return UnfitExport(f"no row of {where} has the column {column!r}, which --set {setting} names",
                       hint=_near(column, columns))  # fmt: skip


def _near(word: str, words: Sequence[str]) -> str:
    """The word that was probably meant, in whatever case it is written, or some of those there are."""
    lowered = {one.lower(): one for one in reversed(words)}
    near = difflib.get_close_matches(word.lower(), lowered, n=1)
    if near:
        return f"did you mean {lowered[near[0]]!r}?"
    more = f" and {len(words) - MOST_SHOWN} more" if len(words) > MOST_SHOWN else ""
    return f"there are: {', '.join(words[:MOST_SHOWN])}{more}"
