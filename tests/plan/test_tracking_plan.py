"""`plan --types`: the events of a plan compared with a tracking plan, in the shapes in which tools export one; and
types that a mapping requires."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.jobs.loading import load_job
from pipeline.plan.samples.source_pairs import Shown
from pipeline.plan.statistics.sample import EventSample
from pipeline.plan.statistics.tracking_plan import TrackingPlan, broken_by, compare
from pipeline.timestamps import DAY
from pipeline.transform.sample import Sampler
from tests.plan.test_drift import block_of
from tests.support.commands import generic

ORDER = {
    "type": "object",
    "required": ["order_id", "revenue"],
    "properties": {
        "order_id": {"type": "string"},
        "revenue": {"type": "number"},
        "currency": {"enum": ["EUR", "USD"]},
        "sent": {"type": "string", "format": "date-time"},
    },
}
CALL = {"type": "object", "properties": {"context": {}, "traits": {}, "properties": ORDER}, "required": ["properties"]}
SHAPES: dict[str, Any] = {
    "Segment's Config API, RudderStack": {"rules": {"events": [{"name": "Order", "rules": CALL}]}},
    "Segment's Public API": {"data": {"rules": [{"type": "TRACK", "key": "Order", "jsonSchema": CALL}]}},
    "Avo": {"name": "Avo", "events": [{"id": "x", "name": "Order", "rules": CALL}]},
    "Mixpanel": {"results": [{"entityType": "event", "name": "Order", "schemaJson": ORDER}]},
    "by hand": {"Order": ORDER},
}


def written(folder: Path, document: Any) -> Path:
    file = folder / "tracking.json"
    file.write_text(json.dumps(document))
    return file


def exported(folder: Path, *events: tuple[str, dict[str, Any]]) -> Path:
    """An export with these events, a row each."""
    file = folder / "export.jsonl"
    rows = [
        {"event": name, "distinct_id": "u", "timestamp": f"2023-05-01T10:{row:02d}:00Z", "uuid": None, **properties}
        for row, (name, properties) in enumerate(events)
    ]
    file.write_text("".join(json.dumps({key: one for key, one in row.items() if one}) + "\n" for row in rows))
    return file


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_schema_is_read_in_each_shape(tmp_path: Path, shape: str) -> None:
    """Without what surrounds it; a rule that is not applied is listed with its place."""
    plan = TrackingPlan(written(tmp_path, SHAPES[shape]))
    assert (plan.events, plan.not_checked) == ({"Order": ORDER}, {"format": ["Order, sent"]})


def test_what_is_not_applied_is_listed(tmp_path: Path) -> None:
    """Rules of other calls and of the context, compositions, unknown types, and keywords with a value of another type,
    which are then not applied at all."""
    of_call = {"properties": {"context": {"required": ["ip"]}, "properties": {"oneOf": [], "required": "x"}}}
    inside = {"properties": {"a": {"$ref": "#"}, "b": {"type": "any"}, "c": {"pattern": "["}, "d": {"minimum": True}}}
    rules = {"events": [{"name": "A", "rules": of_call}, {"name": "B", "rules": inside}], "identify": {"required": []}}
    rules["events"].append({"name": "P", "eventType": "page", "rules": ORDER})
    plan = TrackingPlan(written(tmp_path, {"rules": {**rules, "identify": {"x": 1}}}))
    assert plan.not_checked == {
        "rules of identify": ["tracking.json"], "rules of page": ["P"], "context": ["A"], "oneOf": ["A"],
        "required": ["A"], "$ref": ["B, a"], "type any": ["B, b"], "pattern": ["B, c"], "minimum": ["B, d"],
    }  # fmt: skip
    assert list(broken_by(plan.events["A"], {"y": 1})) == []
    assert list(broken_by(plan.events["B"], {"a": 1, "b": 2, "c": "x", "d": 0})) == []


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"data": [{"event_type": "Order"}]}, "tracking.json is not a tracking plan of a known shape"),
        ({"events": [{"name": "Order"}]}, "tracking.json: entry 1 has no name with a JSON Schema"),
        ({"data": {"rules": [], "pagination": {"next": "2"}}}, "tracking.json is one page of a tracking plan"),
        ([{"name": "Order", "rules": ORDER}] * 2, "tracking.json has two schemas of 'Order'"),
        ([], "tracking.json has no schema of any event"),
    ],
)
def test_another_shape_is_an_error(tmp_path: Path, document: Any, message: str) -> None:
    """And so are one page of several, and an event with two schemas, one of which would be ignored."""
    with pytest.raises(UsageError, match=re.escape(message)):
        TrackingPlan(written(tmp_path, document))


@pytest.mark.parametrize(
    ("schema", "value", "broken"),
    [
        ({"type": ["integer", "null"]}, 1.0, []),
        ({"type": "number"}, True, [("", "type")]),
        ({"enum": [1, "a"]}, True, [("", "enum")]),
        ({"pattern": "^o-"}, "x-o-", [("", "pattern")]),
        ({"maxLength": 1, "minimum": 3}, "ab", [("", "maxLength")]),
        ({"properties": {"a": {}}}, {"b": 1, "$browser": 1}, [("b", "unplanned property")]),
        ({"properties": {"a": {}}, "additionalProperties": True}, {"b": 1}, []),
        ({"properties": {"a": {"properties": {}}}}, {"a": {"b": 1}}, []),
        (
            {"properties": {"a.b": {"items": {"required": ["c"], "additionalProperties": False}}}},
            {"a.b": [{"d": 1}, {"c": 2}]}, [("a.b.[].c", "missing"), ("a.b.[].c", "unplanned property"),
                                           ("a.b.[].d", "unplanned property")],
        ),
    ],
)  # fmt: skip
def test_what_breaks_a_schema(schema: Any, value: Any, broken: list[tuple[str, str]]) -> None:
    """As JSON Schema says, except that the properties that an event's schema lists are all that are planned."""
    assert sorted({(".".join(one.path), one.rule) for one in broken_by(schema, value)}) == broken


