"""How a mapping or the operator says that an export's files must be read (`files` of a mapping, --set)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.errors import UsageError
from pipeline.models import Part

HEADER, ROWS, SHEET, FOLDERS = "header", "rows", "sheet", "folders"
COLUMNS, ESCAPE, INTEGERS, NAN = "columns", "escape", "integers", "nan"
"""The settings of --set that say how files are read: whether delimited files have a header, or their columns, and the
escape; the list of rows in pages of JSON; the sheet of workbooks; whether folders `key=value` are columns; the columns
whose `42.0` is 42; and what becomes of NaN."""
MOST_ABOVE = 1_000
"""The last row that can be the header."""
SETTINGS = (HEADER, ROWS, SHEET, FOLDERS, COLUMNS, ESCAPE, INTEGERS, NAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRules:
    """Declarations about the files of one tool. Whatever is "" or empty is recognised from the content.

    `header` is yes or no, whether delimited text begins with the names of its columns, or the row that has them, from
    1. `rows` is the member of JSON pages whose items are rows, `sheet` the sheet of Excel workbooks; unless `folders`
    is no, folders of the form `key=value` are columns. `columns` are those of delimited text without a header,
    `columns_from` is the name of a neighbouring file that has them; `only_columns` says that a table with other columns
    is refused. `like` describes the values of some columns (`pipeline.extractors.dialect`). `integers` are columns of
    `pipeline.extractors.changed_rows`, and `nan` is that of `Dialect`. `quotes` is the quotation mark, or none.
    `only` and `skip` are patterns of paths. Only one pattern of each pair in `apart` may match files. `manifest` names
    a function of `pipeline.extractors.manifests`. `lookups` are patterns of paths whose rows are entries of lookup
    tables; rows that match `lookup_rows` too are also rows of the export. `layouts` are declarations with columns, of
    which one may fit: those of lookup files, and if no mapping is chosen, those of all mappings.
    """

    header: str = ""
    rows: str = ""
    sheet: str = ""
    folders: str = ""
    integers: tuple[str, ...] = ()
    nan: str = ""
    columns: tuple[str, ...] = ()
    columns_from: str = ""
    only_columns: bool = False
    like: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = ""
    quotes: str = ""
    escape: str = ""
    encoding: str = ""
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    manifest: str = ""
    lookups: tuple[str, ...] = ()
    lookup_rows: tuple[str, ...] = ()
    layouts: tuple[FileRules, ...] = ()


NO_RULES = FileRules()


def rules_set(settings: Mapping[str, str]) -> FileRules:
    """The declarations that settings make. Raises UsageError for a value that a setting cannot have."""
    header, folders, nan = (
        _one_of(settings, name, words)
        for name, words in ((HEADER, ("no", "yes", "ROW")), (FOLDERS, ("no", "yes")), (NAN, ("null", "reject")))
    )
    escape = settings.get(ESCAPE, "")
    if len(escape.encode()) > 1 and escape != "none":
        raise UsageError(
            f"--set {ESCAPE}={escape} is not one character", hint=f"use --set {ESCAPE}='\\' or {ESCAPE}=none"
        )
    columns, integers = (
        tuple(map(str.strip, settings[name].split(","))) if name in settings else () for name in (COLUMNS, INTEGERS)
    )
    if columns and (len(columns) < 2 or "" in columns or len(set(columns)) < len(columns)):
        raise UsageError(
            f"--set {COLUMNS}={settings[COLUMNS]} must name at least two columns, each once",
            hint=f"name all columns in order: --set {COLUMNS}=user,event,time",
        )
    if columns and header:
        raise UsageError(
            f"--set {COLUMNS} and --set {HEADER} contradict each other: {COLUMNS} is for files without a header",
            hint=f"leave out --set {HEADER}={header}",
        )
    return FileRules(
        header=header, rows=settings.get(ROWS, ""), sheet=settings.get(SHEET, ""), folders=folders,
        columns=columns, only_columns=bool(columns), escape=escape, integers=tuple(filter(None, integers)), nan=nan,
    )  # fmt: skip


def _one_of(settings: Mapping[str, str], name: str, words: Sequence[str]) -> str:
    """The value of a setting, "" if it is not given."""
    word = settings.get(name, "")
    is_row = "ROW" in words and word.isdecimal() and 0 < int(word) <= MOST_ABOVE
    if word not in ("", *words) and not is_row:
        hint = " or ".join(f"--set {name}={one}" for one in words)
        raise UsageError(f"{word!r} is not a value of --set {name}", hint=f"use {hint}")
    return word


def refuse_unknown(settings: Mapping[str, str]) -> None:
    """Raise UsageError for a setting that is not about files: only mappings have others, and none is chosen."""
    if unknown := sorted(settings.keys() - {*SETTINGS}):
        near = "".join(f"; did you mean {one}?" for one in difflib.get_close_matches(unknown[0], SETTINGS, 1))
        raise UsageError(
            f"without a mapping, there is no setting {unknown[0]!r}{near}",
            hint=f"name the mapping with -m; without one, --set takes only {', '.join(SETTINGS)}",
        )


def refuse_unused(settings: Mapping[str, str], parts: Iterable[Part]) -> None:
    """Raise UsageError for a setting about a kind of file that the export does not have."""
    formats = {part.format for part in parts}
    for name, what, read in (
        (SHEET, "workbook", {"excel"}),
        (ROWS, "JSON file", {"json", "jsonl"}),
        (HEADER, "delimited file or workbook", {"csv", "excel"}),
        (COLUMNS, "delimited file", {"csv"}),
        (ESCAPE, "delimited file", {"csv"}),
    ):
        if formats and settings.get(name) and not formats & read:
            raise UsageError(
                f"--set {name}={settings[name]} has no effect: the export has no {what}, only"
                f" {' and '.join(sorted(formats))}",
                hint="leave it out",
            )
