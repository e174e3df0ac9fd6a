"""Rows of the source next to their events: which are chosen, what is masked, and which rule gives each property."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec

import pipeline
from pipeline.options import PlanOptions
from pipeline.plan.samples.source_pairs import SentProperty, SourcePair, SourcePairs
from pipeline.plan.sealed.directory import read_lines
from pipeline.plan.sealed.manifest import Plan

MAPPING = """\
format: backcast.mapping/1
tool: shop
title: Shop
event: /name
events:
  Viewed:
    as: $pageview
    rename: {link: $current_url}
    set: {seen: /page/host}
  Opened: $pageview
distinct_id: [user, device]
time: {from: /at}
key: {of: [/id], needs: [/id]}
properties:
  open: /p
  drop: [secret]
  rename: {ref: $referrer}
  types: {price: number}
  spread: [{from: /extra, prefix: x_}]
  set:
    $host: /page/host
    $os: {first: [/os, system]}
  fill: {plan: /plan}
"""
HOSTILE = "<script>alert(1)</script>\u202egnp.exe " + "🧑‍🚀" * 3 + "ä" * 200
PERSON = "ada@example.com"


def row(number: int, name: str = "Viewed", year: int = 2022, **properties: Any) -> dict[str, Any]:
    return {
        "id": f"id-{number}", "name": name, "at": f"{year}-03-04T05:06:{number % 60:02}Z", "os": "BeOS", "plan": "gold",
        "page": {"host": "shop.example"}, "extra": {"a": "ex-tra"},
        "p": {"user": PERSON, "device": f"device-{number}", "secret": "top", "ref": "from.example", "price": "7719.25",
              "link": "https://shop.example/?q=1", "note": f"call {PERSON} now", "own": "kept", **properties},
    }  # fmt: skip


def written(folder: Path, rows: list[dict[str, Any]], name: str = "a.jsonl") -> Path:
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(one) + "\n" for one in rows).encode()
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return folder


def planned(folder: Path, sources: Any, **asked: Any) -> Plan:
    (folder / "mine.yaml").write_text(MAPPING, encoding="utf-8")
    options = PlanOptions(mapping=str(folder / "mine.yaml"), **{"workers": 0, "as_of": 1_767_225_600_000_000, **asked})
    return pipeline.plan_export(sources, folder / "plan", options)


def pairs_of(plan: Plan, folder: Path) -> list[SourcePair]:
    assert isinstance(plan.source_pairs, SourcePairs)
    found = list(read_lines(folder / "plan" / "source-pairs.jsonl", SourcePair))
    assert plan.source_pairs.pairs == len(found)
    return found


def property_of(pair: SourcePair, name: str) -> SentProperty:
    return next(one for one in (*pair.members, *pair.properties) if one.name == name)


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(MAPPING.splitlines(), 1) if text in line)


RULES = {
    "event": (["/name"], "events: Viewed: as", "as: $pageview"),
    "distinct_id": (["user", "device"], "distinct_id", "distinct_id:"),
    "timestamp": (["/at"], "time", "time:"),
    "uuid": (["/id"], "key", "key:"),
    "$current_url": (["link"], "events: Viewed: rename: link", "link: $current_url"),
    "seen": (["/page/host"], "events: Viewed: set: seen", "seen:"),
    "$referrer": (["ref"], "properties: rename: ref", "ref: $referrer"),
    "price": (["price"], "properties: types: price", "types:"),
    "$host": (["/page/host"], "properties: set: $host", "$host:"),
    "$os": (["/os"], "properties: set: $os", "$os:"),
    "plan": (["/plan"], "properties: fill: plan", "fill:"),
    "x_a": (["/extra/a"], "properties: spread", "spread:"),
    "own": (["own"], "kept under its name", None),
    "historical_migration": ([], "set by backcast", None),
}
"""By property: its fields, the rule that gives it, and a part of the rule's line."""


def test_each_property_names_its_fields_its_rule_and_the_line(tmp_path: Path) -> None:
    (pair,) = pairs_of(planned(tmp_path, written(tmp_path / "export", [row(1)])), tmp_path)
    for name, (fields, rule, line) in RULES.items():
        found = property_of(pair, name)
        assert (found.fields, found.rule, found.line) == (fields, rule, line_of(line) if line else 0), name
    assert pair.event_rule == "Viewed"
    assert next(one.by for one in pair.fields if one.field == "secret") == "drop"


