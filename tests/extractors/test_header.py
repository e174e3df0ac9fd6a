"""A delimited file without a header: recognised, and read with the columns of a mapping or of a file next to it."""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import extractors, plan_export
from pipeline.errors import UnreadableExport
from pipeline.extractors.file_rules import NO_RULES, FileRules
from pipeline.models import BrokenRow, Part
from pipeline.options import PlanOptions
from pipeline.plan.sealed.freshness import open_plan
from tests.support.commands import in_process
from tests.support.containers import tarred
from tests.support.parts import all_rows, part_of

ROWS = "u-1,Signup,2023-01-02T03:04:05Z\nu-2,Login,2023-01-03T03:04:05Z\n"
NAMES = ("--set", "event=column_2", "--set", "distinct_id=column_1", "--set", "timestamp=column_3")
HEADLESS = {
    "a time": ROWS,
    "a written date": "u-1;Signup;02/01/2023 3:04 pm\n",
    "a UUID": "0b9e7b1c-0000-4000-8000-000000000001\tSignup\n",
    "an e-mail address": "ada@example.com,Signup\n",
    "a number of ten digits": "u-1,Signup,1672628645\nu-2,Login,1672628646\n",
    "a number with a fraction": "u-1,Signup,49.10\n",
    "a time among blanks": "u-1,2023-01-02T03:04:05Z,,,,,\n",
    "values that return": "alice,Signup,free\nbob,Signup,free\ncarol,Login,pro\n",
    "a web server's log": '1.2.3.4 - - [01/Mar/2023:00:00:00 +0000] "GET /" 200 7 "X11; Linux"\n' * 2,
    "short numbers and blanks": "7,Signup,12,,\n8,Login,12,,\n",
}
HEADED = {
    "ordinary names": "user,event,time\n" + ROWS,
    "no rows": "user,event,time\n",
    "an index": ",user,event\n0,u-1,Signup\n",
    "an index of one column": ",user\n0,Ada\n1,Bob\n",
    "names of half the columns": ",user,,plan\n0,Ada,x,free\n1,Bob,y,pro\n",
    "names that occur twice": "name,name,,name__2,name\n1,2,3,4,5\n",
    "a name that is a value too": "event,type,user\nevent,track,u-1\nevent,page,u-2\n",
    "some numbers": "user,event,time,2019,2020\nu-1,Signup,2023-01-02T03:04:05Z,1,2\n",
    "files put together": "user,event\nu-1,Signup\nuser,event\nu-2,Login\n",
    "names in braces": "{idfa||gps_adid},{created_at},[user_id]\nu-1,1672628645,7\n",
    "names with marks": "Revenue (USD),e-mail,@id,utc.time,v1.0,a/b,user id\n1,2,3,4,5,6,7\n",
}


def opened(path: Path, content: str, header: str = "") -> tuple[Part, list[str]]:
    """The part of this content, and the codes of the notices."""
    path.write_text(content, "utf-8")
    source = extractors.open_source([str(path)], rules=FileRules(header=header))
    return source.parts[0], [note.code for note in source.notes]


def rows_of(part: Part, size: int = 1 << 22, blanks: bool = True) -> list[Any]:
    return [row for rows in all_rows(part, blanks=blanks, block_bytes=size) for row in rows]


def rows_without_blanks(part: Part, size: int = 1 << 22) -> list[Any]:
    return rows_of(part, size, blanks=False)


@pytest.mark.parametrize("name", HEADLESS)
def test_a_first_row_of_values_is_a_row(tmp_path: Path, name: str) -> None:
    """A notice reports it, and its columns are numbered; --set header=yes overrides this."""
    content = HEADLESS[name]
    part, codes = opened(tmp_path / "a", content)
    assert "no_header" in codes
    assert part.dialect.header[:2] == ("column_1", "column_2")
    assert len(rows_of(part)) == content.count("\n")
    insisted, codes = opened(tmp_path / "a", content, header="yes")
    assert not insisted.dialect.headless
    assert "no_header" not in codes


@pytest.mark.parametrize("name", HEADED)
def test_names_are_names(tmp_path: Path, name: str) -> None:
    """Odd names, and names that are also in rows, are not values; with --set header=no the names are a row."""
    content = HEADED[name]
    part, codes = opened(tmp_path / "a", content)
    assert not part.dialect.headless
    assert "no_header" not in codes
    assert len(rows_of(part)) == content.count("\n") - 1
    part, codes = opened(tmp_path / "a", content, header="no")
    assert (part.dialect.header[0], "no_header" in codes) == ("column_1", False)
    assert len(rows_of(part)) == content.count("\n")