def test_a_plan_counts_what_breaks_its_tracking_plan(call: Any, tmp_path: Path) -> None:
    """By event and property, with the first row and its masked value; on the terminal, on the page and in JSON. It
    warns, and stops the plan if a person requires it."""
    good = {"order_id": "o-1", "revenue": 12.5, "currency": "EUR", "$browser": "Chrome"}
    export = exported(
        tmp_path, ("Order", good), ("Order", {**good, "revenue": "secret", "colour": 1}), ("Seen", {}),
        ("Order", {"revenue": "more", "currency": "GBP"}), ("Seen", {}), ("Seen", {}),
    )  # fmt: skip
    types = written(tmp_path, {"Order": ORDER, "Never": {}})
    words = (export, *generic()[:-2], "-o", tmp_path / "plan", "--types", types)
    found = call("plan", *words, "--json").json["tracking_plan"]
    assert [tuple(one.values()) for one in found["violations"]] == [
        ("Seen", "", "unplanned event", "", 3, "", "row 3 of export.jsonl"),
        ("Order", "revenue", "type", "number", 2, '"•••"', "row 2 of export.jsonl"),
        ("Order", "colour", "unplanned property", "", 1, "•••", "row 2 of export.jsonl"),
        ("Order", "currency", "enum", '["EUR", "USD"]', 1, '"•••"', "row 4 of export.jsonl"),
        ("Order", "order_id", "missing", "", 1, "", "row 4 of export.jsonl"),
    ]
    assert (found["found"], found["planned"], found["unseen"]) == (5, 2, ["Never"])
    assert found["not_checked"] == {"format": "1, the first in Order, sent"}
    page = re.sub("<.*?>", "", (tmp_path / "plan" / "report.html").read_text())
    assert all(
        text in page for text in ("Not checked: format (1, ", "unplanned property", "do not occur: 1, such as Never")
    )
    assert "secret" not in page
    stopped = call("plan", *words, "--stop-on", "tracking_plan")
    assert (stopped.code, "STOP tracking_plan: 5 violations" in stopped.out) == (4, True)
    assert "NOTICE tracking_plan_not_checked" in stopped.out


def test_numbers_from_a_sample_are_estimates_for_all_events(tmp_path: Path) -> None:
    """A third of the events break the plan, of which the sample has a part; unplanned events are counted exactly."""
    revenues = [row if row % 3 else f"x{row}" for row in range(3000)]
    events = [("Order" if row % 2 else "Seen", row % 90 * DAY, {"revenue": one}) for row, one in enumerate(revenues)]
    sample = EventSample(tmp_path, 600)
    sample.add(0, Sampler(600).choose(block_of(events)))
    schema = {"properties": {"revenue": {"type": "number"}}}
    found = compare(TrackingPlan(written(tmp_path, {"Order": schema})), sample, Shown(), str)
    sample.close()
    unplanned, wrong = found.violations
    assert (unplanned.event, unplanned.events) == ("Seen", 1500)
    assert 350 < wrong.events < 650


def test_a_mapping_can_stop_a_plan_at_values_of_another_type(call: Any, tmp_path: Path) -> None:
    """The plan is not ready, with the number of values by property and the first row of each; what a mapping turns into
    null is a warning, and what it rejects has a code."""
    export = exported(
        tmp_path, ("Order", {"a": "1.50", "b": "x"}), ("Order", {"a": "x", "b": "y"}), ("Order", {"a": "y", "c": "x"}),
        ("Order", {"d": "12,5"}),
    )  # fmt: skip
    mapping = tmp_path / "shop.yaml"
    mapping.write_text(
        "format: backcast.mapping/1\ntool: shop\ntitle: a shop\nevent: event\ntime: {from: timestamp}\n"
        "distinct_id: {first: distinct_id}\nproperties:\n  drop: [event, timestamp, distinct_id]\n  types:\n"
        "    a: {as: number, else: stop}\n    b: {as: number, else: stop}\n    c: {as: number, else: null}\n"
        "    d: {as: number, else: reject}\n"
    )
    planned = call("plan", export, "-m", mapping, "-o", tmp_path / "plan", "--json")
    (stop,) = (gate for gate in planned.json["gates"] if gate["name"] == "unconverted")
    assert (planned.code, stop["level"], stop["examples"]) == (
        4, "stop",
        ["2 values, the first in row 2 of export.jsonl (a: not a number: 'x')",
         "2 values, the first in row 1 of export.jsonl (b: not a number: 'x')"],
    )  # fmt: skip
    assert (planned.json["warnings"], planned.json["rejects"]) == ({"nulled_value": 1}, {"bad_value": 1})


def test_a_job_file_names_a_tracking_plan(tmp_path: Path) -> None:
    """Under `types`, relative to the job file."""
    file = tmp_path / "job.yaml"
    file.write_text(
        "job: nightly\nsource: exports/{date:%Y-%m-%d}.jsonl\nmapping: mixpanel\nfrom: 2024-01-01\nto: us\n"
        "persons: {properties: none}\ntypes: tracking.json\nchecks: {tracking_plan: stop}\n"
    )
    written(tmp_path, {"Order": ORDER})
    assert load_job(file).plan.types == tmp_path / "tracking.json"
