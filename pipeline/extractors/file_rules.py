"""How the files of an export are read, where a mapping or the operator declares it (`files` of a mapping, --set)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pipeline.errors import UsageError
from pipeline.models import Part

HEADER, ROWS, SHEET, FOLDERS = "header", "rows", "sheet", "folders"
"""The settings of --set that declare whether delimited files have a header, the list of rows in pages of JSON, and the
sheet of workbooks, and whether folders `key=value` are columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRules:
    """Declarations about the files of one tool. What is "" or empty is recognised from the content.

    `header` is yes or no: whether delimited text begins with the names of its columns. `rows` is the member of JSON
    pages whose items are rows, `sheet` the sheet of Excel workbooks; unless `folders` is no, those of the form
    `key=value` are columns. `columns` are those of delimited text without a header, `columns_from` is the name of a
    file beside it that has them; `like` describes values of some columns (`pipeline.extractors.layouts`). `quotes` is
    the quotation mark, or none. `only` and `skip` are patterns of paths. Of each pair in `apart` only one pattern may
    match files. `manifest` names a function of `pipeline.extractors.manifests`. `lookups` are patterns of paths whose
    rows are entries of lookup tables, and `lookup_rows` those of them that are rows of the export too. `layouts` are
    declarations with columns, of which one may fit: those of lookup files, and where no mapping is chosen those of all
    mappings.
    """

    header: str = ""
    rows: str = ""
    sheet: str = ""
    folders: str = ""
    columns: tuple[str, ...] = ()
    columns_from: str = ""
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
    """The declarations in settings. Raises UsageError for a word that `header` does not have."""
    header = settings.get(HEADER, "")
    if header not in ("", "yes", "no"):
        raise UsageError(f"--set {HEADER}={header} is unknown", hint=f"use --set {HEADER}=no or --set {HEADER}=yes")
    folders = settings.get(FOLDERS, "")
    if folders not in ("", "yes", "no"):
        raise UsageError(f"--set {FOLDERS}={folders} is unknown", hint=f"use --set {FOLDERS}=no or --set {FOLDERS}=yes")
    return FileRules(header=header, rows=settings.get(ROWS, ""), sheet=settings.get(SHEET, ""), folders=folders)


def refuse_unused(settings: Mapping[str, str], parts: Iterable[Part]) -> None:
    """Raise UsageError for a setting about a kind of file of which there is none."""
    formats = {part.format for part in parts}
    for name, what, read in ((SHEET, "workbook", {"excel"}), (ROWS, "JSON file", {"json", "jsonl"})):
        if formats and settings.get(name) and not formats & read:
            raise UsageError(f"--set {name}={settings[name]}: there is no {what} among the files", hint="leave it out")
