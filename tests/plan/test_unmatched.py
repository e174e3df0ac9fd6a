"""References of a mapping that no row has: found in every format, exactly, and reported with the name that was
meant."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.mapper import available, load
from pipeline.mapper.program.references import required_references
from pipeline.mapper.registry import of_tool
from pipeline.models import Finding, SealedOptions
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan
from tests.support.commands import SAMPLES

MAPPING = """\
format: backcast.mapping/1
tool: shop
title: Shop
event: /name
distinct_id: [/user]
time: {from: /at}
key: {of: [/id], needs: [/id]}
"""
SETTING = "distinct_id: [/usr, {setting: anonymous, optional: yes}]\nsettings: {anonymous: the id of a device}"
ROW = {"name": "Seen", "user": "u-1", "at": "2023-01-02T03:04:05Z", "page_url": "/a", "plan": "pro"}


def rows(count: int = 3, **more: Any) -> list[dict[str, Any]]:
    """Rows, each of which is one event."""
    return [{**ROW, "id": f"i-{number}", **more} for number in range(count)]


def written(folder: Path, form: str, some: Iterable[dict[str, Any]]) -> Path:
    """A file of rows; objects are JSON strings if the format has no objects."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rows.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in some))
        return path
    flat = [{name: json.dumps(v) if isinstance(v, dict) else v for name, v in row.items()} for row in some]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(flat), path)
        return path
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(flat[0]))
        writer.writeheader()
        writer.writerows(flat)
    return path


def planned(folder: Path, source: Path, mapping: str, **asked: Any) -> Plan:
    """A plan of a file with a mapping given as a string, or a shipped one's name."""
    name = mapping
    if "\n" in mapping:
        (folder / "mine.yaml").write_text(mapping)
        name = str(folder / "mine.yaml")
    return pipeline.plan_export(source, folder / "plan", PlanOptions(**{"mapping": name, "workers": 0} | asked))


def gate_of(plan: Plan) -> Finding:
    return next(gate for gate in plan.gates if gate.name == "unmatched_reference")


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_a_misspelt_column_is_reported_with_the_one_that_was_meant(tmp_path: Path, form: str) -> None:
    """Wherever a mapping names it: in tables of names, values, conditions, below an object, for persons and groups.
    Correct names are not reported, and the plan is ready."""
    source = written(tmp_path, form, rows(context={"page": {"url": "/a", "referrer": "/b"}}))
    more = """\
properties:
  rename: {pageurl: $current_url, plan: tier}
  set:
    a: /context/page/refferer
    b: /contxt/page/url
    c: /context/page/url
    d: {template: "{/Plan} of {/plan}"}
skip:
  - {when: {is: "yes", of: /Page_URL}, code: test_row}
person:
  set: {plan: {lower: /plam}}
groups:
  types: {team: /tem}
"""
    plan = planned(tmp_path, source, MAPPING + more)
    gate = gate_of(plan)
    assert (gate.level, plan.verdict, plan.events.phases["events"]) == ("warning", "warnings", 3)
    told = gate.detail.split(": ", 1)
    assert told[0] == "7 references of the mapping are in no row"
    assert sorted(told[1].split("; ")) == [
        "'/Page_URL' (mine.yaml:16:28, did you mean 'page_url', which is in 3 rows?)",
        "'/Plan' (mine.yaml:14:8, did you mean 'plan', which is in 3 rows?)",
        "'/context/page/refferer' (mine.yaml:11:8, did you mean 'referrer', which is in 3 rows?)",
        "'/contxt/page/url' (mine.yaml:12:8, did you mean 'context', which is in 3 rows?)",
        "'/plam' (mine.yaml:18:23, did you mean 'plan', which is in 3 rows?)",
        "'/tem' (mine.yaml:20:17, no column is similar)",
        "'pageurl' (did you mean 'page_url', which is in 3 rows?)",
    ]


@pytest.mark.parametrize(
    ("form", "right", "wrong", "what"),
    [
        ("jsonl", "event: /name", "event: {first: [/nam, /Name]}", "an event's name"),
        ("csv", "distinct_id: [/user]", "distinct_id: [/usr, /User]", "a person"),
        ("parquet", "time: {from: /at}", "time: [{from: /att}, {from: /ats}]", "a time"),
        ("csv", "distinct_id: [/user]", SETTING, "a person"),
        ("jsonl", "key: {of: [/id], needs: [/id]}", "key: {of: [/ids, /user], needs: [/user]}", "its whole key"),
    ],
)
def test_what_no_row_can_do_without_stops_the_plan(
    tmp_path: Path, form: str, right: str, wrong: str, what: str
) -> None:
    """Whatever limit of rejects is set: if no alternative exists either."""
    source = written(tmp_path, form, rows())
    stopped = planned(tmp_path, source, MAPPING.replace(right, wrong), max_rejects="100%")
    gate = gate_of(stopped)
    assert (gate.level, stopped.ready) == ("stop", False)
    assert f"without it no row has {what}, did you mean" in gate.detail


