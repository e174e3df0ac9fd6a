"""Two plans compared: every count against the two sets of events, matched one by one."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pipeline
from pipeline.options import DiffOptions, PlanOptions
from pipeline.plan.diff import tables
from pipeline.plan.diff.result import Diff
from tests.support.phased_plans import planned_in_phases
from tests.support.sent_events import events_of

COLUMNS = {"event": "event", "distinct_id": "distinct_id", "timestamp": "timestamp", "uuid": "uuid"}
AS_OF = 1_767_225_600_000_000
FILES, ROWS = 4, 60


def random_row(rng: random.Random, file: int, line: int) -> dict[str, Any]:
    """A row whose uuid shows its place."""
    return {
        "event": rng.choice(["Seen", "Bought", "Left"]),
        "distinct_id": f"u-{rng.randrange(9)}",
        "timestamp": f"2023-01-{rng.randrange(1, 29):02d}T{rng.randrange(24):02d}:00:00Z",
        "uuid": f"0188a5eb-{file:04x}-7000-8000-{line:012x}",
        "plan": rng.choice(["free", "pro", 3, None]),
        "place": {"line": line, "file": file},
        **({"$set": {"tier": rng.randrange(3)}} if rng.random() < 0.3 else {}),
    }


def changed_row(rng: random.Random, row: dict[str, Any]) -> dict[str, Any]:
    """The row with one thing changed."""
    changes: list[dict[str, Any]] = [
        {"event": "Renamed"}, {"distinct_id": "u-other"}, {"timestamp": row["timestamp"][:11] + "23:59:00Z"},
        {"timestamp": "2023-02-01T00:00:00Z"}, {"plan": "changed"}, {"new": 1}, {"$set": {"tier": "gold", "more": 1}},
    ]  # fmt: skip
    return row | rng.choice(changes)


def planned(folder: Path, files: dict[str, list[dict[str, Any]]], directory: str, **asked: Any) -> Path:
    """The directory of a plan over files of rows; a name that ends in .zip is an archive."""
    export = folder / f"export-{directory}"
    export.mkdir()
    for file, rows in files.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        if file.endswith(".zip"):
            with zipfile.ZipFile(export / file, "w") as archive:
                archive.writestr(zipfile.ZipInfo("rows.jsonl"), text)
        else:
            (export / file).write_text(text, "utf-8")
    settings = (COLUMNS if asked.pop("uuids", True) else {}) | asked.pop("settings", {})
    options = {"mapping": "generic", "settings": settings, "workers": 0, "as_of": AS_OF} | asked
    pipeline.plan_export(export, folder / directory, PlanOptions(**options))
    return folder / directory


def two_plans(folder: Path, seed: int) -> tuple[Path, Path]:
    """Plans of exports that share files, and have files that changed, are new, or are in another order."""
    rng = random.Random(seed)
    suffix = ".zip" if seed % 2 else ".jsonl"
    a = {f"{file}{suffix}": [random_row(rng, file, line) for line in range(ROWS)] for file in range(FILES)}
    b = {name: list(rows) for name, rows in a.items()}
    b[f"1{suffix}"] = [changed_row(rng, row) if rng.random() < 0.5 else row for row in b[f"1{suffix}"]]
    moved = [b[f"2{suffix}"].pop(rng.randrange(20)) for _ in range(10)]
    b[f"0a{suffix}"] = moved[:7] + [random_row(rng, 9, line) for line in range(5)]
    rng.shuffle(b[f"2{suffix}"])
    for files, count in ((a, 8), (b, 12)):  # copies of rows, some with other content: one event of each is sent
        again = [files[f"3{suffix}"][one] | {"plan": rng.choice(["free", "again"])} for one in range(count)]
        files[f"0{suffix}"] = files[f"0{suffix}"] + again
    asked: list[dict[str, Any]] = [{}, {"name": "second"}, {"since": 1_672_876_800_000_000}, {"limit": 150}]
    return planned(folder, a, "a"), planned(folder, b, "b", **asked[seed % len(asked)])


def flat(event: dict[str, Any]) -> dict[str, Any]:
    """The compared fields of an event, by name; members of `$set` one by one."""
    properties = dict(event["properties"])
    ours = {"event": event["event"], "timestamp": event["timestamp"], "day": event["timestamp"][:10]}
    ours["distinct_id"] = properties.pop("distinct_id")
    properties |= {f"$set.{name}": value for name, value in properties.pop("$set", {}).items()}
    return ours | {f"properties.{name}": value for name, value in properties.items()}


def expected(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> Counter[Any]:
    """Every count of a comparison, from the two sets of events in memory."""
    first, second = ({event["uuid"]: flat(event) for event in events} for events in (a, b))
    found: Counter[Any] = Counter()
    people: set[str] = set()
    for uuid in first.keys() | second.keys():
        old, new = first.get(uuid, {}), second.get(uuid, {})
        if old == new:
            continue
        some, kind = old or new, "changed" if old and new else "only_a" if old else "only_b"
        found.update([kind, (some["event"], kind), (some["day"], kind)])
        people |= {one["distinct_id"] for one in (old, new) if one}
        if old and new:
            other = {name for name in old.keys() | new.keys() if old.get(name, ...) != new.get(name, ...)}
            for name in other:
                found[name, "added" if name not in old else "changed" if name in new else "removed"] += 1
            found["properties", "changed"] += any(name.startswith("properties.") for name in other)
            found["duplicated"] += not other.isdisjoint(("event", "distinct_id", "day"))
    return +found + Counter(people=len(people))


def counted(diff: Diff) -> Counter[Any]:
    """The result of a comparison, in that form."""
    kinds, hows = ("changed", "only_a", "only_b"), ("added", "removed", "changed")
    assert diff.consequences is not None
    found = Counter({kind: getattr(diff.phases["events"], kind) for kind in kinds})
    found.update({(one.event, kind): getattr(one, kind) for one in diff.names for kind in kinds})
    found.update({(one.day, kind): getattr(one, kind) for one in diff.days for kind in kinds})
    found.update({(f"properties.{one.name}", how): getattr(one, how) for one in diff.properties for how in hows})
    found.update({(name, "changed"): count for name, count in diff.changed.items()})
    return +found + Counter(people=diff.persons.count, duplicated=diff.consequences.duplicated)


@pytest.mark.parametrize("seed", range(4))
def test_every_count_is_that_of_the_two_sets_of_events(tmp_path: Path, seed: int) -> None:
    """Files that both exports have, that changed, that are new, in archives, in another order, with other options; the
    exports are deleted by then."""
    a, b = two_plans(tmp_path, seed)
    first, second = events_of(a), events_of(b)
    for name in "ab":
        shutil.rmtree(tmp_path / f"export-{name}")
    diff = pipeline.diff_plans(a, b)
    assert counted(diff) == expected(first, second), f"seed {seed}"
    one = diff.phases["events"]
    assert (one.a, one.b) == (len(first), len(second))
    assert one.same + one.changed + one.only_b == one.b


def test_a_plan_equals_itself(tmp_path: Path) -> None:
    rows = [random_row(random.Random(1), 0, line) for line in range(5)]
    a = planned(tmp_path, {"rows.jsonl": rows}, "a")
    shutil.copytree(a, tmp_path / "b")
    assert pipeline.diff_plans(a, tmp_path / "b", DiffOptions(counts=True)).equal
    diff = pipeline.diff_plans(a, tmp_path / "b")
    assert (diff.equal, diff.phases["events"].same, diff.settings) == (True, 5, [])


def test_a_row_with_another_uuid_becomes_a_true_duplicate(tmp_path: Path) -> None:
    """A changed key or source gives every event another uuid, and the service would keep both."""
    rows = [random_row(random.Random(1), 0, line) for line in range(30)]
    files = {"rows.jsonl": [{name: value for name, value in row.items() if name != "uuid"} for row in rows]}
    settings = {name: name for name in COLUMNS if name != "uuid"}
    a, b = (planned(tmp_path, files, name, settings=settings | more, uuids=False)
            for name, more in (("a", {}), ("b", {"source": "second"})))  # fmt: skip
    found = pipeline.diff_plans(a, b).consequences
    assert found is not None
    assert (found.rekeyed, found.new, found.left, found.collapse) == (30, 0, 0, 0)


def test_values_and_ids_are_masked_unless_asked_for(tmp_path: Path) -> None:
    """A comparison may be read by people who may not see the data."""
    row = random_row(random.Random(1), 0, 0) | {"plan": "SECRET"}
    a = planned(tmp_path, {"rows.jsonl": [row | {"distinct_id": "ada@example.com"}]}, "a")
    b = planned(tmp_path, {"rows.jsonl": [row | {"distinct_id": "eve@example.com", "plan": "OTHER"}]}, "b")
    text = msgspec.json.encode(pipeline.diff_plans(a, b)).decode()
    assert "SECRET" not in text
    assert "@example.com" not in text
    shown = pipeline.diff_plans(a, b, DiffOptions(show_values=True, show_ids=True))
    (plan,) = [one for one in shown.properties if one.name == "plan"]
    assert plan.examples == [('"SECRET"', '"OTHER"')]
    assert {one.distinct_id for one in shown.persons.most} == {"ada@example.com", "eve@example.com"}


def test_merges_groups_and_profiles_are_matched_by_their_ids(tmp_path: Path) -> None:
    """Whatever their uuids are."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    a = planned_in_phases(tmp_path / "a", groups=12, persons=7)
    b = planned_in_phases(tmp_path / "b", groups=10, persons=5)
    phases = pipeline.diff_plans(a, b).phases
    assert {name: (one.same, one.changed, one.only_a, one.only_b) for name, one in phases.items()} == {
        "identities": (7, 0, 0, 0), "groups": (10, 0, 2, 0), "events": (40, 0, 0, 0), "persons": (5, 0, 2, 0),
    }  # fmt: skip


