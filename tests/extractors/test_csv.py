"""Delimited text: every cell is text, blocks end where records end, and only broken rows are lost."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline import extractors
from pipeline.errors import UnreadableExport
from pipeline.extractors import csv_blocks, csv_records, csv_rows
from pipeline.extractors.rows import RowOptions
from pipeline.models import BrokenRow, Dialect, Part
from pipeline.values import canonical
from tests.support.parts import all_rows, part_of


def read(part: Part, size: int = 1 << 22) -> list[list[str] | str]:
    """Each row's cells in the header's order, or the code of a broken one."""
    rows = [row for block in all_rows(part, blanks=True, block_bytes=size) for row in block]
    return [
        row.code if isinstance(row, BrokenRow) else [str(row[name]) for name in part.dialect.header] for row in rows
    ]


def written(header: list[str], table: list[list[str]], delimiter: str, newline: str) -> bytes:
    target = io.StringIO(newline="")
    # With other line ends the writer would leave a carriage return unquoted.
    quoting = csv.QUOTE_ALL if newline == "\n" else csv.QUOTE_MINIMAL
    csv.writer(target, delimiter=delimiter, lineterminator=newline, quoting=quoting).writerows([header, *table])
    return target.getvalue().encode()


cells = st.text(st.sampled_from('ab,;"\n\r\t é\u2028\x00'), max_size=8)
tables = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=20)
)


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("a,\"'\n\r"), max_size=60), st.sampled_from("\"'"), st.booleans())
@example("a,'\n',a\n", "'", True)
@example('a,"\'"\na\n', "'", True)
def test_counting_quotes_agrees_with_the_reader(text: str, quote: str, final: bool) -> None:
    """If counting quotes claims to know the record ends of a block, the csv reader finds the same."""
    data = text.encode()
    known = data if final else data[: data.rfind(b"\n") + 1]
    dialect = Dialect(quote=quote)
    counted = csv_blocks._regular_ends(known, dialect, final=final) if known else None
    if counted is not None:
        ends = counted.tolist()
        if final and (not ends or ends[-1] < len(known)):
            ends.append(len(known))
        assert ends == csv_blocks._read_ends(known, dialect, final=final)


@settings(max_examples=150, deadline=None)
@given(
    st.text(st.sampled_from('a,"\n\r\\é\udcff'), max_size=80),
    st.integers(1, 40),
    st.sampled_from(['"', "a", ""]),
    st.sampled_from(["", "\\"]),
    st.sampled_from([(10_000, 1 << 22), (3, 1 << 22), (10_000, 12)]),
)
@example("\\\n\\\na", 1, '"', "\\", (10_000, 1 << 22))
@example("\\\n\r,", 1, "", "\\", (10_000, 1 << 22))
@example("a\na\r\n,", 1, "a", "", (10_000, 1 << 22))
@example('"\n\n\n"', 1, '"', "", (3, 1 << 22))
def test_boundaries_do_not_depend_on_the_pieces(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int, quote: str, escape: str, limits: tuple[int, int]
) -> None:
    """Broken quoting is also cut the same in small pieces as in one, whatever the limits: the rows and their offsets
    are equal, and every character is in a row."""
    path = tmp_path_factory.mktemp("pieces") / "a"
    found = part_of(path, b"x,y\n" + text.encode("utf-8", "surrogateescape"))
    dialect = Dialect(quote=quote, escape=escape, header=("x", "y"))
    part = Part(0, "a", str(path), "", (), found.format, dialect, 0, 0)

    def located(size: int) -> list[tuple[int, object, str]]:
        found = []
        for block in extractors.blocks(part, block_bytes=size):
            rows = csv_rows.DelimitedRows(path.read_bytes()[block.offset :][: block.length], block.offset, dialect)
            read = list(rows)
            assert len(read) == len(rows._bounds())
            found += [(rows.offset(at), row, rows.text(at)) for at, row in enumerate(read)]
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_records, "MAX_LINES", limits[0])
        patch.setattr(csv_records, "MAX_BYTES", limits[1])
        patch.setattr(csv_rows, "AVAILABLE", csv_rows.AVAILABLE and limits == (10_000, 1 << 22))  # C knows no other
        whole = located(1 << 20)
        assert located(size) == whole
    kept = "".join(shown for _, _, shown in whole).replace("\\xff", "")
    counted = "a,\\".replace(quote, "")  # an empty cell in quotes is a blank line, which is not a row
    assert [kept.count(one) for one in counted] == [text.count(one) for one in counted]


def test_a_block_ends_at_the_first_record_end_after_its_size(tmp_path: Path) -> None:
    """A block contains the records that start in its range; the header is in none."""
    part = part_of(tmp_path / "a", b'a,b\n1,2\n3,"4\n5"\n6,7\n8,9\n')
    places = [(block.offset, block.length) for block in extractors.blocks(part, block_bytes=8)]
    assert places == [(4, 4), (8, 8), (16, 8)]
    assert {block.content for block in extractors.blocks(part)} == {None}


@pytest.mark.parametrize("broken", [b"", b"1,2\r3,4\n"], ids=["fast", "slow"])
def test_a_blank_cell_is_missing(tmp_path: Path, broken: bytes) -> None:
    """A cell without a character, in quotes or not, is left out of its record, unless blanks are values; the content
    for the uuid is the same."""
    part = part_of(tmp_path / "a", b"a,b,c\n" + broken + b'1,,""\n,"",\n')

    def taken(blanks: bool) -> tuple[list[object], list[bytes]]:
        (rows,) = all_rows(part, blanks=blanks)
        found = [(row, rows.canonical(at)) for at, row in enumerate(rows) if isinstance(row, dict)]
        return [row for row, _ in found], [content for _, content in found]

    missing, content = taken(False)
    values, same = taken(True)
    assert missing == [{"a": "1"}, {}]
    assert values == [{"a": "1", "b": "", "c": ""}, {"a": "", "b": "", "c": ""}]
    assert content == same == [canonical(row) for row in values]  # type: ignore[arg-type]


TABLES: dict[str, tuple[bytes, list[list[str] | str]]] = {
    "zip codes, large numbers, words for nothing": (
        b"a,b,c\n00001,12345678901234567890,n/a\n1.10,true,NaN\nNULL, ,-\n",
        [["00001", "12345678901234567890", "n/a"], ["1.10", "true", "NaN"], ["NULL", " ", "-"]],
    ),
    "an unclosed quote, and the next one opens a cell": (
        b'a,b\n1,"2\n3,4\n5,6\n7,"8"\n9,0\n',
        ["bad_csv_row", ["3", "4"], ["5", "6"], ["7", "8"], ["9", "0"]],
    ),
    "a fault after a cell of many lines": (
        b'a,b,c\n1,"2,x,y\nz,z,z\n",3"\n1,"2\n,,\n","3"4\n5,6,7\n',
        [["1", "2,x,y\nz,z,z\n", '3"'], "bad_csv_row", ["5", "6", "7"]],
    ),
    "broken rows among good UTF-8": (
        "a,b\né,1\nö,2\n".encode() + b"\xe9,3\n\xfc,4\n",
        [["é", "1"], ["ö", "2"], "bad_utf8", "bad_utf8"],
    ),
    "ASCII for the first 100 KB": (
        b"a,b\n" + b"x,1\n" * 25_000 + b"\xe9,2\n\xfc,3\n",
        [["x", "1"]] * 25_000 + [["é", "2"], ["ü", "3"]],
    ),
    "UTF-16 with newlines in quotes and half a surrogate pair": (
        b"\xff\xfe" + 'a\tb\r\n"é\n1"\t2\r\n\ud800\t3\r\n4\t5\r\n'.encode("utf-16-le", "surrogatepass"),
        [["é\n1", "2"], "bad_utf8", ["4", "5"]],
    ),
    "cp1252": ("a,b\nné,2\n“ü”,€\n".encode("cp1252"), [["né", "2"], ["“ü”", "€"]]),
    "blank lines": (b"\n\r\na,b\n\n1,2\n   \n3,4\n", [["1", "2"], ["3", "4"]]),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_its_rows(tmp_path: Path, name: str) -> None:
    """Every cell is a string, in the encoding of the table; a broken row takes no other with it, and the first line
    that is not blank is the header."""
    content, expected = TABLES[name]
    part = part_of(tmp_path / "a", content)
    assert read(part) == expected
    if len(content) < 1000:
        assert read(part, 5) == expected


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
    """A broken row is a reject with its code, offset and content; the rows next to it are untouched."""
    row, outcome = ROWS[name]
    part = part_of(tmp_path / "a", b"a,b\n" + b"3,4\n" * 3 + row + b"\n\n5,6\n")
    assert read(part) == [["3", "4"]] * 3 + [outcome, ["5", "6"]]
    (rows,) = all_rows(part)
    assert rows.offset(3) == 16
    assert rows.text(3) == row.removesuffix(b"\r").decode("utf-8", "backslashreplace")
    assert rows.offset(4) == 16 + len(row) + 2


def test_an_unclosed_quote_takes_no_other_row_with_it(tmp_path: Path) -> None:
    """A quote that is not closed before the end of the file breaks only the row of its own line."""
    part = part_of(tmp_path / "a", b'a,b\n1,2\n3,"4\n5,6\n7,8\n')
    assert read(part) == [["1", "2"], "bad_csv_row", ["5", "6"], ["7", "8"]]
    (rows,) = all_rows(part)
    assert (rows.offset(1), rows.text(1), rows.offset(2)) == (8, '3,"4', 13)
    assert [row.detail for row in rows if isinstance(row, BrokenRow)] == [csv_records.UNCLOSED]
    (rows,) = all_rows(part_of(tmp_path / "a", b'a,b,c\n1,"2\n3\n4"\n5,6,7\n'))
    found = [row.detail for row in rows if isinstance(row, BrokenRow)]
    assert found == ["2 cells over 3 lines; the header has 3"]


@pytest.mark.parametrize("size", [100, 1 << 22])
@pytest.mark.parametrize(("lines", "wide"), [(10_001, 1), (5_000, 2_000)])
def test_a_quote_is_given_up_at_the_limit(tmp_path: Path, size: int, lines: int, wide: int) -> None:
    """A quote that is closed beyond the limit of lines or of bytes is unclosed, whatever the size of a block."""
    rows = [[str(at), "x" * wide] for at in range(lines)]
    between = "".join(f"{one},{other}\n" for one, other in rows)
    part = part_of(tmp_path / "a", f'a,b\n1,"2\n{between}3,4"\n5,6\n'.encode())
    assert read(part, size) == ["bad_csv_row", *rows, ["3", '4"'], ["5", "6"]]


def test_a_line_that_never_ends_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond the limit is not collected in memory: the error has the file and the byte."""
    monkeypatch.setattr(csv_blocks, "MAX_RECORD_BYTES", 10_000)
    part = part_of(tmp_path / "a", b"a,b\n1,2\n3," + b"4" * 20_000)
    with pytest.raises(UnreadableExport, match="at byte 8"):
        list(extractors.blocks(part, block_bytes=1000))


