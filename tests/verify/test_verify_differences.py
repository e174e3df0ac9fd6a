"""Verify names each way in which a target may differ from what was sent, with the row or line it comes from."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from pipeline import api
from pipeline.verify.findings import CellCounts, FoundCounts
from tests.support.deliveries import uuid
from tests.support.people import mixpanel
from tests.support.people import planned as planned_people
from tests.support.phased_plans import planned_in_phases
from tests.support.verification import COPY, sent, sent_rows

STRANGER = "11111111-1111-4111-8111-111111111111"
VALUE = """update accepted set properties = replace(properties, '"number":', '"number":1') where {which}"""
ANOTHER_DAY = COPY.format(uuid="uuid", event="event", time="timestamp + interval 1 day", which="{which}")
ALTERATIONS: dict[str, tuple[str, str, list[str], dict[str, int]]] = {
    "missing": ("delete from accepted where {which}", "missing", [], {"missing": 1, "found": -1}),
    "renamed": (
        "update accepted set event = 'Renamed' where {which}", "different", ["event"], {"different": 1, "renamed": 1},
    ),
    "value": (VALUE, "altered", ["number"], {"altered": 1}),
    "time": (
        "update accepted set timestamp = timestamp + interval 1 second where {which}", "different", ["timestamp"],
        {"different": 1, "retimed": 1},
    ),
    "moment": (
        "update accepted set timestamp = timestamp + interval 1 microsecond where {which}", "different",
        ["timestamp"], {"different": 1, "retimed": 1},
    ),
    "person": (
        "update accepted set distinct_id = 'somebody' where {which}", "different", ["distinct_id"],
        {"different": 1, "other_person": 1},
    ),
    "another day": (ANOTHER_DAY, "duplicated", [], {"duplicated": 1, "extra": 1, "found": 1}),
}  # fmt: skip
"""By name: the SQL, the kind under which verify names it, what it says has changed, and its effect on the counts."""


def row_of(number: int, files: int = 2) -> tuple[str, int]:
    return f"part-{number % files}.jsonl", number // files + 1


def test_each_altered_event_is_named_with_its_row(tmp_path: Path) -> None:
    """One of 40 events is deleted, renamed, or has another value, time, person, or a copy on another day. If a sample
    is compared, each is counted as its kind, and nothing is proved; the same holds for all of them together, if
    everything is compared."""
    one = sent_rows(tmp_path, 40)
    well = one.verify()
    assert (well.proved, well.events) == (True, FoundCounts(40, 40))
    before = Counter(asdict(well.events))
    one.change(f"create table saved as select * from accepted where project = {one.room.project}")
    altered = {uuid(number): alteration for number, alteration in enumerate(ALTERATIONS.values(), 17)}
    for number, (id, (sql, kind, changed, counts)) in enumerate(altered.items(), 17):
        one.change(sql.format(which=f"uuid = '{id}'"))
        found = one.verify(fields="sample")
        (difference,) = found.differences
        assert (difference.kind, difference.uuid, difference.changed, found.proved) == (kind, id, changed, False)
        assert len(difference.landed) == {"missing": 0, "duplicated": 2}.get(kind, 1)
        assert (difference.phase, difference.part, difference.row) == ("events", *row_of(number))
        assert asdict(found.events) == before | {name: before[name] + count for name, count in counts.items()}
        cells = {kind for kind, count in asdict(found.cells).items() if count and kind != "match"}
        assert cells == ({kind} if kind != "altered" else set())
        assert [each["uuid"] for each in one.named()] == [id]
        one.change("delete from accepted where true", "insert into accepted select * from saved where true")
    for id, (sql, *_) in altered.items():
        one.change(sql.format(which=f"uuid = '{id}'"))
    found = one.verify(fields="all")
    told = {each.uuid: (each.kind, each.changed, each.row) for each in found.differences}
    numbers = enumerate(altered.items(), 17)
    assert told == {id: (kind, changed, row_of(number)[1]) for number, (id, (_, kind, changed, _)) in numbers}
    for _, _, _, counts in altered.values():
        before.update(counts)
    assert (asdict(found.events), found.proved) == (before, False)


def test_an_unplanned_event_is_of_others_or_extra(tmp_path: Path) -> None:
    """It is counted separately, and is not a difference; in a project that belongs to the plan it is one."""
    one = sent_rows(tmp_path, 20)
    one.change(COPY.format(uuid=f"'{STRANGER}'", event="event", time="timestamp", which=f"uuid = '{uuid(1)}'"))
    found, alone = one.verify(), one.verify(whole=True)
    assert (found.proved, found.differences) == (True, [])
    assert found.events == FoundCounts(20, 20, others=1)
    assert asdict(found.cells) | {"match": 0} == asdict(CellCounts())
    assert [each.uuid for each in found.extras] == [STRANGER]
    assert [(each.kind, each.uuid, each.request) for each in alone.differences] == [("extra", STRANGER, None)]
    assert (alone.events.extra, alone.events.found, alone.proved) == (1, 21, False)


def test_people_are_named_with_their_lines(tmp_path: Path) -> None:
    """A merge undone, a person not identified, a profile overwritten, one without its property, a group missing."""
    one = sent(planned_in_phases(tmp_path, 40))
    before = one.verify(fields="all")
    one.room.select("select * from persons")  # persons are computed when they are first read
    link, profile, group = (
        json.loads((one.directory / f"{name}.jsonl").read_text("utf-8").splitlines()[line])
        for name, line in (("identities", 2), ("persons", 4), ("groups", 5))
    )
    person = f"(select person from people_ids where distinct_id = '{{}}' and project = {one.room.project})"
    one.change(
        f"update people_ids set person = uuid() where distinct_id = '{link['other']}'",
        f"update people set properties = '{{}}' where id = {person.format(profile['distinct_id'])}",
        f"update people set is_identified = false where id = {person.format('person-0')}",
        f"delete from group_records where key = '{group['key']}'",
    )
    found = one.verify(fields="all")
    assert before.people.compared == {"merges": 7, "profiles": 7, "groups": 12}
    assert (before.proved, before.people.wrong) == (True, {})
    assert not found.proved
    differences = {each.kind: each for each in found.people.differences}
    undone, missing = differences["merge_undone"], differences["group_missing"]
    assert (undone.part, undone.row, undone.ids) == ("identities.jsonl", 3, [link["distinct_id"], link["other"]])
    assert (missing.part, missing.row, missing.ids) == ("groups.jsonl", 6, [group["type"], group["key"]])
    lacking = differences["profile_missing"]
    assert (lacking.part, lacking.row, lacking.properties) == ("persons.jsonl", 5, ["plan"])
    assert differences["not_identified"].ids[0] == "person-0"
    assert {each["kind"] for each in one.named()} == set(differences)


def test_an_overwritten_profile_is_named(tmp_path: Path) -> None:
    """`$set` brought a value, and another one is stored: with its line and the name of the property, never the
    value."""
    rows = [mixpanel(10, "u-1", _set={}), mixpanel(20, "u-2")]
    people = [{"$distinct_id": f"u-{each}", "$properties": {"plan": f"p{each}"}} for each in (1, 2)]
    planned_people(tmp_path, "mixpanel", rows, people, profile_policy="overwrite")
    one = sent(tmp_path / "plan")
    assert one.verify(fields="all").proved
    one.room.select("select * from persons")
    person = f"(select person from people_ids where distinct_id = 'u-2' and project = {one.room.project})"
    one.change(f"""update people set properties = '{{"plan":"of_others"}}' where id = {person}""")
    (told,) = one.verify(fields="all").people.differences
    assert (told.kind, told.part, told.ids, told.properties) == (
        "profile_overwritten", "persons.jsonl", ["u-2"], ["plan"],
    )  # fmt: skip
    assert "of_others" not in (one.directory / "report.json").read_text("utf-8")


def test_a_shallower_verification_does_not_clear_what_a_deeper_one_found(tmp_path: Path) -> None:
    """An altered event that no sample contains stays in state, counts and file until all events are compared and none
    is altered."""
    one = sent_rows(tmp_path, 40)
    one.change(VALUE.format(which=f"uuid = '{uuid(17)}'"))
    assert not one.verify(fields="all").proved
    before = one.named()
    shallow: tuple[dict[str, Any], ...] = ({"fields": "none"}, {"fields": "none", "uuids": "differing"})
    for asked in shallow:
        found = one.verify(**asked)
        assert (found.differs, found.events.altered, found.kept) == (True, 1, ["altered"])
        assert (one.named(), api.plan_status(one.directory).state) == (before, "differs")
    back = """update accepted set properties = replace(properties, '"number":1', '"number":')"""
    one.change(f"{back} where uuid = '{uuid(17)}'")
    assert one.verify(fields="all").proved
    assert not (one.directory / "differences.jsonl").exists()
