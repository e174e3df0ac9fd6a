"""Blank cells of delimited files: missing to every reference, or values where the mapping says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.api import plan_export
from pipeline.errors import MappingError
from pipeline.mapper.cases import run_cases
from pipeline.mapper.editor_schema import editor_schema
from pipeline.mapper.loader import parse
from pipeline.options import PlanOptions
from pipeline.plan.contents import task_of, tasks
from pipeline.plan.freshness import open_plan, transform_config_for
from pipeline.transform.block import BlockTransformer

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
    """The events of one row, planned and made as they would be sent."""
    place.mkdir()
    (place / "mine.yaml").write_text(mapping, "utf-8")
    text = json.dumps(ROW) if name.endswith("jsonl") else f"{','.join(ROW)}\n{','.join(ROW.values())}"
    (place / name).write_text(text + "\n", "utf-8")
    asked = {"mapping": str(place / "mine.yaml"), "as_of": 1_767_225_600_000_000, "workers": 0}
    plan = plan_export([str(place / name)], place / "plan", PlanOptions(**asked))
    assert plan.rejects == {}
    _, directory = open_plan(place / "plan")
    config = transform_config_for(plan, directory)
    transformer = BlockTransformer(config)
    made = [
        transformer.sent_events(task) for task in tasks(plan, directory, config.parts, lambda one: task_of(plan, one))
    ]
    return [json.loads(one) for events in made for one in events]


def test_a_blank_cell_is_missing_to_every_reference(tmp_path: Path) -> None:
    """It is no first of several, no id, no time and no property, and cannot be a bad value; in JSON it is a value."""
    (event,) = sent(tmp_path / "csv", MAPPING, "rows.csv")
    properties = event["properties"]
    assert (event["event"], properties["distinct_id"], event["timestamp"]) == (
        "Seen",
        "d-1",
        "2023-01-02T03:04:05Z",
    )
    assert (properties["note"], "amount" in properties) == ("none", False)
    (event,) = sent(tmp_path / "json", MAPPING, "rows.jsonl")
    assert (event["properties"]["note"], event["properties"]["amount"]) == ("", "")


def test_blank_cells_are_values_where_the_mapping_says_so(tmp_path: Path) -> None:
    """One declaration makes them the empty text; the uuid of a row is the same either way."""
    (missing,) = sent(tmp_path / "missing", MAPPING, "rows.csv")
    (value,) = sent(tmp_path / "value", MAPPING + VALUES, "rows.csv")
    assert (value["properties"]["note"], value["properties"]["amount"]) == ("", "")
    assert value["uuid"] == missing["uuid"]


def test_a_case_may_be_a_row_of_cells() -> None:
    """Its blank cells are what the mapping says of them, as in a plan."""
    gives = "    format: csv\n    gives: {event: Seen, has: '%s', warnings: [%s]}\n"
    row = f"cases:\n  - name: one\n    row: '{json.dumps(ROW)}'\n"
    (missing,) = run_cases(parse(MAPPING + row + gives % ('{"note":"none"}', ""), "mine.yaml"))
    (value,) = run_cases(parse(MAPPING + VALUES + row + gives % ('{"note":"","amount":""}', "bad_value"), "mine.yaml"))
    assert (missing.differences, value.differences) == ((), ())


@pytest.mark.parametrize(
    ("blanks", "message"),
    [
        ("{csv: values}", "'csv' cannot be 'values'"),
        ("{tsv: value}", "blanks has no key 'tsv'"),
        ("value", "'blanks' takes a table"),
    ],
)
def test_a_wrong_declaration_is_an_error(blanks: str, message: str) -> None:
    """The loader names the place and what it takes, and the editor's schema knows the declaration."""
    with pytest.raises(MappingError, match=message):
        parse(f"{MAPPING}blanks: {blanks}\n", "mine.yaml")
    assert editor_schema()["properties"]["blanks"]["properties"]["csv"]["enum"] == ["missing", "value"]


def test_a_new_mapping_of_a_table_agrees_with_its_plan(call: Any, tmp_path: Path) -> None:
    """The case that `mapping new` writes is a row of cells, and a blank one in it is no property."""
    (tmp_path / "rows.csv").write_text("event,user_id,time,zip,note\nSeen,u-1,2023-01-02T03:04:05Z,00001,\n")
    mine = tmp_path / "mine.yaml"
    assert call("mapping", "new", tmp_path / "rows.csv", "-o", mine).code == 0
    text = mine.read_text("utf-8")
    assert "    format: csv\n" in text
    assert """properties: '{"zip":"00001"}'""" in text
    assert "#   note: null, 100% missing" in text
    assert call("mapping", "test", mine).code == 0


def test_a_blank_column_decides_no_setting(call: Any, tmp_path: Path) -> None:
    """A value in the first row of a file shows that it holds merges; an empty column does not."""
    row = "Played,2023-02-05 22:57:31,d-1,u-1,98,i-1,"
    columns = "event_type,event_time,device_id,user_id,amplitude_id,$insert_id,merged_amplitude_id"
    (tmp_path / "rows.csv").write_text(f"{columns}\n{row}\n")
    printed = call("plan", tmp_path / "rows.csv", "-m", "amplitude", "-o", tmp_path / "plan", "--workers", "0")
    assert printed.code == 0
    assert "merged_ids" not in printed.out