@pytest.mark.parametrize("size", [1, 40, 1 << 22])
@pytest.mark.parametrize("written", ["utf-8", "utf-8-sig", "utf-16", "gzip"])
def test_no_row_is_lost_without_a_header(tmp_path: Path, size: int, written: str) -> None:
    """The first row is in the first block, after a byte order mark too, in a container or not."""
    part = part_of(tmp_path / "a", gzip.compress(ROWS.encode()) if written == "gzip" else ROWS.encode(written))
    assert [row["column_1"] for row in rows_of(part, size)] == ["u-1", "u-2"]
    assert all_rows(part)[0].offset(0) == (3 if written == "utf-8-sig" else 0)


def test_a_plan_stops_at_a_file_without_a_header(call: Any, tmp_path: Path) -> None:
    """Exit 3 names the file, the value and both settings; with header=no every row is planned, and read in the same way
    when the plan is applied."""
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    where = ("-m", "generic", "-o", tmp_path / "plan", "--workers", "0")
    printed = call("plan", path, *where, *NAMES)
    assert printed.code == 3
    assert printed.two_lines[0] == (
        "Error: rows.csv seems to have no header: column 3 of its first row, '2023-01-02T03:04:05Z', is a time"
    )
    for word in ("--set header=no", "column_1", "--set header=yes"):
        assert word in printed.two_lines[1]
    printed = call("plan", path, *where, *NAMES, "--set", "header=no", "--json")
    assert (printed.code, printed.json["rows"]["mapped"]) == (0, 2)
    part = open_plan(tmp_path / "plan")[0].parts[0].part(0)
    assert [row["column_2"] for row in rows_of(part)] == ["Signup", "Login"]


def test_a_survey_shows_the_same(call: Any, tmp_path: Path) -> None:
    """The finding is a notice of the survey, which reads every row; it accepts --set header=yes too, and another word
    is a usage error, not a guess."""
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    printed = call("survey", path, "--json")
    assert (printed.code, printed.json["rows"]) == (0, 2)
    (detail,) = [text for code, _, text in printed.json["notices"] if code == "no_header"]
    assert detail.endswith("is a time, so it is read as a row, and its columns are called column_1 to column_3")
    assert call("survey", path, "--set", "header=yes", "--json").json["rows"] == 1
    assert call("survey", path, "--set", "event=x").code == 2
    for words in (("survey",), ("plan", "-m", "generic", "-o", tmp_path / "plan", *NAMES)):
        printed = call(*words, path, "--set", "header=maybe")
        assert (printed.code, printed.two_lines[0]) == (2, "Error: 'maybe' is not a value of --set header")


ENRICHED = ("app_id", "platform", "collector_tstamp", "event_id", *(f"field_{at}" for at in range(5, 132)))
LIKE = {"event_id": "uuid", "collector_tstamp": "time"}
SNOWPLOW = FileRules(columns=ENRICHED, like=LIKE, delimiter="\t", quotes="none")
UUID = "c6ef3124-b53a-4b13-a233-0088f79dcbcb"
ADOBE = FileRules(
    columns_from="column_headers.tsv", delimiter="\t", quotes="none", escape="\\", encoding="iso-8859-1",
    only=("hit_data*.tsv",),
)  # fmt: skip
ANY_HITS = replace(ADOBE, only=("*hit_data*.tsv",))
HEADERS = b"hitid_high\thitid_low\tpagename\tdate_time\n"
HITS = (
    "18446744073709551615\t1\tZ\xfcrich \"x\"\t2023-01-02 03:04:05\n"
    "2\t3\ta\\\tb\\\nc\\\\d\t2023-01-02 03:04:06\n"
).encode("iso-8859-1")  # fmt: skip


def enriched(*cells: str) -> bytes:
    row = ["shop", "web", "2023-01-02 03:04:05.678", UUID, *cells]
    return "\t".join(row + [""] * (131 - len(row))).encode() + b"\n"


def opened_by(path: Path, rules: FileRules) -> list[Part]:
    return list(extractors.open_source([str(path)], rules=rules).parts)


