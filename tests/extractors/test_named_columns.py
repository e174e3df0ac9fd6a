"""Delimited files without a header whose columns come from a mapping, or from the operator with `--set columns`."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import extractors
from pipeline.errors import UnreadableExport, UsageError
from pipeline.extractors.file_rules import FileRules, rules_set
from tests.support.parts import all_rows

NAMES = ("user", "event", "at", "note")
_TEXT = st.text(st.sampled_from("ab é\"'7"), min_size=1, max_size=6).map(lambda text: f"x{text}x")
CELLS = st.lists(_TEXT, min_size=3, max_size=3)
SET = ["--set", "columns=user,event,at,note", "--set", "distinct_id=user", "--set", "event=event"]
SET += ["--set", "timestamp=at"]


@settings(max_examples=300, deadline=None)
@given(delimiter=st.sampled_from(",\t;|\x01"), table=st.lists(CELLS, min_size=1, max_size=8), by_mapping=st.booleans(),
       encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))  # fmt: skip
def test_named_columns_need_no_delimiter(
    tmp_path_factory: Any, delimiter: str, table: list[list[str]], by_mapping: bool, encoding: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "t.tsv"
    rows = [[*cells[:2], "2023-01-02T03:04:05Z", cells[2]] for cells in table]
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))
    rules = FileRules(columns=NAMES, like={"at": "time"}) if by_mapping else rules_set({"columns": ",".join(NAMES)})
    (part,) = extractors.open_source([str(path)], rules=rules).parts
    assert part.dialect.delimiter == delimiter
    read = [row for block in all_rows(part) for row in block]
    assert [[row[name] for name in NAMES] for row in read] == rows


def test_generic_takes_columns(call: Any, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("u-1\tSignup\t2023-01-02T03:04:05Z\t\\N\nu-2\tLogin\t2023-01-02T03:04:05Z\ta\\tb\n")
    printed = call("plan", tmp_path / "t.tsv", "-m", "generic", *SET, "-o", tmp_path / "plan", "--json")
    assert (printed.code, printed.json["rows"]["mapped"]) == (0, 2)


@pytest.mark.parametrize("content", ["u-1,Signup,2023-01-02T03:04:05Z\n", "who,what,when\nu,v,w\n"])
def test_a_table_with_other_columns_is_refused(call: Any, tmp_path: Path, content: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    printed = call("plan", tmp_path / "t.csv", "-m", "generic", *SET, "-o", tmp_path / "plan")
    assert printed.code == 3
    assert printed.two_lines[0] == "Error: t.csv does not have the 4 columns that --set columns names"


def test_a_file_that_begins_with_the_names_is_read_with_them(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,event\nu-1,Signup\n")
    (part,) = extractors.open_source([str(tmp_path)], rules=rules_set({"columns": "user,event"})).parts
    assert not part.dialect.headless
    with pytest.raises(UnreadableExport, match="does not have the 3 columns"):
        extractors.open_source([str(tmp_path)], rules=rules_set({"columns": "user,event,at"}))


@pytest.mark.parametrize("given", ["a", "a,,b", "a,a", ""])
def test_columns_are_two_or_more_each_once(given: str) -> None:
    with pytest.raises(UsageError, match="must name at least two columns"):
        rules_set({"columns": given})


def test_columns_are_of_delimited_files_without_a_header(call: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contradict"):
        rules_set({"columns": "a,b", "header": "no"})
    (tmp_path / "t.jsonl").write_text('{"user":"u","event":"E","at":"2023-01-02T03:04:05Z"}\n')
    printed = call("plan", tmp_path / "t.jsonl", "-m", "generic", *SET, "-o", tmp_path / "plan")
    assert printed.code == 2
    assert "the export has no delimited file" in printed.two_lines[0]


def test_an_escape_is_declared_where_no_cell_is_null(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("user\tnote\nu-1\ta\\tb\n")
    (part,) = extractors.open_source([str(tmp_path)], rules=rules_set({"escape": "\\"})).parts
    ((row,),) = all_rows(part)
    assert row == {"user": "u-1", "note": "a\tb"}


UNSURE = "user\tevent\tat\tnote\nu-1\tSignup\t2023-01-02T03:04:05Z\ta\\tb\nu-2\tLogin\t2023-01-02T03:04:05Z\tC:\\\\d\n"


def test_a_plan_stops_where_backslashes_may_be_escapes(call: Any, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text(UNSURE)
    words = ("plan", tmp_path / "t.tsv", "-m", "generic", *SET[2:], "-o", tmp_path / "plan", "--json")
    printed = call(*words)
    assert printed.code == 3
    assert "may be database escapes" in printed.two_lines[0]
    assert "--set escape='\\'" in printed.two_lines[1]
    for escape in ("\\", "none"):
        assert call(*words, "--set", f"escape={escape}").json["rows"]["mapped"] == 2


def test_a_draft_leaves_the_escape_open(call: Any, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text(UNSURE)
    printed = call("mapping", "new", tmp_path / "t.tsv", "-o", tmp_path / "draft.yaml")
    assert printed.code == 0, printed.err
    draft = (tmp_path / "draft.yaml").read_text()
    assert "files:\n  escape: none\n" in draft
    assert "\n  escape: " in draft


@pytest.mark.parametrize("note", ["C:\\new\\path", '{"a":"x\\ny"}', "plain", "a\\d"])
def test_backslashes_of_text_stop_nothing(tmp_path: Path, note: str) -> None:
    (tmp_path / "t.tsv").write_text(f"user\tnote\nu-1\t{note}\n")
    source = extractors.open_source([str(tmp_path)])
    extractors.refuse_unnamed(source)
    assert [row["note"] for rows in all_rows(source.parts[0]) for row in rows] == [note]


@pytest.mark.parametrize("delimiter", [",", "|", "\t"])
def test_escaped_delimiters_and_line_ends_show_the_escape(tmp_path: Path, delimiter: str) -> None:
    """UNLOAD with ESCAPE, and INTO OUTFILE, without a null."""
    names, row = delimiter.join(["user", "note", "more"]), delimiter.join(["u-1", f"a\\{delimiter}b", "c\\\nd"])
    (tmp_path / "t.txt").write_text(f"{names}\n{row}\n{row}\n")
    (part,) = extractors.open_source([str(tmp_path)]).parts
    read = [row for rows in all_rows(part) for row in rows]
    assert read == [{"user": "u-1", "note": f"a{delimiter}b", "more": "c\nd"}] * 2
