"""`mapping new` writes a start for any export: with at most three decisions it plans the right events."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.extractors import open_source
from pipeline.mapper.language.loader import parse
from pipeline.survey.draft import Choice, custom_answer
from pipeline.survey.draft.decisions import Option
from pipeline.survey.tables import largest_table
from tests.support.drafts import checked, drafted, events_of, log, written
from tests.support.export_shapes import SHAPES, R, T, iso, lines


def with_any_choice(path: Path) -> None:
    """The draft of an export loads and its cases pass, also with the last option of each choice."""
    draft = drafted(path)
    checked(draft)
    checked(drafted(path, answers={choice.name: choice.options[-1].text for choice in draft.choices}))


@pytest.mark.parametrize("name", SHAPES)
def test_an_export_of_any_shape_has_a_start(call: Any, tmp_path: Path, name: str) -> None:
    """The draft lists what it does not know; with these decisions its plan has the right events, people and times."""
    shape = SHAPES[name]
    path = written(tmp_path, shape)
    draft = drafted(path)
    assert [choice.name for choice in draft.choices] == list(shape.open)
    assert set(checked(draft).open) >= set(shape.open)
    edits = [choice for choice in draft.choices if shape.answers[choice.name] != choice.options[0].text]
    assert len(edits) <= 3
    decided = drafted(path, answers=shape.answers)
    assert (decided.choices, checked(decided).open) == ((), {})
    events = events_of(decided, path)
    assert [one["event"] for one in events] == list(shape.events)
    assert [one["distinct_id"] for one in events] == list(shape.people)
    times = [one["timestamp"].partition(".")[0].rstrip("Z") for one in events]
    assert times == [iso(row, "%Y-%m-%dT%H:%M:%S") for row in R]
    mine = tmp_path / "mine.yaml"
    mine.write_text(decided.text, "utf-8")
    assert call("plan", path, "-m", mine, "-o", tmp_path / "plan", "--workers", "0").code == 0


def test_rows_without_the_column_that_a_person_chose_are_asked_about(tmp_path: Path) -> None:
    """As those without a known column of names; the answer is the name of these rows alone."""
    rows = [{"what": "Seen" if row % 15 else None, "time": T + row, "user_id": f"u-{row}"} for row in range(60)]
    path = log(tmp_path, rows)
    assert [choice.name for choice in drafted(path).choices] == ["event"]
    (choice,) = drafted(path, answers={"event": "/what"}).choices
    assert (choice.name, choice.question[:25]) == ("event_without_name", "4 of 60 rows have no what")
    draft = drafted(path, answers={"event": "/what", "event_without_name": "{const: Other}"})
    assert (checked(draft).open, draft.choices) == ({}, ())
    assert [one["event"] for one in events_of(draft, path)[:3]] == ["Other", "Seen", "Seen"]


def test_yes_and_no_are_no_names_of_events(tmp_path: Path) -> None:
    """Nor is a kind that all rows have; a name of their own goes before the kind that some events share."""
    rows = [{"event": "true" if row % 2 else "false", "type": "row", "time": T, "user_id": "u"} for row in range(40)]
    assert [choice.name for choice in drafted(log(tmp_path, rows)).choices] == ["event"]
    kinds = [{"eventType": "click"}, {"eventType": "custom", "eventCustomName": "Paid"}] * 20
    path = log(tmp_path, ({**row, "event": None, **kind} for row, kind in zip(rows, kinds, strict=True)))
    draft = drafted(path)
    assert (draft.choices, [one["event"] for one in events_of(draft, path)[:2]]) == ((), ["click", "Paid"])


def test_an_export_without_a_row_has_no_start(call: Any, tmp_path: Path) -> None:
    """A header is no row, and the error says what is missing."""
    path = tmp_path / "log.csv"
    path.write_text("user_id,event,time\n")
    assert "the export has no rows" in call("mapping", "new", path).two_lines[0]
    path.write_text("{broken\n")
    assert "no row of the export can be read" in call("mapping", "new", path).two_lines[0]


def test_rows_of_different_events_are_the_cases(call: Any, tmp_path: Path) -> None:
    """Three rows of the export, each of another event, however rare it is. A person's own long list makes no page."""
    row = {"time": T, "user_id": "u", "items": [{"sku": "x" * 50}] * 5}
    path = log(tmp_path, ({"event": name, **row, "n": n} for n, name in enumerate(["A"] * 50 + ["B", "C"])))
    assert [case.gives[0]["event"] for case in checked(drafted(path)).cases] == ["A", "B", "C"]
    assert call("mapping", "new", path, "-o", tmp_path / "mine.yaml").code == 0
    assert parse((tmp_path / "mine.yaml").read_text("utf-8"), "mine").files.rows == ""


