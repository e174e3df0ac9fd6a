"""Rows in reports: names and ids show, and no value of a property."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.mask import masked
from pipeline.models import Dialect


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
    """Names, ids and times stay; every other value is masked, also where the row is broken."""
    assert masked(record) == shown


def test_a_rejected_csv_row_is_masked_by_its_header_and_cut() -> None:
    """Cells of ids and times stay, a row of another length is masked whole; no more than 400 characters are shown."""
    dialect = Dialect(delimiter=";", header=("event", "distinct_id", "mail"))
    assert masked('A;"u;1";ada@example.com', dialect) == "A;u;1;•••"
    assert masked("A;u;1;ada@example.com", dialect) == "•••;•••;•••;•••"
    shown = masked('{"event": "' + "\x1b" + "n" * 1_000 + '"}')
    assert (len(shown), shown[:15], shown[-1]) == (400, '{"event": "\\x1b', "…")


@given(
    st.text("abc{}[]:,\"\\ \n'", max_size=20), st.sampled_from(['{{"p": {}}}', '{{"p": [{}], "q": 1}}', '{{"p": {}'])
)
def test_no_value_of_a_property_shows(around: str, frame: str) -> None:
    """A secret inside any text value of a property never shows, whatever stands around it."""
    assert "SECRET" not in masked(frame.format(json.dumps(f"{around}SECRET{around}")))
