"""`mapping check --against`: what an ugly export says of a mapping, and a patch that can be pasted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

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
    """References, columns, rows, keys, candidates and verbs, each with its numbers; on a terminal too, with the patch
    at its end, which can be pasted: nothing is unmapped any more, and a second patch keeps those names."""
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
        "skip: robot": "no row is skipped by it",
        "{lower: /host}": "the value stays as it is in every row",
        "lookup of /place": "no text is in the table",
    }
    said = call("mapping", "check", mapping, "--against", export / "a.jsonl", export / "b.jsonl")
    assert said.code == 0
    for part in (
        "all 9 rows", "References that no row has: /pagee, /robot", "Columns that no rule uses: plan",
        "Rows that no rule for events takes: 2 rows", "Rejected: 2 bad_json", "Keys: 1 row is left out",
        "none of them", "no row is skipped by it",
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
        (LOCAL, (), ["read by the project's clock (line 6, zone: local)", "--timezone"]),
        (LOCAL, ("--timezone", "Europe/Berlin"), []),
    ],
)
def test_times_without_a_zone_name_what_settles_it(
    call: Any, tmp_path: Path, clock: str, options: tuple[str, ...], told: list[str]
) -> None:
    """The option or the line of the mapping, with a value; nothing where --timezone was given."""
    mapping, export = tmp_path / "mine.yaml", tmp_path / "rows.jsonl"
    mapping.write_text(
        f"format: backcast.mapping/1\ntool: shop\ntitle: Shop\nevent: /e\ndistinct_id: [/u]\ntime: {clock}\n"
    )
    export.write_text('{"e":"a","u":"b","at":"2023-01-02 03:04:05"}\n{"e":"a","u":"b","at":"2023-01-02T03:04:05Z"}\n')
    said = call("mapping", "check", mapping, "--against", export, "--json", *options).json["times"]
    assert len(said) == bool(told)
    assert all(part in said[0] for part in told)
    start = "1 row of the first 1,000 has a time without an offset, such as '2023-01-02 03"
    assert all(one.startswith(start) for one in said)
