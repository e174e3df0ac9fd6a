"""A delimited file without a header: found out, never read as if its first row were names."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from pipeline import extractors
from pipeline.extractors.file_rules import FileRules
from pipeline.models import BrokenRow, Part
from pipeline.plan.sealed.freshness import open_plan, transform_config_for

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
    "names that occur twice": "name,name,,name__2,name\n1,2,3,4,5\n",
    "a name that is a value too": "event,type,user\nevent,track,u-1\nevent,page,u-2\n",
    "some numbers": "user,event,time,2019,2020\nu-1,Signup,2023-01-02T03:04:05Z,1,2\n",
    "files put together": "user,event\nu-1,Signup\nuser,event\nu-2,Login\n",
    "names in braces": "{idfa||gps_adid},{created_at},[user_id]\nu-1,1672628645,7\n",
    "names with marks": "Revenue (USD),e-mail,@id,utc.time,v1.0,a/b,user id\n1,2,3,4,5,6,7\n",
}


def opened(path: Path, content: str, header: str = "") -> tuple[Part, list[str]]:
    """The part that some text is, and the codes of what was noticed."""
    path.write_text(content, "utf-8")
    source = extractors.open_source([str(path)], rules=FileRules(header=header))
    return source.parts[0], [note.code for note in source.notes]


def rows_of(part: Part, size: int = 1 << 22) -> list[Any]:
    """The rows of a part, for a size of block."""
    return [
        row for block in extractors.blocks(part, block_bytes=size) for row in extractors.rows(part, block, blanks=True)
    ]


@pytest.mark.parametrize("name", HEADLESS)
def test_a_first_row_of_values_is_a_row(tmp_path: Path, name: str) -> None:
    """A notice reports it, and its columns are called by their places; --set header=yes overrules it."""
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
    """Odd names, and names that stand in the rows too, are no values; with --set header=no the names are a row."""
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
    """The first row is in the first block, behind a byte order mark too, in a container or not."""
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(ROWS.encode()) if written == "gzip" else ROWS.encode(written))
    (part,) = extractors.open_source([str(path)]).parts
    rows = rows_of(part, size)
    assert [row["column_1"] for row in rows if not isinstance(row, BrokenRow)] == ["u-1", "u-2"]
    block = next(extractors.blocks(part))
    assert extractors.rows(part, block).offset(0) == (3 if written == "utf-8-sig" else 0)


def test_a_plan_stops_at_a_file_without_a_header(call: Any, tmp_path: Path) -> None:
    """Exit 3 names the file, the value and both settings; with header=no every row is planned, and read so again when
    the plan is applied."""
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    where = ("-m", "generic", "-o", tmp_path / "plan", "--workers", "0")
    printed = call("plan", path, *where, *NAMES)
    assert printed.code == 3
    assert printed.two_lines[0] == (
        "Error: rows.csv seems to have no header: column 3 of its first row, '2023-01-02T03:04:05Z', is a time"
    )
    assert "--set header=no" in printed.two_lines[1]
    assert "column_1" in printed.two_lines[1]
    assert "--set header=yes" in printed.two_lines[1]
    printed = call("plan", path, *where, *NAMES, "--set", "header=no", "--json")
    assert (printed.code, printed.json["rows"]["mapped"]) == (0, 2)
    (part,) = transform_config_for(*open_plan(tmp_path / "plan")).parts
    assert [row["column_2"] for row in rows_of(part)] == ["Signup", "Login"]


def test_a_survey_shows_the_same(call: Any, tmp_path: Path) -> None:
    """The finding is a notice of the survey, which looks at every row; --set header=yes is taken there too, and another
    word is an error of usage, not a guess."""
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    printed = call("survey", path, "--json")
    assert (printed.code, printed.json["rows"]) == (0, 2)
    (detail,) = [text for code, _, text in printed.json["notices"] if code == "no_header"]
    assert detail.endswith("is a time, so that row is read as a row, and the columns are called column_1 to column_3")
    assert call("survey", path, "--set", "header=yes", "--json").json["rows"] == 1
    assert call("survey", path, "--set", "event=x").code == 2
    for words in (("survey",), ("plan", "-m", "generic", "-o", tmp_path / "plan", *NAMES)):
        printed = call(*words, path, "--set", "header=maybe")
        assert (printed.code, printed.two_lines[0]) == (2, "Error: --set header=maybe is unknown")