@pytest.mark.parametrize("size", [1000, 1 << 22])
def test_a_cell_of_many_pieces_is_read(tmp_path: Path, size: int) -> None:
    """A quoted cell may be longer than a block, and have as many lines as the limit allows."""
    cell = "x\n" * (csv_records.MAX_LINES - 1)
    part = part_of(tmp_path / "a", f'a,b\n1,"{cell}"\n3,4\n'.encode())
    assert read(part, size) == [["1", cell], ["3", "4"]]


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
    assert [(block.offset, block.length) for block in extractors.blocks(part, block_bytes=13)] == [(9, 4), (13, 4)]


def test_an_unusual_dialect_is_reported(tmp_path: Path) -> None:
    """A person sees what was guessed, for each unusual file."""
    (tmp_path / "a").write_bytes(b"a;b\n\xe9;2\n\xfc;3\n")
    source = extractors.open_source([str(tmp_path / "a")])
    assert [(note.code, note.detail) for note in source.notes] == [
        ("dialect", 'read with delimiter ";", cp1252'),
        ("encoding", "not UTF-8: read as cp1252; check a name with an accent"),
    ]
    (tmp_path / "a").write_bytes("a,b\né,2\n".encode())  # comma, double quote and UTF-8 need no notice
    assert extractors.open_source([str(tmp_path / "a")]).notes == ()