def test_a_changed_profile_names_its_property(tmp_path: Path) -> None:
    """The instant of a plan, which dates profiles without a time, does not count as a difference."""
    people = [{"$distinct_id": f"u-{one}", "$properties": {"plan": "free"}} for one in range(3)]
    event = {"event": "Seen", "properties": {"time": 1672531200, "distinct_id": "u-1", "$insert_id": "i"}}
    asked = {"mapping": "mixpanel", "timezone": "UTC", "uuids": False}
    a = planned(tmp_path, {"events.jsonl": [event], "people.jsonl": people}, "a", **asked)
    people[0]["$properties"] = {"plan": "pro"}
    b = planned(tmp_path, {"events.jsonl": [event], "people.jsonl": people}, "b", as_of=AS_OF + 1_000_000, **asked)
    diff = pipeline.diff_plans(a, b)
    one = diff.phases["persons"]
    assert (one.same, one.changed, one.only_a, one.only_b) == (2, 1, 0, 0)
    assert [(item.phase, item.name.split(".")[-1], item.changed) for item in diff.properties] == [
        ("persons", "plan", 1)
    ]


def test_counts_alone_compare_what_the_plans_recorded(tmp_path: Path) -> None:
    rows = [random_row(random.Random(1), 0, line) for line in range(5)]
    a = planned(tmp_path, {"rows.jsonl": rows}, "a")
    b = planned(tmp_path, {"rows.jsonl": rows[:3]}, "b")
    recorded = pipeline.diff_plans(a, b, DiffOptions(counts=True))
    assert (recorded.compared, recorded.equal, recorded.consequences) == (False, False, None)
    assert (recorded.phases["events"].a, recorded.phases["events"].b) == (5, 3)
    assert pipeline.diff_plans(a, b).phases["events"].only_a == 2


def test_many_events_are_compared_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few are read together, also if each request of one plan has events of many of the other."""
    a, b = two_plans(tmp_path, 1)
    whole = pipeline.diff_plans(a, b)
    monkeypatch.setattr(tables, "BYTES_AT_ONCE", 1_000)
    assert pipeline.diff_plans(a, b) == whole
