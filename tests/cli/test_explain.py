"""What `explain` says about a row, an event and a person follows from the plan and its ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Printed, generic, in_process

AT = "2022-03-04T05:06:{:02}Z"
DEVICE = "0d5e1f6a-93c4-4b1e-8a57-2f60c1d7e9b8"
COLUMNS = ["--set", "anonymous_id=device"]
HOSTILE = "<script>\x1b[31m\u202e"


def row(number: int, name: str = "Viewed", **own: Any) -> dict[str, Any]:
    return {
        "event": name, "distinct_id": f"user-{number % 4}", "timestamp": AT.format(number), "uuid": f"id-{number}",
        "plan": "gold", **own,
    }  # fmt: skip


ROWS = [
    row(0, note=HOSTILE),
    row(1, "Bought"),
    row(1, "Bought"),  # an exact copy of row 2
    row(2, "Bought", plan="lead"),
    {**row(2, "Bought"), "plan": "iron"},  # the same key as row 4, another content
    {**row(5), "timestamp": "yesterday", "secret": "hunter2"},  # rejected
    {**row(6), "timestamp": "2019-01-01T00:00:00Z"},  # outside --since
    {**row(7), "distinct_id": "", "device": DEVICE},
    {**row(8), "distinct_id": "ada", "device": DEVICE},
    row(9, "Poisoned"),
    row(10),
    row(10),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an export and its plan, which was rehearsed with a service that refuses one event."""
    folder = tmp_path_factory.mktemp("explain")
    (folder / "export" / "a:b").mkdir(parents=True)
    (folder / "export" / "a:b" / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in ROWS), "utf-8")
    (folder / "export" / "more.jsonl").write_text(
        "".join(json.dumps(row(at)) + "\n\n" for at in range(20, 25)), "utf-8"
    )
    options = [*generic(), *COLUMNS, "--since", "2020-01-01", "--max-rejects", "1", "--workers", "0"]
    done = in_process("plan", folder / "export", "-o", folder / "plan", *options)
    assert done.returncode == 0, done.stderr
    in_process("rehearse", folder / "plan", "--fault", "poison,event=Poisoned", "-q")
    return folder


@pytest.fixture
def explain(made: Path, call: Any) -> Any:
    def explained(asked: str, *options: str) -> Printed:
        said: Printed = call("explain", made / "plan", asked, *options)
        return said

    return explained


def test_a_row_that_is_sent(explain: Any, made: Path) -> None:
    """It shows the event as sent, its request with the state in the rehearsal, and its rules, since it is in the
    sample. Values and ids are masked."""
    found = explain("rows.jsonl:1", "--json").json
    (one,) = found["rows"]
    (event,) = one["events"]
    assert (found["format"], found["kind"], found["ledger"]) == ("backcast.explain/1", "row", "rehearse")
    assert (one["file"], one["outcome"], one["sampled"]) == ("a:b/rows.jsonl", "planned", True)
    assert (event["event"], event["code"], event["distinct_id"]) == ("Viewed", "", "•••")
    assert event["request"]["state"] == "accepted"
    assert {"field": "plan", "value": '"•••"', "to": ["plan"], "by": ""} in event["fields"]
    plan = next(prop for prop in event["properties"] if prop["name"] == "plan")
    assert (plan["value"], plan["fields"], plan["rule"]) == ('"•••"', ["plan"], "kept under its name")
    said = explain("rows.jsonl:1")
    assert "a:b/rows.jsonl, row 1 becomes 1 event." in said.out
    assert "accepted in the rehearsal" in said.out
    assert "sed -n 1p" not in said.out  # its fields are there
    shown = explain("rows.jsonl:1", "--show-values", "--show-ids")
    assert '"gold"' in shown.out
    assert "user-0" in shown.out
    assert "\x1b[31m" not in shown.out
    sent = explain("rows.jsonl:1", "--show-values", "--show-ids", "--json").json["rows"][0]["events"][0]["sent"]
    assert sent["properties"]["note"] == HOSTILE


