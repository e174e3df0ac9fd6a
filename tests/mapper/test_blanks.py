"""Blank cells of delimited files: missing to every reference, or values if the mapping says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from pipeline.errors import MappingError
from pipeline.mapper.inspection.cases import run_cases
from pipeline.mapper.language.editor_schema import editor_schema
from pipeline.mapper.language.loader import parse
from tests.support.sent_events import planned
from tests.support.small_mappings import as_json, mapper, properties

MAPPING = """format: backcast.mapping/1
tool: shop
title: Shop
event: {first: [/kind, /name]}
distinct_id: [/user, /device]
time: [{from: /at}, {from: /received, unit: ms}]
properties:
  drop: [/name, /user, /device, /at, /received]
  types: {amount: number}
  fill: {note: {const: none}}
"""
VALUES = "blanks: {csv: value}\n"
ROW = {"name": "Seen", "user": "", "device": "d-1", "at": "", "received": "1672628645000", "amount": "", "note": ""}


def sent(place: Path, mapping: str, name: str) -> list[Any]:
    """The events of one row, planned and built as they would be sent."""
    place.mkdir()
    (place / "mine.yaml").write_text(mapping, "utf-8")
    text = json.dumps(ROW) if name.endswith("jsonl") else f"{','.join(ROW)}\n{','.join(ROW.values())}"
    (place / name).write_text(text + "\n", "utf-8")
    plan, events = planned(place / "plan", [place / name], str(place / "mine.yaml"))
    assert plan.rejects == {}
    return events


def test_a_blank_cell_is_missing_to_every_reference(tmp_path: Path) -> None:
    """It cannot be the first of several, an id, a time, a property or a bad value; in JSON it is a value, and it is one
    too if the mapping says so. The uuid of a row is the same either way."""
    (event,) = sent(tmp_path / "csv", MAPPING, "rows.csv")
    properties = event["properties"]
    assert (event["event"], properties["distinct_id"], event["timestamp"]) == ("Seen", "d-1", "2023-01-02T03:04:05Z")
    assert (properties["note"], "amount" in properties) == ("none", False)
    for place, mapping, name in (("json", MAPPING, "rows.jsonl"), ("value", MAPPING + VALUES, "rows.csv")):
        (other,) = sent(tmp_path / place, mapping, name)
        assert (other["properties"]["note"], other["properties"]["amount"]) == ("", "")
    assert other["uuid"] == event["uuid"]


def test_a_case_may_be_a_row_of_cells() -> None:
    """Its blank cells count as the mapping says, as in a plan."""
    gives = "    format: csv\n    gives: {event: Seen, has: '%s', warnings: [%s]}\n"
    row = f"cases:\n  - name: one\n    row: '{json.dumps(ROW)}'\n"
    (missing,) = run_cases(parse(MAPPING + row + gives % ('{"note":"none"}', ""), "mine.yaml"))
    (value,) = run_cases(parse(MAPPING + VALUES + row + gives % ('{"note":"","amount":""}', "bad_value"), "mine.yaml"))
    assert (missing.differences, value.differences) == ((), ())


FIRST = "properties: {drop: [/name, /user, /at], set: {out: {first: [/a/b, /a/0, a, {const: none}]}}}\n"


@pytest.mark.parametrize(
    ("blanks", "row", "expected"),
    [
        ("{texts: [(not set), -1]}", '"a":"(not set)"', {"out": '"none"'}),
        ("{texts: [(not set), -1]}", '"a":-1,"b":"-1","c":"(not set) "', {"out": '"none"', "c": '"(not set) "'}),
        ("{texts: [(not set)]}", '"a":{"b":"(not set)","c":"(not set)"}', {"out": '{"b":"(not set)","c":"(not set)"}'}),
        ("{texts: [(not set)]}", '"a":["(not set)"]', {"out": '["(not set)"]'}),
        ("{texts: [(not set)]}", '"a":"\\u0028not set)"', {"out": '"none"'}),
        ("{texts: [(not set)]}", '"a":"","b":""', {"out": '""', "b": '""'}),
        ("{texts: [x], in: [b]}", '"a":"x","b":"x","c":"x"', {"out": '"x"', "c": '"x"'}),
        ("{texts: [x], in: [a]}", '"a":{"b":"x"}', {"out": '"x"'}),
        ("{texts: [x], in: [b]}", '"a":{"b":"x"}', {"out": '{"b":"x"}'}),
        ("{json: missing}", '"a":"","b":"","c":" "', {"out": '"none"', "c": '" "'}),
        ("{json: missing, in: [a]}", '"a":"","b":""', {"out": '"none"', "b": '""'}),
        ("{parquet: missing}", '"a":"","b":""', {"out": '""', "b": '""'}),
        ("{csv: value}", '"a":"","b":""', {"out": '""', "b": '""'}),
    ],
)
def test_a_declared_blank_is_missing_to_every_reference(blanks: str, row: str, expected: dict[str, str]) -> None:
    """To a column, to a member and to an item; and it does not become a property. An object that is sent whole does not
    change."""
    made = properties(f"{FIRST}blanks: {blanks}\n", row)
    made.pop("a", None)
    assert made == expected


@pytest.mark.parametrize("text", [r"\N", Raw(rb'"\\N"')])
def test_a_declared_blank_is_missing_in_opened_properties(text: Any) -> None:
    """Also in the column with the properties, in cells and in JSON; any other string that is not an object is still an
    error."""
    opened = "properties: {open: /a}\nblanks: {texts: ['\\N'], in: [%s]}\n"
    row = {"name": "Seen", "user": "u-1", "at": 1672628645, "a": text}
    draft: Any = mapper(opened % "a").map_row(dict(row))
    assert dict(draft.properties) == {}
    refused: Any = mapper(opened % "b").map_row(dict(row))
    assert refused.code == "bad_value"


@pytest.mark.parametrize(
    ("blanks", "expected"),
    [
        ("{parquet: missing}", {"c": "7"}),
        ("{json: missing}", {"a": '""', "b": '""', "c": "7"}),
        ("{csv: value}", {"a": '""', "b": '""', "c": "7"}),
        ("{parquet: missing, in: [a]}", {"b": '""', "c": "7"}),
        ("{texts: ['', '7']}", {}),
    ],
)
def test_a_blank_of_parquet_is_its_own_choice(blanks: str, expected: dict[str, str]) -> None:
    """The strings of Parquet are not JSON; its numbers have a string too."""
    made = mapper(f"properties: {{drop: [/name, /user, /at]}}\nblanks: {blanks}\n")
    draft: Any = made.map_row({"name": "Seen", "user": "u-1", "at": 1672628645, "a": "", "b": "", "c": 7})
    assert {name: as_json(value) for name, value in draft.properties.items()} == expected


def test_members_of_a_spread_and_of_the_opened_object_can_be_blank() -> None:
    """They become properties as columns do."""
    sections = "properties: {open: /p, rest: keep, drop: [/name, /user, /at], spread: {from: /o}}\n"
    members = '"p":{"a":"NA","b":1},"o":{"c":"NA","d":2},"e":"NA","f":3'
    assert properties(f"{sections}blanks: {{texts: [NA]}}\n", members) == {"b": "1", "d": "2", "f": "3"}


def test_a_blank_property_is_left_out_where_it_is_renamed_and_read() -> None:
    """It is left out even if another part of the mapping reads it."""
    sections = """properties:
  drop: [/name, /user, /at]
  blank: [{values: [NA], in: [page]}]
  rename: {page: $current_url}
  set: {seen: page}
