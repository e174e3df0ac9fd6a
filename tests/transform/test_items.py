"""One bad item of an exploded row is rejected by itself; the others are sent, and every count balances."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.api import plan_export, read_rejects
from pipeline.mapper.program.references import Level
from pipeline.native import AVAILABLE, native
from pipeline.options import PlanOptions, RejectsOptions
from pipeline.plan.sealed.manifest import Plan
from pipeline.transform.field_counts import Counted, FieldCounts
from pipeline.transform.rejection import check_number
from tests.support.planned_events import planned_events

MAPPING = """format: backcast.mapping/1
tool: shop
title: Shop
decoder: {explode: items}
event: /name
distinct_id: /user
time: {from: /at}
"""
GOOD = {"name": "Seen", "at": "2023-01-02T03:04:05Z"}
KEYED = MAPPING + "key: {of: /order}\n"


def plan_of(place: Path, *rows: list[Any], mapping: str = MAPPING, **options: Any) -> Plan:
    """The plan of rows with these items."""
    place.mkdir(exist_ok=True)
    (place / "mine.yaml").write_text(mapping, "utf-8")
    lines = (json.dumps({"user": "u-1", "order": f"o-{n}", "items": items}) for n, items in enumerate(rows))
    (place / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    asked: Any = {"mapping": str(place / "mine.yaml"), "as_of": 1_767_225_600_000_000, "workers": 0, **options}
    return plan_export([str(place / "rows.jsonl")], place / "plan", PlanOptions(**asked))


def sent(place: Path) -> list[Any]:
    """The events that an apply of that plan sends."""
    return [json.loads(event) for event in planned_events(place / "plan")]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (7, "bad_value"),
        (None, "bad_value"),
        ({"name": "Seen"}, "missing_timestamp"),
        ({"name": "Seen", "at": "soon"}, "bad_timestamp"),
        ({"at": GOOD["at"]}, "missing_event"),
    ],
)
def test_a_bad_item_does_not_take_its_siblings_along(tmp_path: Path, bad: Any, code: str) -> None:
    """The reject names the row and the item, and contains the whole row."""
    plan = plan_of(tmp_path, [GOOD], [{**GOOD, "n": 1}, bad, {**GOOD, "n": 3}], max_rejects="1")
    assert (plan.rows.read, plan.rows.mapped, plan.rows.rejected, plan.rows.balanced) == (2, 2, 0, True)
    assert dict(plan.rejects) == {code: 1}
    (reject,) = read_rejects(tmp_path / "plan", RejectsOptions())
    assert (reject.row, reject.item, reject.code) == (2, 2, code)
    assert json.loads(reject.record)["items"][1] == bad
    assert [event["properties"].get("n") for event in sent(tmp_path)] == [None, 1, 3]
    assert "0 rejected (1 reject of rows and of items of rows)" in plan.sentence


def test_the_siblings_have_the_ids_that_they_have_without_the_bad_one(tmp_path: Path) -> None:
    """The row can be planned again once its item is corrected: what was sent gets the same uuids."""
    good = [{**GOOD, "n": n} for n in range(3)]
    plan_of(tmp_path / "bad", [good[0], {**good[1], "at": ""}, good[2]], mapping=KEYED, max_rejects="1")
    plan_of(tmp_path / "repaired", good, mapping=KEYED)
    with_bad, repaired = sent(tmp_path / "bad"), sent(tmp_path / "repaired")
    assert [event["uuid"] for event in with_bad] == [repaired[0]["uuid"], repaired[2]["uuid"]]


def test_a_row_without_a_good_item_is_a_rejected_row(tmp_path: Path) -> None:
    """Each of its items has a reject, and the row counts once; if it has only one item, none is named."""
    plan = plan_of(tmp_path, [7, 8], [GOOD, GOOD], [7], max_rejects="3")
    assert (plan.rows.mapped, plan.rows.rejected, plan.rows.balanced) == (1, 2, True)
    places = [(reject.row, reject.item) for reject in read_rejects(tmp_path / "plan", RejectsOptions())]
    assert places == [(1, 1), (1, 2), (3, 0)]
    assert "item" not in json.loads((tmp_path / "plan" / "rejects.jsonl").read_text("utf-8").splitlines()[2])


def test_the_limit_of_rejects_counts_items(tmp_path: Path) -> None:
    """One item more than allowed stops the plan, though no whole row was rejected."""
    plan = plan_of(tmp_path, [GOOD, 7, 8], max_rejects="1")
    (stop,) = [found for found in plan.gates if found.name == "max_rejects"]
    assert stop.detail.startswith("2 rows or items of rows rejected, of 1 row (limit 1)")


def test_a_row_of_many_events_is_planned_in_proportion_to_them(tmp_path: Path) -> None:
    """The row is canonicalised once, not once for each event; past 16 bits an event has no place."""
    items = [{**GOOD, "n": number} for number in range(8_000)]
    plan = plan_of(tmp_path, items, [GOOD] * 65_536, [GOOD])
    assert (plan.rows.mapped, plan.rows.rejected) == (2, 1)
    (reject,) = read_rejects(tmp_path / "plan", RejectsOptions())
    assert "65,536 events; the limit is 65,535" in reject.detail
    check_number(range(65_535))


@pytest.mark.parametrize(
    "native_rows", [pytest.param(True, marks=pytest.mark.skipif(not AVAILABLE, reason="no C part")), False]
)
def test_each_item_is_counted_by_what_became_of_it_also_after_a_row_that_was_rejected_whole(native_rows: bool) -> None:
    """In a row that is rejected as a whole the first item counts; the next row's items are counted one by one."""
    counts = FieldCounts(Counted(nested=(Level(False, ("d",)),)))
    counts.begin(None)

    def scan(event: str, item: dict[str, Any]) -> None:
        if native_rows:
            counts.members(next(iter(native.Lines(json.dumps(item).encode(), (), False))))
        else:
            counts.row(item)
        counts.event = event

    scan("A", {"a": 1})
    scan("B", {"b": 2, "d": {"x": 1}})
    counts.settle([], (), "bad_value", rejected=True)
    scan("A", {"a": 1, "d": {"x": 1}})
    scan("C", {"c": 1})
    counts.settle_items([(None, (), "filtered", False), (None, ("C",), "", False)])

    found = counts.end()
    assert found.fields == {
        (0, "a", "reject:bad_value"): 1,
        (0, "a", "skip:filtered"): 1,
        (0, "d", "skip:filtered"): 1,
        (2, "x", "skip:filtered"): 1,
        (0, "c", "event:0"): 1,
    }
    assert found.rows == {"reject:bad_value": 1, "skip:filtered": 1, "event:0": 1}