def test_a_row_outside_the_sample_says_where_it_is(explain: Any, made: Path) -> None:
    said = explain("more.jsonl:2")
    assert "this one is not among them" in said.out
    assert f"cat {made / 'export' / 'more.jsonl'} | grep -a '[^[:space:]]' | sed -n 2p" in said.out
    assert "a:b/rows.jsonl:1" in said.out  # with the same event name


@pytest.mark.parametrize(("asked", "code", "sent"), [("rows.jsonl:3", "duplicate_event", 2), ("rows.jsonl:4", "", 4)])
def test_duplicates_name_each_other(explain: Any, asked: str, code: str, sent: int) -> None:
    rows = {at: explain(f"rows.jsonl:{at}", "--json").json["rows"][0] for at in (2, 3, 4, 5)}
    pair = (2, 3) if sent == 2 else (4, 5)
    kept, dropped = sorted(pair, key=lambda at: rows[at]["outcome"] == "left out")
    event = rows[dropped]["events"][0]
    assert (rows[kept]["outcome"], event["code"]) == ("planned", code or "superseded")
    assert event["copies"] == [{"file": "a:b/rows.jsonl", "row": kept, "uuid": event["uuid"], "code": ""}]
    assert [copy["row"] for copy in rows[kept]["events"][0]["copies"]] == [dropped]
    said = explain(f"rows.jsonl:{dropped}")
    assert f"Sent in its place: a:b/rows.jsonl, row {kept}" in said.out
    if code == "":
        assert "they differ in plan" in said.out


def test_a_rejected_row_has_its_code_and_text(explain: Any) -> None:
    said = explain("rows.jsonl:6")
    assert "row 6 is rejected" in said.out
    assert "bad_timestamp" in said.out
    assert "'yesterday'" in said.out
    assert "hunter2" not in said.out
    assert '"secret": "•••"' in said.out
    assert "hunter2" in explain("rows.jsonl:6", "--show-values", "--show-ids").out


def test_a_skipped_row_is_named_as_such(explain: Any) -> None:
    """All rows of this file without an event are skipped with one code, so the answer is certain."""
    (one,) = explain("rows.jsonl:7", "--json").json["rows"]
    assert (one["outcome"], list(one["codes"])) == ("skipped", ["outside_window"])
    assert "row 7 is skipped:" in explain("rows.jsonl:7").out


def test_a_merge_has_its_reason_row_and_request(explain: Any) -> None:
    found = explain("rows.jsonl:9", "--json").json
    (person,) = found["persons"]
    assert set(person["ids"]) == {"ada", DEVICE}
    (pair,) = person["pairs"]
    assert (pair["decision"], pair["reason"], pair["where"]) == ("merge", "same_row", "a:b/rows.jsonl:9")
    (merge,) = person["updates"]
    assert (merge["phase"], merge["line"], merge["request"]["state"]) == ("identities", 1, "accepted")
    said = explain("rows.jsonl:9")
    assert f"Person of 2 ids: ada, {DEVICE}" in said.out
    assert "both ids in one row" in said.out
    assert f"Merge: ada absorbs {DEVICE}" in said.out
    of_uuid = explain(merge["uuid"], "--json").json
    assert [one["uuid"] for one in of_uuid["updates"]] == [merge["uuid"]]
    assert explain(DEVICE, "--json").json["kind"] == "id"  # though it is a uuid


def test_a_refused_event_has_the_answer(explain: Any) -> None:
    (one,) = explain("rows.jsonl:10", "--json").json["rows"]
    request = one["events"][0]["request"]
    assert (request["state"], request["status"]) == ("refused", 400)
    by_uuid = explain(one["events"][0]["uuid"], "--json").json
    assert by_uuid["kind"] == "uuid"
    assert by_uuid["rows"] == [one]
    assert "refused in the rehearsal" in explain(one["events"][0]["uuid"].upper()).out


@pytest.mark.parametrize(("key", "file", "at"), [("id-0", "a:b/rows.jsonl", 1), ("id-2", "a:b/rows.jsonl", 5)])
def test_an_event_is_found_by_the_id_of_its_row(explain: Any, key: str, file: str, at: int) -> None:
    """Of several rows with this id, the one that is sent."""
    found = explain(key, "--json").json
    assert (found["kind"], [(one["file"], one["row"]) for one in found["rows"]]) == ("key", [(file, at)])


