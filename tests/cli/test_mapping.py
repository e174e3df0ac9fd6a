"""`backcast mapping`: new files, errors with their place, cases, and what an export shows about a mapping."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.mapper import load
from pipeline.mapper.inspection.cases import run_cases, updated
from pipeline.mapper.language.loader import parse
from tests.support.commands import SAMPLES


@pytest.mark.parametrize("sample", ["generic/orders.csv", "mixpanel"])
def test_a_new_mapping_loads_and_its_cases_pass(call: Any, tmp_path: Path, sample: str) -> None:
    """`mapping new` writes a file that `mapping check` and `mapping test` accept."""
    mine = tmp_path / "mine.yaml"
    assert call("mapping", "new", SAMPLES / sample, "-o", mine).code == 0
    assert call("mapping", "check", mine).code == 0
    said = call("mapping", "test", mine, "--json")
    assert (said.code, said.json["failed"]) == (0, 0)
    assert call("mapping", "new", SAMPLES / sample, "-o", mine).code == 2


def test_the_other_mapping_commands_work(call: Any, tmp_path: Path) -> None:
    """Lists, cases, the schema for editors and a file's content; an error has two lines and says where:
    file:line:column."""
    for command in (["list", "--json"], ["test", "mixpanel", "--json"], ["schema"]):
        said = call("mapping", *command)
        assert (said.code, bool(said.json)) == (0, True)
    said = call("mapping", "show", "mixpanel")
    assert (said.code, "\ntool: mixpanel\n" in said.out) == (0, True)
    mine = tmp_path / "mine.yaml"
    mine.write_text("format: backcast.mapping/1\ntool: shop\ntitle: Shop\nevnt: /name\n", "utf-8")
    said = call("mapping", "check", mine)
    assert said.code == 2
    assert f"{mine}:4:1" in said.two_lines[0]


@pytest.mark.parametrize(("column", "chosen"), [("id", "id"), ("order_id,id", "id"), ("order_id", None)])
def test_a_new_mapping_proposes_as_key_what_no_two_rows_share(
    call: Any, tmp_path: Path, column: str, chosen: str | None
) -> None:
    """A column called "id" whose values repeat is not the key; a row that is in two files counts as one row."""
    names = f"event,user_id,timestamp,{column.replace('order_id', 'event_id')}"
    rows = [f"{event},u-1,2021-03-0{day}T10:00:00Z" for event, day in (("Ordered", 1), ("Paid", 1), ("Paid", 2))]
    cells = [",".join("o-1" if name == "order_id" else f"i-{n}" for name in column.split(",")) for n in range(3)]
    for file in ("a.csv", "b.csv"):
        lines = [names, *(f"{row},{cell}" for row, cell in zip(rows, cells, strict=True))]
        (tmp_path / file).write_text("".join(f"{line}\n" for line in lines))
    said = call("mapping", "new", tmp_path)
    assert said.code == 0
    key = [line for line in said.out.splitlines() if line.startswith("key:")]
    assert key == ([] if chosen is None else [f"key: {{of: [/{chosen}], needs: [/{chosen}]}}"])
    assert ("event_id: different rows share a value" in said.out) == (chosen is None)


UNDECIDED = """format: backcast.mapping/1
tool: shop
title: Shop
open: {event: no column has the names of events}
event: {const: orders}
distinct_id: /customer
time: {from: /at}
cases:
  - name: an order
    row: '{"customer":"c-1","at":"2023-01-02T03:04:05Z"}'
    gives: {event: orders}
"""


def test_a_mapping_with_open_choices_is_unfinished_and_its_plan_not_ready(call: Any, tmp_path: Path) -> None:
    """`check` and `test` list the choices and exit with 7, though its case passes; its plan cannot be applied until the
    choices are made."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(UNDECIDED, "utf-8")
    checked = call("mapping", "check", mine)
    why = "no column has the names of events"
    assert (checked.code, checked.out) == (7, f"{mine}: unfinished (1 case)\n  event: {why}\n")
    tested = call("mapping", "test", mine)
    said = f"1 case passed, 0 failed\n{mine}: unfinished, 1 open choice:\n  event: {why}\n"
    assert (tested.code, tested.out) == (7, said)
    assert call("mapping", "test", mine, "--json").json["open"] == {str(mine): {"event": why}}
    rows, plan = tmp_path / "rows.jsonl", tmp_path / "plan"
    rows.write_text('{"customer":"c-1","at":"2023-01-02T03:04:05Z"}\n')
    printed = call("plan", rows, "-m", mine, "-o", plan, "--workers", "0")
    assert printed.code == 4
    assert "1 event to send" in " ".join(printed.out.split())
    assert "open_choices" in printed.out
    assert call("apply", plan, "--to", "http://127.0.0.1:1", "--yes").code == 4
    mine.write_text(UNDECIDED.replace("open: {event: no column has the names of events}\n", ""), "utf-8")
    assert call("plan", rows, "-m", mine, "-o", plan, "--workers", "0").code == 0


