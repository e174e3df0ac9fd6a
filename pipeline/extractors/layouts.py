"""Delimited text without a header whose columns a mapping names: checks whether a file has that layout.

A file has a layout if almost every row has as many cells as the layout has columns, and if the values of some columns
are of the kinds that the mapping declares.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice

from pipeline.errors import UnreadableExport
from pipeline.extractors.csv_records import is_blank, records
from pipeline.extractors.dialect import declared_dialect, encoding_of, possible_dialects, unique
from pipeline.extractors.file_rules import FileRules
from pipeline.extractors.format import Sample
from pipeline.extractors.patterns import matches
from pipeline.models import Dialect

KINDS = {
    "uuid": re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE),
    "time": re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d.*", re.ASCII),
    "date": re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    "number": re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII),
    "url": re.compile(r"[a-z][a-z0-9+.-]*://.+", re.IGNORECASE),
}
"""What a column's values can be like (`like`)."""
_SAMPLED_ROWS = 200
_FIT = 0.9
"""This share of the rows, and of a column's values that are not blank, has to fit."""


def dialect_of(sample: Sample, rules: FileRules, *, named: bool) -> Dialect | None:
    """The dialect of a sample that has the layout of these rules; None if it has another layout.

    With `named`, the operator chose the mapping; then UnreadableExport is raised if the file with the column names is
    missing.
    """
    if rules.only and not matches(sample.path, rules.only):
        return None
    columns = rules.columns
    if rules.columns_from:
        header = sample.beside(rules.columns_from) if sample.beside else b""
        columns = _names(header, rules)
        if not columns and named:
            raise UnreadableExport(
                f"{sample.path} has no header, and {rules.columns_from}, which names its columns, is missing",
                path=sample.path,
                hint=f"put {rules.columns_from} into the same folder or archive",
            )
    if len(columns) < 2:
        return None
    text = sample.text if sample.whole else sample.text[: sample.text.rfind(b"\n") + 1]
    declared = declared_dialect(rules, sample.encoding, sample.bom)
    if not rules.delimiter and declared.encoding == "utf-8" and not (rules.encoding or sample.bom):
        declared = replace(declared, encoding=encoding_of(text))
    possible = [declared] if rules.delimiter else possible_dialects(text, rules, declared)
    fitting = next((dialect for dialect in possible if _fits(text, sample.whole, dialect, columns, rules)), None)
    return fitting and replace(fitting, bom=sample.bom, header=unique(list(columns)), headless=True)


def _fits(text: bytes, whole: bool, dialect: Dialect, columns: tuple[str, ...], rules: FileRules) -> bool:
    """Whether a text in this dialect has these columns and does not begin with their names."""
    rows = [
        row.cells
        for row in islice(records(text, dialect, final=whole), _SAMPLED_ROWS)
        if row.cells is None or not is_blank(row.cells)
    ]
    cells = [[cell or "" for cell in row] for row in rows if row is not None and len(row) == len(columns)]
    if not cells or len(cells) < _FIT * len(rows) or tuple(map(str.lower, cells[0])) == tuple(map(str.lower, columns)):
        return False
    return all(_is_like(kind, [row[columns.index(name)] for row in cells]) for name, kind in rules.like.items())


def _is_like(kind: str, values: list[str]) -> bool:
    present = [value for value in values if value.strip()]
    return sum(KINDS[kind].fullmatch(value.strip()) is not None for value in present) >= _FIT * len(present)


def _names(header: bytes, rules: FileRules) -> tuple[str, ...]:
    """The column names in the neighbouring file: its first row, or its rows if each has one cell."""
    rows = [
        row.cells
        for row in records(header, declared_dialect(rules, "utf-8", False), final=True)
        if row.cells and not is_blank(row.cells)
    ]
    return tuple(rows[0]) if rows and len(rows[0]) > 1 else tuple(row[0] for row in rows)