def test_a_row_that_is_not_sent_leaves_the_draft_unfinished(call: Any, tmp_path: Path) -> None:
    """It is a case with its reject, never a draft that passes."""
    mine = tmp_path / "mine.yaml"
    path = log(tmp_path, [{"event": "A", "time": T, "user_id": "u"}, {"event": "B", "time": T}])
    printed = call("mapping", "new", path, "-o", mine)
    assert printed.code == 0
    assert f"{mine} is unfinished, 2 open choices:" in printed.err
    assert "cases: row 2 of the cases is not sent (missing_distinct_id)" in printed.err
    assert (call("mapping", "check", mine).code, call("mapping", "test", mine).code) == (7, 7)


@pytest.mark.parametrize(
    "text",
    [
        '{"a/b": "x", "a~b": "u-1", "a.b": 1, " ": 2, "": 3, "日本 😀": 4, "\u0085\u2028": "\u2029\ufeff"}\n',
        '{"event": "A", "user_id": "u", "time": 1672628645, "@x": 1, "/y": 2, "$set": {"a": 1}, "#": "- x"}\n',
        '{"properties": {"event": "A", "/x": 1, "@y": 2, "time": 1672628645, "user_id": "u"}}\n',
        '{"a": null, "b": "", "c": []}\n{"a": null, "b": " ", "c": {}}\n',
        "{}\n{}\n",
        "a,b,c\n,,\n,,\n",
        "a;a;a\n1;2;3\n",
        lines([{f"column {number}": number for number in range(300)}]),
        lines([{"event": "x" * 30_000, "time": T, "user_id": "u"}]),
        '{"event": "it\'s\\n: #", "user_id": "- a", "time": "2023-01-02T03:04:05Z"}\n',
    ],
)
def test_odd_exports_have_a_start_too(tmp_path: Path, text: str) -> None:
    """Whatever columns are called, and whether or not they have values, the draft loads and its cases pass."""
    path = tmp_path / ("rows.csv" if text[0] == "a" else "rows.jsonl")
    path.write_text(text, "utf-8")
    with_any_choice(path)


SPELLED = ["2023-01-02", "1/2/2023 3:04 PM", "null", "https://a.example/", "203.0.113.7", '{"a":1}', "[1]", "u-1"]
VALUES = st.one_of(
    st.none(),
    st.text(max_size=6),
    st.integers(-5, 2_000_000_000_000),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(SPELLED),
    st.lists(st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.integers()}), max_size=2),
    st.dictionaries(st.text(max_size=4), st.text(max_size=3), max_size=3),
)
KNOWN = ["event", "type", "user_id", "device_id", "time", "date", "id", "properties", "params", "price_cents"]
NAMES = st.one_of(st.text(max_size=5), st.sampled_from(KNOWN))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=6), min_size=1, max_size=6))
def test_any_rows_have_a_start(rows: list[dict[str, Any]]) -> None:
    """For any rows that can be read, the draft loads and its cases pass, also with the last option of each choice."""
    with TemporaryDirectory() as folder:
        path = log(Path(folder), rows)
        if largest_table(open_source([str(path)])) is not None:
            with_any_choice(path)