def test_repeated_column_names_are_renamed(tmp_path: Path) -> None:
    """A second column with the same name and a column without one get names of their own, and a notice."""
    (tmp_path / "a").write_bytes(b"name,name,,name__2,name\n1,2,3,4,5\n")
    source = extractors.open_source([str(tmp_path / "a")])
    (part,) = source.parts
    assert part.dialect.header == ("name", "name__3", "column_3", "name__2", "name__4")
    assert [note.code for note in source.notes] == ["duplicate_column", "blank_column", "duplicate_column"]
    assert read(part) == [["1", "2", "3", "4", "5"]]


def test_content_is_given_back_whatever_was_done_to_the_record(tmp_path: Path) -> None:
    """The canonical JSON is that of the row as read, for the row just read and for any other."""
    part = part_of(tmp_path / "a", b"b,a\n1,2\n3,\n")
    (rows,) = all_rows(part)
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
    ends = csv_blocks._regular_ends(data, Dialect(), final=True)
    assert ends is not None
    assert np.array_equal(ends, [18, 24, 31])


pieces = st.lists(
    st.sampled_from([b"a", b"b,", b'"', b'""', b'"a""b,\n"', b'"",', b"a\n", b",", b"\n", b"\r\n"])
    | st.sampled_from([b"\r", b" ", b"\0", b"\xff", "é".encode()])
)


