"""Delimited text: CSV and its relatives, with a comma, tab, semicolon or bar between cells."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import replace

from pipeline.errors import UnreadableExport
from pipeline.extractors.dialect import delimited, dialect_of, name_notices, title_notices
from pipeline.extractors.format import Format, Recognized, RowOptions, Sample, when_called
from pipeline.extractors.header import NO_HEADER, UNSURE_ESCAPES, no_header_row
from pipeline.extractors.rows import Rows
from pipeline.models import Block, Dialect, Part
from pipeline.text import pluralize

_DELIMITERS = {"\t": "tab"}


def _recognize(sample: Sample) -> Recognized | None:
    """Any text may be delimited, so this comes after all other formats."""
    path, text = sample.path, sample.text
    if _is_binary(text):
        hint = "convert it to JSON lines, CSV, Parquet or Avro first"
        raise UnreadableExport(f"{path} is a binary file of an unknown kind", path=path, hint=hint)
    start = text.lstrip(b" \t\r\n")
    if b"\n" not in start and b"\r" in start.rstrip(b"\r"):
        raise UnreadableExport(
            f"{path} ends its lines in carriage returns only",
            path=path,
            hint="convert it first: tr '\\r' '\\n' < OLD > NEW",
        )
    if (dialect := _layout(sample)) is not None:
        return Recognized(dialect)
    table = delimited(sample)
    row = sample.rules.header
    if table is None and row.isdecimal() and delimited(sample._replace(rules=replace(sample.rules, header=""))):
        raise no_header_row(path, row)
    if table is not None and not sample.whole and b"\n" not in text:
        columns = len(table.dialect.header)
        raise UnreadableExport(
            f"the first line of {path} is over {len(text) >> 20} MiB long, with at least {columns:,} columns",
            path=path,
            hint="write a file with only the columns that the import needs; an event may have 900 KiB",
        )
    names = tuple(map(str.lower, sample.rules.columns))
    if table and sample.rules.only_columns and tuple(map(str.lower, table.raw_header)) != names:
        raise UnreadableExport(
            f"{path} does not have the {pluralize(len(names), 'column')} that --set columns names",
            path=path,
            hint="name every column of the file in order, or leave out --set columns if the first row has names",
        )
    return table


def _layout(sample: Sample) -> Dialect | None:
    """The dialect of delimited text whose columns a mapping names: that of its rows, or the only layout that fits."""
    rules = sample.rules
    if rules.header not in ("", "no"):
        return None
    if (rules.columns or rules.columns_from) and (chosen := dialect_of(sample, rules, named=True)):
        return chosen
    fitting = [found for layout in rules.layouts if (found := dialect_of(sample, layout, named=False))]
    return fitting[0] if len(fitting) == 1 else None


def _is_binary(text: bytes) -> bool:
    """Whether more than a tenth of it, or a fiftieth if not UTF-8, is control characters that text never has.

    NUL and the delimiter of Hive (1) do not count. About a tenth of compressed or encrypted bytes are such characters;
    text in an older encoding has none.
    """
    controls = bytes(set(range(2, 32)) - {7, 8, 9, 10, 11, 12, 13, 27, 28, 29, 30, 31})
    share = (len(text) - len(text.translate(None, controls))) / len(text)
    if share > 1 / 10 or share <= 1 / 50:
        return share > 1 / 10
    try:
        getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        return True
    return False


def _rows(part: Part, block: Block, content: bytes, options: RowOptions) -> Rows:
    rows: Rows = when_called("csv_rows:DelimitedRows")(content, block.offset, part.dialect, options)
    return rows


def _traits(dialect: Dialect) -> list[str]:
    return [pluralize(len(dialect.header), "column"), *_unusual(dialect)]


def _unusual(dialect: Dialect) -> list[str]:
    """What a person might not expect; empty for comma, double quote and UTF-8."""
    words = []
    if dialect.delimiter != ",":
        words.append("delimiter " + _DELIMITERS.get(dialect.delimiter, f'"{dialect.delimiter}"'))
    if dialect.escape:
        words.append(f'escape "{dialect.escape}"')
    if dialect.encoding != "utf-8":
        words.append(dialect.encoding)
    if not dialect.quote:
        words.append("no quotes")
    if dialect.headless:
        words.append("no header")
    if dialect.bom:
        words.append("byte order mark")
    return words


def _notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    dialect = part.dialect
    if words := _unusual(dialect):
        yield "dialect", "read with " + ", ".join(words)
    yield from title_notices(dialect)
    if recognized.values:
        columns = f"its columns are called column_1 to {dialect.header[-1]}"
        yield NO_HEADER, f"{recognized.values}, so it is read as a row, and {columns}"
    if recognized.unsure:
        yield UNSURE_ESCAPES, "its backslashes are read as text, but may be escapes of a database"
    if not dialect.encoding.startswith("utf") and not part.dialect.headless:
        yield "encoding", f"not UTF-8: read as {dialect.encoding}; check a name with an accent"
    yield from name_notices(recognized.raw_header)


FORMAT = Format(
    "csv", "CSV", when_called("csv_blocks:blocks"), _rows,
    recognize=_recognize, priority=100, traits=_traits, notices=_notices, fixed_columns=True,
    layouts=True,
)  # fmt: skip