def test_a_person_has_all_events_by_state(explain: Any) -> None:
    found = explain("user-2", "--json").json
    (person,) = found["persons"]
    assert (found["kind"], person["ids"]) == ("id", ["user-2"])
    assert (person["events"], person["left_out"]) == ({"accepted": 3}, {"superseded": 1, "duplicate_event": 1}), person


@pytest.mark.parametrize(
    ("asked", "problem", "hint"),
    [
        ("nothing.jsonl:3", "no file 'nothing.jsonl'", "more.jsonl"),
        ("rows.jsonl:13", "has 12 rows, not a row 13", "1 to 12"),
        ("rows.jsonl:0", "not a row 0", "1 to 12"),
        ("jsonl:1", "no file 'jsonl'", "more.jsonl"),
        ("rows.jsonl", "is a file of the export", "rows.jsonl:1"),
        ("user-22", "no row, uuid or id 'user-22'", "user-2"),
        ("00000000-0000-4000-8000-000000000000", "no row, uuid or id", "FILE:ROW"),
        ("a'; DROP TABLE facts --", "no row, uuid or id", "FILE:ROW"),
        ("", "no row, uuid or id", "FILE:ROW"),
    ],
)
def test_what_is_unknown_is_an_error_with_what_is_near(explain: Any, asked: str, problem: str, hint: str) -> None:
    said = explain(asked)
    error, tried = said.two_lines
    assert said.code == 2
    assert (problem in error, hint in tried) == (True, True), said.err


@pytest.mark.parametrize(
    "asked", ["a:b/rows.jsonl:1", "a:b\\rows.jsonl:1", "{export}/a:b/rows.jsonl:1", "rows.jsonl:1"]
)
def test_a_file_may_be_named_by_the_end_of_its_path(explain: Any, made: Path, asked: str) -> None:
    found = explain(asked.format(export=made / "export"), "--json").json
    assert found["rows"][0]["file"] == "a:b/rows.jsonl"


def test_the_sample_is_a_page(made: Path, call: Any, tmp_path: Path) -> None:
    """The page shows each row of the sample with its outcome; text of an export is never markup. Another file is not
    replaced."""
    page = tmp_path / "rows.html"
    said = call("explain", made / "plan", "--report", page)
    assert said.code == 0
    assert str(page) in said.out
    text = page.read_text("utf-8")
    assert text.count("<caption>Row</caption>") == 3
    assert "accepted in the rehearsal" in text
    assert "refused in the rehearsal" in text
    assert "Copies that are left out: a:b/rows.jsonl, row 3" in text
    assert "gold" not in text
    assert "<script" not in text
    page.write_text("mine")
    assert call("explain", made / "plan", "--report", page).code == 2
    assert call("explain", made / "plan").code == call("explain", made / "plan", "x", "--report", page).code == 2


def test_more_pairs_show_other_days(tmp_path: Path, call: Any) -> None:
    """After 32 rows of names and years, the first rows of other days follow."""
    rows = [
        row(0, uuid=f"id-{day}") | {"timestamp": f"2022-{1 + day // 28:02}-{1 + day % 28:02}T00:00:00Z"}
        for day in range(60)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    counts = []
    for most in (32, 40, 400):
        options = [*generic(), "--workers", "0", "--pairs", most]
        assert call("plan", tmp_path / "a.jsonl", "-o", tmp_path / "plan", *options).code == 0
        counts.append(len((tmp_path / "plan" / "source-pairs.jsonl").read_text().splitlines()))
    assert counts == [1, 32, 60]


def test_a_discarded_plan_says_what_is_gone(made: Path, call: Any, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(made / "plan", tmp_path / "plan")
    assert call("discard", tmp_path / "plan", "--unsent", "--yes").code == 0
    said = call("explain", tmp_path / "plan", "rows.jsonl:1")
    assert said.code == 2
    assert "were discarded" in said.two_lines[0]
