"""`mapping new` writes a start for any export: with at most three decisions it plans the right events."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.extractors import open_source
from pipeline.mapper.compiler import compile_mapping
from pipeline.mapper.inspection.cases import describe, run_cases
from pipeline.mapper.language import sections as language
from pipeline.mapper.language.loader import parse
from pipeline.models import SealedOptions
from pipeline.survey.columns import columns_of
from pipeline.survey.draft import Draft, draft_mapping
from pipeline.survey.recognition import MOST_KEYS, SAMPLE_ROWS
from pipeline.survey.roles.ids import keys_in
from pipeline.survey.tables import largest_table, records_of, table_name, unique_columns
from tests.support.export_shapes import SHAPES, R, Shape, T, U, iso, lines

AS_OF = 4_102_444_800_000_000


def written(folder: Path, shape: Shape) -> Path:
    path = folder / shape.file
    path.write_text(shape.text, "utf-8")
    return path


def log(folder: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """A file of these rows, in the place of the one before."""
    path = folder / "log.jsonl"
    path.write_text(lines(rows), "utf-8")
    return path


def drafted(*paths: Path, answers: Mapping[str, str] | None = None) -> Draft:
    """The draft of an export, whether or not a shipped mapping recognises it."""
    found = largest_table(open_source([str(path) for path in paths]))
    assert found is not None
    names = [column.steps[0] for column in keys_in(columns_of(found.records).values())][:MOST_KEYS]
    return draft_mapping(found, unique_columns(found.parts, names, SAMPLE_ROWS), answers)


def checked(draft: Draft) -> language.Mapping:
    """The mapping of a draft: it loads, and each of its cases passes."""
    mapping = parse(draft.text, "draft")
    assert [outcome.differences for outcome in run_cases(mapping) if not outcome.passed] == []
    assert mapping.cases
    return mapping


def with_any_choice(path: Path) -> None:
    """The draft of an export loads and its cases pass, also with the last option of each choice."""
    draft = drafted(path)
    checked(draft)
    checked(drafted(path, answers={choice.name: choice.options[-1].text for choice in draft.choices}))


def events_of(draft: Draft, path: Path) -> list[dict[str, Any]]:
    """What a draft gives for each row."""
    mapper = compile_mapping(parse(draft.text, "draft"), SealedOptions(as_of=AS_OF))
    found = []
    for part in open_source([str(path)]).parts:
        for record, _ in records_of(part):
            outcome = mapper.map_row({name: value for name, value in record.items() if value != ""})
            assert not isinstance(outcome, list)
            found.append(describe(outcome))
    return found


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


def test_amounts_are_numbers_when_they_can_be(tmp_path: Path) -> None:
    """Whole cents stay what they are until somebody decides; then the unit is exact, beside the old column. Those with
    a decimal comma have their digits; where one value is something else, all stay texts."""
    path = written(tmp_path, SHAPES["orders"])
    properties = [
        json.loads(events_of(drafted(path, answers=answers), path)[0]["properties"])
        for answers in ({}, {"amounts": "divide"})
    ]
    assert [one.get("total") for one in properties] == [None, 12.5]
    assert [one["total_cents"] for one in properties] == ["1250", "1250"]
    rows = [f"Kauf;K{n};2023-01-0{n}T03:04:05Z;{n}.234,5{n};{n},5" for n in range(1, 8)]
    path.write_text("\n".join(["Vorgang;Kundennr;Datum;Betrag;Version", *rows]) + "\n")
    found = json.loads(events_of(drafted(path), path)[0]["properties"])
    assert (found["Betrag"], found["Version"]) == (1234.51, "1,5")


def test_nothing_of_a_row_is_lost_beside_opened_properties(tmp_path: Path) -> None:
    """Columns that a section refers to are set again, under the names of other columns; a list of keys and values is
    opened, numbers as numbers."""
    row = {
        "event": "A", "time": "2023-01-02T03:04:05Z", "user": {"user_id": "u-1", "plan": "pro"}, "device_id": "d-1",
        "page_url": "https://a.example/", "extra": 1, "properties": {"x": 1},
    }  # fmt: skip
    path = log(tmp_path, [row, {**row, "user": {"plan": "free"}}])
    assert json.loads(events_of(drafted(path), path)[0]["properties"]) == {
        "x": 1, "$current_url": "https://a.example/", "log_device_id": "d-1", "log_user": row["user"], "log_extra": 1,
    }  # fmt: skip
    path = written(tmp_path, SHAPES["ga4"])
    properties = json.loads(events_of(drafted(path), path)[0]["properties"])
    assert (properties["page_location"], properties["ga_session_id"]) == ("https://a.example/", 1_672_628_000)


def test_ids_of_two_kinds_are_a_pair_only_where_they_show_one_person(tmp_path: Path) -> None:
    """A device with one user joins; a device with many is asked for, as is a user with most of all devices, and joins
    nothing until a person says so."""
    rows = [{"event": "A", "time": T + row, "user_id": f"u-{row}", "device_id": f"d-{row}"} for row in R]
    assert checked(drafted(log(tmp_path, rows))).pair is not None
    shared = drafted(log(tmp_path, ({**row, "user_id": "admin"} for row in rows)))
    assert checked(shared).pair is None
    assert "'admin' alone has" in {choice.name: choice for choice in shared.choices}["pair"].options[0].evidence
    path = log(tmp_path, ({**row, "device_id": "d-1"} for row in rows))
    shared = drafted(path)
    assert (checked(shared).pair, [choice.name for choice in shared.choices]) == (None, ["pair"])
    rule = shared.choices[0].options[1].text
    assert checked(drafted(path, answers={"pair": rule})).pair is not None


def test_an_id_of_a_third_of_the_rows_is_asked_for(tmp_path: Path) -> None:
    """What looks like a placeholder is passed over until a person says that it is an id."""
    users = [f"u-{row}" if row % 2 else "nobody" for row in range(60)]
    path = log(tmp_path, ({"event": "A", "time": T + row, "user_id": user} for row, user in enumerate(users)))
    draft = drafted(path)
    assert [choice.name for choice in draft.choices] == ["placeholders"]
    assert checked(draft).distinct_id.junk == ("nobody",)
    assert checked(drafted(path, answers={"placeholders": "[]"})).distinct_id.junk == ()
    numbers = (1_000.0 + row if row % 2 else 777.0 for row in range(60))
    path = log(tmp_path, ({"event": "A", "time": T + row, "user_id": user} for row, user in enumerate(numbers)))
    draft = checked(drafted(path))
    assert (draft.files.integers, draft.distinct_id.junk) == (("user_id",), ("777",))  # as the id is read


def test_a_column_that_stands_in_for_ids_is_an_option(tmp_path: Path) -> None:
    """Placeholders count as missing; what such rows have instead is proposed, and chosen by a person."""
    rows = [
        {"msec": f"{T + row}.5", "cookie_uid": f"c-{row % 20}" if row % 3 else "-", "remote_addr": f"192.0.2.{row % 9}"}
        for row in range(60)
    ]
    path = log(tmp_path, rows)
    draft = drafted(path)
    choice = next(choice for choice in draft.choices if choice.name == "distinct_id")
    assert "20 of 60 rows have none of these ids" in choice.question
    assert [one.text for one in choice.options] == ["[/cookie_uid]", "[/cookie_uid, /remote_addr]"]
    decided = drafted(path, answers={"event": "{const: $pageview}", "distinct_id": choice.options[1].text})
    people = [one["distinct_id"] for one in events_of(decided, path)]
    assert people == [row["cookie_uid"] if row["cookie_uid"] != "-" else row["remote_addr"] for row in rows]


def test_few_rows_without_a_name_or_an_id_are_counted(tmp_path: Path) -> None:
    """As a share of all rows they would be 0 %."""
    rows = [{"event": "A" if row else None, "time": T + row, "user_id": f"u-{row}"} for row in range(301)]
    (choice,) = drafted(log(tmp_path, [*rows, {"event": "A", "time": T}])).choices[1:]
    assert choice.question.startswith("1 of 302 rows has none of these ids and would be rejected.")
    assert choice.options[0].evidence.startswith("1 blank, 301 different values in 301 rows")
    (choice,) = drafted(log(tmp_path, rows)).choices
    assert choice.question.startswith("1 of 301 rows has no event. Name what")


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


@pytest.mark.parametrize("members", [{"has_more": False, "url": "/v1/charges"}, {"shop": "a.example"}])
def test_pages_on_one_line_are_opened(call: Any, tmp_path: Path, members: dict[str, Any]) -> None:
    """The rows are the items of the list; what else a page has is asked for, unless it says which page it is."""
    path, mine = tmp_path / "charges.json", tmp_path / "mine.yaml"
    page = {"charges": [{"event": "Charge", "customer": U[row], "created": T + row} for row in R], **members}
    path.write_text(json.dumps(page))
    seen = " ".join(call("survey", path).out.split())
    assert ("add --set rows=charges" if "shop" in members else "whose rows are the items of 'charges'") in seen
    printed = call("mapping", "new", path, "-o", mine)
    assert ("shop" in members) == ("rows: each row is a page whose list charges has the rows" in printed.err)
    assert parse(mine.read_text("utf-8"), "mine").files.rows == "charges"
    assert "6 events to send, from 6 of 6 rows" in call("plan", path, "-m", mine, "-o", tmp_path / "plan").out


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


def test_of_several_tables_the_largest_is_drafted_and_the_others_are_named(tmp_path: Path) -> None:
    """Files with the same columns are one table, called by their folder where the files have numbers."""
    for table_, columns, rows in (("users", "user_id,joined", 2), ("pageviews", "user_id,time,path,title", 9)):
        for number in range(2):
            path = tmp_path / "sync_1" / table_ / f"part-0000{number}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            values = ",".join([f"u-{number}", "2023-01-02T03:04:05Z", "/p", "P"][: columns.count(",") + 1])
            path.write_text("\n".join([columns, *[values] * rows]) + "\n")
    draft = drafted(tmp_path)
    assert checked(draft).tool == "pageviews"
    assert "users (2 files)" in checked(draft).open["tables"]
    assert checked(draft).event.arguments.get("const") == "$pageview"


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


def test_without_a_terminal_nothing_is_asked(call: Any, tmp_path: Path) -> None:
    """The error names what to do instead, and no file is written."""
    printed = call("mapping", "new", written(tmp_path, SHAPES["sensor"]), "-o", tmp_path / "mine.yaml", "--ask")
    assert printed.code == 2
    assert "--ask asks questions in a terminal" in printed.two_lines[0]
    assert not (tmp_path / "mine.yaml").exists()


def test_a_table_is_called_by_its_file_or_folder() -> None:
    """Without endings, dates and numbers."""
    for path, name in (
        ("orders.csv", "orders"), ("orders_2023-05-01.csv.gz", "orders"), ("events_20230101.json", "events"),
        ("sync_12/users/part-00001-5f2b8f0e.avro", "users"), ("all.zip!pages/1.json.gz", "pages"),
        ("2023-01-02.csv", ""), ("日本.csv", "日本"),
    ):  # fmt: skip
        assert table_name([path]) == name


@pytest.mark.parametrize("name", ["sold_on", "created_at"])
def test_some_times_that_cannot_be_read_leave_the_column_the_time(tmp_path: Path, name: str) -> None:
    """In two of three rows there is one: no column that does not exist is proposed."""
    times = ["2023-05-01T09:00:00Z", "2023-05-01T10:00:00Z", "soon"]
    path = log(tmp_path, ({"event": "A", "user_id": "u", name: time} for time in times))
    assert f"from: /{name}" in drafted(path).text


def test_without_any_time_the_draft_names_no_column_and_lists_them_all(tmp_path: Path) -> None:
    """The choice has each column with its evidence; a fixed time may be named."""
    path = tmp_path / "people.csv"
    path.write_text("who,colour\nu-1,red\nu-2,blue\n")
    draft = drafted(path)
    (choice,) = [one for one in draft.choices if one.name == "time"]
    assert [one.text for one in choice.options] == ["{const: ''}", "/who", "/colour"]
    assert choice.question.startswith("none of the 2 columns has times, and each event needs one.")
    assert choice.options[2].evidence.startswith("no time; never blank, 2 different values in 2 rows")
    assert "/time" not in draft.text
    fixed = drafted(path, answers={"time": "{const: 2024-01-31T00:00:00Z}", "event": "{const: A}"})
    assert [one["timestamp"] for one in events_of(fixed, path)] == ["2024-01-31T00:00:00Z"] * 2


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


def test_pages_are_opened_for_a_mapping_that_recognises_nothing(call: Any, tmp_path: Path) -> None:
    """Only where it reads what each event needs in the items, and nothing in the pages themselves."""
    items = [{"name": "A", "who": f"u-{n}", "at": f"2023-01-02T03:04:0{n}Z"} for n in range(3)]
    page = {"project": "lumen", "rows_of_it": items, "next": "abc"}
    path, mine = tmp_path / "pages.json", tmp_path / "mine.yaml"
    path.write_text(lines([page, {**page, "next": "abd"}]))
    mapping = "format: backcast.mapping/1\ntool: mine\ntitle: Mine\n"
    mapping += "event: /name\ndistinct_id: [/who]\ntime:\n  - {from: /at}\n"
    for more, rows in (("", 6), ("properties:\n  set:\n    project: /project\n", 2)):
        mine.write_text(mapping + more)
        plan = call("plan", path, "-m", mine, "-o", tmp_path / f"plan{rows}", "--json", "--workers", "0")
        assert plan.json["rows"]["read"] == rows
    words = [word for name, column in (("event", "name"), ("distinct_id", "who"), ("timestamp", "at"))
             for word in ("--set", f"{name}={column}")]  # fmt: skip
    plan = call("plan", path, "-m", "generic", *words, "-o", tmp_path / "generic", "--json", "--workers", "0")
    assert (plan.code, plan.json["rows"]["mapped"]) == (0, 6)


def test_the_time_of_a_broker_is_not_that_of_the_event(call: Any, tmp_path: Path) -> None:
    """Kafka's own timestamp is when it took the record, which has a time of its own; without one it is the event's."""
    record = {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1_700_000_009_000}
    texts = []
    for inside in ({"event": "Open", "user_id": "u", "ts": 1_700_000_000}, {"event": "Open"}):
        rows = [{**record, "offset": at, "value": json.dumps({**inside, "user_id": f"u-{at % 3}"})} for at in range(30)]
        call("mapping", "new", log(tmp_path, rows), "-o", tmp_path / f"{len(texts)}.yaml")
        texts.append((tmp_path / f"{len(texts)}.yaml").read_text())
    assert "time:\n  - {from: ts, unit: s}\n" in texts[0] or "time:\n  - {from: /value/ts, unit: s}\n" in texts[0]
    assert "received:\n  - {from: /timestamp, unit: ms}\n" in texts[0]
    assert "{from: /timestamp, unit: ms}" in texts[1]
