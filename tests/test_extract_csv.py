"""Delimited text: every cell is text, blocks end where records end, and only broken rows are lost."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import extract
from pipeline.errors import UnreadableExport
from pipeline.extract import csv_blocks
from pipeline.schema import BrokenRow, Dialect, Part
from pipeline.values import canonical


def part_of(path: Path, content: bytes) -> Part:
    path.write_bytes(content)
    (part,) = extract.open_source([str(path)]).parts
    return part


def read(part: Part, size: int = 1 << 22) -> list[list[str] | str]:
    """Each row's cells in the header's order, or the code of a broken one."""
    found: list[list[str] | str] = []
    for block in extract.blocks(part, block_bytes=size):
        for row in extract.rows(part, block):
            found.append(row.code if isinstance(row, BrokenRow) else [str(row[name]) for name in part.dialect.header])
    return found


def written(header: list[str], table: list[list[str]], delimiter: str, newline: str) -> bytes:
    target = io.StringIO(newline="")
    if newline == "\n":  # the writer would leave a carriage return unquoted
        writer = csv.writer(target, delimiter=delimiter, lineterminator=newline, quoting=csv.QUOTE_ALL)
    else:
        writer = csv.writer(target, delimiter=delimiter, lineterminator=newline)
    writer.writerows([header, *table])
    return target.getvalue().encode()


cells = st.text(st.sampled_from('ab,;"\n\r\t é\u2028\x00'), max_size=8)
tables = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=20)
)


@settings(max_examples=150, deadline=None)
@given(tables, st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n"]), st.integers(1, 90), st.booleans())
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    table: list[list[str]],
    delimiter: str,
    newline: str,
    size: int,
    packed: bool,
) -> None:
    """Any table, with quotes, delimiters and newlines in its cells, comes back for any size of block."""
    header = [f"column_{at}" for at in range(len(table[0]))]
    content = written(header, table, delimiter, newline)
    part = part_of(tmp_path_factory.mktemp("table") / "a", gzip.compress(content) if packed else content)
    assert part.dialect == Dialect(delimiter=delimiter, header=tuple(header))
    assert read(part, size) == table


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from('a,"\n\r'), max_size=60), st.booleans())
def test_counting_quotes_agrees_with_the_reader(text: str, final: bool) -> None:
    """Where counting quotes claims to know the record ends of any text, the csv reader finds the same."""
    data = text.encode()
    known = data if final else data[: data.rfind(b"\n") + 1]
    counted = csv_blocks._regular_ends(known, Dialect()) if known else None
    if counted is not None:
        ends = counted.tolist()
        if final and (not ends or ends[-1] < len(known)):
            ends.append(len(known))
        assert ends == csv_blocks._read_ends(known, Dialect(), final=final)


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from('a,"\n\r\\'), max_size=80), st.integers(1, 40), st.sampled_from(["", "\\"]))
def test_boundaries_do_not_depend_on_the_pieces(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int, escape: str
) -> None:
    """Broken quoting too is cut the same in small pieces as in one: the rows and their offsets are equal."""
    path = tmp_path_factory.mktemp("pieces") / "a"
    path.write_bytes(b"x,y\n" + text.encode())
    dialect = Dialect(escape=escape, header=("x", "y"))
    (found,) = extract.open_source([str(path)]).parts
    part = Part(0, "a", str(path), "", (), found.format, dialect, 0, 0)

    def located(size: int) -> list[tuple[int, object]]:
        rows_of = [extract.rows(part, block) for block in extract.blocks(part, block_bytes=size)]
        return [(rows.offset(at), row) for rows in rows_of for at, row in enumerate(rows)]

    assert located(size) == located(1 << 20)


def test_a_block_ends_at_the_first_record_end_after_its_size(tmp_path: Path) -> None:
    """A block holds the records that start in its range, the header none."""
    part = part_of(tmp_path / "a", b'a,b\n1,2\n3,"4\n5"\n6,7\n8,9\n')
    assert [(block.offset, block.length) for block in extract.blocks(part, block_bytes=8)] == [
        (4, 4),
        (8, 8),
        (16, 8),
    ]
    assert {block.content for block in extract.blocks(part)} == {None}


def test_every_cell_is_text(tmp_path: Path) -> None:
    """Zip codes keep their zeros, large numbers their digits, the empty cell is the empty text."""
    part = part_of(tmp_path / "a", b"a,b,c\n00001,12345678901234567890,\n1.10,true,NaN\n")
    assert read(part) == [["00001", "12345678901234567890", ""], ["1.10", "true", "NaN"]]


ROWS = {
    "too few cells": (b"1", "bad_csv_row"),
    "too many cells": (b"1,2,3", "bad_csv_row"),
    "text after a quote": (b'"1"x,2', "bad_csv_row"),
    "bare carriage return": (b"1\rx,2", "bad_csv_row"),
    "invalid UTF-8": (b"\xff,2", "bad_utf8"),
    "quote inside a cell": (b'1",2', ['1"', "2"]),
    "NUL": (b"\x00,2", ["\x00", "2"]),
    "U+2028": ("\u2028,\x85".encode(), ["\u2028", "\x85"]),
    "newlines in quotes": (b'"1\r\n\n2",3', ["1\r\n\n2", "3"]),
    "carriage return at the end": (b"1,2\r", ["1", "2"]),
    "1 MB": (b"1," + b"x" * 1_000_000, ["1", "x" * 1_000_000]),
    "JSON": (b'"{""a"": ""b\\""c""}",2', ['{"a": "b\\"c"}', "2"]),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_one_outcome_and_its_neighbours_are_read(tmp_path: Path, name: str) -> None:
    """A broken row is a reject with its code, offset and text; the rows beside it are untouched."""
    row, outcome = ROWS[name]
    part = part_of(tmp_path / "a", b"a,b\n" + b"3,4\n" * 3 + row + b"\n\n5,6\n")
    assert read(part) == [["3", "4"]] * 3 + [outcome, ["5", "6"]]
    (block,) = extract.blocks(part)
    rows = extract.rows(part, block)
    assert rows.offset(3) == 16
    assert rows.text(3) == row.removesuffix(b"\r").decode("utf-8", "backslashreplace")
    assert rows.offset(4) == 16 + len(row) + 2


def test_an_unclosed_quote_at_the_end_is_one_broken_row(tmp_path: Path) -> None:
    """What a quote swallowed up to the end of the file is one reject that shows all of it."""
    part = part_of(tmp_path / "a", b'a,b\n1,2\n3,"4\n5,6\n')
    assert read(part) == [["1", "2"], "bad_csv_row"]
    (block,) = extract.blocks(part)
    assert extract.rows(part, block).text(1) == '3,"4\n5,6'


def test_a_quote_that_is_never_closed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quoted cell beyond the limit is not gathered in memory: the file is named with the byte."""
    monkeypatch.setattr(csv_blocks, "MAX_RECORD_BYTES", 10_000)
    part = part_of(tmp_path / "a", b'a,b\n1,2\n3,"4\n' + b"5,6\n" * 20_000)
    with pytest.raises(UnreadableExport, match="at byte 8"):
        list(extract.blocks(part, block_bytes=1000))


