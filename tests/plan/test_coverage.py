"""The coverage of a plan: every field in every row is mapped, kept or dropped, and each event name has its rows."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.mapper.inspection import field_uses
from pipeline.mapper.language.loader import parse
from pipeline.models import SealedOptions
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.statistics import coverage as plan_coverage
from pipeline.plan.statistics import spilling_counts
from pipeline.plan.statistics.coverage import Coverage, EventCoverage, FieldCoverage
from tests.golden.samples import AS_OF, GOLDEN, SAMPLES

SHOP = """\
format: backcast.mapping/1
tool: shop
title: Shop
event: /name
events:
  Viewed: {as: $pageview, rename: {link: $current_url}, drop: [noise]}
  Joined: {link: {kind: identify, distinct_id: user, other: device}}
  Noise: {skip: noise}
distinct_id: [user]
time: {from: /at}
skip: [{when: {present: /test}, code: test_row}]
key: {of: [/id], needs: [/id]}
properties:
  open: /p
  drop: [secret, /internal]
  rename: {ref: $referrer}
  set: {$host: /page/host, $os: {first: [/os, system]}}
"""
FLAT = """\
format: backcast.mapping/1
tool: flat
title: Flat
event: name
distinct_id: [user]
time: {from: at}
properties: {drop: [secret], rename: {ref: $referrer}}
"""


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows of all outcomes: events by a rule and without, merges, skipped and rejected rows, odd shapes."""
    chance = random.Random(seed)
    some = []
    for number in range(count):
        name = chance.choice(["Viewed", "Viewed", "Bought", "Joined", "Noise", "Äh 灯"])
        inside: dict[str, Any] = {"user": f"u-{number % 7}", "device": f"d-{number}"}
        for field in ("link", "noise", "secret", "ref", "system", "odd", "none"):
            if chance.random() < 0.4:
                inside[field] = {"odd": [1, {"a": "b"}], "none": None}.get(field, f"some {field}")
        at = f"2023-01-02T03:04:{number % 60:02}Z"
        row: dict[str, Any] = {"id": f"{seed}-{number}", "name": name, "at": at, "p": inside}
        if chance.random() < 0.5:
            deep = {"deep": {"x": 1}} if chance.random() < 0.3 else {}
            row["page"] = {"host": "shop.example", "title": "T", **deep}
        for column in ("os", "internal", "extra", "test"):
            if chance.random() < 0.15:
                row[column] = f"a {column}"
        if chance.random() < 0.05:
            row["at"] = "not a time"
        if chance.random() < 0.03:
            row["p"] = "no object"
        if chance.random() < 0.03:
            del inside["user"]
        some.append(row)
    return some


