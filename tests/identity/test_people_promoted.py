"""What the service copies from events to persons by itself ends as in order of time, whatever the order of sending."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.errors import UnsafePlan
from pipeline.options import ApplyOptions
from tests.support.deliveries import COLUMNS
from tests.support.people import CALLS, IDS, JANUARY, TRAITS, USERS, Rows, came_to, people, planned, segment, sent
from tests.support.rehearsal import Room, event, fresh, send

VALUES = st.sampled_from(["x", "y", 1, 1.5, None])
PROMOTED = st.dictionaries(
    st.sampled_from(["$browser", "$os", "$os_name", "$current_url", "utm_source", "gclid"]), VALUES, max_size=4
)
SAID = {
    "$set": st.dictionaries(st.sampled_from(["$browser", "$os", "$initial_browser"]), st.sampled_from("pq")),
    "$set_once": st.dictionaries(st.sampled_from(["$initial_os", "$initial_browser"]), st.sampled_from("rs")),
    "$process_person_profile": st.booleans(),
}


def tracked(
    at: int, user: str | None, one: str, name: str, promoted: dict[str, Any], said: dict[str, Any]
) -> dict[str, Any]:
    """An event of the mapping `generic` with these properties; some share a uuid, and of those only one is sent."""
    when = datetime.fromtimestamp(JANUARY + at, UTC).isoformat()
    ids = {"distinct_id": user or "", "anonymous_id": one, "uuid": str(UUID(int=at % 23, version=4))}
    return {"event": name, "timestamp": when} | ids | promoted | said


EVENTS = st.builds(
    tracked, st.integers(0, 30), USERS, IDS, st.sampled_from(["Seen", "$pageview", "$$heatmap"]), PROMOTED,
    st.fixed_dictionaries({}, optional=SAID),
)  # fmt: skip
PROMOTING_CALLS = st.one_of(
    st.builds(
        lambda at, user, one, promoted: segment(at, "track", user, one, properties=promoted),
        st.integers(0, 30), USERS, IDS, PROMOTED,
    ),
    st.builds(
        lambda at, user, one, traits: segment(at, "identify", user, one, traits=traits),
        st.integers(0, 30), USERS, IDS, TRAITS,
    ),
    CALLS,
)  # fmt: skip
GENERIC = {"settings": COLUMNS | {"anonymous_id": "anonymous_id"}, "allow_key_conflicts": True}
"""Some of the events above share a uuid and differ, which a plan accepts only if an option says so."""


def lived(**switches: Any) -> Room:
    """A project in which one of the persons is known already."""
    room = fresh(promote_properties="on", **switches)
    send(room, event("u", "$set", 10, _set={"$browser": "live", "$initial_browser": "live", "plan": "live"}))
    return room


def in_time(rows: Rows, key: str) -> Rows:
    return sorted(rows, key=lambda one: one[key])


@settings(max_examples=2)
@given(st.lists(EVENTS, min_size=12, max_size=30, unique_by=lambda one: one["timestamp"]), st.randoms(), st.booleans())
@pytest.mark.parametrize("persons", ["all", "identified"])
def test_promoted_properties_come_to_what_events_in_order_make_of_them(
    persons: str, rows: Rows, chance: random.Random, known: bool
) -> None:
    """In any order, files and batches, several requests at a time: as if each event had arrived at its own time."""
    asked = GENERIC | {"persons": persons}
    room = lived if known else lambda: fresh(promote_properties="on")
    ordered = came_to(in_time(rows, "timestamp"), None, "on", "generic", room(), **asked)
    found = came_to(rows, chance, "on", "generic", room(), promoted_properties="final", **asked)
    assert found == ordered


@settings(max_examples=2)
@given(
    st.lists(PROMOTING_CALLS, min_size=12, max_size=30, unique_by=lambda one: one["timestamp"]), st.randoms(),
    st.sampled_from(["fill-only", "overwrite", "prefix=was_"]), st.booleans(),
)  # fmt: skip
def test_they_do_so_with_properties_of_persons_and_groups_in_rows(
    calls: Rows, chance: random.Random, policy: str, known: bool
) -> None:
    """Under every policy, and if a profile is live."""
    room = lived if known else lambda: fresh(promote_properties="on")
    asked = {"profile_policy": policy, "joined_users": "first"}
    ordered = came_to(in_time(calls, "timestamp"), None, "on", room=room(), **asked)
    assert came_to(calls, chance, "on", room=room(), promoted_properties="final", **asked) == ordered


VISITS = [
    tracked(3, "u", "a", "Seen", {"$browser": "Third"}, {}),
    tracked(1, None, "a", "Seen", {"$browser": "First", "utm_source": "ad"}, {}),
    tracked(2, "u", "a", "Seen", {"$browser": "Second", "$os_name": "Linux"}, {}),
]


def test_a_copy_that_is_not_sent_promotes_nothing(tmp_path: Path) -> None:
    """Of rows with one uuid only one is sent."""
    twice = [tracked(1, "u", "a", "Seen", {"$browser": one}, {}) for one in ("x", "y")]
    room = fresh(promote_properties="on")
    sent(tmp_path, "generic", twice, room=room, promoted_properties="final", **GENERIC)
    [(landed,)] = room.select("select properties from events where event = 'Seen'")
    one = json.loads(landed)["$browser"]
    assert people(room) == {("u",): {"$browser": one, "$initial_browser": one}}


def test_what_is_set_before_events_waits_for_merges_and_is_not_counted_as_groups(tmp_path: Path) -> None:
    """It is sent in the phase groups, whose counts and report say so."""
    plan = planned(tmp_path, "generic", VISITS, promoted_properties="final", **GENERIC)
    assert dict(plan.events.phases) == {"identities": 1, "groups": 1, "events": 3, "persons": 1}
    assert (plan.people.groups.groups, plan.people.initials) == (0, 1)
    assert "1 initial profile and 1 profile" in plan.sentence
    with pytest.raises(UnsafePlan, match="groups needs the phase identities"):
        pipeline.apply_plan(tmp_path / "plan", fresh().url, ApplyOptions(phases=["groups"]), project_key="phc_test_1")
    report = (tmp_path / "plan" / "report.html").read_text("utf-8")
    assert "1 person has the first values set once" in re.sub("<[^>]*>", "", report)
    assert "--promoted-properties final" in report