def test_masked_plans_have_no_value_and_no_id(tmp_path: Path) -> None:
    """Neither plan.json nor the report has a value of the rows; with the options both have them."""
    source = written(tmp_path / "export", [row(1)])
    ids_of_row = (PERSON, "device-1")
    values_of_row = ("7719.25", "from.example", "BeOS", "gold", "ex-tra", "?q=1")
    for asked, ids, values in (
        ({}, False, False),
        ({"show_values": True}, False, True),
        ({"show_ids": True}, True, False),
        ({"show_values": True, "show_ids": True}, True, True),
    ):
        (pair,) = pairs_of(planned(tmp_path, source, **asked), tmp_path)
        text = msgspec.json.encode(pair).decode()
        assert [one in text for one in ids_of_row] == [ids] * 2
        assert [one in text for one in values_of_row] == [values] * 6
        if not asked:
            for file in ("plan.json", "report.json", "report.html", "source-pairs.jsonl"):
                written_text = (tmp_path / "plan" / file).read_text("utf-8")
                assert not [one for one in (*ids_of_row, *values_of_row) if one in written_text], file
    assert property_of(pair, "note").value == f'"call {PERSON} now"'


def test_hostile_values_are_cut_and_cannot_drive_a_page(tmp_path: Path) -> None:
    source = written(tmp_path / "export", [row(1, HOSTILE[:60], own=HOSTILE)])
    (pair,) = pairs_of(planned(tmp_path, source, show_values=True), tmp_path)
    value = property_of(pair, "own").value
    assert value.endswith(f"… (+{len(HOSTILE) + 2 - 120:,} characters)")
    assert "\\u202e" in value
    page = (tmp_path / "plan" / "report.html").read_text("utf-8")
    assert "Rows and their events" in page
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_each_entry_of_events_has_a_row_that_is_sent(tmp_path: Path) -> None:
    """If two entries give one name, the second has a pair, too: not a copy of an event, and not a rejected row."""
    copy = row(7, "Opened") | {"received": "2022-03-05T00:00:00Z"}
    rows = [row(1), row(2, "Other"), row(7, "Opened"), row(3, "Opened", 1066), copy, row(4, "Opened"), row(5, "Opened")]
    found = pairs_of(planned(tmp_path, written(tmp_path / "export", rows), max_rejects="9"), tmp_path)
    (opened,) = [pair for pair in found if pair.event_rule == "Opened"]
    sent = [name for name, rule in ((pair.event, pair.event_rule) for pair in found)]
    assert sorted(sent) == ["$pageview", "$pageview", "Other"]
    assert (opened.event, opened.year) == ("$pageview", 2022)
    assert opened.row in (3, 5, 6)
    page = (tmp_path / "plan" / "report.html").read_text("utf-8")
    assert "by the rule for <bdi>Opened</bdi>" in page


def test_the_first_event_of_each_name_and_year_whatever_the_workers_and_files(tmp_path: Path) -> None:
    """Copies are not shown; the choice is the same for any number of workers and order of the files."""
    rows = [row(number, f"Name {number % 5}", 2015 + number % 4) for number in range(400)]
    source = written(tmp_path / "export", rows[:200], "2021-01-01.jsonl.gz")
    written(source, [*rows[100:], row(999, "Name 1", 2021)], "2021-01-02.jsonl")
    files = sorted(source.iterdir())
    first = planned(tmp_path, files)
    found = pairs_of(first, tmp_path)
    assert isinstance(first.source_pairs, SourcePairs)
    assert first.source_pairs.kinds == 21
    assert len({(pair.event, pair.year) for pair in found}) == len(found) == 21
    for workers, order in ((0, -1), (2, 1)):
        assert pairs_of(planned(tmp_path, files[::order], workers=workers), tmp_path) == found
    lines = {file.name: (gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()).splitlines()
             for file in files}  # fmt: skip
    for pair in found:
        source_row = json.loads(lines[Path(pair.file).name][pair.row - 1])
        assert (source_row["name"], int(source_row["at"][:4])) == (pair.event, pair.year)
