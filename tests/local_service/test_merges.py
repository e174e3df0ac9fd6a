"""The local service merges persons or refuses, as the real one does (docs/know/service.md#ids-and-text, #merges)."""

from __future__ import annotations

import pytest

from tests.support.rehearsal import alias, event, fresh, identify, landed, send, warnings_of

ALREADY = "cannot_merge_already_identified"
ILLEGAL = "cannot_merge_with_illegal_distinct_id"


JUNK = [
    "anonymous", "Guest", "DistinctId", "distinct_id", "ID", "not_authenticated", "Email", "uNdEfInEd", "TRUE", "false",
    "[object Object]", "NaN", "None", "none", "null", "0", "'null'", '"0"', "'ID'", '"email"', "", " \t", None, True,
    "a\0b", "x" * 401, {"a": 1},
]  # fmt: skip
FINE = ["nan", "NULL", "00", "anonymous2", "'none\"", "1", "x" * 400, "[Object object]"]


@pytest.mark.parametrize("name", ["$identify", "$merge_dangerously"])
def test_merges_nothing_with_junk(name: str) -> None:
    """A placeholder id is never merged, not even dangerously; the event itself counts."""
    key = "_anon_distinct_id" if name == "$identify" else "alias"
    service, users = fresh(), {f"u{number:02}": junk for number, junk in enumerate(JUNK)}
    for user, junk in users.items():
        send(service, event(user), event(user, name, **{key: junk}, _set={"p": user}))
    found = [(person.distinct_ids, person.is_identified, person.properties) for person in service.persons()]
    assert found == [((user,), False, {"p": user}) for user in users]
    silent = [user for user, junk in users.items() if name != "$identify" and junk in ("", None)]
    assert warnings_of(service) == [(ILLEGAL, user) for user in users if user not in silent]
    assert service.count() == 2 * len(JUNK)


def test_merges_what_only_looks_like_junk() -> None:
    users = {fine: f"user {number}" for number, fine in enumerate(FINE)}
    persons = landed(*(identify(user, fine) for fine, user in users.items()))
    assert sorted(person.distinct_ids for person in persons) == sorted(tuple(sorted(pair)) for pair in users.items())


def test_a_refused_merge_still_identifies_and_writes() -> None:
    """If a merge is refused because the other person is identified, a warning says so, and its event counts for its own
    person."""
    service = fresh()
    send(service, event("d"), event("u1"), event("u2"), identify("u1", "d"), identify("u2", "d", _set={"p": 1}))
    first, second = service.persons()
    assert (second.distinct_ids, second.is_identified, second.properties) == (("u2",), True, {"p": 1})
    (warning,) = service.warnings()
    assert (warning.type, warning.dropped, warning.event, warning.distinct_id) == (ALREADY, False, "$identify", "u2")
    ids = {"distinct_id": "u2", "other": "d", "person_id": second.id, "other_person_id": first.id}
    assert warning.details == ids


def test_a_long_device_is_not_the_device_of_its_events() -> None:
    """Ids of events are cut to 200 characters, ids in a merge are not: so such a merge misses the events."""
    long = "d" * 201
    service = fresh()
    send(service, event(long), identify("u", long))
    assert [person.distinct_ids for person in service.persons()] == [("d" * 200,), (long, "u")]
    assert warnings_of(service) == [("distinct_id_shortened", "d" * 200)]


def test_a_merge_of_an_id_that_is_not_a_string_may_be_dropped() -> None:
    """With `merge_ids=text` an id that is not a string drops its event."""
    service = fresh(merge_ids="text")
    send(service, event("7"), identify("u", 7), alias("v", ["x"]), identify("w", None))
    assert [person.distinct_ids for person in service.persons()] == [("7",), ("w",)]
    assert warnings_of(service) == [("invalid_merge_id", "u"), ("invalid_merge_id", "v"), (ILLEGAL, "w")]
    assert service.count() == 2
