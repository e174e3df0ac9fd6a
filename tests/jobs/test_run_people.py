"""People of a job: a window knows the ids and the properties of persons in all others, as one plan would."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.encoder.updates import SealedLink, SealedPerson
from pipeline.jobs import load_job, read_history, state_file
from pipeline.local_service import LocalService
from pipeline.options import PlanOptions
from pipeline.plan.sealed.directory import Directory, read_lines
from pipeline.plan.sealed.manifest import Plan
from pipeline.timestamps import format_utc
from tests.models.exports_of_people import call
from tests.support.deliveries import COLUMNS
from tests.support.jobs import code, outcomes, put, row, run, write_job

SET = "{" + ", ".join(f"{name}: {name}" for name in (*COLUMNS, "anonymous_id")) + "}"
UP_TO = {"merges": "{up-to: 1000}", "set": SET}
NUMBERS = count()
FINAL = {"mapping": "mixpanel", "set": "", "persons": "{properties: final}", "missing": "done"}
Snapshot = dict[str, dict[str, Any]]


def alone(day: int, device: str, hour: int = 10) -> dict[str, Any]:
    """A device's event before its user is known."""
    return both(day, "", device, hour)


def both(day: int, user: str, device: str, hour: int = 10) -> dict[str, Any]:
    """A user's event on a device; without a device if that is ""."""
    return row(
        day, next(NUMBERS), distinct_id=user, anonymous_id=device, timestamp=f"2024-01-{day:02d}T{hour:02d}:00:00Z"
    )


def plans(folder: Path) -> list[Path]:
    return sorted((folder / "state/nightly/windows").glob("*/plan-*"))


def links(*directories: Path) -> list[tuple[str, str, str]]:
    """The merges of some plans: (the id that stays, the other, the date)."""
    found = [link for one in directories for link in read_lines(Directory(one).identities, SealedLink)]
    return sorted((link.distinct_id, link.other, format_utc(link.time)) for link in found)


def decisions(directory: Path) -> dict[tuple[str, str], tuple[str, str]]:
    rows = pq.read_table(directory / "identities.parquet").to_pylist()
    return {(one["anonymous_id"], one["user_id"]): (one["decision"], one["reason"]) for one in rows}


def persons(service: LocalService, mark: str = "") -> set[frozenset[str]]:
    """Who is who at the service, for ids with this prefix."""
    return {frozenset(one.distinct_ids) for one in service.persons() if one.distinct_ids[0].startswith(mark)}


@pytest.mark.parametrize("first", ["alone", "paired"])
def test_a_device_alone_in_one_window_and_with_its_user_in_another_is_merged(
    tmp_path: Path, service: LocalService, first: str
) -> None:
    """Whichever comes first; the merge is dated just before the first event of either id, in the first window."""
    rows = [alone, lambda day, device: both(day, "ann", device)]
    for day, make in zip((1, 2), rows if first == "alone" else rows[::-1], strict=True):
        put(tmp_path, day, [make(day, "phone")])
    assert code(run(write_job(tmp_path, service.url, until="2024-01-03", **UP_TO))) == 0
    assert persons(service) == {frozenset({"ann", "phone"})}
    assert links(*plans(tmp_path)) == [("ann", "phone", "2024-01-01T09:59:59.999Z")]
    assert links(plans(tmp_path)[-1]) != []


def test_what_no_window_alone_would_refuse_is_refused(tmp_path: Path, service: LocalService) -> None:
    """A server's id that changes with every call joins nothing, a device of many users stays refused when one more
    appears, and an id that was a user's does not become a device later."""
    put(tmp_path, 1, [both(1, "ann", "call"), alone(1, "kiosk"), both(1, "1001", ""),
                      *(both(1, f"user-{number}", "kiosk") for number in range(51))])  # fmt: skip
    put(tmp_path, 2, [both(2, "ann", "call"), both(2, "ann", "kiosk"), both(2, "ann", "1001")])
    run(write_job(tmp_path, service.url, until="2024-01-03", **UP_TO))
    assert links(*plans(tmp_path)) == []
    found = decisions(plans(tmp_path)[1])
    assert {device: found[device, "ann"] for device in ("call", "kiosk", "1001")} == {
        "call": ("refused", "never_alone"), "kiosk": ("refused", "too_many_users"),
        "1001": ("refused", "user_as_device"),
    }  # fmt: skip


