"""Files of unexpected kinds: a plan reads them, or its refusal says what they are and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.errors import UnreadableExport, UsageError
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan
from tests.support.services import NOW

COLUMNS = {"event": "event", "distinct_id": "user", "timestamp": "at"}
TIMES = ["2023-01-01T00:00:00Z", "2023-01-01T00:00:01Z"]
ROWS = [{"event": "Seen", "user": f"u{number}", "at": time} for number, time in enumerate(TIMES, 1)]
MIXPANEL = {"event": "Seen", "properties": {"time": 1672531200, "distinct_id": "u1", "$insert_id": "i"}}
SHOP = """{format: backcast.mapping/1, tool: shop, title: A shop, event: /event,
distinct_id: {first: [/user], allow: ["0"]}, time: {from: /at}, pair: {user: /user, anonymous: /device},
properties: {rest: keep, drop: [event, user, at, device]}}"""


def planned(folder: Path, name: str, content: str, **asked: Any) -> Plan:
    (folder / name).write_text(content, encoding="utf-8")
    given: dict[str, Any] = {"mapping": "generic", "settings": COLUMNS, "workers": 0, "as_of": NOW} | asked
    return pipeline.plan_export(folder / name, folder / "plan", PlanOptions(**given))


def details(plan: Plan) -> dict[str, str]:
    return {gate.name: gate.detail for gate in plan.gates}


@pytest.mark.parametrize("indent", [None, 2])
def test_json_by_columns_is_read_by_rows(tmp_path: Path, indent: int | None) -> None:
    """The format of `DataFrame.to_json` of pandas, also if values are over several lines."""
    columns = {name: {str(number): row[name] for number, row in enumerate(ROWS)} for name in ROWS[0]}
    columns["bag"] = {"0": {"n": [1, {"é": "a b"}]}, "1": []}  # type: ignore[assignment]
    plan = planned(tmp_path, "frame.json", json.dumps(columns, indent=indent))
    assert (plan.ready, plan.events.made, plan.rows.read) == (True, 2, 2)
    assert [code for code, *_ in plan.notices] == ["columns"]
    del columns["at"]["1"]
    with pytest.raises(UnreadableExport, match="the column 'at' has different rows") as refused:
        planned(tmp_path, "frame.json", json.dumps(columns | {"text": {"0": "x" * 5_000_000, "1": "y"}}))
    assert "orient='records', lines=True" in refused.value.hint


def test_a_row_that_has_numbered_members_stays_a_row(tmp_path: Path) -> None:
    """In JSON lines, by itself or not."""
    rows = [{"of": {"0": 1, "1": 2}} | row for row in ROWS]
    for some in (rows[:1], rows):
        assert planned(tmp_path, "rows.jsonl", "\n".join(map(json.dumps, some))).rows.read == len(some)


def test_an_export_that_the_tool_ended_is_not_ready_whatever_may_be_rejected(tmp_path: Path) -> None:
    """Mixpanel writes it in a last line (docs/know/exports.md#mixpanel)."""
    asked = {"mapping": "mixpanel", "settings": {}, "max_rejects": "100%"}
    plan = planned(tmp_path, "a.jsonl", json.dumps(MIXPANEL) + "\nexport terminated early\n", **asked)
    assert plan.rejects == {"cut_off": 1}
    assert "the tool broke off the export; fetch it again" in details(plan)["cut_off"]


@pytest.mark.parametrize("folder", [".", "kind=web"])
@pytest.mark.parametrize("integers", ["", "user"])
def test_the_header_of_a_table_in_its_middle_is_skipped(tmp_path: Path, folder: str, integers: str) -> None:
    """Files were joined, also if folders name columns or floats become integers. A row that is not a header stays a
    reject."""
    lines, settings = ["event,user,at", f"Seen,u1,{TIMES[0]}"], COLUMNS | {"integers": integers}
    (tmp_path / folder).mkdir(exist_ok=True)
    text = "\n".join([*lines, *lines, "event,u2,x", ""])
    plan = planned(tmp_path, f"{folder}/a.csv", text, max_rejects="100%", settings=settings)
    assert (plan.rows.read, plan.skips, plan.rejects) == (4, {"repeated_header": 1}, {"bad_timestamp": 1})


def test_rows_of_another_tool_are_named(tmp_path: Path) -> None:
    """If the plan's mapping rejects all of them."""
    plan = planned(tmp_path, "a.jsonl", json.dumps(MIXPANEL), mapping="amplitude", settings={})
    assert "they look like rows of mixpanel; plan with -m mixpanel" in details(plan)["max_rejects"]
    plan = planned(tmp_path, "a.jsonl", json.dumps(ROWS[0] | {"at": "x"}))
    assert "look like" not in details(plan)["max_rejects"]


def test_a_person_whose_id_looks_like_a_placeholder(tmp_path: Path) -> None:
    """The plan says what was found, where, why it is not sent and what to do; a mapping can declare it a person's id,
    and it never merges."""
    row = ROWS[0] | {"user": "0", "device": "d1"}
    plan = planned(tmp_path, "a.jsonl", json.dumps(row))
    assert details(plan)["max_rejects"] == (
        "1 of 1 row (100.00%) rejected (limit 0). 1 of them, the first in row 1 of a.jsonl, can be sent: their id is a"
        " placeholder such as null or anonymous, and would merge strangers into one person for good; if it is really"
        " one person's id, allow it in a mapping of your own: `distinct_id: {first: [...], allow: ['0']}`"
    )
    (reject,) = (tmp_path / "plan" / "rejects.jsonl").read_text().splitlines()
    assert "the placeholder '0', under which strangers would become one person" in reject
    (tmp_path / "shop.yaml").write_text(SHOP, encoding="utf-8")
    rows = [row, {"event": "Seen", "device": "d1", "user": "null", "at": TIMES[0]}]
    asked = {"mapping": str(tmp_path / "shop.yaml"), "settings": {}}
    plan = planned(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)), **asked)
    assert (plan.events.phases["events"], plan.people.identities.links, plan.rejects) == (1, 0, {"junk_distinct_id": 1})


def test_a_setting_about_files_that_there_are_not(tmp_path: Path) -> None:
    """It would do nothing; if no page has the named list, the error names the lists that there are."""
    for name, what in (("sheet", "workbook"), ("rows", "JSON file")):
        with pytest.raises(UsageError, match=f"the export has no {what}"):
            planned(tmp_path, "a.csv", f"event,user,at\nSeen,u1,{TIMES[0]}\n", settings=COLUMNS | {name: "x"})
    with pytest.raises(UnreadableExport, match="an object begins that has no list 'x'") as refused:
        planned(tmp_path, "a.json", json.dumps({"results": ROWS, "page": 1}), settings=COLUMNS | {"rows": "x"})
    assert "--set rows=results" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"results": [%s] [%s], "page": 1}', "at byte 76 something follows"),
        ("[%s, \f, %s]", "at byte 65 a list lacks an item"),
    ],
)
def test_what_is_between_rows_and_no_json_ends_a_plan(tmp_path: Path, text: str, place: str) -> None:
    """Rows after it could be lost silently."""
    with pytest.raises(UnreadableExport, match=place) as refused:
        planned(tmp_path, "a.json", text % tuple(map(json.dumps, ROWS)), settings=COLUMNS | {"rows": "results"})
    assert "correct the file at that byte" in refused.value.hint