def test_a_cell_of_many_pieces_is_read(tmp_path: Path) -> None:
    """A quoted cell may be longer than a block."""
    cell = "x\n" * 40_000
    part = part_of(tmp_path / "a", f'a,b\n1,"{cell}"\n3,4\n'.encode())
    assert read(part, 1000) == [["1", cell], ["3", "4"]]


@pytest.mark.parametrize(
    ("content", "dialect"),
    [
        (b"a;b\n1,5;2\n", Dialect(delimiter=";", header=("a", "b"))),
        (b"a\tb\n1,5\t2\n", Dialect(delimiter="\t", header=("a", "b"))),
        (b"a|b\n1,5|2\n", Dialect(delimiter="|", header=("a", "b"))),
        (b'a,b\n"{\\"k\\": 1}",2\n', Dialect(escape="\\", header=("a", "b"))),
        (b"\xef\xbb\xbfa,b\n1,2\n", Dialect(bom=True, header=("a", "b"))),
        ("a,b\n1,2\n".encode("utf-16"), Dialect(encoding="utf-16", bom=True, header=("a", "b"))),
        ("a,b\n1,2\n".encode("utf-16-le"), Dialect(encoding="utf-16-le", header=("a", "b"))),
        ("a,b\né,2\nü,3\n".encode("cp1252"), Dialect(encoding="cp1252", header=("a", "b"))),
        ("größe,b\n1,2\n".encode("cp1252"), Dialect(encoding="cp1252", header=("größe", "b"))),
        (b"a,b\n\xe9\x81,2\n\xfc,3\n", Dialect(encoding="iso-8859-1", header=("a", "b"))),
        (b"a,b\n", Dialect(header=("a", "b"))),
    ],
)
def test_the_dialect_is_sniffed(tmp_path: Path, content: bytes, dialect: Dialect) -> None:
    """Delimiter, escape, encoding and byte order mark are found from the content."""
    assert part_of(tmp_path / "a", content).dialect == dialect


