"""Lookup files: rows of other files of an export are entries of the mapping's tables, sealed in the plan."""

from __future__ import annotations

import json
import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipeline import plan_export
from pipeline.errors import MappingError, StalePlan, UnfitExport, UsageError
from pipeline.mapper.inspection.cases import run_cases
from pipeline.mapper.inspection.ineffective import check_mapping
from pipeline.mapper.language.loader import parse
from pipeline.options import PlanOptions
from pipeline.plan import lookup_rows, lookup_writer
from pipeline.plan import lookups as plan_lookups
from pipeline.plan.lookups import load_lookups
from pipeline.plan.sealed.contents import check_tables
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import Plan
from tests.support.sent_events import events_of

PAGES = {"file": ["pages/*.jsonl"], "key": "/id", "value": "/page/name"}
BROWSERS = {"file": "browser.tsv", "columns": ["id", "name"], "key": "/id", "value": "/name"}
MAPPING: dict[str, Any] = {
    "format": "backcast.mapping/1", "tool": "acme", "title": "Acme",
    "files": {"delimiter": "\t", "quotes": "none", "encoding": "iso-8859-1", "only": ["hits*"]},
    "lookup_files": {"pages": PAGES, "browsers": BROWSERS},
    "event": {"const": "seen"}, "distinct_id": ["/who"], "time": {"from": "/at"},
    "properties": {
        "rest": "drop",
        "set": {
            "page": {"lookup": "/page", "table": "pages", "else": "keep"},
            "$browser": {"lookup": "/browser", "table": "browsers"},
        },
    },
}  # fmt: skip
HITS = [
    {"who": "u-1", "at": "2023-01-02T03:04:05Z", "page": "p-1", "browser": 7},
    {"who": "u-1", "at": "2023-01-02T03:04:06Z", "page": "p-9", "browser": 8},
]
PAGE_ROWS = [{"id": "p-1", "page": {"name": "Start"}}, {"id": "p-2"}]


def export(folder: Path, **changes: bytes | None) -> Path:
    """An export with two lookup files; `changes` replaces files or, with None, leaves them out."""
    files: dict[str, bytes | None] = {
        "hits.jsonl": lines(*HITS), "pages/1.jsonl": lines(*PAGE_ROWS), "browser.tsv": b"7\tCh\xfcrome\n8\tSafari\n",
    } | {name.replace("__", "/").replace("_", "."): content for name, content in changes.items()}  # fmt: skip
    for name, content in files.items():
        if content is not None:
            path = folder / "export" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return folder / "export"


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def planned(folder: Path, source: Path, mapping: dict[str, Any] = MAPPING) -> Plan:
    folder.mkdir(exist_ok=True)
    (folder / "acme.yaml").write_text(json.dumps(mapping))
    return plan_export([str(source)], folder / "plan", PlanOptions(mapping=str(folder / "acme.yaml"), workers=0))


def sent(place: Path) -> list[tuple[Any, Any]]:
    """The values that the lookups gave each event."""
    return [(one["properties"].get("page"), one["properties"].get("$browser")) for one in events_of(place)]


def notices(plan: Plan) -> dict[str, str]:
    return {where: detail for code, where, detail in plan.notices if code.startswith("lookup")}


def test_rows_of_other_files_are_entries_of_tables(tmp_path: Path) -> None:
    """Delimited files without a header are read with the delimiter and the encoding of `files`; their rows are not
    events."""
    source = export(tmp_path)
    plan = planned(tmp_path, source)
    assert [part.path for part in plan.parts] == ["hits.jsonl"]
    assert sent(tmp_path / "plan") == [("Start", "Chürome"), ("p-9", "Safari")]
    codes = sorted((code, where) for code, where, _ in plan.notices if code.startswith("lookup"))
    assert codes == [("lookup_file", "browser.tsv"), ("lookup_file", "pages/1.jsonl"), ("lookup_row", "pages/1.jsonl")]
    assert notices(plan)["browser.tsv"] == "2 entries of the table 'browsers'"


def test_the_tables_are_sealed_in_the_plan(tmp_path: Path) -> None:
    """It no longer needs its lookup files; a table that was changed in the plan makes it stale."""
    source = export(tmp_path)
    planned(tmp_path, source)
    (source / "browser.tsv").unlink()
    plan, directory = open_plan(tmp_path / "plan")
    tables = load_lookups(plan, directory)
    assert tables["browsers"] == {"7": "Chürome", "8": "Safari"}
    directory.lookups.write_bytes(directory.lookups.read_bytes().replace(b"Safari", b"Chrome"))
    with pytest.raises(StalePlan, match=r"lookups\.json"):
        check_tables(plan, directory)