def asked(path: Path, mine: Path, answers: str) -> str:
    """What `mapping new --ask` prints on a terminal where a person types these lines."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pipeline", "mapping", "new", str(path), "-o", str(mine), "--ask"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.close(theirs)
        os.write(ours, answers.encode())
        _, errors = process.communicate(timeout=60)
        os.close(ours)
    assert process.returncode == 0
    return errors


def test_open_choices_are_asked_on_a_terminal(tmp_path: Path) -> None:
    """A number chooses an option, a column's name the column, and =TEXT a fixed text; what is answered is not open."""
    path, mine = written(tmp_path, SHAPES["sensor"]), tmp_path / "mine.yaml"
    printed = asked(path, mine, "7\n=Measured\nserial\n")
    assert "is not a number of the list or the name of a column" in printed
    assert "Wrote" in printed
    mapping = parse(mine.read_text("utf-8"), "mine")
    assert (mapping.open, mapping.event.arguments["const"]) == ({}, "Measured")
    assert mapping.distinct_id.first[0].arguments["ref"] == "/serial"


def test_several_columns_answer_for_an_id() -> None:
    """Separated by commas, or in the notation of an option; each of them has to be a column."""
    choice = Choice("distinct_id", "which?", (Option("[/a]", ""),), "column")
    columns = {"a": "/a", "b c": '"/b c"'}
    answers = ("a, b c", '[/a, "/b c"]', "b c", "a, d")
    assert [custom_answer(choice, one, columns) for one in answers] == ['[/a, "/b c"]'] * 2 + ['"/b c"', ""]


def test_the_tool_of_rows_without_a_name_may_be_named(tmp_path: Path) -> None:
    """A new name is taken, not that of a shipped tool; an option's text chooses it in any case."""
    choice = Choice("tool", "which?", (Option("my_tool", ""),), "tool")
    names = {name: custom_answer(choice, name, {}) for name in ("crm_2", "mixpanel", "My CRM", "2crm", "=crm")}
    assert names == {"crm_2": "crm_2", "mixpanel": "", "My CRM": "", "2crm": "", "=crm": ""}
    folder, mine = tmp_path / "exports", tmp_path / "mine.yaml"
    folder.mkdir()
    path = written(folder, SHAPES["sensor"]).rename(folder / "data.jsonl")
    printed = asked(path, mine, "{CONST: Row}\n[/Serial]\nMixpanel\ncrm_2\n")
    assert "'Mixpanel' is not a number of the list or a new tool's name" in printed
    mapping = parse(mine.read_text("utf-8"), "mine")
    assert (mapping.open, mapping.tool, mapping.event.arguments["const"]) == ({}, "crm_2", "row")


def test_without_a_terminal_nothing_is_asked(call: Any, tmp_path: Path) -> None:
    """The error names what to do instead, and no file is written."""
    printed = call("mapping", "new", written(tmp_path, SHAPES["sensor"]), "-o", tmp_path / "mine.yaml", "--ask")
    assert printed.code == 2
    assert "--ask asks questions in a terminal" in printed.two_lines[0]
    assert not (tmp_path / "mine.yaml").exists()


def test_rows_of_the_cases_that_are_not_sent_can_be_accepted(tmp_path: Path) -> None:
    """The last question; until then, and where it stays open, the mapping is unfinished."""
    path = log(tmp_path, [{"event": "A", "user_id": "u", "time": "2023-01-02T03:04:05Z"}, {"event": "", "x": 1}])
    answers: dict[str, str] = {}
    while choices := drafted(path, answers=answers).choices:
        answers[choices[0].name] = choices[0].options[0].text
    assert list(answers)[-1] == "cases"
    left, accepted = drafted(path, answers=answers), drafted(path, answers={**answers, "cases": "not sent"})
    assert (left.choices, accepted.choices) == ((), ())
    assert list(parse(left.text, "left").open) == ["cases"]
    assert not parse(accepted.text, "accepted").open
