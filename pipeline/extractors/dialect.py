"""How delimited text is written: its delimiter, escape, encoding and header, found by parsing a sample.

The first row is the header unless it has values (`pipeline.extractors.header`). The sample is what sniffing read: the
first MiB, or more if that has no newline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from pipeline.extractors.csv_records import is_blank, records
from pipeline.extractors.escaped_text import has_nulls, is_quoted, is_unsure, may_escape
from pipeline.extractors.file_rules import NO_RULES, FileRules
from pipeline.extractors.format import Recognized, Sample
from pipeline.extractors.header import column_names, is_like_names, titles_above, values_in
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
            rows.append(_decoded(found.cells, dialect))
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


def _decoded(cells: list[str], dialect: Dialect) -> list[str]:
    return [(cell or "").encode("latin-1").decode(dialect.encoding, "replace") for cell in cells]


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
