"""Merges that rows state become links: each once, dated before what it joins, and the same whatever the order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.encoder.event import Encoder
from pipeline.encoder.updates import SealedLink, encode_merge
from pipeline.models import SealedOptions
from pipeline.plan.sealed.directory import read_lines
from pipeline.plan.sealed.phases import phase_blocks
from pipeline.timestamps import format_utc
from pipeline.uuids import Hasher, namespace
from tests.support import tiny_tool as tiny
from tests.support.tiny_tool import AS_OF, HOUR, THEN, Made, make_plan, row, write


def link(user: str, other: str, at: int | None = THEN, kind: str | None = None) -> dict[str, Any]:
    """A row that states a merge: `user` absorbs `other`."""
    members = {"id": user, "link": other, "at": at, "kind": kind}
    return {name: value for name, value in members.items() if value is not None}


def planned(place: Path, *files: list[dict[str, Any]], **options: Any) -> Made:
    """A plan of these files."""
    paths = [write(place / f"{number}.jsonl", rows) for number, rows in enumerate(files)]
    return make_plan(place / "plan", paths, **options)


def test_a_merge_that_many_rows_state_is_one_link_and_never_an_event(tmp_path: Path) -> None:
    """The rows are mapped; the plan has one merge more and no event."""
    made = planned(tmp_path, [link("u-1", "d-1"), link("u-1", "d-1"), row(key="k")], [link("u-1", "d-1")])
    (found,) = made.identities()
    assert (found.kind, found.distinct_id, found.other, found.rows) == ("identify", "u-1", "d-1", 3)
    assert (made.plan.rows.mapped, made.plan.events.made) == (4, 2)
    assert dict(made.plan.events.phases) == {"identities": 1, "groups": 0, "events": 1, "persons": 0}
    assert [event["event"] for event in made.sent()] == ["Seen"]


def test_the_uuid_of_a_link_is_made_of_its_kind_and_ids(tmp_path: Path) -> None:
    """Neither its date nor the rows that state it change it, so a later plan knows it again."""
    made = planned(tmp_path, [link("u-1", "d-1")])
    expected = Hasher(namespace("tiny"))("link\x1fidentify\x1fu-1\x1fd-1")
    assert [one.uuid for one in made.identities()] == [expected]


@pytest.mark.parametrize("whose", ["u-1", "d-1"])
def test_a_link_is_dated_a_millisecond_before_the_earliest_event_of_either_id(tmp_path: Path, whose: str) -> None:
    """A merge that comes after the events it joins leaves two people."""
    rows = [link("u-1", "d-1", THEN + 9), row(id=whose, at=THEN, key="a"), row(id="u-1", at=THEN + 5, key="b")]
    made = planned(tmp_path, rows, [row(id="d-1", at=THEN + 7, key="c"), row(id="other", at=THEN - 9, key="d")])
    assert [one.time for one in made.identities()] == [THEN - 1_000]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (THEN, THEN - 1_000),
        (None, AS_OF - 49 * HOUR - 1_000),
        (AS_OF + HOUR, AS_OF - 49 * HOUR - 1_000),
        (500, 0),
        (-500, 0),
    ],
)
def test_a_link_of_ids_without_events_is_dated_by_its_rows(tmp_path: Path, said: int | None, expected: int) -> None:
    """Never in the future, never under 48 hours old, never before 1970; without a time, 49 hours before `as_of`."""
    made = planned(tmp_path, [link("u-1", "d-1", said), row(id="other", key="k")])
    assert [one.time for one in made.identities()] == [expected]


@pytest.mark.parametrize("turned", [False, True])
def test_an_id_that_two_users_claim_goes_to_the_first_claim(tmp_path: Path, turned: bool) -> None:
    """By the time of the claim, not by the order of the rows; the other is told in the table of pairs."""
    rows = [link("u-2", "d-1", THEN), link("u-1", "d-1", THEN + 1), link("u-1", "d-1", THEN + 2)]
    made = planned(tmp_path, rows[::-1] if turned else rows)
    assert [(one.distinct_id, one.other) for one in made.identities()] == [("u-2", "d-1")]
    decided = [(one.decision, one.reason, one.pairs) for one in made.plan.people.identities.decisions]
    assert decided == [("conflict", "other_user", 1), ("first_user", "first_user", 1)]


def test_a_merge_that_must_not_be_is_told_and_not_sent(tmp_path: Path) -> None:
    """Of an id with itself, with a word that names nobody, or with one too long; the row counts as mapped."""
    rows = [link("u-1", "null"), link("u-1", "u-1"), link("u-1", "x" * 201), row(key="k")]
    made = planned(tmp_path, rows)
    assert made.identities() == []
    reasons = {one.reason: one.decision for one in made.plan.people.identities.decisions}
    assert reasons == dict.fromkeys(("junk_id", "self_pair", "long_id"), "refused")
    assert (made.plan.rows.mapped, made.plan.events.made) == (4, 1)


def test_merges_of_people_who_asked_to_be_forgotten_are_left_out(tmp_path: Path) -> None:
    """Not even the table names them."""
    made = planned(tmp_path, [link("u-1", "d-1"), link("u-2", "d-2"), row(key="k")], excluded=["d-1"])
    assert [one.other for one in made.identities()] == ["d-2"]
    assert b"d-1" not in made.directory.pairs.read_bytes()


def test_a_merge_outside_the_window_is_a_skip(tmp_path: Path) -> None:
    """Half-open, as for events; a merge that states no time is always inside."""
    rows = [link("u-1", "d-1", THEN - 1), link("u-2", "d-2", THEN), link("u-3", "d-3", None)]
    made = planned(tmp_path, rows, since=THEN)
    assert [one.other for one in made.identities()] == ["d-2", "d-3"]
    assert (made.plan.skips, made.plan.rows.skipped) == ({"outside_window": 1}, 1)


def test_a_link_is_sent_as_the_service_reads_it() -> None:
    """`$identify` with `$anon_distinct_id`, or `$create_alias` with `alias`; the surviving id is the event's own."""
    encoder = Encoder("tiny", SealedOptions(as_of=AS_OF, provenance=False))
    uuid = "0829736a-b140-570d-ac78-774cecf956e2"
    for kind, name, member in (("identify", "$identify", "$anon_distinct_id"), ("alias", "$create_alias", "alias")):
        event = json.loads(encode_merge(SealedLink(kind, "u-1", "d-1", THEN, uuid, 3), encoder))
        assert event == {
            "event": name,
            "properties": {"distinct_id": "u-1", member: "d-1", "$geoip_disable": True, "$ip": "127.0.0.1"},
            "timestamp": "2023-09-23T00:00:00Z",
            "uuid": uuid,
        }


def test_links_are_read_back_in_blocks_of_five_thousand(tmp_path: Path) -> None:
    """So that the identities phase is as resumable as the events."""
    made = planned(tmp_path, [link(f"u-{number}", f"d-{number}") for number in range(5_001)])
    options = made.plan.options
    mapper = tiny.TinyMapper(options)
    blocks = list(phase_blocks("identities", made.plan, made.directory, mapper, options))
    assert [(number, len(events)) for number, events in blocks] == [(0, 5_000), (1, 1)]


def test_the_links_file_can_be_read_by_a_person(tmp_path: Path) -> None:
    """One line a link."""
    made = planned(tmp_path, [link("u-1", "d-1")])
    (line,) = made.directory.identities.read_text().splitlines()
    (one,) = read_lines(made.directory.identities, SealedLink)
    assert json.loads(line) == {
        "kind": "identify", "distinct_id": "u-1", "other": "d-1", "time": THEN - 1_000, "uuid": one.uuid, "rows": 1,
    }  # fmt: skip
    assert format_utc(one.time) == "2023-09-22T23:59:59.999Z"
