"""`--provenance plan,row`: every event carries its plan and its row, and nothing takes them for content."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline import api
from pipeline.config import Secret
from pipeline.management import ManagementClient
from pipeline.native import AVAILABLE
from pipeline.options import DiffOptions, PlanOptions
from tests.support.deliveries import COLUMNS, planned
from tests.support.sent_events import events_of
from tests.support.verification import PERSONAL, empty, sent, sent_rows

PAGE = Path(__file__).parents[2] / "docs" / "use" / "after-sending.md"
AS_OF = 1_767_225_600_000_000
MAPPING = """format: backcast.mapping/1
tool: shop
title: Shop
event: /event
distinct_id: [/id]
time: {from: /at, unit: s}
properties: {open: /properties, reserved: []}
"""
PLAN = """
import json, sys
import pipeline
from pipeline.options import PlanOptions
source, place, asked = json.load(sys.stdin)
pipeline.plan_export(source, place, PlanOptions(**asked))
"""


def exported(folder: Path, files: dict[str, list[dict[str, Any]]]) -> Path:
    folder.mkdir()
    for name, rows in files.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder.parent / "shop.yaml").write_text(MAPPING)
    return folder


def row(number: int, **properties: Any) -> dict[str, Any]:
    return {"event": "Seen", "id": f"u-{number % 5}", "at": 1_600_000_000 + number, "properties": properties}


def asked(export: Path, **more: Any) -> dict[str, Any]:
    mapping = str(export.parent / "shop.yaml")
    return {"mapping": mapping, "provenance": ("plan", "row"), "workers": 0, "as_of": AS_OF} | more


@pytest.mark.skipif(not AVAILABLE, reason="there is no C part to compare with")
def test_the_marks_are_the_same_in_workers_and_without_the_c_part(tmp_path: Path) -> None:
    """Each event has its own row, one digest whatever the workers and the instant; a row's own property gives way."""
    rows = [row(number, n=number, **({"import_row": "own"} if number % 3 == 0 else {})) for number in range(40)]
    export = exported(tmp_path / "export", {"a.jsonl": rows, 'b "é".jsonl': [row(100 + n) for n in range(7)]})
    plans = [
        pipeline.plan_export(export, tmp_path / f"p{number}", PlanOptions(**asked(export, **more)))
        for number, more in enumerate(({}, {"workers": 2}, {"as_of": AS_OF + 86_400_000_000}))
    ]
    work = [str(export), str(tmp_path / "python"), asked(export)]
    environment = os.environ | {"BACKCAST_NATIVE": "0"}
    subprocess.run([sys.executable, "-c", PLAN], input=json.dumps(work), text=True, check=True, env=environment)
    python = json.loads((tmp_path / "python" / "plan.json").read_bytes())
    assert plans[0].digest == plans[1].digest == python["digest"]
    assert len({one.import_plan for one in plans} | {python["import_plan"]}) == 1
    found = {one["properties"]["import_row"]: one["properties"] for one in events_of(tmp_path / "p0")}
    assert found.keys() == {f"a.jsonl:{n + 1}" for n in range(40)} | {f'b "é".jsonl:{n + 1}' for n in range(7)}
    assert {one["import_plan"] for one in found.values()} == {plans[0].import_plan}
    assert plans[0].warnings["replaced_property"] == 14


def test_rows_in_other_files_are_the_same_events(tmp_path: Path) -> None:
    """Another order of files and rows changes the marks, but neither duplicates nor what `diff` finds."""
    rows = [row(number, n=number) for number in range(20)]
    one = exported(tmp_path / "one", {"a.jsonl": rows + rows[:3], "b.jsonl": []})
    other = exported(tmp_path / "other", {"c.jsonl": rows[::-1] + rows[:3]})
    collapse = {"collapse_identical": True}
    first = pipeline.plan_export(one, tmp_path / "p1", PlanOptions(**asked(one, **collapse)))
    second = pipeline.plan_export(other, tmp_path / "p2", PlanOptions(**asked(other, **collapse)))
    bare = PlanOptions(**asked(other, **collapse, provenance=True))
    pipeline.plan_export(other, tmp_path / "p3", bare)
    assert first.skips == second.skips
    assert first.import_plan != second.import_plan
    for place in ("p2", "p3"):
        found = api.diff_plans(tmp_path / "p1", tmp_path / place, DiffOptions())
        assert (found.equal, found.phases["events"].same, found.phases["events"].changed) == (True, 20, 0)


