"""The policies on devices of several users, and on records that make one person of several users."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.identity.observed_pairs import EarlierLink
from pipeline.identity.policies import UserPolicies
from pipeline.identity.summary import SeveralUsers
from pipeline.models import Finding
from pipeline.options import PlanOptions
from pipeline.plan.replay import inherited
from pipeline.plan.sealed.directory import Directory
from tests.support.identity_pairs import Resolved, Seen, resolved
from tests.support.people import planned, segment

TABLET = [Seen("tablet", "ann", 200), Seen("tablet", "bob", 100), Seen("tablet", "ann", 50), Seen("phone", "ann")]
ALIAS = [Seen("u1", "u2", 200, "alias"), Seen("d1", "u1"), Seen("d2", "u2")]
USERS = {"d1": 5, "u1": 9, "u2": 7, "d2": 8}
FOLDED = [segment(1, "track", "u1", "d"), segment(2, "track", "u2", "d"), segment(3, "track", None, "d"),
          segment(4, "alias", "u2", None, previousId="u1")]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "keeps", "bob"),
    [("first", {"ann"}, "other_user"), ("stop", {"ann"}, "other_user"), ("latest", {"ann"}, "later_user"),
     ("none", set(), "shared_device")],
)  # fmt: skip
def test_a_shared_device(policy: str, keeps: set[str], bob: str) -> None:
    """Its first user, the user of its latest row, or nobody keeps it; the other one never does."""
    found = resolved([TABLET], policies=UserPolicies(shared_devices=policy))
    assert {kept for kept, other in found.star() if other == "tablet"} == keeps
    assert found.decision("tablet", "bob") == ("conflict", bob)
    assert found.star() >= {("ann", "phone")}
    largest = [SeveralUsers("tablet", 2, ["ann", "bob"])]
    assert (found.summary.shared_devices, found.summary.largest_shared) == (1, largest)


def test_the_latest_user() -> None:
    """The latest row decides, not the user whose first row is the latest."""
    rows = [Seen("tablet", "ann", 50), Seen("tablet", "bob", 100), Seen("tablet", "ann", 200)]
    found = resolved([rows], policies=UserPolicies(shared_devices="latest"))
    assert found.decision("tablet", "ann") == ("last_user", "last_user")
    assert resolved([rows[:2]], policies=UserPolicies("latest")).star() == {("bob", "tablet")}


def test_users_who_are_one_person_share_nothing() -> None:
    """A device whose users a record joins is merged under every policy."""
    rows = [Seen("tablet", "ann", 1), Seen("tablet", "bob", 2), Seen("ann", "bob", 3, "alias")]
    for policy in ("first", "latest", "none"):
        assert resolved([rows], policies=UserPolicies(policy)).persons() == {frozenset({"tablet", "ann", "bob"})}


@pytest.mark.parametrize(("policy", "keeps"), [("first", "u2"), ("latest", "u1"), ("none", "")])
def test_records_that_join_users(policy: str, keeps: str) -> None:
    """The id that the record keeps stays, or the user who came last, or both users do."""
    found: Resolved = resolved([ALIAS], USERS, policies=UserPolicies(joined_users=policy))
    assert {found.canonical["u1"], found.canonical["u2"]} == ({keeps} if keeps else {"u1", "u2"})
    decision = ("merge", "stated") if keeps else ("conflict", "two_users")
    assert found.decision("u1", "u2") == decision
    assert [(one.users, sorted(one.some)) for one in found.summary.largest_joined] == [(2, ["u1", "u2"])]


def test_what_an_earlier_plan_merged_is_not_asked_again() -> None:
    """Its users stay one person, also if records would not join them any more."""
    earlier = [EarlierLink("u2", "u1", "identify", 1, "settled")]
    found = resolved([ALIAS], USERS, earlier=earlier, policies=UserPolicies(joined_users="none"))
    assert found.canonical["u1"] == found.canonical["u2"]
    assert found.summary.joined_users == 0


def test_a_plan_stops_and_names_who_would_become_one(tmp_path: Path) -> None:
    """It says how to go on; the decision is sealed, and a replay inherits it."""
    (gate,) = [one for one in planned(tmp_path / "stop", "segment", FOLDED).gates if one.level == "stop"]
    assert (gate.name, gate.count, gate.options) == ("joined_users", 1, ["--joined-users", "first"])
    assert gate.examples == ["u2 has 2 users (u2, u1)"]
    plan = planned(tmp_path / "go", "segment", FOLDED, joined_users="latest")
    assert plan.ready
    assert inherited(PlanOptions(), plan, Directory(tmp_path / "go" / "plan")).joined_users == "latest"


def test_a_shared_device_stops_if_asked(tmp_path: Path) -> None:
    """The largest devices are named with their users."""
    plan = planned(tmp_path, "segment", FOLDED[:3], shared_devices="stop")
    assert ("shared_devices", ["d has 2 users (u1, u2)"]) in [(one.name, one.examples) for one in plan.gates]


@pytest.mark.parametrize(("least", "found"), [(75.0, False), (75.1, True)])
def test_a_least_share_of_resolved_people(tmp_path: Path, least: float, found: bool) -> None:
    """Events of a device count once it is merged with a user."""
    rows = [*FOLDED[::2], segment(5, "track", "u1", None), segment(6, "track", None, "stranger")]
    plan = planned(tmp_path, "segment", rows, resolved=least)
    assert (plan.people.profiles.resolved_events, _named("resolved_share", plan.gates)) == (3, found)


def _named(name: str, gates: list[Finding]) -> bool:
    return any(one.name == name for one in gates)
