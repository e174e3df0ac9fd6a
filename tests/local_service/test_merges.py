"""The local service merges persons or refuses to, as the real one does (docs/know/service.md#ids-and-text, #merges)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.rehearsal import alias, event, fresh, identify, landed, send, told

pytestmark = pytest.mark.slow

ALREADY = "cannot_merge_already_identified"
ILLEGAL = "cannot_merge_with_illegal_distinct_id"

Events = list[dict[str, Any]]
CASES: dict[str, tuple[Events, list[tuple[str, ...]]]] = {
    "neither id has a person": ([identify("u", "d")], [("d", "u")]),
    "the device has one": ([event("d"), identify("u", "d")], [("d", "u")]),
    "the user has one": ([event("u"), identify("u", "d")], [("d", "u")]),
    "both have one": ([event("d"), event("u"), identify("u", "d")], [("d", "u")]),
    "the events come afterwards": ([identify("u", "d"), event("d"), event("u")], [("d", "u")]),
    "twice the same": ([event("d"), event("u"), *[identify("u", "d")] * 2], [("d", "u")]),
    "an identify without a device": ([event("d"), event("u", "$identify")], [("d",), ("u",)]),
    "an alias": ([event("d"), event("u"), alias("u", "d")], [("d", "u")]),
    "an alias without an alias": ([alias("u", ""), alias("v", None)], [("u",), ("v",)]),
    "two devices of a user": ([identify("u", "d1"), identify("u", "d2"), event("d2")], [("d1", "d2", "u")]),
    "a shared device, each user with events": (
        [event("d"), event("u1"), event("u2"), identify("u1", "d"), identify("u2", "d")],
        [("d", "u1"), ("u2",)],
    ),
    "a shared device, the second user is new": (
        [event("d"), identify("u1", "d"), identify("u2", "d")],
        [("d", "u1", "u2")],
    ),
    "a chain, each with events": (
        [event("a"), event("b"), event("c"), identify("b", "a"), identify("c", "b")],
        [("a", "b"), ("c",)],
    ),
    "a chain from its far end": (
        [event("a"), event("b"), event("c"), identify("c", "b"), identify("b", "a")],
        [("a", "b", "c")],
    ),
    "a chain of ids without events": ([identify("b", "a"), identify("c", "b")], [("a", "b", "c")]),
    "a star": ([event("a"), event("b"), event("c"), identify("c", "a"), identify("c", "b")], [("a", "b", "c")]),
    "a cycle": ([event("a"), event("b"), identify("b", "a"), identify("a", "b")], [("a", "b")]),
    "a cycle of three": (
        [event("a"), event("b"), event("c"), identify("b", "a"), identify("c", "b"), identify("a", "c")],
        [("a", "b"), ("c",)],
    ),
    "two identified users": (
        [identify("u", "d"), identify("v", "e"), identify("u", "v"), alias("u", "v")],
        [("d", "u"), ("e", "v")],
    ),
    "two identified users, dangerously": (
        [identify("u", "d"), identify("v", "e"), alias("u", "v", "$merge_dangerously")],
        [("d", "e", "u", "v")],
    ),
    "numbers": ([event(7), event(8.5), identify(7, "8.5")], [("7", "8.5")]),
    "a number as a device": ([event("7"), event("u"), identify("u", 7)], [("7", "u")]),
    "white space is kept": ([event("d "), event("d"), identify("u", "d ")], [("d",), ("d ", "u")]),
    "letters in both cases": ([event("D"), event("d"), identify("u", "D")], [("D", "u"), ("d",)]),
    "a device without a profile": ([event("d", _process_person_profile=False), identify("u", "d")], [("d", "u")]),
}


def test_which_ids_belong_to_one_person() -> None:
    rooms = {name: fresh() for name in CASES}
    for name, (events, _) in CASES.items():
        send(rooms[name], *events)
    found = {name: [person.distinct_ids for person in room.persons()] for name, room in rooms.items()}
    assert found == {name: left for name, (_, left) in CASES.items()}


JUNK = [
    "anonymous", "Guest", "DistinctId", "distinct_id", "ID", "not_authenticated", "Email", "uNdEfInEd", "TRUE", "false",
    "[object Object]", "NaN", "None", "none", "null", "0", "'null'", '"0"', "'ID'", '"email"', "", " \t", None, True,
    "a\0b", "x" * 401, {"a": 1},
]  # fmt: skip
FINE = ["nan", "NULL", "00", "anonymous2", "'none\"", "1", "x" * 400, "[Object object]"]


@pytest.mark.parametrize("name", ["$identify", "$merge_dangerously"])
def test_merges_nothing_with_junk(name: str) -> None:
    """An id that names nobody is never merged, not even dangerously; the event itself counts."""
    key = "_anon_distinct_id" if name == "$identify" else "alias"
    service, users = fresh(), {f"u{number:02}": junk for number, junk in enumerate(JUNK)}
    for user, junk in users.items():
        send(service, event(user), event(user, name, **{key: junk}, _set={"p": user}))
    found = [(person.distinct_ids, person.is_identified, person.properties) for person in service.persons()]
    assert found == [((user,), False, {"p": user}) for user in users]
    silent = [user for user, junk in users.items() if name != "$identify" and junk in ("", None)]
    assert told(service) == [(ILLEGAL, user) for user in users if user not in silent]
    assert service.count() == 2 * len(JUNK)


def test_merges_what_only_looks_like_junk() -> None:
    users = {fine: f"user {number}" for number, fine in enumerate(FINE)}
    persons = landed(*(identify(user, fine) for fine, user in users.items()))
    assert sorted(person.distinct_ids for person in persons) == sorted(tuple(sorted(pair)) for pair in users.items())


def test_a_user_that_is_junk_is_not_merged_into() -> None:
    """An event under a junk id makes its own person, and absorbs none."""
    service = fresh()
    send(service, event("d"), identify("null", "d", _set={"p": 1}))
    persons = {person.distinct_ids: person for person in service.persons()}
    assert persons.keys() == {("d",), ("null",)}
    assert (persons["null",].properties, persons["null",].is_identified) == ({"p": 1}, False)
    assert told(service) == [(ILLEGAL, "null")]


def test_a_refused_merge_still_identifies_and_writes() -> None:
    """A merge that is refused because the other is identified says so, and its event counts for its own person."""
    service = fresh()
    send(service, event("d"), event("u1"), event("u2"), identify("u1", "d"), identify("u2", "d", _set={"p": 1}))
    first, second = service.persons()
    assert (second.distinct_ids, second.is_identified, second.properties) == (("u2",), True, {"p": 1})
    (warning,) = service.warnings()
    assert (warning.type, warning.dropped, warning.event, warning.distinct_id) == (ALREADY, False, "$identify", "u2")
    ids = {"distinct_id": "u2", "other": "d", "person_id": second.id, "other_person_id": first.id}
    assert warning.details == ids


@pytest.mark.parametrize("name", ["$identify", "$create_alias", "$merge_dangerously"])
def test_the_survivor_wins(name: str) -> None:
    """The person of the event's own id stays: its id and its values, the older date, then the event's own values."""
    merge = event("u", name, 9, _anon_distinct_id="d", alias="d", _set={"both": "event"}, _set_once={"once": 1, "d": 2})
    events = [event("d", day=2, _set={"d": 1, "p": "d", "both": 1}), event("u", day=4, _set={"u": 1, "p": "u"})]
    service = fresh()
    send(service, *events)
    before = {person.distinct_ids: person.id for person in service.persons()}
    send(service, merge)
    (person,) = service.persons()
    assert person.id == before["u",]
    assert person.properties == {"d": 1, "u": 1, "p": "u", "both": "event", "once": 1}
    assert (person.created_at, person.is_identified) == ("2023-01-02T00:00:00.000000Z", True)


@pytest.mark.parametrize("existing", ["u", "d"])
def test_an_id_is_added_to_the_only_person(existing: str) -> None:
    """Where one of the two ids has a person, that person gets the other id, its date and its values stay."""
    service = fresh()
    send(service, event(existing, day=5, _set={"p": 1}))
    (before,) = service.persons()
    send(service, identify("u", "d", day=1, _set={"q": 2}, _unset=["p"]))
    (after,) = service.persons()
    assert (after.id, after.created_at, after.properties) == (before.id, before.created_at, {"q": 2})
    assert (after.is_identified, after.distinct_ids) == (True, ("d", "u"))


def test_a_merge_makes_a_person() -> None:
    """Where neither id has a person, one is made of the event, identified from the start."""
    (person,) = landed(identify("u", "d", day=3, _set={"p": 1}, _set_once={"p": 2, "q": 3}))
    assert (person.properties, person.created_at) == ({"p": 1, "q": 3}, "2023-01-03T00:00:00.000000Z")
    assert person.is_identified


def test_an_identify_without_a_device_identifies_nobody() -> None:
    """Only a merge makes a person identified: so another user may still absorb it."""
    service = fresh()
    send(service, event("u", "$identify", _set={"p": 1}))
    assert not service.persons()[0].is_identified
    send(service, event("v"), identify("v", "u"))
    assert [person.distinct_ids for person in service.persons()] == [("u", "v")]


def test_a_long_device_is_not_the_device_of_its_events() -> None:
    """Ids of events are cut to 200 characters, ids that a merge names are not: so such a merge misses the events."""
    long = "d" * 201
    service = fresh()
    send(service, event(long), identify("u", long))
    assert [person.distinct_ids for person in service.persons()] == [("d" * 200,), (long, "u")]
    assert told(service) == [("distinct_id_shortened", "d" * 200)]


def test_a_merge_of_what_is_no_text_may_be_dropped() -> None:
    """With `merge_ids=text` an id that is no text drops its event."""
    service = fresh(merge_ids="text")
    send(service, event("7"), identify("u", 7), alias("v", ["x"]), identify("w", None))
    assert [person.distinct_ids for person in service.persons()] == [("7",), ("w",)]
    assert told(service) == [("invalid_merge_id", "u"), ("invalid_merge_id", "v"), (ILLEGAL, "w")]
    assert service.count() == 2


def test_a_merge_onto_itself_is_none() -> None:
    """An id that is identified as itself is an event like any other: nobody becomes identified."""
    service = fresh()
    send(service, event("known"))
    for id in ("known", "new"):
        send(service, identify(id, id, _set={"p": 1}), alias(id, id), alias(id, id, "$merge_dangerously"))
    assert service.select("select distinct_id from person_distinct_ids order by 1") == [("known",), ("new",)]
    assert [(one.is_identified, one.properties) for one in service.persons()] == [(False, {"p": 1})] * 2


def test_ids_that_were_moved_stay_together() -> None:
    """All ids of an absorbed person go with it, also those that no later event names."""
    service = fresh()
    send(service, event("u"), *(alias("d0", f"d{n}", "$merge_dangerously") for n in range(1, 5)))
    assert len(service.persons()) == 2
    send(service, alias("u", "d3", "$merge_dangerously"))
    assert [person.distinct_ids for person in service.persons()] == [("d0", "d1", "d2", "d3", "d4", "u")]
    assert len(service.select("select distinct id from persons")) == 1
