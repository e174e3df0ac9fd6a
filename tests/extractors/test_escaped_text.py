r"""Text as databases write it: `\N` is null, escapes are decoded, and nothing else changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.extractors import blocks, open_source, rows
from pipeline.extractors.file_rules import NO_RULES, FileRules
from pipeline.models import BrokenRow
from pipeline.options import PlanOptions
from tests.support.services import NOW

Cell = str | None
_LETTERS = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", "\\": "\\"}


def postgres(cell: Cell) -> str:
    """COPY … TO in text format (PostgreSQL 17, COPY, File Formats)."""
    return r"\N" if cell is None else re.sub(r"[\b\f\n\r\t\v\\]", lambda one: "\\" + _LETTERS[one[0]], cell)


def mysql(cell: Cell) -> str:
    r"""INTO OUTFILE with its defaults (MySQL 8.4, SELECT … INTO; LOAD DATA): the characters themselves after `\`."""
    return r"\N" if cell is None else re.sub(r"[\t\n\\]", lambda one: "\\" + one[0], cell).replace("\0", "\\0")


def mysql_enclosed(cell: Cell) -> str:
    r"""The same with FIELDS ENCLOSED BY '"'; null is not enclosed."""
    return r"\N" if cell is None else '"' + re.sub(r"[\"\n\\]", lambda one: "\\" + one[0], cell) + '"'


def redshift(cell: Cell) -> str:
    r"""UNLOAD with ESCAPE and NULL AS '\\N'."""
    return r"\N" if cell is None else re.sub(r"[|\n\r\"'\\]", lambda one: "\\" + one[0], cell)


def snowflake(cell: Cell) -> str:
    r"""COPY INTO with FIELD_OPTIONALLY_ENCLOSED_BY = '"' and ESCAPE = '\\'; null is not enclosed."""
    return r"\N" if cell is None else '"' + re.sub(r"[\"\\]", lambda one: "\\" + one[0], cell) + '"'


KINDS: dict[str, tuple[Callable[[Cell], str], str]] = {
    "postgres": (postgres, "\t"), "clickhouse": (postgres, "\t"), "mysql": (mysql, "\t"), "hive": (mysql, "\x01"),
    "mysql, enclosed": (mysql_enclosed, ","), "redshift": (redshift, "|"), "snowflake": (snowflake, ","),
}  # fmt: skip
CELLS = st.none() | st.text("aN\\\t\n|,\"' é€", max_size=6)
NAMES = ["id", "name", "note"]


def written(kind: str, table: list[list[Cell]]) -> str:
    encode, delimiter = KINDS[kind]
    return "".join(delimiter.join(row) + "\n" for row in (NAMES, *(list(map(encode, row)) for row in table)))


def read(
    path: Path, rules: FileRules = NO_RULES, size: int = 1 << 20, **asked: bool
) -> list[dict[str, Cell] | BrokenRow]:
    (part,) = open_source([str(path)], rules=rules).parts
    return [one for block in blocks(part, block_bytes=size) for one in rows(part, block, blanks=True, **asked)]  # type: ignore[arg-type, misc]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=200, deadline=None)
@given(table=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6), size=st.sampled_from([20, 1 << 20]))
def test_each_cell_comes_back(
    tmp_path_factory: pytest.TempPathFactory, kind: str, table: list[tuple[Cell, Cell]], size: int
) -> None:
    """With a declaration, whatever the cell contains, and however the file is cut into blocks."""
    path = tmp_path_factory.mktemp("text") / "a.txt"
    full = [[str(number), *row] for number, row in enumerate(table)]
    path.write_text(written(kind, full), encoding="utf-8", newline="")
    quotes = "" if kind in ("mysql, enclosed", "snowflake") else "none"
    rules = FileRules(header="yes", delimiter=KINDS[kind][1], quotes=quotes, escape="\\")
    assert read(path, rules, size) == [dict(zip(NAMES, row, strict=True)) for row in full]


@pytest.mark.parametrize("kind", KINDS)
def test_a_null_shows_what_the_text_is(tmp_path: Path, kind: str) -> None:
    """It is recognised without a notice; a null as a person is a missing id, and neither "N" nor a column's value."""
    path = tmp_path / "a.txt"
    text = written(kind, [["1", None, 'a\tb "c" \\ d'], ["2", "Ann\nLee", None], ["3", "x|y,z", r"\N is null"]])
    path.write_text(text, encoding="utf-8", newline="")
    assert read(path) == [
        {"id": "1", "name": None, "note": 'a\tb "c" \\ d'},
        {"id": "2", "name": "Ann\nLee", "note": None},
        {"id": "3", "name": "x|y,z", "note": r"\N is null"},
    ]


def test_a_quoted_cell_next_to_a_null_is_one_cell(tmp_path: Path) -> None:
    r"""The quotation mark is the one that fits the rows better: most cells of this table have none."""
    (tmp_path / "a.csv").write_text('id;name\n1;\\N\n2;"a;b"\n3;c\n4;d\n', encoding="utf-8")
    assert [row["name"] for row in read(tmp_path / "a.csv") if isinstance(row, dict)] == [None, "a;b", "c", "d"]


def test_a_null_is_not_a_person(tmp_path: Path) -> None:
    r"""Nor is the word for it in a table without escapes: those rows are counted."""
    columns = {"event": "event", "distinct_id": "user", "timestamp": "at"}
    asked = PlanOptions(mapping="generic", settings=columns, workers=0, as_of=NOW, max_rejects="100%")
    row = "Seen\t%s\t2023-01-01T00:00:00Z\n"
    (tmp_path / "a.tsv").write_text("event\tuser\tat\n" + row % "u1" + row % r"\N", encoding="utf-8")
    assert pipeline.plan_export(tmp_path / "a.tsv", tmp_path / "plan", asked).rejects == {"missing_distinct_id": 1}
    lines = [
        f'{{"event":"Seen","user":"{word}","at":"2023-01-01T00:00:00Z"}}' for word in ("u1", r"\\N", "NULL", "(null)")
    ]
    (tmp_path / "b.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert pipeline.plan_export(tmp_path / "b.jsonl", tmp_path / "other", asked).rejects == {"junk_distinct_id": 3}
