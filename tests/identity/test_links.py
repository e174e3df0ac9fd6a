"""Merges that rows state become links: each once, dated before what it joins, and the same in any order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.encoder.event import Encoder
from pipeline.encoder.updates import SealedLink, encode_merge
from pipeline.models import SealedOptions
from pipeline.plan.requests.store import read_requests
from pipeline.uuids import Hasher, namespace
from tests.support.tiny_tool import AS_OF, HOUR, THEN, planned, row


def link(user: str, other: str, at: int | None = THEN, kind: str | None = None) -> dict[str, Any]:
    """A row that states a merge: `user` absorbs `other`."""
    members = {"id": user, "link": other, "at": at, "kind": kind}
    return {name: value for name, value in members.items() if value is not None}


def test_a_merge_that_many_rows_state_is_one_link_and_never_an_event(tmp_path: Path) -> None:
    """The rows are mapped; the plan has one more merge and no event. Its file has one line per link, for people too."""
    made = planned(tmp_path, [link("u-1", "d-1"), link("u-1", "d-1"), row(key="k")], [link("u-1", "d-1")])
    uuid = Hasher(namespace("tiny"))("link\x1fidentify\x1fu-1\x1fd-1")
    assert made.identities() == [SealedLink("identify", "u-1", "d-1", THEN - 1_000, uuid, 3)]
    (line,) = made.directory.identities.read_text().splitlines()
    assert json.loads(line) == {
        "kind": "identify", "distinct_id": "u-1", "other": "d-1", "time": THEN - 1_000, "uuid": uuid, "rows": 3,
    }  # fmt: skip
    assert (made.plan.rows.mapped, made.plan.events.made) == (4, 2)
    assert dict(made.plan.events.phases) == {"identities": 1, "groups": 0, "events": 1, "persons": 0}
    assert [event["event"] for event in made.sent()] == ["Seen"]


def test_links_are_dated_before_what_they_join(tmp_path: Path) -> None:
    """A millisecond before the earliest event of either id, or before their rows if there is no event; never in the
    future, under 48 hours old or before 1970. Without a time, 49 hours before `as_of`."""
    times = {"a": THEN, "b": None, "c": AS_OF + HOUR, "d": 500, "e": -500, "f": THEN + 9, "g": THEN + 9}
    rows = [link(f"u-{name}", f"d-{name}", at) for name, at in times.items()]
    events = [row(id="d-f", at=THEN, key="1"), row(id="u-f", at=THEN + 5, key="2"), row(id="u-g", at=THEN, key="3")]
    made = planned(tmp_path, rows, [*events, row(id="d-g", at=THEN + 7, key="4"), row(id="other", at=0, key="5")])
    old = AS_OF - 49 * HOUR - 1_000
    expected = {"a": THEN - 1_000, "b": old, "c": old, "d": 0, "e": 0, "f": THEN - 1_000, "g": THEN - 1_000}
    assert {one.other[2:]: one.time for one in made.identities()} == expected


def test_what_is_not_merged_is_reported(tmp_path: Path) -> None:
    """An id that two users claim goes to the first claim by time, not by the order of the rows. An id is not merged
    with itself, with a placeholder, or with one too long; the row counts as mapped."""
    rows = [link("u-1", "null"), link("u-1", "u-1"), link("u-1", "x" * 201), row(key="k")]
    claims = [link("u-1", "d-1", THEN + 1), link("u-1", "d-1", THEN + 2), link("u-2", "d-1", THEN)]
    made = planned(tmp_path, rows, claims)
    assert [(one.distinct_id, one.other) for one in made.identities()] == [("u-2", "d-1")]
    decided = {one.reason: (one.decision, one.pairs) for one in made.plan.people.identities.decisions}
    refused = dict.fromkeys(("junk_id", "self_pair", "long_id"), ("refused", 1))
    assert decided == refused | {"other_user": ("conflict", 1), "first_user": ("first_user", 1)}
    assert (made.plan.rows.mapped, made.plan.events.made) == (7, 2)


def test_merges_of_people_who_asked_to_be_forgotten_are_left_out(tmp_path: Path) -> None:
    """Not even the table names these people."""
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
    """`$identify` with `$anon_distinct_id`, or `$create_alias` with `alias`; the surviving id is the event's
    distinct_id."""
    encoder = Encoder("tiny", SealedOptions(as_of=AS_OF, provenance=False))
    uuid = "0829736a-b140-570d-ac78-774cecf956e2"
    for kind, name, member in (("identify", "$identify", "$anon_distinct_id"), ("alias", "$create_alias", "alias")):
        properties = {"distinct_id": "u-1", member: "d-1", "$geoip_disable": True, "$ip": "127.0.0.1"}
        assert json.loads(encode_merge(SealedLink(kind, "u-1", "d-1", THEN, uuid, 3), encoder)) == {
            "event": name, "properties": properties, "timestamp": "2023-09-23T00:00:00Z", "uuid": uuid,
        }  # fmt: skip


def test_links_are_in_requests_of_five_thousand_at_most(tmp_path: Path) -> None:
    """So the identities phase can be resumed as easily as the events."""
    made = planned(tmp_path, [link(f"u-{number}", f"d-{number}") for number in range(5_001)])
    requests = list(read_requests(made.directory, "identities"))
    assert [one.number for one in requests] == list(range(len(requests)))
    assert sum(one.events for one in requests) == 5_001
    assert max(one.events for one in requests) <= 5_000
