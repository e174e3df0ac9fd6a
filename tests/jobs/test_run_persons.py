"""Profiles in a job: snapshots of them, window by window, fill what is empty and overwrite nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.encoder.updates import SealedPerson
from pipeline.local_service import LocalService
from pipeline.options import PlanOptions
from pipeline.plan.sealed.directory import Directory, read_lines
from tests.support.jobs import code, outcomes, put, run, write_job

pytestmark = pytest.mark.slow

FINAL = {"mapping": "mixpanel", "set": "", "persons": "{properties: final}", "missing": "done"}
NUMBERS = count()
Snapshot = dict[str, dict[str, Any]]


def snapshot(folder: Path, day: int, people: Snapshot) -> None:
    """The profiles of a day, one a line."""
    put(folder, day, [{"$distinct_id": one, "$properties": said} for one, said in people.items()])


def profiles(service: LocalService, mark: str = "") -> Snapshot:
    """What the service says of the persons whose ids begin so."""
    return {one.distinct_ids[0]: one.properties for one in service.persons() if one.distinct_ids[0].startswith(mark)}


def test_a_snapshot_fills_in_what_earlier_ones_did_not_say(tmp_path: Path, service: LocalService) -> None:
    """What was said once stays; a profile that says nothing new is not sent again."""
    snapshot(tmp_path, 1, {"ann": {"plan": "free"}, "bob": {"plan": "free"}})
    snapshot(tmp_path, 2, {"ann": {"plan": "paid", "town": "Bonn"}, "bob": {"plan": "free"}})
    done = run(write_job(tmp_path, service.url, **FINAL))
    assert code(done) == 0
    assert [one.attempt and one.attempt.sent for one in done.windows[:2]] == [2, 1]
    assert profiles(service) == {"ann": {"plan": "free", "town": "Bonn"}, "bob": {"plan": "free"}}


def test_a_window_that_holds_events_is_stopped(tmp_path: Path, service: LocalService) -> None:
    """What events say of a person changes from window to window, and the oldest word would stay: exit 4, two lines."""
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
    """The same persons with the same properties; of values that changed, the one that was said first."""
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