@pytest.mark.parametrize("wrong", ["[/user, /usr]", "[{first: [/usr, /user]}]", "[/usr, {const: everybody}]"])
def test_an_alternative_that_is_there_is_enough(tmp_path: Path, wrong: str) -> None:
    """The alternative that no row has is a warning nevertheless."""
    source = written(tmp_path, "csv", rows())
    plan = planned(tmp_path, source, MAPPING.replace("[/user]", wrong))
    gate = gate_of(plan)
    assert (gate.level, plan.ready) == ("warning", True)
    assert gate.detail.startswith("1 reference of the mapping is in no row: '/usr'")


@pytest.mark.parametrize(("form", "workers"), [("jsonl", 2), ("csv", 0)])
def test_one_row_of_the_last_block_is_enough(tmp_path: Path, form: str, workers: int) -> None:
    """The whole source is searched, block by block, in every process; broken rows do not matter."""
    folder = tmp_path / "export"
    for number in range(4):
        some = rows(2, **({"late": number, "context": {"deep": 1}} if number == 3 else {"context": {"other": 1}}))
        written(folder / str(number), form, some)
    (folder / "4").mkdir()
    (folder / "4" / "broken.jsonl").write_text('{"never": 1, "name": }\n')
    text = MAPPING + "properties:\n  set: {a: /late, b: /context/deep, c: /never}\n"
    plan = planned(tmp_path, folder, text, workers=workers, max_rejects="1")
    assert gate_of(plan).detail.startswith("1 reference of the mapping is in no row: '/never'")


def test_opened_properties_are_looked_at_by_either_name(tmp_path: Path) -> None:
    """A property, and the path to it, count as one; rows whose properties are a string are opened like any others."""
    some = rows(2, properties={"plan": "pro", "city": "x"}) + rows(1, properties='{"late": 1}')
    source = written(tmp_path, "jsonl", some)
    more = "properties:\n  open: /properties\n  rename: {plan: tier, Late: l}\n  set: {a: /properties/city, b: citty}\n"
    assert gate_of(planned(tmp_path, source, MAPPING + more)).detail == (
        "2 references of the mapping are in no row: 'Late' (did you mean 'late', which is in 1 row?);"
        " 'citty' (mine.yaml:11:33, did you mean 'city', which is in 2 rows?)"
    )


def test_shipped_mappings_are_quiet() -> None:
    """Any export lacks many of the names in them."""
    for name in available():
        found = load(name)
        assert required_references(found, SealedOptions(as_of=0), of_tool(found.tool)) == ()


@pytest.mark.parametrize(("tool", "files"), [("amplitude", "amplitude"), ("segment", "segment/archive")])
def test_of_a_changed_copy_only_the_change_is_looked_at(tmp_path: Path, tool: str, files: str) -> None:
    """The rest is as optional as in the shipped mapping."""
    extra = "also:\n  - {event: {const: Mailed}, when: {present: /e_mail_adress}}\n"
    text = load(tool).text.replace("\ncases:\n", f"\n{extra}\ncases:\n", 1)
    gate = gate_of(planned(tmp_path, SAMPLES / files, text))
    assert gate.detail.startswith("1 reference of the mapping is in no row: '/e_mail_adress'")


def test_what_an_operator_names_is_looked_at_in_a_shipped_mapping(tmp_path: Path) -> None:
    """For example a group type of Mixpanel's."""
    asked: dict[str, Any] = {"timezone": "America/New_York", "settings": {"groups": "compny"}}
    assert "'compny'" in gate_of(planned(tmp_path, SAMPLES / "mixpanel", "mixpanel", **asked)).detail


def test_existing_columns_are_not_reported(tmp_path: Path) -> None:
    """The form of a time, whatever characters it has; a table names its columns, so one without any value exists."""
    source = written(tmp_path, "csv", [{**row, "at": "02.01.2023 03:04", "coupon": None} for row in rows()])
    clock = 'time: {from: /at, unit: format, format: "%d.%m.%Y %H:%M"}'
    more = "properties:\n  set: {a: /coupon, b: /cupon}\n"
    plan = planned(tmp_path, source, MAPPING.replace("time: {from: /at}", clock) + more)
    told = "1 reference of the mapping is in no row: '/cupon' (mine.yaml:9:24, did you mean 'coupon'?)"
    assert (gate_of(plan).detail, plan.events.made) == (told, 3)


def test_a_name_on_the_way_to_another_is_looked_at(tmp_path: Path) -> None:
    """The first misspelt name is reported, with the object that lacks it; so are members of an opened column's
    column."""
    source = written(tmp_path, "jsonl", rows(context={"page": {"url": "/a"}, "p": {"plan": 1}}))
    more = "properties:\n  open: /context/p\n  set: {a: /context/pag/url, b: /context/p/plan}\n"
    told = "'/context/pag/url' (mine.yaml:10:12, did you mean 'page', which is in 3 rows?)"
    assert gate_of(planned(tmp_path, source, MAPPING + more)).detail.partition(": ")[2] == told