def test_a_byte_order_mark_belongs_to_no_cell(tmp_path: Path) -> None:
    """The mark is neither in the first column's name nor in a block, and offsets count it."""
    part = part_of(tmp_path / "a", b'\xef\xbb\xbf"a",b\n1,2\n3,4\n')
    assert read(part) == [["1", "2"], ["3", "4"]]
    assert [(block.offset, block.length) for block in extract.blocks(part, block_bytes=13)] == [(9, 4), (13, 4)]


def test_an_unusual_dialect_is_told(tmp_path: Path) -> None:
    """A person reads what was guessed, for each file that is not plain."""
    (tmp_path / "a").write_bytes(b"a;b\n\xe9;2\n\xfc;3\n")
    source = extract.open_source([str(tmp_path / "a")])
    assert [(note.code, note.detail) for note in source.notes] == [
        ("dialect", 'read with delimiter ";", cp1252'),
        ("encoding", "not UTF-8: read as cp1252; check a name with an accent"),
    ]


def test_a_plain_dialect_is_not_told(tmp_path: Path) -> None:
    """Comma, double quote and UTF-8 need no notice."""
    (tmp_path / "a").write_bytes("a,b\né,2\n".encode())
    assert extract.open_source([str(tmp_path / "a")]).notes == ()


def test_mostly_utf8_stays_utf8(tmp_path: Path) -> None:
    """Broken rows among good UTF-8 are rejected; the good ones keep their letters."""
    part = part_of(tmp_path / "a", "a,b\né,1\nö,2\n".encode() + b"\xe9,3\n\xfc,4\n")
    assert read(part) == [["é", "1"], ["ö", "2"], "bad_utf8", "bad_utf8"]


def test_a_late_letter_decides_on_the_encoding(tmp_path: Path) -> None:
    """A table may be ASCII for its first 100 KB; its first letters beyond still say what it is."""
    part = part_of(tmp_path / "a", b"a,b\n" + b"x,1\n" * 25_000 + b"\xe9,2\n\xfc,3\n")
    assert read(part)[-2:] == [["é", "2"], ["ü", "3"]]


def test_utf16_is_read(tmp_path: Path) -> None:
    """UTF-16 with newlines in quotes is read; a lone surrogate rejects its row alone."""
    text = 'a\tb\r\n"é\n1"\t2\r\n\ud800\t3\r\n4\t5\r\n'
    part = part_of(tmp_path / "a", b"\xff\xfe" + text.encode("utf-16-le", "surrogatepass"))
    assert read(part, 5) == [["é\n1", "2"], "bad_utf8", ["4", "5"]]


def test_cp1252_is_read(tmp_path: Path) -> None:
    """The letters of an old encoding arrive as what they are, from a worker's own reading too."""
    part = part_of(tmp_path / "a", "a,b\nné,2\n“ü”,€\n".encode("cp1252"))
    assert read(part) == [["né", "2"], ["“ü”", "€"]]


def test_column_names_are_told_apart(tmp_path: Path) -> None:
    """A second column of one name and a column without one get names of their own, and a notice."""
    (tmp_path / "a").write_bytes(b"name,name,,name__2,name\n1,2,3,4,5\n")
    source = extract.open_source([str(tmp_path / "a")])
    (part,) = source.parts
    assert part.dialect.header == ("name", "name__3", "column_3", "name__2", "name__4")
    assert [note.code for note in source.notes] == ["duplicate_column", "blank_column", "duplicate_column"]
    assert read(part) == [["1", "2", "3", "4", "5"]]


def test_blank_lines_before_the_header_are_passed(tmp_path: Path) -> None:
    """The first line that is not blank is the header."""
    part = part_of(tmp_path / "a", b"\n\r\na,b\n\n1,2\n   \n3,4\n")
    assert read(part, 3) == [["1", "2"], ["3", "4"]]


def test_content_is_given_back_whatever_was_done_to_the_record(tmp_path: Path) -> None:
    """The canonical text is of the row as read, for the row just read and for any other."""
    part = part_of(tmp_path / "a", b"b,a\n1,2\n3,\n")
    (block,) = extract.blocks(part)
    rows = extract.rows(part, block)
    found = []
    for number, row in enumerate(rows):
        assert not isinstance(row, BrokenRow)
        row.clear()
        found.append(rows.canonical(number))
    assert found == [canonical({"b": "1", "a": "2"}), canonical({"b": "3", "a": ""})]
    assert rows.canonical(0) == found[0]


def test_the_fast_path_is_taken_for_ordinary_quoting() -> None:
    """Well-formed quotes need no row-by-row reading."""
    data = b'a,"b ""c""\n\r\n",d\r\n"",""\n"""",x\n'
    ends = csv_blocks._regular_ends(data, Dialect())
    assert ends is not None
    assert np.array_equal(ends, [18, 24, 31])