def written(folder: Path, files: int = 3, count: int = 100) -> Path:
    """Some files of rows, each a block, with broken lines and lines that the C part leaves to Python."""
    source = folder / "export"
    source.mkdir()
    for file in range(files):
        lines = [json.dumps(row, ensure_ascii=row["name"] == "Bought") for row in rows(file, count)]
        lines.insert(3, "{broken")
        lines[7] = lines[7][:-1] + ',"os":"one","os":"two"}'  # a repeated name is read by Python
        (source / f"{file}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return source


def planned(folder: Path, source: Path, mapping: str = SHOP, **asked: Any) -> Plan:
    """A plan with a mapping's text."""
    (folder / "mine.yaml").write_text(mapping, encoding="utf-8")
    options = PlanOptions(mapping=str(folder / "mine.yaml"), **{"workers": 0, "as_of": 1_767_225_600_000_000, **asked})
    return pipeline.plan_export(source, folder / "plan", options)


def coverage_of(plan: Plan) -> Coverage:
    assert isinstance(plan.coverage, Coverage)
    return plan.coverage


def field_of(coverage: Coverage, name: str) -> FieldCoverage:
    return next(one for one in coverage.fields if one.field == name)


def event_of(coverage: Coverage, name: str) -> EventCoverage:
    return next(one for one in coverage.events if one.event == name)


def adds_up(coverage: Coverage) -> None:
    """Each row that has a field or a name is counted once, by its outcome."""
    for one in coverage.fields:
        assert one.mapped + one.kept + one.dropped == one.rows <= coverage.rows, one
        assert sum(one.by.values()) == one.dropped, one
        assert bool(one.to) == bool(one.mapped + one.kept), one
    for event in coverage.events:
        assert event.become_events + event.updates + sum(event.left_out.values()) == event.rows, event


def test_the_rows_of_each_field_are_mapped_kept_or_dropped(tmp_path: Path) -> None:
    """The three add up to the rows that have the field, counted separately from the plan; so do the rows of each
    name."""
    source = written(tmp_path)
    coverage = coverage_of(planned(tmp_path, source, max_rejects="100%"))
    expected: Counter[str] = Counter()
    names: Counter[str] = Counter()
    lines = [line for file in source.iterdir() for line in file.read_text("utf-8").splitlines() if line != "{broken"]
    for row in map(json.loads, lines):
        names[row["name"]] += "test" not in row and isinstance(row["p"], dict)
        expected.update(f"/{name}" for name in row)
        expected.update(list(row["p"]) if isinstance(row["p"], dict) else [])
        expected.update(f"/page/{name}" for name in row.get("page", ()))
    assert coverage.rows == len(lines)
    assert {one.field: one.rows for one in coverage.fields} == dict(expected)
    assert {one.event: one.rows for one in coverage.events} == dict(names)
    adds_up(coverage)


def test_what_becomes_of_each_field(tmp_path: Path) -> None:
    """Where a field goes, or which rule drops it, depends on the row's own event."""
    source = written(tmp_path)
    coverage = coverage_of(planned(tmp_path, source, max_rejects="100%"))
    assert set(field_of(coverage, "link").to) == {"$current_url", "link"}
    assert (field_of(coverage, "ref").to, field_of(coverage, "ref").kept) == (["$referrer"], 0)
    assert set(field_of(coverage, "noise").by) >= {"events: Viewed: drop", "skip: noise", "events: Joined: no event"}
    assert field_of(coverage, "secret").by["drop"] > 0
    assert field_of(coverage, "secret").kept == 0
    assert field_of(coverage, "/internal").by["drop"] > 0
    assert field_of(coverage, "/os").to == ["$os"]
    assert field_of(coverage, "system").to == ["$os", "system"]
    assert field_of(coverage, "/page").to == ["(its members)"]
    assert field_of(coverage, "/page/host").to == ["$host"]
    assert "other members of /page are read" in field_of(coverage, "/page/title").by
    assert field_of(coverage, "/extra").to == ["shop_extra"]
    assert field_of(coverage, "/test").by.keys() == {"skip: test_row", "rejected: bad_value"}
    assert field_of(coverage, "odd").examples == ['[•••, {"a": "•••"}]']
    assert field_of(coverage, "user").examples == ['"•••"']
    unmapped = {one.field for one in coverage.fields if one.unmapped}
    assert unmapped == {"odd", "none", "/extra"}
    assert coverage.fields_total.unmapped == 3
    assert (event_of(coverage, "Viewed").to, event_of(coverage, "Viewed").unmapped) == ("$pageview", False)
    assert event_of(coverage, "Joined").become_events == 0 < event_of(coverage, "Joined").updates
    assert {one.event for one in coverage.events if one.unmapped} == {"Bought", "Äh 灯"}


def test_names_of_the_service_are_not_unmapped(tmp_path: Path) -> None:
    """The service itself uses `$current_url`, so no rule is missing; another name with a `$` is a tool's own. `known`
    names fields and events that stay as they are, also by prefix."""
    source = tmp_path / "rows.jsonl"
    row = {"name": "$pageview", "user": "u", "at": "2023-01-02T03:04:05Z", "$current_url": "/", "$geoip_city_name": "B"}
    source.write_text(json.dumps({**row, "$mine": 1}) + "\n")
    coverage = coverage_of(planned(tmp_path, source, FLAT))
    assert [one.field for one in coverage.fields if one.unmapped] == ["$mine"]
    assert coverage.events_total.unmapped == 0
    known = "known: {events: [Bought, Ä*], fields: [o*, none, /extra]}\n"
    coverage = coverage_of(planned(tmp_path, written(tmp_path), SHOP + known, max_rejects="100%"))
    assert coverage.unmapped == 0


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_flat_row_is_its_own_properties(tmp_path: Path, form: str) -> None:
    """Columns are properties; a blank cell of a table is not a value."""
    source = tmp_path / f"rows.{form}"
    if form == "csv":
        lines = ["name,user,at,ref,secret,other", "a,u,2023-01-02T03:04:05Z,r,s,", "b,u,2023-01-02T03:04:06Z,,s,o"]
    else:
        shared = {"user": "u", "at": "2023-01-02T03:04:05Z", "secret": "s"}
        lines = [json.dumps(shared | row) for row in ({"name": "a", "ref": "r"}, {"name": "b", "other": 1})]
    source.write_text("\n".join(lines) + "\n")
    coverage = coverage_of(planned(tmp_path, source, FLAT))
    assert {one.field: (one.rows, one.mapped, one.kept, one.dropped) for one in coverage.fields} == {
        "name": (2, 2, 0, 0), "user": (2, 2, 0, 0), "at": (2, 2, 0, 0), "ref": (1, 1, 0, 0), "secret": (2, 0, 0, 2),
        "other": (1, 0, 1, 0),
    }  # fmt: skip


def test_items_left_out_of_a_row_that_is_sent_are_counted(tmp_path: Path) -> None:
    """In a row with several items each is counted; items skipped next to an event are counted by code."""
    mapping = FLAT.replace("properties:", "skip: [{when: {is: no, of: send}, code: unwanted}]\nproperties:")
    mapping = mapping.replace("event: name", "decoder: {explode: items}\nevent: name")
    item = {"name": "a", "user": "u", "at": "2023-01-02T03:04:05Z"}
    lines = [
        {"batch": 1, "items": [item, {**item, "send": "no"}, {**item, "at": "never"}, 7]},
        {"batch": 2, "items": [{**item, "send": "no"}]},
        {"batch": 3, "items": []},
        {"batch": 4, "items": [{**item, "send": "no"}, {**item, "send": "no"}]},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    plan = planned(tmp_path, tmp_path / "rows.jsonl", mapping, max_rejects="100%")
    coverage = coverage_of(plan)
    assert coverage.skipped_items == {"unwanted": 1}
    assert plan.skips == {"unwanted": 2, "empty_row": 1}
    assert (coverage.unit, coverage.rows) == ("items", 8)
    batch = field_of(coverage, "batch")
    assert (batch.rows, batch.kept, batch.by) == (
        7, 1, {"skip: unwanted": 4, "rejected: bad_timestamp": 1, "skip: empty_row": 1},
    )  # fmt: skip
    assert event_of(coverage, "a").left_out == {"bad_timestamp": 1}


def test_more_names_than_are_listed_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most frequent are listed, all are counted, and counts on disk are merged."""
    monkeypatch.setattr(plan_coverage, "MOST_FIELDS", 5)
    monkeypatch.setattr(plan_coverage, "MOST_EVENTS", 2)
    monkeypatch.setattr(spilling_counts, "MOST_KEYS", 3)
    source = written(tmp_path)
    coverage = coverage_of(planned(tmp_path, source, max_rejects="100%"))
    assert (coverage.fields_total.met, coverage.fields_total.listed, len(coverage.fields)) == (21, 5, 5)
    assert coverage.fields_total.unmapped == 3
    assert (coverage.events_total.met, len(coverage.events)) == (5, 2)


def test_what_the_mapping_names_and_no_row_has(tmp_path: Path) -> None:
    """References and event names that occur in no row are listed as the mapping spells them."""
    source = tmp_path / "rows.jsonl"
    source.write_text('{"id":1,"name":"Viewed","at":"2023-01-02T03:04:05Z","p":{"user":"u"}}\n')
    coverage = coverage_of(planned(tmp_path, source))
    missing = {"/test", "/internal", "/page/host", "/os", "system", "ref", "link", "noise", "secret", "device"}
    assert set(coverage.never_met) == missing
    assert coverage.never_met_events == ["Joined", "Noise"]


def test_a_template_names_what_it_makes() -> None:
    """An event name that a template with fixed words makes is listed; one from a lookup, too."""
    named = 'event: {first: [{template: "Viewed {/page} Page"}, {lookup: /name, in: {a: B}}]}'
    text = SHOP.replace("event: /name", named)
    uses = field_uses.FieldUses(parse(text, "mine.yaml"), SealedOptions(as_of=0))
    assert [uses.is_named_event(name) for name in ("Viewed Home Page", "B", "a", "Other")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("limit", "verdict"), [("5", "warnings"), ("4", "not-ready"), ("20%", "warnings"), ("19%", "not-ready")]
)
def test_a_limit_of_unmapped_names_is_a_check(tmp_path: Path, limit: str, verdict: str) -> None:
    """The option gives how many fields and names, or what share of all, may be kept without being named."""
    source = written(tmp_path)
    plan = planned(tmp_path, source, max_rejects="100%", max_unmapped=limit)
    coverage = coverage_of(plan)
    assert (coverage.unmapped, coverage.met) == (5, 26)
    assert plan.verdict == verdict
    found = [gate.detail for gate in plan.gates if gate.name == "max_unmapped"]
    assert bool(found) == (verdict == "not-ready")
    for detail in found:
        assert "3 fields (none, odd, /extra); 2 event names (Bought, Äh 灯)" in detail


@pytest.mark.parametrize("name", ["ga4", "mixpanel-people", "segment-warehouse"])
def test_the_coverage_of_a_shipped_mapping_adds_up(tmp_path: Path, name: str) -> None:
    """Also for decoded rows, tables, computed properties, profiles and nested objects."""
    sample = GOLDEN[name]
    options = PlanOptions(as_of=AS_OF, workers=0, **sample.asked)
    plan = pipeline.plan_export([str(SAMPLES / file) for file in sample.files], tmp_path / "plan", options)
    coverage = coverage_of(plan)
    adds_up(coverage)
    if coverage.unit == "rows":
        become = sum(event.become_events for event in coverage.events)
        assert become - coverage.duplicates == plan.events.phases["events"]