@pytest.mark.parametrize("rules", [SNOWPLOW, FileRules(layouts=(SNOWPLOW, FileRules(columns=("a", "b"))))])
@pytest.mark.parametrize("size", [100, 1 << 22])
def test_a_file_without_header_has_the_columns_of_its_mapping(tmp_path: Path, rules: FileRules, size: int) -> None:
    """131 fields, no quotes, empty means null; if no mapping is chosen, the only layout that fits is used."""
    content = enriched('"not quoted', '{"k":"v"}') + enriched() * 19 + b"short\n"
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(content))
    (part,) = opened_by(tmp_path / "a.tsv.gz", rules)
    first, second, *_, third = rows_without_blanks(part, size)
    assert first == {
        "app_id": "shop", "platform": "web", "collector_tstamp": "2023-01-02 03:04:05.678", "event_id": UUID,
        "field_5": '"not quoted', "field_6": '{"k":"v"}',
    }  # fmt: skip
    assert len(second) == 4
    assert third == BrokenRow("bad_csv_row", "1 cell; the header has 131")
    assert extractors.describe(part) == "CSV, 131 columns, delimiter tab, no quotes, no header, in gzip"


@pytest.mark.parametrize(
    "content",
    [enriched()[:-2] + b"\n", enriched().replace(UUID.encode(), b"c6ef"), enriched().replace(b"2023", b"x")],
)
def test_a_file_that_is_not_like_the_layout_has_other_columns(tmp_path: Path, content: bytes) -> None:
    """One cell fewer, or a value of another kind."""
    (tmp_path / "a.tsv").write_bytes(content * 3)
    (part,) = opened_by(tmp_path / "a.tsv", FileRules(layouts=(SNOWPLOW,)))
    assert part.dialect.header[3] != "event_id"


def test_two_layouts_that_fit_are_not_guessed(tmp_path: Path) -> None:
    """The file counts as one without a header, as before; one with its header is read by it."""
    (tmp_path / "a.csv").write_bytes(b"2023-01-02 03:04:05,b\n2023-01-02 03:04:06,c\n")
    either = tuple(FileRules(columns=names) for names in (("at", "name"), ("time", "event")))
    (part,) = opened_by(tmp_path / "a.csv", FileRules(layouts=either))
    assert part.dialect.header == ("column_1", "column_2")
    (part,) = opened_by(tmp_path / "a.csv", FileRules(layouts=either[:1]))
    assert part.dialect.header == ("at", "name")
    (tmp_path / "a.csv").write_bytes(b"at,name\n2023-01-02 03:04:05,b\n")
    (part,) = opened_by(tmp_path / "a.csv", FileRules(columns=("at", "name")))
    assert rows_without_blanks(part) == [{"at": "2023-01-02 03:04:05", "name": "b"}]


EXPECTED = [
    {
        "hitid_high": "18446744073709551615", "hitid_low": "1", "pagename": 'Zürich "x"',
        "date_time": "2023-01-02 03:04:05",
    },
    {"hitid_high": "2", "hitid_low": "3", "pagename": "a\tb\nc\\d", "date_time": "2023-01-02 03:04:06"},
]  # fmt: skip


def tar(path: Path, **members: bytes) -> None:
    path.write_bytes(gzip.compress(tarred({f"./{name}.tsv": content for name, content in members.items()})))


@pytest.mark.parametrize("rules", [ADOBE, FileRules(layouts=(ADOBE, SNOWPLOW))])
@pytest.mark.parametrize("place", ["folder", "archive", "archive of lookups"])
def test_columns_come_from_a_neighbouring_file(tmp_path: Path, rules: FileRules, place: str) -> None:
    """In the folder, in the same archive, or in the archive of lookups; encoding and escapes are kept."""
    if place == "folder":
        (tmp_path / "column_headers.tsv").write_bytes(HEADERS)
        (tmp_path / "hit_data.tsv").write_bytes(HITS)
    elif place == "archive":
        tar(tmp_path / "rs_2023-01-02.tar.gz", hit_data=HITS, browser=b"1\tChrome\n2\tSafari\n", column_headers=HEADERS)
    else:
        (tmp_path / "01-rs_2023-01-02.hit_data.tsv").write_bytes(HITS)
        rules = FileRules(layouts=(ANY_HITS,)) if rules.layouts else ANY_HITS
        tar(tmp_path / "rs_2023-01-02-lookup_data.tar.gz", column_headers=HEADERS)
    parts = [part for part in opened_by(tmp_path, rules) if "hit_data" in part.path]
    assert [rows_without_blanks(part, size) for part in parts for size in (20, 1 << 22)] == [EXPECTED, EXPECTED]


