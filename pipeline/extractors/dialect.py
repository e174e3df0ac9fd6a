"""How delimited text is written: its delimiter, escape, encoding and header, found by parsing a sample.

The first row is the header unless it has values (`pipeline.extractors.header`). The sample is what sniffing read: the
first MiB, or more if that has no newline.

Text without a header can have a layout whose columns a mapping names (`dialect_of`): almost every row has as many cells
as the layout has columns, and the values of some columns are of the kinds that the mapping declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from typing import NamedTuple

from pipeline.errors import UnreadableExport
from pipeline.extractors.csv_records import is_blank, records
from pipeline.extractors.escaped_text import has_nulls, is_quoted, is_unsure, may_escape
from pipeline.extractors.file_rules import NO_RULES, FileRules
from pipeline.extractors.format import Recognized, Sample
from pipeline.extractors.header import column_names, is_like_names, titles_above, values_in
from pipeline.extractors.patterns import matches
from pipeline.models import Dialect

DELIMITERS = (",", "\t", ";", "|")
BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_NOT_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_ENOUGH_ROWS = 500
_COMPARED_ROWS = 100
"""How many rows are compared with the first to see whether it is a header."""


class _Reading(NamedTuple):
    fit: float
    dialect: Dialect
    header: list[str]
    rows: list[list[str]]


def delimited(found: Sample) -> Recognized | None:
    """The dialect of a table with at least two columns, or None if the text is not a table.

    A delimiter is possible if half of the sampled rows have as many cells as the header, or if the whole header looks
    like names; the best fit wins, then the most columns, then the order of `DELIMITERS`. What the rules declare is not
    judged. What they declare about files with their columns does not apply to a file with another header.
    """
    header, text, whole = found.rules.header, found.text, found.whole
    of_layout = header in ("", "no") and (found.rules.columns or found.rules.columns_from)
    rules = NO_RULES if of_layout else found.rules
    declared = declared_dialect(rules, found.encoding, found.bom)
    if not (rules.encoding or found.bom) and declared.encoding == "utf-8":
        declared = replace(declared, encoding=encoding_of(text))
    single = replace(declared, encoding="utf-8") if declared.encoding.startswith("utf") else declared
    sample = text if whole or b"\n" not in text else text[: text.rindex(b"\n") + 1]
    readings = [
        reading
        for dialect in possible_dialects(sample, rules, single)
        if (reading := _read(sample, dialect, whole, header)) and (reading.fit >= 0.5 or is_like_names(reading.header))
    ]
    if not readings:
        return None
    best = max(readings, key=lambda reading: (reading.fit, len(reading.header)))
    guessed = declared.encoding == "utf-8" and not (rules.encoding or found.bom)
    if guessed and best.dialect.header_row and "\ufffd" in "".join(best.header):
        declared = replace(declared, encoding=_one_byte(text))  # its titles are UTF-8, but its header is not
        best = _read(sample, replace(best.dialect, encoding=declared.encoding), whole, header) or best
    values = values_in(best.header, best.rows) if not header else ""
    dialect = replace(best.dialect, encoding=declared.encoding, bom=found.bom)
    unsure = not (rules.escape or dialect.escape) and is_unsure(sample, dialect.delimiter)
    if header == "no" or values:
        return Recognized(replace(dialect, header=column_names(len(best.header)), headless=True), (), values, unsure)
    return Recognized(replace(dialect, header=unique(best.header)), tuple(best.header), "", unsure)


def possible_dialects(sample: bytes, rules: FileRules, declared: Dialect) -> Iterator[Dialect]:
    """How a text may be written: what the rules declare, combined with every delimiter and escape that they leave open,
    and for text of databases every quotation mark, likelier ones first."""
    escapes = ("", "\\") if may_escape(sample) and not rules.escape else (declared.escape,)
    quotes: tuple[str, ...] = (declared.quote,)
    if not rules.escape and has_nulls(sample):
        escapes = ("\\",)
        if not rules.quotes:
            quotes = (declared.quote, "") if is_quoted(sample) else ("", declared.quote)
    delimiters = rules.delimiter or (*DELIMITERS, *["\x01"] * (b"\x01" in sample))
    for quote, escape, delimiter in product(quotes, escapes, delimiters):
        if delimiter != quote:
            yield replace(declared, quote=quote, delimiter=delimiter, escape=escape)


def declared_dialect(rules: FileRules, encoding: str, bom: bool) -> Dialect:
    """The dialect that rules declare for text in this encoding."""
    quote = {"": '"', "none": ""}.get(rules.quotes, rules.quotes)
    if encoding == "utf-8" and not bom:
        encoding = rules.encoding or encoding
    return Dialect(rules.delimiter or ",", quote, rules.escape.removeprefix("none"), encoding)


def unique(header: list[str]) -> tuple[str, ...]:
    """The column names, each once: a second `a` is `a__2`, a blank third column is `column_3`."""
    taken = set(header)
    names: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for position, name in enumerate(header, 1):
        candidate = base = name if name.strip() else f"column_{position}"
        number = numbers.get(base, 1)
        while candidate in names or (number > 1 and candidate in taken):
            number += 1
            candidate = f"{base}__{number}"
        numbers[base] = number
        names[candidate] = None
    return tuple(names)


def title_notices(dialect: Dialect) -> Iterator[tuple[str, str]]:
    """A notice if the header is not the first row."""
    if dialect.header_row and dialect.header_row > 1:
        yield "dialect", f"the header is row {dialect.header_row}; rows above it are not read (--set header=ROW)"


def name_notices(raw: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """A notice for each column of a header that is read under another name."""
    for old, new in zip(raw, unique(list(raw)), strict=True):
        if old != new:
            yield "duplicate_column" if old.strip() else "blank_column", f"the column {old!r} is read as {new!r}"


def _read(sample: bytes, dialect: Dialect, whole: bool, asked: str) -> _Reading | None:
    lengths: list[int] = []
    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, found in enumerate(records(sample, dialect, final=whole), 1):
        if (found.cells is not None and is_blank(found.cells)) or (asked.isdecimal() and number < int(asked)):
            continue
        if found.cells is None and not rows:
            return None
        if found.cells is not None and len(rows) <= _COMPARED_ROWS:
            rows.append([(cell or "").encode("latin-1").decode(dialect.encoding, "replace") for cell in found.cells])
            numbers.append(number)
        lengths.append(-1 if found.cells is None else len(found.cells))
        if len(lengths) > _ENOUGH_ROWS:
            break
    above = titles_above(rows) if not asked else 0
    if not rows or len(header := rows[above]) < 2:
        return None
    rows, lengths = rows[above + 1 :], lengths[above + 1 :]
    if sum(map(_is_name, header)) * 2 < len(header) and asked != "no" and not values_in(header, rows):
        return None
    if above or asked.isdecimal():
        dialect = replace(dialect, header_row=numbers[above])
    return _Reading(lengths.count(len(header)) / len(lengths) if lengths else 1.0, dialect, header, rows)


def _is_name(cell: str) -> bool:
    return bool(cell.strip()) and len(cell) <= 200 and "\n" not in cell


def encoding_of(text: bytes) -> str:
    """`utf-8`, unless the header is not UTF-8, or several rows are not and the others have hardly any character beyond
    ASCII."""
    try:
        text.decode()
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    lines = text.split(b"\n")
    bad = [line for line in lines[:-1] or lines if not _is_utf8(line)]
    good = sum(len(_MULTIBYTE.findall(line)) for line in lines if _is_utf8(line))
    header_is_bad = bool(bad) and bad[0] is next(line for line in lines if line.strip())
    if header_is_bad or (len(bad) >= 2 and good * 4 <= len(bad)):
        return _one_byte(text)
    return "utf-8"


def _one_byte(text: bytes) -> str:
    return "iso-8859-1" if _NOT_CP1252.search(text) else "cp1252"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


# -- layouts that a mapping names

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
