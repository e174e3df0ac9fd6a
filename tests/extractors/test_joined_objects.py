"""Objects without line ends between them are rows, in JSON lines and in documents; a broken one is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.extractors.json_texts import apart
from pipeline.extractors.jsonl_rows import JsonlRows
from pipeline.models import BrokenRow
from pipeline.options import PlanOptions
from tests.support.services import NOW

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('}{"\\ é\n', max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab}{"), inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(OBJECTS, st.sampled_from(["", " ", "\t ", "\n", "\n\n"])), max_size=6), st.booleans())
def test_each_object_is_a_row_of_its_own(objects: list[tuple[dict[str, Any], str]], members: bool) -> None:
    """Whatever is between them; with its offset in the file, and its own JSON."""
    text = "".join(json.dumps(one, ensure_ascii=False) + between for one, between in objects)
    data = text.encode()
    rows = JsonlRows(data, 100, members=members)
    found = [json.loads(rows.text(number)) for number, _ in enumerate(rows)]
    assert found == [one for one, _ in objects]
    assert not any(isinstance(record, BrokenRow) for record in JsonlRows(data))
    for number, one in enumerate(found):
        start = rows.offset(number) - 100
        assert json.JSONDecoder().raw_decode(data[start:].decode())[0] == one


def test_numbers_of_any_length_stay_in_their_objects() -> None:
    """Python converts no integer of more than 4,300 digits."""
    digits = b"7" * 5_000
    assert apart(b'{"a":%b}{"b":1}' % digits)[0] == b'{"a":%b}\n{"b":1}' % digits


@pytest.mark.parametrize("line", [b'{"a":1}{"b":', b'{"a":1}{2}', b'{"a":1} x {"b":2}', b'["}{"]', b'{"a":"}{"}'])
def test_a_line_that_has_anything_else_stays_one(line: bytes) -> None:
    assert apart(line) == (line, [])


ROWS = [
    {"event": "Seen", "user": f"u{number}", "at": f"2023-01-01T00:{number // 60:02}:{number % 60:02}Z"}
    for number in range(600)
]


def planned(folder: Path, text: str, limit: str = "0") -> Any:
    (folder / "rows.json").write_text(text, encoding="utf-8")
    columns = {"event": "event", "distinct_id": "user", "timestamp": "at"}
    asked = PlanOptions(mapping="generic", settings=columns, workers=0, as_of=NOW, max_rejects=limit)
    return pipeline.plan_export(folder / "rows.json", folder / "plan", asked)


@pytest.mark.parametrize("in_a_line", [7, 600])
@pytest.mark.parametrize("between", ["", " "])
def test_a_stream_of_objects_is_planned_whole(tmp_path: Path, in_a_line: int, between: str) -> None:
    """Some in each line, or all in one."""
    texts = list(map(json.dumps, ROWS))
    lines = [between.join(texts[start : start + in_a_line]) for start in range(0, len(texts), in_a_line)]
    plan = planned(tmp_path, "\n".join(lines))
    assert (plan.ready, plan.rows.read, plan.events.phases["events"]) == (True, 600, 600)


def test_a_limit_in_percent_is_one_of_bytes_too(tmp_path: Path) -> None:
    """One reject with half of the file's bytes is 50 %."""
    texts = list(map(json.dumps, ROWS))
    broken = "".join(texts[:300]) + "}"
    plan = planned(tmp_path, "\n".join([broken, *texts[300:]]), "1%")
    assert not plan.ready
    (gate,) = [gate for gate in plan.gates if gate.name == "max_rejects"]
    assert "1 of 301 rows (0.33%) rejected with 49.46% of the bytes (limit 1% of rows and of bytes)" in gate.detail
    assert planned(tmp_path, "\n".join([texts[0] + "}", *texts]), "1%").ready