def test_each_delivery_has_its_own_columns(tmp_path: Path) -> None:
    """Those of another day do not count, not even if their number is the same; an error names the missing file."""
    for day, headers in (("01", b"b\ta\n"), ("02", b"a\tb\n")):
        tar(tmp_path / f"rs_2023-01-{day}-lookup_data.tar.gz", column_headers=headers)
        (tmp_path / f"01-rs_2023-01-{day}.hit_data.tsv").write_bytes(b"1\t" + day.encode() + b"\n")
    parts = opened_by(tmp_path, ANY_HITS)
    rows = [rows_without_blanks(part) for part in parts if "hit_data" in part.path]
    assert rows == [[{"b": "1", "a": "01"}], [{"a": "1", "b": "02"}]]
    (tmp_path / "rs_2023-01-02-lookup_data.tar.gz").rename(tmp_path / "rs_2023-01-03-lookup_data.tar.gz")
    with pytest.raises(UnreadableExport, match=r"01-rs_2023-01-02\.hit_data\.tsv has no header, and column_headers"):
        opened_by(tmp_path, ANY_HITS)


def test_utf16_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Matomo's CSV: the names and the cells are decoded."""
    text = 'idVisit,actionDetails,stadt\n1,"a, b",Zürich\n2,,\n'
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))
    (part,) = opened_by(tmp_path / "a.csv", NO_RULES)
    first = {"idVisit": "1", "actionDetails": "a, b", "stadt": "Zürich"}
    assert rows_without_blanks(part, 10) == [first, {"idVisit": "2"}]


def test_a_mapping_with_columns_is_recognised_and_planned(tmp_path: Path) -> None:
    """From the file's columns to events, with the mapping's own section."""
    mapping = {
        "format": "backcast.mapping/1", "tool": "acme", "title": "Acme", "recognise": {"has": ["/collector_tstamp"]},
        "files": {
            "columns": list(ENRICHED), "like": {"event_id": "uuid"}, "delimiter": "\t", "quotes": "none",
            "skip": ["*bad*"],
        },
        "event": {"const": "seen"}, "distinct_id": ["/app_id"], "uuid": "/event_id",
        "time": [{"from": "/collector_tstamp", "space": "yes"}],
    }  # fmt: skip
    (tmp_path / "acme.yaml").write_text(json.dumps(mapping))
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "good.tsv").write_bytes(enriched("a"))
    (tmp_path / "export" / "bad.tsv").write_bytes(enriched("b") * 2)
    options = PlanOptions(mapping=str(tmp_path / "acme.yaml"), workers=0, as_of=1_767_225_600_000_000)
    plan = plan_export(str(tmp_path / "export"), tmp_path / "plan", options)
    assert (plan.rows.read, plan.rows.mapped) == (1, 1)
    assert [where for code, where, _ in plan.notices if code == "left_out_file"] == ["bad.tsv"]


NAMES_OF_COLUMNS = [
    "event", "user id", "at", "e-mail", "v1.0", "$set", "Discount %", "Betrag (€)", "Paid?", "Order No ", "Unit\nprice",
    "R&D*", "% of total", "Kunden-Nr.", "Amount, net", "Größe; m²",
]  # fmt: skip
TITLES = st.sampled_from(["Sales report 2023", "Generated, by hand", "", "a: b", '"quoted"'])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(TITLES, max_size=4), st.permutations(NAMES_OF_COLUMNS),
    st.integers(3, 6), st.sampled_from(",;\t|"), st.integers(1, 8), st.booleans(),
    st.sampled_from([1, 40, 1 << 22]),
)  # fmt: skip
def test_titles_above_the_header_are_not_rows(
    titles: list[str], names: list[str], width: int, delimiter: str, count: int, padded: bool, size: int
) -> None:
    """Whether or not they have all delimiters; the header is found, or given by its row, and the rows are the same."""
    header = names[:width]
    text, sheet = io.StringIO(), openpyxl.Workbook()
    writer = csv.writer(text, delimiter=delimiter)
    rows = [[f"v{row}"] * (width - 1) + [f"2023-01-0{row + 1}"] for row in range(count)]
    above = [[title, *[""] * (width - 1)] if padded else [title] for title in titles]
    for cells in (*above, header, *rows):
        writer.writerow(cells)
        sheet.active.append([cell or None for cell in cells])
    with TemporaryDirectory() as folder:
        sheet.save(Path(folder, "a.xlsx"))
        Path(folder, "a.csv").write_text(text.getvalue(), "utf-8")
        for name in ("a.csv", *["a.xlsx"] * (not padded)):
            for asked in ("", str(len(titles) + 1)):
                source = extractors.open_source([f"{folder}/{name}"], rules=FileRules(header=asked))
                found = [row for some in all_rows(source.parts[0], block_bytes=size) for row in some]
                assert found == [dict(zip(header, cells, strict=True)) for cells in rows], (name, asked)