@pytest.mark.parametrize("profile_first", [True, False])
def test_a_user_whom_only_a_profile_of_another_window_names_is_not_joined(
    tmp_path: Path, service: LocalService, profile_first: bool
) -> None:
    """A record joins a device to that user, so the device's other user stays apart, although no profile is sent."""
    profile = [call(1, "u2", None, "identify", traits={})]
    record = [call(2, "d1", None, "alias", previousId="u2"), call(3, None, "d1")]
    seen = [call(4, "u0", "d1")]
    days = [profile, record + seen] if profile_first else [record, profile + seen]
    for day, some in enumerate(days, 1):
        put(tmp_path, day, [one | {"timestamp": f"2024-01-{day:02d}{one['timestamp'][10:]}"} for _, one in some])
    job = write_job(tmp_path, service.url, until="2024-01-03", mapping="segment", set="", merges="{up-to: 9}")
    assert code(run(job)) == 0
    assert persons(service) == {frozenset({"d1", "u2"}), frozenset({"u0"})}


def test_what_a_lost_state_knew_of_ids_is_made_again(tmp_path: Path, service: LocalService) -> None:
    """From the tables next to the plans."""
    put(tmp_path, 1, [alone(1, "phone"), both(1, "bob", "tablet")])
    put(tmp_path, 2, [both(2, "ann", "phone"), alone(2, "tablet")])
    run(write_job(tmp_path, service.url, until="2024-01-02", **UP_TO))
    for file in (tmp_path / "state/nightly").glob("state.sqlite*"):
        file.unlink()
    assert code(run(write_job(tmp_path, service.url, until="2024-01-03", **UP_TO))) == 0
    assert persons(service) == {frozenset({"ann", "phone"}), frozenset({"bob", "tablet"})}


def test_a_dry_run_knows_what_earlier_windows_saw(tmp_path: Path, service: LocalService) -> None:
    """Windows that were sent, and those that it only tries."""
    put(tmp_path, 1, [alone(1, "phone")])
    put(tmp_path, 2, [alone(2, "tablet")])
    put(tmp_path, 3, [both(3, "ann", "phone"), both(3, "ann", "tablet")])
    run(write_job(tmp_path, service.url, until="2024-01-02", **UP_TO))
    done = run(write_job(tmp_path, service.url, until="2024-01-04", **UP_TO), dry_run=True)
    assert [one.attempt and one.attempt.events for one in done.windows] == [1, 2 + 2]


def merging(number: int) -> dict[str, object]:
    """Rows of a device: half of them from before its person is known, half with both ids."""
    return row(1, number) | {"anonymous_id": f"device-{number % 7}"} | ({"distinct_id": ""} if number % 14 < 7 else {})


@pytest.mark.parametrize(
    ("merges", "sent", "outcome"), [("hold", 0, "done"), ("{up-to: 7}", 7, "done"), ("{up-to: 6}", 0, "stopped")]
)
def test_merges_are_held_or_sent_up_to_a_number(
    tmp_path: Path, service: LocalService, merges: str, sent: int, outcome: str
) -> None:
    """Held merges are counted; a merge that one window sent is not sent by the next."""
    put(tmp_path, 1, [merging(number) for number in range(14)])
    put(tmp_path, 2, [merging(number) for number in range(14, 28)])
    # An address that does not look like this machine's: `up-to` is the approval that apply asks for there.
    to = service.url.replace("127.0.0.1", "0.0.0.0")
    job = write_job(tmp_path, to, until="2024-01-03", set=SET, merges=merges)
    assert outcomes(run(job)) == {"2024-01-01": outcome, "2024-01-02": outcome}
    found = service.select("select count(*), count(distinct uuid) from raw_events where event = '$identify'")
    assert found == [(sent, sent)]
    _, attempts = read_history(state_file(load_job(job).state))
    assert [one.held for one in attempts] == [7 if merges == "hold" else 0] * 2