def test_several_values_are_an_object(tmp_path: Path) -> None:
    """Values that a row does not have are left out; numbers stay numbers."""
    pages = {"file": "pages/*", "key": "/id", "values": ["/page/name", "/rank"]}
    rows = [{"id": "p-1", "page": {"name": "Start"}, "rank": 2}, {"id": "p-9", "rank": 1.5}, {"id": "p-3"}]
    mapping = MAPPING | {"lookup_files": {"pages": pages, "browsers": BROWSERS}}
    plan = planned(tmp_path, export(tmp_path, pages__1_jsonl=lines(*rows)), mapping)
    found = json.loads((tmp_path / "plan" / "lookups.json").read_bytes())["pages"]
    assert found == {"p-1": '{"name":"Start","rank":2}', "p-9": '{"rank":1.5}'}
    without = "1 row without /id and /page/name or /rank for the table 'pages'"
    assert ("lookup_row", "pages/1.jsonl", without) in plan.notices


def test_a_later_row_of_one_key_counts_and_is_noticed(tmp_path: Path) -> None:
    """Files are read in the natural order of their names. Rows of a lookup file can be events too."""
    later = lines({"id": "p-1", "page": {"name": "Home"}})
    people = {"file": "hits*", "key": "/browser", "value": "/who", "rows": "yes"}
    mapping = MAPPING | {"lookup_files": {"pages": PAGES, "browsers": people}}
    plan = planned(tmp_path, export(tmp_path, pages__10_jsonl=later), mapping)
    assert [(part.path, part.rows) for part in plan.parts] == [("hits.jsonl", 2)]
    assert sent(tmp_path / "plan") == [("Home", "u-1"), ("p-9", "u-1")]
    (detail,) = (detail for code, _, detail in plan.notices if code == "lookup_changed")
    assert detail == "1 key of the table 'pages' had another value before, such as p-1; the value in this file counts"


def test_a_lookup_file_that_is_missing_stops_unless_the_mapping_says_otherwise(tmp_path: Path) -> None:
    """An empty file counts as present; in a file with other columns, or of rows that cannot be read, every lookup would
    find nothing."""
    with pytest.raises(UnfitExport, match=r"no row of pages/1\.jsonl has /id and /page/name"):
        planned(tmp_path, export(tmp_path / "other", pages__1_jsonl=lines({"ID": "p-1"})))
    with pytest.raises(UnfitExport, match=r"is built from, and row 1: "):
        planned(tmp_path, export(tmp_path / "broken", pages__1_jsonl=b'{"id": \n'))
    source = export(tmp_path, browser_tsv=None)
    with pytest.raises(UnfitExport, match=r"no file browser\.tsv, which acme needs for its table 'browsers'"):
        planned(tmp_path, source)
    optional = MAPPING | {"lookup_files": {"pages": PAGES, "browsers": BROWSERS | {"missing": "notice"}}}
    plan = planned(tmp_path, source, optional)
    assert ("lookup_missing", "browser.tsv") in [(code, where) for code, where, _ in plan.notices]
    planned(tmp_path, export(tmp_path, browser_tsv=b""))


def test_a_case_gives_the_entries_of_its_tables() -> None:
    """By the table's name; a name that no lookup file has is a difference."""
    cases = [
        {
            "name": "a page", "lookups": {"pages": {"p-1": "Start"}}, "row": json.dumps(HITS[0]),
            "gives": {"properties": '{"page": "Start"}'},
        },
        {"name": "a wrong name", "lookups": {"page": {}}, "row": json.dumps(HITS[0]), "gives": {"event": "seen"}},
    ]  # fmt: skip
    good, wrong = run_cases(parse(json.dumps(MAPPING | {"cases": cases}), "acme.yaml"))
    assert good.passed
    assert wrong.differences == ("- lookups: lookup_files has no table 'page'",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lookup_files": {**MAPPING["lookup_files"], "other": PAGES}}, "nothing uses the table 'other'"),
        ({"tables": {"pages": {"a": "b"}}}, "lookup_files also has a table 'pages'"),
    ],
)
def test_a_table_of_a_lookup_file_has_an_effect(change: dict[str, Any], message: str) -> None:
    """`mapping check` finds a table that no lookup uses, and one that hides another."""
    with pytest.raises(MappingError, match=message):
        check_mapping(parse(json.dumps(MAPPING | change), "acme.yaml"))