def test_the_sheet_that_looks_like_a_table_is_read(tmp_path: Path) -> None:
    """Also if it is not the first, after notes in a column or two; the next commands keep the settings for the
    files."""
    book = openpyxl.Workbook()
    book.active.append(["About this export"])
    for cells in (["Prepared by", "Finance"], ["Field", "Type", "Meaning"]):
        book.create_sheet().append(cells)
        book.worksheets[-1].append(cells[::-1])
    table = book.create_sheet("Events")
    for cells in (["Report"], ["event", "user", "at"], ["Seen", "u-1", "2023-01-02T00:00:00Z"]):
        table.append(cells)
    book.save(tmp_path / "a.xlsx")
    assert extractors.open_source([str(tmp_path / "a.xlsx")]).parts[0].dialect.sheet == "Events"
    asked = ("--set", "header=2", "--set", "sheet=Events")
    printed = in_process("survey", tmp_path / "a.xlsx", *asked)
    assert f"mapping new {tmp_path}/a.xlsx --set header=2 --set sheet=Events --ask" in printed.stdout
    printed = in_process("mapping", "new", tmp_path / "a.xlsx", *asked, "-o", tmp_path / "a.yaml")
    assert f"-m {tmp_path}/a.yaml --set header=2 --set sheet=Events -o plan" in printed.stderr
    assert "other_sheets: a.xlsx: read only the sheet 'Events', not 'Sheet'" in printed.stderr
    for wrong in ("header=0", "header=first", "event=name"):
        assert in_process("mapping", "new", tmp_path / "a.xlsx", "--set", wrong).returncode == 2


@pytest.mark.parametrize("above", [[["Activity"]], [["Activity"], []]])
@pytest.mark.parametrize("every", [2, 3, 10])
def test_a_last_column_that_is_mostly_blank_hides_no_header(tmp_path: Path, above: list[list[str]], every: int) -> None:
    """A title above it is not read as the only column, and notes with a date are not read as the table."""
    book = openpyxl.Workbook()
    for cells in (["Prepared by", "Finance"], ["On", "2023-02-01"]):
        book.active.append(cells)
    table = book.create_sheet("Activity")
    rows = [[f"c-{row % 7}", "Seen", "2023-01-02", *["late"] * (row % every == 0)] for row in range(50)]
    for cells in (*above, ["customer", "action", "at", "remark"], *rows):
        table.append(cells)
    book.save(tmp_path / "a.xlsx")
    ragged = "".join(f"{','.join(cells)}\n" for cells in (*above, ["customer", "action", "at", "remark"], *rows))
    (tmp_path / "a.csv").write_text(ragged, "utf-8")
    for name in ("a.xlsx", "a.csv"):
        (part,) = extractors.open_source([str(tmp_path / name)]).parts
        assert (part.dialect.header, part.dialect.header_row) == (
            ("customer", "action", "at", "remark"), len(above) + 1,
        )  # fmt: skip
    (part,) = extractors.open_source([str(tmp_path / "a.xlsx")]).parts
    assert rows_of(part)[1] == dict(zip(("customer", "action", "at"), rows[1], strict=False))


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_a_named_header_may_be_far_down_and_must_be_there(tmp_path: Path, kind: str) -> None:
    """Below any number of notes; without such a row the error names it."""
    rows = [*([f"note {number}", "x"] for number in range(80)), ["user", "event"], ["u-1", "Signup"]]
    path = tmp_path / f"table.{kind}"
    if kind == "csv":
        path.write_text("".join(f"{','.join(row)}\n" for row in rows), "utf-8")
    else:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save(path)
    (part,) = extractors.open_source([str(path)], rules=FileRules(header="81")).parts
    assert (part.dialect.header, rows_of(part)) == (("user", "event"), [{"user": "u-1", "event": "Signup"}])
    with pytest.raises(UnreadableExport, match="has no row 83 with column names"):
        extractors.open_source([str(path)], rules=FileRules(header="83"))


@pytest.mark.parametrize("title", ["Report 2024", "Bericht für März", ""])
def test_a_header_below_a_title_shows_the_encoding(tmp_path: Path, title: str) -> None:
    """Also if the rows have no accent."""
    rows = "".join(f"{row};K{row % 5};2024-03-0{row + 1}\n" for row in range(9))
    (tmp_path / "a.csv").write_bytes(f"{title}\nNr.;Größe;Datum\n{rows}".encode("cp1252"))
    (part,) = extractors.open_source([str(tmp_path / "a.csv")]).parts
    assert (part.dialect.encoding, part.dialect.header) == ("cp1252", ("Nr.", "Größe", "Datum"))
