"""Merges that rows state become links: each once, dated before what it joins, and the same whatever the order."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import Encoder
from pipeline.identity import Hasher, event_uuid, namespace
from pipeline.instants import format_utc
from pipeline.plan.copies import Keys
from pipeline.plan.directory import read_lines
from pipeline.plan.links import Links, SealedLink, refusal
from pipeline.plan.reading import encode_link, link_blocks
from pipeline.schema import Link, Options
from tests import tiny
from tests.tiny import AS_OF, HOUR, THEN, Made, make_plan, row, write


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
    expected = event_uuid(namespace("tiny"), "link\x1fidentify\x1fu-1\x1fd-1")
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
    """By the time of the claim, not by the order of the rows; the other is counted."""
    rows = [link("u-2", "d-1", THEN), link("u-1", "d-1", THEN + 1), link("u-1", "d-1", THEN + 2)]
    made = planned(tmp_path, rows[::-1] if turned else rows)
    assert [(one.distinct_id, one.rows) for one in made.identities()] == [("u-2", 1)]
    assert made.plan.warnings == {"conflicting_link": 2}


def test_a_claim_without_a_time_comes_after_those_that_have_one(tmp_path: Path) -> None:
    """And of two at the same time the lesser id wins, so that every order gives the same."""
    made = planned(tmp_path, [link("a", "d-1", None), link("c", "d-1", THEN), link("b", "d-1", THEN)])
    assert [one.distinct_id for one in made.identities()] == ["b"]


def test_a_pair_that_is_stated_in_two_kinds_is_one_merge(tmp_path: Path) -> None:
    """Of the kind that was said first: sending both would merge twice."""
    made = planned(tmp_path, [link("u-1", "d-1", THEN + 1), link("u-1", "d-1", THEN, "alias")])
    assert [(one.kind, one.rows) for one in made.identities()] == [("alias", 2)]
    assert made.plan.warnings == {}


@pytest.mark.parametrize(
    ("user", "other", "code"),
    [
        ("u-1", "u-1", "self_link"),
        ("u-1", "null", "junk_link"),
        ("anonymous", "d-1", "junk_link"),
        ("", "d-1", "junk_link"),
        ("u-1", " ", "junk_link"),
        ("x" * 201, "d-1", "long_link"),
        ("u-1", "x" * 201, "long_link"),
        ("u-1", "d\0", "long_link"),
        ("x" * 200, "d-1", ""),
    ],
)
def test_a_merge_that_must_not_be_is_refused_with_a_code(user: str, other: str, code: str) -> None:
    """Of an id with itself, with a word that names nobody, or with one too long."""
    assert refusal(Link("identify", user, other)) == code


def test_a_refused_merge_is_counted_and_not_sent(tmp_path: Path) -> None:
    """As warnings of the plan; the row counts as mapped."""
    rows = [link("u-1", "null"), link("u-1", "u-1"), row(key="k")]
    made = planned(tmp_path, rows)
    assert made.identities() == []
    assert made.plan.warnings == {"junk_link": 1, "self_link": 1}
    assert (made.plan.rows.mapped, made.plan.events.made) == (3, 1)


def test_a_merge_outside_the_window_is_a_skip(tmp_path: Path) -> None:
    """Half-open, as for events; a merge that states no time is always inside."""
    rows = [link("u-1", "d-1", THEN - 1), link("u-2", "d-2", THEN), link("u-3", "d-3", None)]
    made = planned(tmp_path, rows, since=THEN)
    assert [one.other for one in made.identities()] == ["d-2", "d-3"]
    assert (made.plan.skips, made.plan.rows.skipped) == ({"outside_window": 1}, 1)


def test_a_link_is_sent_as_the_service_reads_it() -> None:
    """`$identify` with `$anon_distinct_id`, or `$create_alias` with `alias`; the surviving id is the event's own."""
    encoder = Encoder("tiny", Options(as_of=AS_OF, provenance=False))
    uuid = "0829736a-b140-570d-ac78-774cecf956e2"
    for kind, name, member in (("identify", "$identify", "$anon_distinct_id"), ("alias", "$create_alias", "alias")):
        event = json.loads(encode_link(SealedLink(kind, "u-1", "d-1", THEN, uuid, 3), encoder))
        assert event == {
            "event": name,
            "properties": {"distinct_id": "u-1", member: "d-1", "$geoip_disable": True, "$ip": "127.0.0.1"},
            "timestamp": "2023-09-23T00:00:00Z",
            "uuid": uuid,
        }