CASES = """format: backcast.mapping/1
tool: shop
title: Shop  # the shop's own
event: {lower: /name}
distinct_id: [/user]
time: {from: /at, unit: s}
properties: {drop: [/name, /user, /at]}
cases:
  - name: one
    row: '{"name":"Bought","user":"u-1","at":0,"a":1.10,"b":2}'
    gives: {event: Bought, has: '{"a":1.1,"c":3}', lacks: [b, d]}

  # Why this case is here.
  - name: two
    row: '{"name":"Seen","user":"u-2","at":0}'
    gives:
      - reject: missing_event
    zones: [UTC]
  - name: three
    row: '{"name":"Left","user":"u-3","at":0}'
    gives: {event: left}
"""


def test_cases_are_updated_to_what_their_rows_give(call: Any, tmp_path: Path) -> None:
    """The difference is shown; a case keeps its keys if the outcome is of the same kind, and everything else stays."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(CASES)
    printed = call("mapping", "test", mine, "--update-cases")
    assert (printed.code, "- event: Bought\n+ event: bought" in printed.out) == (0, True)
    assert "wrote what 2 cases now give" in printed.out
    outcome = """{event: Bought, has: '{"a":1.1,"c":3}', lacks: [b, d]}"""
    kept = CASES.replace(outcome, """{event: bought, has: '{"a":1.10}', lacks: [d]}""")
    assert mine.read_text() == kept.replace(
        "      - reject: missing_event\n",
        "      - event: seen\n        distinct_id: u-2\n"
        "        timestamp: \"1970-01-01T00:00:00Z\"\n        key: [none]\n        properties: '{}'\n",
    )
    assert "3 cases passed, 0 failed" in call("mapping", "test", mine).out
    assert "needs their paths" in call("mapping", "test", "mixpanel", "--update-cases").two_lines[0]


@pytest.mark.parametrize("name", ["ga4-flat", "mixpanel-warehouse"])
def test_cases_of_every_style_are_updated(name: str) -> None:
    """Cases of two shipped mappings, on one line and on several, in each of which another event name is expected."""
    mapping = load(name)
    wrong, count = re.subn(r"(?m)^( +gives: \{event: |      event: )[^,}\n]+", r"\1wrong", mapping.text)
    changed = parse(wrong, "mine.yaml")
    failing = [number for number, result in enumerate(run_cases(changed)) if not result.passed]
    assert len(failing) > 10 <= count
    again = parse(updated(changed, failing), "mine.yaml")
    assert all(result.passed for result in run_cases(again))
    assert [case.row for case in again.cases] == [case.row for case in mapping.cases]


MAPPING = """\
format: backcast.mapping/1
tool: shop
title: Shop
event: /name
events:
  Viewed: $pageview
  Gone: {skip: gone}
distinct_id: [/user, /device]
time: {from: /at}
skip:
  - {when: {present: /test}, code: test_row}
  - {when: {present: /robot}, code: robot}
key: {of: [/id], needs: [/id]}
properties:
  open: /p
  set:
    $os: {first: [/os, system]}
    $host: {lower: /host}
    country: {lookup: /place, in: {Mars: M}}
    $pathname: /pagee