def test_merges_that_were_held_are_sent_once_the_job_lets_them(tmp_path: Path, service: LocalService) -> None:
    """By the next window, though their ids do not appear again; and never a second time."""
    put(tmp_path, 1, [merging(number) for number in range(14)])
    put(tmp_path, 2, [both(2, "bob", "")])
    put(tmp_path, 3, [both(3, "bob", "")])
    run(write_job(tmp_path, service.url, until="2024-01-02", set=SET, merges="hold"))
    assert len(persons(service)) == 14
    run(write_job(tmp_path, service.url, until="2024-01-03", **UP_TO))
    assert len(persons(service)) == 7 + 1
    assert len(decisions(plans(tmp_path)[1])) == 7
    run(write_job(tmp_path, service.url, until="2024-01-04", **UP_TO))
    assert (links(plans(tmp_path)[2]), decisions(plans(tmp_path)[2])) == ([], {})


SEEN = st.tuples(
    st.integers(1, 4), st.sampled_from(["", "u0", "u1", "u2"]), st.sampled_from(["", "d0", "d1", "d2"]),
    st.integers(0, 23),
).filter(lambda seen: seen[1] or seen[2])  # fmt: skip


@settings(max_examples=3, deadline=None)
@given(st.lists(SEEN, min_size=1, max_size=14))
def test_windows_merge_what_one_plan_would(
    one_service: LocalService, tmp_path_factory: pytest.TempPathFactory, seen: Sequence[tuple[int, str, str, int]]
) -> None:
    """One plan over all of them that knows what they settled finds nothing more to merge; one that knows nothing gives
    the same persons, except if a device had another user first, as far as the windows before could know."""
    folder, mark = tmp_path_factory.mktemp("job"), f"{next(NUMBERS)}-"
    for day in sorted({day for day, *_ in seen}):
        mine = [(user and mark + user, device and mark + device, hour) for at, user, device, hour in seen if at == day]
        put(folder, day, [both(day, *one) for one in mine])
    job = write_job(folder, one_service.url, missing="done", **UP_TO)
    assert code(run(job)) == 0
    landed = persons(one_service, mark)
    windows = plans(folder)
    after = whole(folder, "after", windows)
    assert (links(folder / "after"), after.events.phases["identities"]) == ([], 0)
    whole(folder, "fresh", [])
    expected = joined(links(folder / "fresh"), landed)
    if landed != expected:
        settled_first = {pair for pair, (_, reason) in decisions(folder / "after").items() if reason == "settled"}
        fresh = decisions(folder / "fresh").items()
        would_be = {pair for pair, (decision, _) in fresh if decision in ("conflict", "refused")}
        assert settled_first & would_be


def whole(folder: Path, name: str, earlier: Sequence[Path]) -> Plan:
    settings = {column: column for column in (*COLUMNS, "anonymous_id")}
    options = PlanOptions(mapping="generic", timezone="UTC", earlier=earlier, settings=settings, workers=0,
                          person_properties="none")  # fmt: skip
    return pipeline.plan_export(folder / "exports", folder / name, options)


def joined(found: Sequence[tuple[str, str, str]], ids: set[frozenset[str]]) -> set[frozenset[str]]:
    """The persons that links make of ids, star by star."""
    stays = {other: kept for kept, other, _ in found}
    everyone = {one for person in ids for one in person}
    return {frozenset(one for one in everyone if stays.get(one, one) == kept) for kept in everyone - stays.keys()}


def snapshot(folder: Path, day: int, people: Snapshot) -> None:
    put(folder, day, [{"$distinct_id": one, "$properties": said} for one, said in people.items()])


def profiles(service: LocalService, mark: str = "") -> Snapshot:
    """The properties at the service of the persons with this prefix."""
    return {one.distinct_ids[0]: one.properties for one in service.persons() if one.distinct_ids[0].startswith(mark)}


