"""Excel workbooks: each kind of cell by its table, sheets, and errors that name what cannot be read."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline import extractors
from pipeline.api import plan_export
from pipeline.errors import UnreadableExport
from pipeline.extractors.file_rules import FileRules
from pipeline.models import BrokenRow
from pipeline.options import PlanOptions
from tests.support.commands import in_process

openpyxl = pytest.importorskip("openpyxl")

HEADER = ["id", "time", "amount"]


def written(path: Path, *rows: Sequence[Any], **sheets: Sequence[Sequence[Any]]) -> Path:
    """A workbook whose first sheet has the rows, and others by name."""
    book = openpyxl.Workbook()
    book.active.title = "Events"
    for name, some in {"Events": rows, **sheets}.items():
        sheet = book.active if name == "Events" else book.create_sheet(name)
        for row in some:
            sheet.append(row)
    book.save(path)
    return path


def read(path: Path, size: int = 2, **rules: str) -> tuple[list[Any], list[tuple[int, str, str]]]:
    """The rows of a file, or why one cannot be read, and the warnings by the number of their row in the sheet."""
    (part,) = extractors.open_source([str(path)], rules=FileRules(**rules)).parts
    found: list[Any] = []
    warned = []
    for block in extractors.blocks(part, block_rows=size):
        assert block.offset == len(found)
        rows = extractors.rows(part, block)
        found += list(rows)
        warned += [(block.offset + row, code, detail) for row, code, detail in rows.warnings]
    return found, warned


def test_each_kind_of_cell_is_read_by_the_table(tmp_path: Path) -> None:
    """Numbers with the stored digits, dates without a zone, blanks as missing; blank rows are not rows."""
    moment = datetime(2023, 3, 26, 2, 30, 5, 123000)
    book = written(
        tmp_path / "a.xlsx",
        ["id", "n", "time", "day", "clock", "length", "yes", "text", "blank"],
        [1, 1.1, moment, date(2023, 1, 2), time(3, 4, 5), timedelta(hours=30, seconds=7), True, "00012", None],
        [],
        [10**14 + 1, -0.25, datetime(2023, 1, 2), None, None, None, False, "a\U0001f600é_x0041_", ""],
    )
    rows, warned = read(book)
    assert rows == [
        {
            "id": 1, "n": 1.1, "time": "2023-03-26T02:30:05.123000", "day": "2023-01-02", "clock": "03:04:05",
            "length": "30:00:07", "yes": True, "text": "00012",
        },
        {"id": 10**14 + 1, "n": -0.25, "time": "2023-01-02T00:00:00", "yes": False, "text": "a\U0001f600éA"},
    ]  # fmt: skip
    assert warned == []


def test_what_excel_has_changed_is_reported(tmp_path: Path) -> None:
    """16 digits are more than it keeps; #N/A is not a value; a merged range has its value once. A row with more cells
    than the header is rejected, and nothing beyond the last column is dropped silently."""
    book = written(tmp_path / "a.xlsx", HEADER, [1234567890123456, "#N/A", 12345678901234567890], [1, None, 2.5])
    rows, warned = read(book)
    assert rows == [{"id": 1234567890123456, "amount": 1.234567890123457e19}, {"id": 1, "amount": 2.5}]
    assert warned == [
        (0, "rounded_integer", "id: 1234567890123456"),
        (0, "cell_error", "time: #N/A"),
        (0, "rounded_integer", "amount: 12345678901234569216"),
    ]
    merged = openpyxl.Workbook()
    for row in (HEADER, ["u-1", None, 1], [None, None, 2], [1, 2, 3, 4]):
        merged.active.append(row)
    merged.active.merge_cells("A2:A3")
    merged.save(tmp_path / "b.xlsx")
    notes = {note.code: note.detail for note in extractors.open_source([str(tmp_path / "b.xlsx")]).notes}
    assert "the first A2:A3" in notes["merged_cells"]
    *rows, broken = read(tmp_path / "b.xlsx")[0]
    assert rows == [{"id": "u-1", "amount": 1}, {"amount": 2}]
    assert (type(broken), broken.code) == (BrokenRow, "bad_csv_row")


def test_the_first_sheet_is_read_or_the_one_that_is_named(tmp_path: Path) -> None:
    """A notice names the others; a name that no sheet has is an error with the existing ones."""
    book = written(tmp_path / "a.xlsx", HEADER, [1], Other=[["x", "x", None], ["y", "z", "w"]])
    source = extractors.open_source([str(book)])
    assert [(note.code, note.where) for note in source.notes] == [
        ("row_numbers", "a.xlsx"), ("other_sheets", "a.xlsx"),
    ]  # fmt: skip
    assert extractors.describe(source.parts[0]) == "Excel, sheet 'Events'"
    assert read(book) == ([{"id": 1}], [])
    assert read(book, sheet="Other")[0] == [BrokenRow("bad_csv_row", "3 cells; the header has 2")]
    with pytest.raises(UnreadableExport, match="no sheet 'orders'; it has 'Events', 'Other'"):
        read(book, sheet="orders")


def test_formulas_have_their_stored_values_or_stop(tmp_path: Path) -> None:
    """A program that writes formulas without their values leaves nothing to read; they do not count as blanks."""
    path = written(tmp_path / "a.xlsx", HEADER, [1, 2, "=A2+B2"])
    with pytest.raises(UnreadableExport, match="without computed values") as raised:
        read(path)
    assert "Excel" in raised.value.hint
    edited(path, "xl/worksheets/sheet1.xml", b"<v />", b"<v>3</v>")
    assert read(path)[0] == [{"id": 1, "time": 2, "amount": 3}]
    edited(
        path, "xl/worksheets/sheet1.xml", b'<c r="C2"><f>A2+B2</f><v>3</v>', b'<c r="C2" t="str"><f>A2+B2</f><v></v>'
    )
    assert read(path)[0] == [{"id": 1, "time": 2}]


def test_shared_strings_of_cells_are_read(tmp_path: Path) -> None:
    """As Excel itself stores them."""
    path = written(tmp_path / "a.xlsx", HEADER, ["u-1", "text", 1])
    edited(path, "xl/worksheets/sheet1.xml", b't="inlineStr"><is><t>text</t></is>', b't="s"><v>0</v>')
    kind = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    part = b'<Override PartName="/xl/sharedStrings.xml" ContentType="' + kind + b'"/></Types>'
    edited(path, "[Content_Types].xml", b"</Types>", part)
    space = b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    with zipfile.ZipFile(path, "a") as archive:
        texts = b"<si><r><t>sh</t></r><r><t>ared</t></r></si>"
        archive.writestr("xl/sharedStrings.xml", b"<sst " + space + b">" + texts + b"</sst>")
    assert read(path)[0] == [{"id": "u-1", "time": "shared", "amount": 1}]


def edited(path: Path, member: str, old: bytes, new: bytes) -> None:
    """Replace bytes inside a member of a workbook."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert old in members[member]
    members[member] = members[member].replace(old, new)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_workbook_is_not_read_as_an_archive_nor_an_archive_as_a_workbook(tmp_path: Path) -> None:
    """Their content decides, whatever the name; a document of another kind is named; so is a workbook inside an
    archive."""
    written(tmp_path / "export.zip", HEADER, [1])
    (part,) = extractors.open_source([str(tmp_path / "export.zip")]).parts
    assert (part.format, part.codecs, part.member) == ("excel", (), "")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "export.zip", "a.xlsx")
    with pytest.raises(UnreadableExport, match=r"a\.xlsx is a zip archive inside a zip"):
        read(tmp_path / "a.zip")
    assert extractors.open_source([str(written(tmp_path / "empty.xlsx"))]).notes[0].code == "empty_file"


