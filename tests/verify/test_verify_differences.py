"""Verify names each way in which a target may differ from what was sent, with the row or line it comes from."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline import api
from pipeline.local_service import LocalService
from pipeline.options import VerifyOptions
from pipeline.verify import Verification
from tests.support.deliveries import planned, run, tamper, uuid
from tests.support.phased_plans import planned_in_phases

pytestmark = pytest.mark.slow

MANY = 200_000
_COPY = (
    "insert into accepted select project, receipt + 1000000, {uuid}, event, distinct_id, {time}, properties,"
    " historical_migration, created_at from accepted where {which}"
)
ALTERATIONS: dict[str, tuple[str, str, list[str]]] = {
    "missing": ("delete from accepted where {which}", "missing", []),
    "renamed": ("update accepted set event = 'Renamed' where {which}", "different", ["event"]),
    "value": (
        "update accepted set properties = replace(properties, '\"number\":', '\"number\":1') where {which}",
        "altered",
        ["number"],
    ),
    "time": ("update accepted set timestamp = timestamp + interval 1 second where {which}", "different", ["timestamp"]),
    "person": ("update accepted set distinct_id = 'somebody' where {which}", "different", ["distinct_id"]),
    "duplicated": (_COPY.format(uuid="uuid", time="timestamp + interval 1 day", which="{which}"), "duplicated", []),
}
"""By name: the SQL, the kind under which verify names it, what it says has changed."""


def verify(directory: Path, service: LocalService, **asked: Any) -> Verification:
    options = VerifyOptions(**({"workers": 0, "fields": "all"} | asked))
    return api.verify_plan(directory, service.url, options, personal_key=service.personal_key)


def row_of(number: int, files: int = 2) -> tuple[str, int]:
    """The file and row of an event of `planned`."""
    return f"part-{number % files}.jsonl", number // files + 1


def named(directory: Path) -> list[dict[str, Any]]:
    """Every difference that the last verification wrote."""
    return [json.loads(line) for line in (directory / "differences.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("fields", ["sample", "all"])
@pytest.mark.parametrize("name", ALTERATIONS)
def test_one_altered_event_is_named_with_its_row(tmp_path: Path, name: str, fields: str) -> None:
    """Of 40 events one is deleted, renamed, or has another value, time, person, or a second copy."""
    sql, kind, changed = ALTERATIONS[name]
    directory = planned(tmp_path, 40)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        assert verify(directory, service, fields=fields).proved
        tamper(service, sql.format(which=f"uuid = '{uuid(17)}'"))
        found = verify(directory, service, fields=fields)
    (one,) = found.differences
    part, row = row_of(17)
    assert not found.proved
    assert (one.kind, one.uuid, one.changed) == (kind, uuid(17), changed)
    if kind != "duplicated":  # the second copy is no event of the plan
        assert (one.phase, one.part, one.row) == ("events", part, row)
    assert (found.events["altered"], found.events["missing"]) == (int(kind == "altered"), int(kind == "missing"))
    assert found.events["renamed"] == int(name == "renamed")
    assert found.events["retimed"] == int(name == "time")
    assert found.events["other_person"] == int(name == "person")
    assert [one["uuid"] for one in named(directory)] == [uuid(17)]


def test_an_extra_event_is_named(tmp_path: Path) -> None:
    """In a project of the plan alone an event that nobody planned is extra."""
    directory = planned(tmp_path, 10)
    stranger = "11111111-1111-4111-8111-111111111111"
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        tamper(service, _COPY.format(uuid=f"'{stranger}'", time="timestamp", which=f"uuid = '{uuid(1)}'"))
        found = verify(directory, service, whole=True)
    assert [(one.kind, one.uuid, one.block) for one in found.differences] == [("extra", stranger, None)]


def test_people_are_named_with_their_lines(tmp_path: Path) -> None:
    """A merge undone, a person not identified, a profile overwritten, one without its property, a group missing."""
    directory = planned_in_phases(tmp_path, 40)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        before = verify(directory, service)
        service.select("select * from persons")  # persons are derived when they are first read
        line = json.loads((directory / "identities.jsonl").read_text("utf-8").splitlines()[2])
        profile = json.loads((directory / "persons.jsonl").read_text("utf-8").splitlines()[4])
        group = json.loads((directory / "groups.jsonl").read_text("utf-8").splitlines()[5])
        person = "(select person from people_ids where distinct_id = '{}')"
        tamper(service, f"update people_ids set person = uuid() where distinct_id = '{line['other']}'")
        tamper(service, f"update people set properties = '{{}}' where id = {person.format(profile['distinct_id'])}")
        tamper(service, "update people set is_identified = false where id = " + person.format("person-0"))
        tamper(service, f"delete from group_records where key = '{group['key']}'")
        found = verify(directory, service)
    assert before.people.compared == {"merges": 7, "profiles": 7, "groups": 12}
    assert (before.proved, before.people.wrong) == (True, {})
    assert not found.proved
    differences = {one.kind: one for one in found.people.differences}
    undone, missing = differences["merge_undone"], differences["group_missing"]
    assert (undone.part, undone.row, undone.ids) == ("identities.jsonl", 3, [line["distinct_id"], line["other"]])
    assert (missing.part, missing.row, missing.ids) == ("groups.jsonl", 6, [group["type"], group["key"]])
    lacking = differences["profile_missing"]
    assert (lacking.part, lacking.row, lacking.properties) == ("persons.jsonl", 5, ["plan"])
    assert differences["not_identified"].ids[0] == "person-0"
    assert {one["kind"] for one in named(directory)} == set(differences)


def test_an_overwritten_profile_and_group_are_named(tmp_path: Path) -> None:
    """`$set` brought a value, and another one stands: with its line and the name of the property, never the value."""
    from tests.support.people import mixpanel
    from tests.support.people import planned as planned_people

    rows = [mixpanel(10, "u-1", _set={}), mixpanel(20, "u-2")]
    people = [{"$distinct_id": f"u-{one}", "$properties": {"plan": f"p{one}"}} for one in (1, 2)]
    planned_people(tmp_path, "mixpanel", rows, people, profile_policy="overwrite")
    directory = tmp_path / "plan"
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        assert verify(directory, service).proved
        service.select("select * from persons")
        person = "(select person from people_ids where distinct_id = 'u-2')"
        tamper(service, f"""update people set properties = '{{"plan":"another"}}' where id = {person}""")
        found = verify(directory, service)
    (one,) = found.people.differences
    assert (one.kind, one.part, one.ids, one.properties) == (
        "profile_overwritten", "persons.jsonl", ["u-2"], ["plan"],
    )  # fmt: skip
    assert "another" not in (directory / "report.json").read_text("utf-8")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """200,000 events at a service."""
    directory = planned(tmp_path_factory.mktemp("many"), MANY, batch=5_000)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        yield directory, service


def test_a_thousand_of_each_among_many_are_named_with_their_rows(many: Any) -> None:
    """Of 200,000 events 1,000 each are deleted, renamed, altered in value, in time, of another person, copied."""
    directory, service = many
    assert verify(directory, service, workers=1).proved
    chosen: dict[str, list[int]] = {
        name: list(range(at * 30_000, at * 30_000 + 1_000)) for at, name in enumerate(ALTERATIONS)
    }
    for name, numbers in chosen.items():
        listed = ", ".join(f"'{uuid(number)}'" for number in numbers)
        tamper(service, ALTERATIONS[name][0].format(which=f"uuid in ({listed})"))
    found = verify(directory, service, workers=1)
    assert {kind: found.events[kind] for kind in ("missing", "altered", "different", "duplicated", "renamed")} == {
        "missing": 1_000, "altered": 1_000, "different": 3_000, "duplicated": 1_000, "renamed": 1_000,
    }  # fmt: skip
    rows = {(one["kind"], one["uuid"]): one for one in named(directory)}
    assert Counter(kind for kind, _ in rows) == {
        "missing": 1_000,
        "altered": 1_000,
        "different": 3_000,
        "duplicated": 1_000,
    }
    for name, numbers in chosen.items():
        _, kind, changed = ALTERATIONS[name]
        for number in numbers:
            one = rows[kind, uuid(number)]
            assert one["changed"] == changed
            if kind != "duplicated":
                assert (one["part"], one["row"]) == row_of(number)


def test_a_shallower_verification_does_not_clear_what_a_deeper_one_found(tmp_path: Path) -> None:
    """The altered event, which no sample sees, stays in state, counts and file until all are compared and none is."""
    directory = planned(tmp_path, 40)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        tamper(service, ALTERATIONS["value"][0].format(which=f"uuid = '{uuid(17)}'"))
        assert not verify(directory, service).proved
        before = named(directory)
        for asked in ({"fields": "none"}, {"fields": "none", "uuids": "differing"}):
            found = verify(directory, service, **asked)
            assert (found.differs, found.events["altered"], found.kept) == (True, 1, ["altered"])
            assert (named(directory), api.plan_status(directory).state) == (before, "differs")
        tamper(service, f"update accepted set properties = replace(properties, '\"number\":1', '\"number\":')"
                        f" where uuid = '{uuid(17)}'")  # fmt: skip
        assert verify(directory, service).proved
        assert not (directory / "differences.jsonl").exists()