@pytest.mark.parametrize("most", [0, 7])
def test_a_table_too_large_for_memory_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """It is on disk from any number of entries on: equal events and notices, for keys that changed again and again, in
    one file and the next; and many values of one key."""
    chance = random.Random(7)
    keys = [f"{'p' * (number % 700)}-{number}" for number in range(40)] + ["灯\udc80", "x"]
    some = [{"id": chance.choice(keys), "page": {"name": str(chance.randrange(3))}} for _ in range(600)]
    some += [{"id": "x", "page": {"name": "n" * 2_000}}] * 30 + [{"id": "x", "page": {"name": "last"}}, {"id": "no"}]
    files = {f"pages__{number}_jsonl": lines(*some[number * 211 : number * 211 + 211]) for number in range(3)}
    hits = lines(*({**HITS[0], "page": key, "browser": 8} for key in (*keys, None, "absent", "")))
    source = export(tmp_path, hits_jsonl=hits, **files)
    small = planned(tmp_path / "small", source)
    monkeypatch.setattr(plan_lookups, "MOST_ENTRIES", most)
    monkeypatch.setattr(lookup_writer, "_AT_ONCE", 13)
    large = planned(tmp_path / "large", source)
    assert json.loads((tmp_path / "large" / "plan" / "lookups.json").read_bytes())["pages"] is None
    notes = [[one for one in plan.notices if one[0].startswith("lookup")] for plan in (small, large)]
    assert notes[0] == notes[1]
    assert sum(code == "lookup_changed" for code, _, _ in large.notices) == 3
    assert list(events_of(tmp_path / "small" / "plan")) == list(events_of(tmp_path / "large" / "plan"))
    assert small.coverage == large.coverage
    plan, directory = open_plan(tmp_path / "large" / "plan")
    stored = load_lookups(plan, directory)["pages"]
    in_memory = json.loads((tmp_path / "small" / "plan" / "lookups.json").read_bytes())["pages"]
    assert dict(stored) == in_memory
    assert len(in_memory) > 30
    directory.lookup_slots.write_bytes(directory.lookup_slots.read_bytes()[:-16])
    with pytest.raises(StalePlan, match=r"lookups\.slots"):
        check_tables(plan, directory)


def test_a_table_too_large_for_memory_has_exact_keys_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups in any case would need all of its keys at once."""
    monkeypatch.setattr(plan_lookups, "MOST_ENTRIES", 0)
    mapping = json.loads(json.dumps(MAPPING))
    mapping["properties"]["set"]["page"]["case"] = "any"
    with pytest.raises(UsageError, match="the table 'pages' has too many entries for `case: any`"):
        planned(tmp_path, export(tmp_path), mapping)


ITEMS = {
    "file": "items*",
    "key": "/of",
    "name": "/name",
    "value": {"type": "number", "of": "/value"},
    "missing": "notice",
}
JOINED: dict[str, Any] = {
    "format": "backcast.mapping/1", "tool": "acme", "title": "Acme", "lookup_files": {"items": ITEMS},
    "event": {"const": "seen"}, "distinct_id": ["/who"], "time": {"from": "/at"},
    "properties": {"rest": "drop", "set": {"items": {"type": "json", "of": {"lookup": "/id", "table": "items"}}}},
}  # fmt: skip


def joined_export(folder: Path, events: int, items: list[dict[str, Any]]) -> Path:
    """Events with the ids 0, 1, … and their joined rows."""
    rows = [{"who": "u-1", "at": "2023-01-02T03:04:05Z", "id": number, "pad": "x" * 900} for number in range(events)]
    return export(folder, hits_jsonl=lines(*rows), items_jsonl=lines(*items), browser_tsv=None, pages__1_jsonl=None)


def test_processes_find_the_same_joined_rows(tmp_path: Path) -> None:
    """Whatever block of the export looks them up, and in whatever process: equal requests, and equal rows without an
    event."""
    items = [{"of": number % 9_999, "name": f"n{number % 7}", "value": f"{number}.10"} for number in range(30_000)]
    source = joined_export(tmp_path, 9_000, items)
    (tmp_path / "acme.yaml").write_text(json.dumps(JOINED))
    plans = [
        plan_export(
            [str(source)], tmp_path / f"{count}", PlanOptions(mapping=str(tmp_path / "acme.yaml"), workers=count)
        )
        for count in (0, 2)
    ]
    assert plans[0].blocks > 1
    assert plans[0].requests == plans[1].requests
    without = [[gate.detail for gate in plan.gates if gate.name == "unjoined_rows"] for plan in plans]
    expected = sum(row["of"] >= 9_000 for row in items)
    text = f"{expected:,} rows of items.jsonl with 999 keys of the table 'items', the first in row 9,001"
    assert without == [[f"no row of the export looks up {expected:,} rows of joined files: {text}"]] * 2


def test_joined_rows_that_cannot_be_used_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is not a number stays a text; more rows than an event can carry are left out; a row of no event
    counts only if all rows of the export are read."""
    monkeypatch.setattr(lookup_rows, "MOST_BYTES", 50)
    items = [
        {"of": 0, "name": "n", "value": "x"},
        {"of": 0, "name": "m", "value": "1.10"},
        {"of": 7, "name": "m", "value": 2},
    ]
    items += [{"of": 1, "name": f"{number}", "value": f"{number}"} for number in range(30)]
    source = joined_export(tmp_path, 2, items)
    plan = planned(tmp_path, source, JOINED)
    assert [event["properties"].get("items") for event in events_of(tmp_path / "plan")].count({"n": "x", "m": 1.1}) == 1
    assert [detail for code, _, detail in plan.notices if code == "lookup_row"] == [
        "1 value of the table 'items' cannot be converted; the first is row 1: not a number: 'x'",
        "the rows of 1 key of the table 'items' are left out, because no event can carry so many: 1 (30 rows)",
    ]
    (gate,) = (gate for gate in plan.gates if gate.name == "unjoined_rows")
    assert gate.examples == ["1 row of items.jsonl with 1 key of the table 'items', the first in row 3"]
    options = PlanOptions(mapping=str(tmp_path / "acme.yaml"), workers=0, limit=1)
    gates = plan_export([str(source)], tmp_path / "some", options).gates
    assert "unjoined_rows" not in [gate.name for gate in gates]