"""
ROWS: list[Any] = [
    {"id": 1, "name": "Viewed", "user": "u-1", "os": "linux", "host": "a.example", "p": {"plan": "pro"}},
    {"id": 2, "name": "Viewed", "device": "d-1", "host": "b.example", "p": {"system": "win", "plan": None}},
    {"id": 3, "name": 'Odd: "name" #1', "user": "u-1", "place": "Earth", "p": {"true": 1, "- odd: [": 2}},
    {"id": 3, "name": "Bought", "user": "u-1", "p": {}, "extra col": "x"},
    {"id": 5, "name": "Viewed", "user": "u-2", "test": 1, "p": {}},
    {"id": 6, "name": "Viewed", "user": "u-2", "p": "no object"},
    {"id": 7, "name": "Viewed", "p": {}},
    "no row",
]


def ugly(folder: Path) -> tuple[Path, Path]:
    """A mapping and an export with rows of all kinds."""
    lines = [json.dumps({"at": "2023-01-02T03:04:05Z", **row} if isinstance(row, dict) else row) for row in ROWS]
    (folder / "export").mkdir()
    (folder / "export" / "a.jsonl").write_text("\n".join(lines[:4]) + "\n")
    (folder / "export" / "b.jsonl").write_text("\n".join(lines[4:]) + "\n{broken\n")
    (folder / "mine.yaml").write_text(MAPPING)
    return folder / "mine.yaml", folder / "export"


def test_an_ugly_export_shows_what_the_mapping_does_not_say(call: Any, tmp_path: Path) -> None:
    """References, columns, rows, keys, candidates and verbs, each with its numbers. A terminal also gets a patch at the
    end, which can be pasted: afterwards nothing is unmapped, and a second patch keeps those names."""
    mapping, export = ugly(tmp_path)
    said = call("mapping", "check", mapping, "--against", export, "--json")
    assert said.code == 0
    found = said.json
    assert (found["format"], found["rows"], found["sampled"]) == ("backcast.mapping-against/1", 9, False)
    assert found["coverage"]["never_met"] == ["/pagee", "/robot"]
    assert found["coverage"]["never_met_events"] == ["Gone"]
    unmapped = [one["field"] for one in found["coverage"]["fields"] if one["unmapped"]]
    assert unmapped == ["plan", "/extra col", "- odd: [", "true"]
    assert found["unnamed_rows"] == 2
    assert found["keys"][0]["name"] == "key_not_unique"
    assert found["rejects"] == {"bad_json": 2, "bad_value": 1, "missing_distinct_id": 1}
    ways = {one["what"]: {way["what"]: way["rows"] for way in one["ways"]} for one in found["choices"]}
    assert ways["distinct_id"] == {"/user": 3, "/device": 1, "none of them": 1}
    assert ways["first"] == {"/os": 1, "system": 1, "none of them": 3}
    assert {one["line"] for one in found["choices"] if one["what"] == "first"} == {17}
    idle = {one["what"].partition("(")[0].strip(): one["why"] for one in found["idle"]}
    assert idle == {
        "skip: robot": "it skips no row",
        "{lower: /host}": "the value stays as it is in every row",
        "lookup of /place": "the table has none of the values",
    }
    said = call("mapping", "check", mapping, "--against", export / "a.jsonl", export / "b.jsonl")
    assert said.code == 0
    for part in (
        "all 9 rows", "References that no row has: /pagee, /robot", "Columns that no rule uses: plan",
        "Rows that no rule for events takes: 2 rows", "Rejected: 2 bad_json", "Keys: 1 row is left out",
        "none of them", "it skips no row",
    ):  # fmt: skip
        assert part in said.out, part
    assert said.out.endswith(found["patch"])
    assert call("mapping", "check", mapping, "--all").code == 2
    assert call("mapping", "check", mapping, "--json").code == 2
    patch = found["patch"]
    mapping.write_text(MAPPING + patch)
    after = call("mapping", "check", mapping, "--against", export, "--json").json
    assert (after["patch"], after["unnamed_rows"]) == ("", 0)
    assert after["coverage"]["fields_total"]["unmapped"] == after["coverage"]["events_total"]["unmapped"] == 0
    (export / "c.jsonl").write_text('{"id":9,"name":"New","at":"2023-01-02T03:04:05Z","user":"u","p":{"fresh":1}}\n')
    again = call("mapping", "check", mapping, "--against", export, "--json").json["patch"]
    first, second = yaml.safe_load(patch)["known"], yaml.safe_load(again)["known"]
    assert second == {"events": [*first["events"], "New"], "fields": [*first["fields"], "fresh"]}
    mapping.write_text(MAPPING + again)
    assert call("mapping", "check", mapping).code == 0


LOCAL = "{from: /at, space: yes, zone: local}"


@pytest.mark.parametrize(
    ("clock", "options", "told"),
    [
        ("{from: /at}", (), ["write `space: yes` (line 6)", "read as UTC (line 6)", "`zone: local`", "--timezone"]),
        (LOCAL, (), ["read on the project's clock (line 6, zone: local)", "--timezone"]),
        (LOCAL, ("--timezone", "Europe/Berlin"), []),
        (
            "{from: /at, unit: format, format: '%Y-%m-%d %H:%M:%S', zone: local}",
            (),
            ["1 of them can be sent", "--timezone"],
        ),
    ],
)
def test_times_without_a_zone_name_what_settles_it(
    call: Any, tmp_path: Path, clock: str, options: tuple[str, ...], told: list[str]
) -> None:
    """The option, or the line of the mapping, with a value; nothing if --timezone was given."""
    mapping, export = tmp_path / "mine.yaml", tmp_path / "rows.jsonl"
    mapping.write_text(
        f"format: backcast.mapping/1\ntool: shop\ntitle: Shop\nevent: /e\ndistinct_id: [/u]\ntime: {clock}\n"
    )
    export.write_text('{"e":"a","u":"b","at":"2023-01-02 03:04:05"}\n{"e":"a","u":"b","at":"2023-01-02T03:04:05Z"}\n')
    said = call("mapping", "check", mapping, "--against", export, "--json", *options).json["times"]
    assert len(said) == bool(told)
    assert all(part in said[0] for part in told)
    start = "1 row of the first 1,000 has a time without an offset, such as '2023-01-02 03"
    assert all(one.startswith(start) for one in said if "unit" not in clock)