"""
    assert properties(sections, '"page":"/a"') == {"$current_url": '"/a"', "seen": '"/a"'}
    assert properties(sections, '"page":"NA"') == {"seen": '"NA"'}


def test_a_blank_value_decides_no_setting(tmp_path: Path) -> None:
    """The first row of a file has what the mapping reads in it, and nothing else: neither a declared string nor an
    empty column of cells."""
    setting = "settings: {kind: {says: a kind, one_of: [merges], found: /merged}}\n"
    setting += "skip: {code: never, when: {is: never, of: {word: kind}}}\n"
    row = {"name": "Seen", "device": "d-1", "at": "2023-01-02T03:04:05Z", "merged": "none"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    found = []
    for blanks in ("", "blanks: {texts: [none]}\n"):
        (tmp_path / "mine.yaml").write_text(MAPPING + setting + blanks, "utf-8")
        plan, _ = planned(tmp_path / f"{len(found)}", [tmp_path / "rows.jsonl"], str(tmp_path / "mine.yaml"))
        found.append(plan.options.settings)
    assert found == [{"kind": "merges"}, {}]
    columns = "event_type,event_time,device_id,user_id,amplitude_id,$insert_id,merged_amplitude_id"
    (tmp_path / "rows.csv").write_text(f"{columns}\nPlayed,2023-02-05 22:57:31,d-1,u-1,98,i-1,\n")
    plan, _ = planned(tmp_path / "amplitude", [tmp_path / "rows.csv"], "amplitude")
    assert (plan.rows.mapped, plan.options.settings) == (1, {})


@pytest.mark.parametrize(
    ("blanks", "message"),
    [
        ("{csv: values}", "'csv' cannot be 'values'"),
        ("{tsv: value}", "blanks has no key 'tsv'"),
        ("value", "'blanks' takes a table"),
        ("{csv: value, parquet: missing}", "`parquet: missing` does not work"),
    ],
)
def test_a_wrong_declaration_is_an_error(blanks: str, message: str) -> None:
    """It names the place and the allowed values, and the editor's schema knows the declaration. A row does not show
    whether its strings are cells or from Parquet."""
    with pytest.raises(MappingError, match=message) as caught:
        mapper(f"blanks: {blanks}\n")
    assert caught.value.line == 7
    assert editor_schema()["properties"]["blanks"]["properties"]["csv"]["enum"] == ["missing", "value"]


def test_a_new_mapping_of_a_table_agrees_with_its_plan(call: Any, tmp_path: Path) -> None:
    """The case that `mapping new` writes is a row of cells, and a blank cell in it does not become a property."""
    (tmp_path / "shop.csv").write_text("event,user_id,time,zip,note\nSeen,u-1,2023-01-02T03:04:05Z,00001,\n")
    mine = tmp_path / "mine.yaml"
    assert call("mapping", "new", tmp_path / "shop.csv", "-o", mine).code == 0
    text = mine.read_text("utf-8")
    assert "    format: csv\n" in text
    assert """properties: '{"zip":"00001"}'""" in text
    assert "#   note: null, 100% missing" in text
    assert call("mapping", "test", mine).code == 0