def test_what_a_joined_row_leaves_out_is_noticed(tmp_path: Path) -> None:
    """A column that a row has twice counts once; a row without another column than its key gives nothing. With
    `joined: no`, rows that no row looks up are not counted."""
    items = {"file": "items*", "key": "/of", "list": "*"}
    mapping = JOINED | {"lookup_files": {"items": items}}
    source = joined_export(tmp_path, 2, [{"of": 0, "n": 1}, {"of": 0}])
    with (source / "items.jsonl").open("ab") as file:
        file.write(b'{"of":7,"n":2,"n":3}\n')
    plan = planned(tmp_path, source, mapping)
    assert [detail for code, _, detail in plan.notices if code == "lookup_row"] == [
        "1 row of the table 'items' with a warning; the first is row 3: 'n' occurs more than once; the last value wins",
        "1 row without /of and another column for the table 'items'",
    ]
    assert "unjoined_rows" in [gate.name for gate in plan.gates]
    items["joined"] = "no"
    assert "unjoined_rows" not in [gate.name for gate in planned(tmp_path / "no", source, mapping).gates]


def test_joined_rows_have_exact_keys(tmp_path: Path) -> None:
    """Another spelling of a key would not be noted as looked up."""
    mapping = json.loads(json.dumps(JOINED))
    mapping["properties"]["set"]["items"]["of"]["case"] = "any"
    with pytest.raises(MappingError, match="joined rows have exact keys"):
        planned(tmp_path, joined_export(tmp_path, 1, [{"of": 0, "name": "n", "value": 1}]), mapping)


def test_a_stopped_plan_reads_its_tables_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its finished blocks, and what they looked up, if nothing changed; with other joined rows it begins
    anew."""
    monkeypatch.setattr(plan_lookups, "MOST_ENTRIES", 0)
    items = [{"of": number, "name": "n", "value": number} for number in range(251)]
    source = joined_export(tmp_path, 0, items)
    for number in range(25):
        hits = [{"who": f"u-{one}", "at": "2023-01-02T03:04:05Z", "id": number * 10 + one} for one in range(10)]
        (source / f"hits-{number}.jsonl").write_bytes(lines(*hits))
    (tmp_path / "acme.yaml").write_text(json.dumps(JOINED))
    options = PlanOptions(mapping=str(tmp_path / "acme.yaml"), workers=0)
    found = []
    for more in ([], [{"of": 0, "name": "m", "value": 1}]):
        with pytest.raises(KeyboardInterrupt):
            plan_export([str(source)], tmp_path / "killed", options, progress=partial(stop, tmp_path))
        assert any((tmp_path / "plan" / "unfinished-plan" / "scratch" / "staged" / "asked").iterdir())
        (source / "items.jsonl").write_bytes(lines(*items, *more))
        found.append(plan_export([str(source)], tmp_path / "plan", options))
        fresh = plan_export([str(source)], tmp_path / "fresh", options)
        assert (found[-1].requests, found[-1].gates) == (fresh.requests, fresh.gates)
        assert [gate.count for gate in fresh.gates if gate.name == "unjoined_rows"] == [1]
    assert found[0].requests != found[1].requests


def stop(folder: Path, rows: int, _length: int) -> None:
    """Keep what a plan that is killed now would leave behind."""
    if rows > 120:
        shutil.rmtree(folder / "plan", ignore_errors=True)
        shutil.copytree(folder / "killed", folder / "plan")
        raise KeyboardInterrupt