def test_a_changed_event_differs_in_its_own_properties_alone(tmp_path: Path) -> None:
    """Its marks differ, too, but are not among what `diff` names."""
    rows = [{"uuid": f"0188a5eb-0000-7000-8000-{n:012x}", **row(n), "n": n} for n in range(3)]
    rows = [one | {"distinct_id": one.pop("id"), "timestamp": one.pop("at")} for one in rows]
    given = {"mapping": "generic", "settings": COLUMNS | {"timestamp_unit": "s"}}
    for name, some in (("p1", rows), ("p2", [rows[2] | {"n": 9}, *rows[:2]])):
        export = exported(tmp_path / f"of-{name}", {f"{name}.jsonl": some})
        pipeline.plan_export(export, tmp_path / name, PlanOptions(**asked(export, **given)))
    found = api.diff_plans(tmp_path / "p1", tmp_path / "p2", DiffOptions())
    assert (found.phases["events"].same, found.phases["events"].changed) == (2, 1)
    assert [one.name for one in found.properties] == ["n"]


def test_two_imports_of_one_tool_are_told_apart_by_plan(tmp_path: Path) -> None:
    """`verify` counts both, and the queries of the undo list find the events of one plan alone, down to the file."""
    marks: dict[str, Any] = {"provenance": ("plan", "row"), "links": True}
    room = empty()
    good = sent(planned(tmp_path / "good", 40, **marks), room)
    others = {name: column for name, column in COLUMNS.items() if name != "uuid"}
    bad = sent_rows(tmp_path / "bad", 25, room=room, settings=others, provenance=("plan", "row"))
    live = sent_rows(tmp_path / "third", 9, room=room, settings=others | {"event": "=Planted"})
    found = good.verify()
    by_plan = found.by_plan
    names = [json.loads((one.directory / "plan.json").read_bytes()).get("import_plan") for one in (good, bad, live)]
    made = json.loads((good.directory / "plan.json").read_bytes())["events"]["made"]
    assert found.proved
    assert (by_plan.import_plan, by_plan.events, by_plan.others) == (names[0], made, {names[1]: 25, "": 9})
    api.list_sent(bad.directory)
    queries = (bad.directory / "undo-list" / "queries.sql").read_text().split(";")[:4]
    with ManagementClient(room.url, Secret(PERSONAL), str(room.project)) as client:
        days, rest, persons, rows = (client.query(one.replace("FILE", "part-0.jsonl")).results for one in queries)
        assert client.query(queries[3].replace("FILE", "part_0.jsonl")).results == []  # `_` stands only for itself
        for query in PAGE.read_text("utf-8").split("```sql\n")[1].split("```")[0].split(";")[:-1]:
            client.query(query)
    assert sum(count for _, _, count in days) == 25
    assert rest == [[made + 9]]
    assert sum(imported for _, imported, _ in persons) == 25
    assert rows
    assert {place.rpartition(":")[0] for place, *_ in rows} == {"part-0.jsonl"}


def test_the_marks_of_another_import_of_the_same_events_are_no_difference(tmp_path: Path) -> None:
    """If two plans send the same uuids, the service keeps the marks of one: verify lists that, and nothing is wrong."""
    room, known = empty(), list[str]()
    plans = [
        sent(planned(tmp_path / f"{files}", 20, files=files, provenance=("plan", "row")), room) for files in (2, 1)
    ]
    for found in [one.verify(fields="all") for one in plans]:
        assert found.proved
        known += [one.code for one in found.values.known]
    assert "other_import" in known