@settings(max_examples=300)
@given(pieces.map(b"".join), st.sampled_from(['"', "", "\0"]), st.integers(1, 3), st.booleans())
@example(b'a,"b\r\n",\xff\n"x"y,b\n"open,\na,b\n', '"', 2, True)
@example(b"a\rb\na,\n\r\n,\r", "", 2, True)
@example(b'"a""b",""\na,b\n', '"', 2, False)
@example(b"\0a\0\0b\0,\0\0\n", "\0", 2, False)
@example(b"a,b\n", "«", 2, False)
@example(b"a,b\na\n,\n\n\xff,\na,b", '"', 2, True)
def test_the_reader_in_c_reads_what_python_reads(data: bytes, quote: str, columns: int, blanks: bool) -> None:
    """Rows, broken ones and their messages, over everything that one of the two leaves to the other; as dicts and as
    Members, with the canonical content of each, asked for while it is the last one and later."""
    dialect = Dialect(header=tuple("xyz"[:columns]), quote=quote)
    plain, quick = (csv_rows.DelimitedRows(data, 0, dialect, RowOptions(blanks=blanks)) for _ in range(2))
    plain._is_native = False
    members = csv_rows.DelimitedRows(data, 0, dialect, RowOptions(blanks=blanks, members=True))
    expected = list(plain)
    assert list(quick) == expected
    found, at_once = [], []
    for number, row in enumerate(members):
        found.append(row if isinstance(row, BrokenRow) else dict(row.items()))
        at_once.append(None if isinstance(row, BrokenRow) else members.canonical(number))
    assert found == expected
    for number, content in enumerate(at_once):
        if content is not None:
            assert content == plain.canonical(number) == members.canonical(number)
    whole = [record.cells for record in csv_records.records(data, dialect, final=True) if record.cells is not None]
    counted = [cells for cells in whole if len(cells) == columns or not csv_records.is_blank(cells)]
    right = sum(len(one) == columns and _is_utf8(one) for one in counted)
    assert len([row for row in expected if not isinstance(row, BrokenRow)]) == right


def _is_utf8(cells: list[str]) -> bool:
    try:
        return all(cell.encode("latin-1").decode() is not None for cell in cells)
    except UnicodeDecodeError:
        return False