def test_links_are_read_back_in_blocks_of_five_thousand(tmp_path: Path) -> None:
    """So that the identities phase is as resumable as the events."""
    made = planned(tmp_path, [link("u-1", f"d-{number}") for number in range(5_001)])
    options = made.plan.options
    blocks = list(link_blocks(made.plan, made.directory, tiny.TinyMapper(options), options))
    assert [(number, len(events)) for number, events in blocks] == [(0, 5_000), (1, 1)]


IDS = st.sampled_from(["u-1", "u-2", "u-3", "d-1", "d-2", "é", "null"])
LINKS = st.builds(
    Link, st.sampled_from(["identify", "alias"]), IDS, IDS, st.one_of(st.none(), st.integers(THEN, THEN + 3))
)


def sealed(place: Path, links: list[Link], most: int) -> tuple[list[SealedLink], Counter[str]]:
    """What becomes of links where only `most` claims are held in memory."""
    place.mkdir()
    keys = Keys(place / "keys")
    found = Links(place, most=most)
    for one in links:
        found.add([one])
    made = list(found.seal(Hasher(namespace("tiny")), keys, Options(as_of=AS_OF)))
    keys.remove()
    return made, found.refused


@settings(max_examples=60, deadline=None)
@given(st.lists(LINKS, max_size=25), st.randoms(use_true_random=False))
def test_links_do_not_depend_on_the_order_of_rows_nor_on_what_fits_in_memory(
    tmp_path_factory: pytest.TempPathFactory, links: list[Link], shuffle: Any
) -> None:
    """The same claims give the same sealed lines, in the same order, and the same refusals."""
    place = tmp_path_factory.mktemp("links")
    turned = list(links)
    shuffle.shuffle(turned)
    assert sealed(place / "one", links, 1000) == sealed(place / "other", turned, 2)


@settings(max_examples=60, deadline=None)
@given(st.lists(LINKS, max_size=25))
def test_links_are_those_of_a_naive_look(tmp_path_factory: pytest.TempPathFactory, links: list[Link]) -> None:
    """For each absorbed id the earliest claim, then the lesser user; every refused row is counted."""
    good = [one for one in links if not refusal(one)]
    expected = []
    for other in sorted({one.other for one in good}):
        claims = [one for one in good if one.other == other]
        first = min((AS_OF * 9 if one.time is None else one.time, one.distinct_id, one.kind) for one in claims)
        rows = sum(one.distinct_id == first[1] for one in claims)
        expected.append((first[2], first[1], other, rows))
    found, refused = sealed(tmp_path_factory.mktemp("links") / "one", links, 3)
    assert [(one.kind, one.distinct_id, one.other, one.rows) for one in found] == expected
    assert refused.total() + sum(one.rows for one in found) == len(links)


def test_the_links_file_can_be_read_by_a_person(tmp_path: Path) -> None:
    """One line a link."""
    made = planned(tmp_path, [link("u-1", "d-1")])
    (line,) = made.directory.identities.read_text().splitlines()
    (one,) = read_lines(made.directory.identities, SealedLink)
    assert json.loads(line) == {
        "kind": "identify", "distinct_id": "u-1", "other": "d-1", "time": THEN - 1_000, "uuid": one.uuid, "rows": 1,
    }  # fmt: skip
    assert format_utc(one.time) == "2023-09-22T23:59:59.999Z"
