"""Rows in reports: names and ids show, and no value of a property."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pipeline
from pipeline.mask import masked
from pipeline.models import Dialect
from pipeline.options import PlanOptions
from tests.support.rendered import Page


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ('{"event":"A","distinct_id":7,"age":41}', '{"event":"A","distinct_id":7,"age":•••}'),
        ('{"p":{"$insert_id":"k","tags":["a",1,null]}}', '{"p":{"$insert_id":"k","tags":["•••",•••,null]}}'),
        ('{"a": "said \\"x\\"", "b": NaN}', '{"a": "•••", "b": NaN}'),
        ('{"event":"A","mail":"cut off', '{"event":"A","mail":"•••"'),
        ("plain words here", "••• ••• •••"),
        ('{"a":"' + "x" * 9_000, '{"a":"•••"'),
    ],
)  # fmt: skip
def test_a_rejected_json_row_keeps_its_names_and_ids(record: str, shown: str) -> None:
    """Names, ids and times stay; every other value is masked, also if the row is broken."""
    assert masked(record) == shown


def test_a_rejected_csv_row_is_masked_by_its_header_and_cut() -> None:
    """Cells of ids and times stay, a row of another length is masked whole; no more than 400 characters are shown."""
    dialect = Dialect(delimiter=";", header=("event", "distinct_id", "mail"))
    assert masked('A;"u;1";ada@example.com', dialect) == "A;u;1;•••"
    assert masked("A;u;1;ada@example.com", dialect) == "•••;•••;•••;•••"
    sheet = Dialect(header=("user", "event", "time"), sheet="Orders")
    assert masked('["ada","Ordered",null]', sheet) == '["•••","•••",null]'
    shown = masked('{"event": "' + "\x1b" + "n" * 1_000 + '"}')
    assert (len(shown), shown[:15], shown[-1]) == (400, '{"event": "\\x1b', "…")


@given(
    st.text("abc{}[]:,\"\\ \n'", max_size=20), st.sampled_from(['{{"p": {}}}', '{{"p": [{}], "q": 1}}', '{{"p": {}'])
)
def test_no_value_of_a_property_shows(around: str, frame: str) -> None:
    """A secret inside any string value of a property never shows, whatever is around it."""
    assert "SECRET" not in masked(frame.format(json.dumps(f"{around}SECRET{around}")))


MAPPING = """format: backcast.mapping/1  # ada@example.com asked for it
tool: shop
title: Shop  #Ada-ada@example.com
open: {distinct_id: "never blank, such as ada@example.com"}
event:
  const: |-  # ada@example.com
    Bought
distinct_id: /user
time: {from: /at, zone: utc}
properties: {drop: [/mail]}
# ada@example.com
cases:
  - name: an order
    row: '{"user":"u","at":"2023-01-02T03:04:05Z","mail":"ada@example.com"}'
    gives: {event: Bought}
"""


def test_the_page_shows_what_decides_in_a_mapping_and_none_of_its_examples(tmp_path: Path) -> None:
    """Comments, cases and the evidence of open choices quote values of the export; plan.json keeps them."""
    (tmp_path / "shop.yaml").write_text(MAPPING)
    (tmp_path / "a.jsonl").write_text('{"user":"u","at":"2023-01-02T03:04:05Z","mail":"ada@example.com"}\n')
    options = PlanOptions(mapping=tmp_path / "shop.yaml", workers=0)
    plan = pipeline.plan_export(tmp_path / "a.jsonl", tmp_path / "plan", options)
    page = (tmp_path / "plan" / "report.html").read_text("utf-8")
    assert "The mapping has 1 open choice: distinct_id" in Page(page).text
    assert "properties: {drop: [/mail]}" in Page(page).text
    assert ("ada@example.com" in page, plan.mapping.text) == (False, MAPPING)