@pytest.mark.parametrize("member", ["xl/worksheets/sheet1.xml", "xl/styles.xml", "xl/workbook.xml"])
def test_a_damaged_workbook_is_named(tmp_path: Path, member: str) -> None:
    """One of its parts ends in the middle, or the file does."""
    path = written(tmp_path / "a.xlsx", HEADER, *([number, f"t{number}", 1.5] for number in range(3000)))
    whole = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        content = archive.read(member)
    edited(path, member, content, content[: len(content) // 2])
    with pytest.raises(UnreadableExport, match=r"a\.xlsx is not a whole workbook"):
        read(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableExport, match="cut short"):
        read(path)


def test_rows_have_their_own_offset_text_and_content(tmp_path: Path) -> None:
    """A rejected row is shown as its cells; a second column with the same name is numbered, as in delimited text."""
    book = written(tmp_path / "a.xlsx", ["a", "a", None, "b"], [1, "x", None, 2.5])
    (part,) = extractors.open_source([str(book)]).parts
    (block,) = extractors.blocks(part)
    rows = extractors.rows(part, block)
    assert list(rows.columns or ()) == ["a", "a__2", "column_3", "b"]
    assert list(rows) == [{"a": 1, "a__2": "x", "b": 2.5}]
    assert (rows.offset(0), json.loads(rows.text(0))) == (2, [1, "x", None, 2.5])
    assert json.loads(rows.canonical(0)) == {"a": 1, "a__2": "x", "b": 2.5}


def test_a_row_of_a_workbook_is_named_as_the_sheet_shows_it(tmp_path: Path) -> None:
    """Below a title and blank rows, if it is rejected and, as long as the workbook is unchanged, if it is planned. Rows
    of text have an offset."""
    rows = [{"event": "Seen", "user": user, "at": "2023-01-02T00:00:00Z"} for user in ("u-1", "u-2", "")]
    written(
        tmp_path / "a.xlsx", ["Sales"], [], list(rows[0]), *[part for row in rows for part in ([], [*row.values()])]
    )
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for name, place in (("a.jsonl", "row 3, byte "), ("a.xlsx", "row 3, row 9 of the sheet 'Events': ")):
        asked = {"event": "event", "distinct_id": "user", "timestamp": "at"}
        plan_export(tmp_path / name, tmp_path / "plan", PlanOptions(mapping="generic", settings=asked))
        assert f"{name}, {place}" in in_process("rejects", tmp_path / "plan").stdout.replace("\n", "")
    assert "row 7 of the sheet 'Events'" in in_process("explain", tmp_path / "plan", "a.xlsx:2").stdout
    os.utime(tmp_path / "a.xlsx", (1, 1))
    assert "of the sheet" not in in_process("explain", tmp_path / "plan", "a.xlsx:2").stdout


@pytest.mark.parametrize(("above", "row"), [([], 2), ([["Sales"], [None], [None]], 6)])
def test_a_notice_says_which_row_of_the_sheet_is_row_1(tmp_path: Path, above: list[list[Any]], row: int) -> None:
    """It is below the header, wherever that is; blank rows between them are not counted."""
    rows = [["u-1", "2024-03-10T02:30:00", 1], ["u-2", "2024-03-10T02:31:00", 2]]
    book = written(tmp_path / "a.xlsx", *above, HEADER, *([[None]] * bool(above)), *rows)
    (note,) = [note for note in extractors.open_source([str(book)]).notes if note.code == "row_numbers"]
    assert note.detail.startswith(f"row 1 in messages is row {row} of the sheet")