def test_a_snapshot_fills_in_what_earlier_ones_did_not_say(tmp_path: Path, service: LocalService) -> None:
    """An earlier value stays; a profile with nothing new is not sent again."""
    snapshot(tmp_path, 1, {"ann": {"plan": "free"}, "bob": {"plan": "free"}})
    snapshot(tmp_path, 2, {"ann": {"plan": "paid", "town": "Bonn"}, "bob": {"plan": "free"}})
    done = run(write_job(tmp_path, service.url, **FINAL))
    assert code(done) == 0
    assert [one.attempt and one.attempt.sent for one in done.windows[:2]] == [2, 1]
    assert profiles(service) == {"ann": {"plan": "free", "town": "Bonn"}, "bob": {"plan": "free"}}


def test_a_window_that_would_hold_events_is_stopped(tmp_path: Path, service: LocalService) -> None:
    """Person properties of events change from window to window, and the oldest would stay: exit 4, two lines."""
    put(tmp_path, 1, [
        {"$distinct_id": "ann", "$properties": {"plan": "free"}},
        {"event": "Signup", "properties": {"time": 1704103200, "distinct_id": "ann", "$insert_id": "a"}},
    ])  # fmt: skip
    done = run(write_job(tmp_path, service.url, **FINAL | {"until": "2024-01-02"}))
    assert (outcomes(done), code(done), service.count()) == ({"2024-01-01": "stopped"}, 4, 0)
    assert "it has 1 event," in str(done.problem)


PEOPLE = st.dictionaries(
    st.sampled_from(["ann", "bob", "cid"]),
    st.dictionaries(st.sampled_from(["plan", "town", "age"]), st.integers(0, 2), min_size=1),
)


@settings(max_examples=4, deadline=None)
@given(st.lists(PEOPLE, min_size=1, max_size=3))
def test_nobody_and_nothing_is_missing_against_one_plan_over_all_windows(
    one_service: LocalService, tmp_path_factory: pytest.TempPathFactory, snapshots: Sequence[Snapshot]
) -> None:
    """The same persons with the same properties; if a value changed, the first one."""
    folder, mark = tmp_path_factory.mktemp("job"), f"{next(NUMBERS)}-"
    first: Snapshot = {}
    for day, people in enumerate(snapshots, 1):
        snapshot(folder, day, {mark + one: said for one, said in people.items()})
        for one, said in people.items():
            first[mark + one] = said | first.get(mark + one, {})
    assert code(run(write_job(folder, one_service.url, **FINAL))) == 0
    assert profiles(one_service, mark) == first
    pipeline.plan_export(
        folder / "exports", folder / "whole", PlanOptions(mapping="mixpanel", timezone="UTC", workers=0)
    )
    whole = {
        one.distinct_id: msgspec.json.decode(one.set_once)
        for one in read_lines(Directory(folder / "whole").persons, SealedPerson)
    }
    assert {one: said.keys() for one, said in whole.items()} == {one: said.keys() for one, said in first.items()}
    changed = {
        (mark + one, name)
        for people in snapshots for one, said in people.items() for name, value in said.items()
        if first[mark + one][name] != value
    }  # fmt: skip
    for one, said in whole.items():
        assert {name for name, value in said.items() if first[one][name] != value} <= {
            n for o, n in changed if o == one
        }


def test_a_group_that_changes_is_sent_again_and_one_that_does_not_is_not(tmp_path: Path, service: LocalService) -> None:
    """A later window's properties are another update of the group, not a copy of the first."""
    for day, plan in ((1, "free"), (2, "free"), (3, "pro")):
        said = {"$group_type": "company", "$group_key": "acme", "$group_set": {"plan": plan}}
        put(tmp_path, day, [
            {"uuid": f"018a4b2c-0000-7000-8000-00000000000{day}", "event": "$groupidentify", "distinct_id": "ann",
             "timestamp": f"2024-01-0{day}T10:00:00Z", "properties": said},
        ])  # fmt: skip
    done = run(write_job(tmp_path, service.url, mapping="posthog", set="", until="2024-01-04"))
    assert [one.attempt and one.attempt.sent for one in done.windows] == [1, 0, 1]
    assert [group.properties for group in service.groups()] == [{"plan": "pro"}]
