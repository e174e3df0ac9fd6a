"""The local service makes persons from events, with the properties of the real one (docs/know/service.md#persons)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.local_service import LocalService, Settings
from tests.support.rehearsal import KEYS, NOW, Room, alias, event, fresh, identify, landed, post, send, warnings_of


def properties(*events: dict[str, Any], **switches: Any) -> dict[str, Any]:
    """The properties of the one person that the events make."""
    (person,) = landed(*events, **switches)
    return person.properties


def profiles(room: Room) -> dict[str, dict[str, Any]]:
    """The properties of the persons, each of one id."""
    return {person.distinct_ids[0]: person.properties for person in room.persons()}


def test_events_know_their_person() -> None:
    """An event's person_id is the current person of its id, also for an event from before a merge."""
    service = fresh()
    send(service, event("device"), event("user"), event("other"), identify("user", "device"))
    found = dict(service.select("select distinct_id, person_id from events"))
    persons = {name: person.id for person in service.persons() for name in person.distinct_ids}
    assert found == persons
    assert found["device"] == found["user"] != found["other"]


def test_persons_are_per_project() -> None:
    service = fresh()
    send(service, event("u", _set={"at": "a"}))
    send(service, event("u", _set={"at": "b"}), second=True)
    first, second = service.persons(), service.persons(second=True)
    assert [person.properties for person in first + second] == [{"at": "a"}, {"at": "b"}]
    assert first[0].id != second[0].id


def test_values_are_kept_exactly(tmp_path: Path) -> None:
    """Byte for byte, also over a merge and after the file was opened again."""
    text = '{"n":12345678901234567890,"d":1.10,"z":-0.0,"é":"\\u00e9"}'
    with LocalService(tmp_path / "store", keys=KEYS) as service:
        body = json.dumps([event("u", _set=0)]).replace('"$set": 0', f'"$set": {text}').encode()
        post(service.url, service.capture_key, body)
        assert not service.persons()[0].is_identified
        send(Room(service, 1), identify("u", "d"))
        assert service.select("select properties, is_identified from persons") == [(text, True)]
    with LocalService(tmp_path / "store", keys=KEYS) as again:
        assert again.select("select properties from persons") == [(text,)]


def test_a_name_spelled_with_escapes_counts() -> None:
    room = fresh()
    body = json.dumps([event("u", _set={"p": 1}), event("v")]).replace('"$set"', '"\\u0024s\\u0065t"')
    post(room.url, room.key(), body.encode())
    assert [person.properties for person in room.persons()] == [{"p": 1}, {}]


PROMOTED: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "a browser": ([{"_browser": "Chrome"}], {"$browser": "Chrome", "$initial_browser": "Chrome"}),
    "a campaign": ([{"utm_source": "x"}], {"utm_source": "x", "$initial_utm_source": "x"}),
    "twice": ([{"_os": "a"}, {"_os": "b"}], {"$os": "b", "$initial_os": "a"}),
    "null": ([{"gclid": None}, {"gclid": "x"}], {"gclid": "x", "$initial_gclid": "x"}),
    "an explicit value": ([{"_os": "a", "_set": {"$os": "mine"}}], {"$os": "mine", "$initial_os": "a"}),
    "an explicit first value": ([{"_os": "a", "_set_once": {"$initial_os": "b"}}], {"$os": "a", "$initial_os": "b"}),
    "another spelling": ([{"_os_name": "a"}], {"$os": "a", "$initial_os": "a"}),
    "both spellings": ([{"_os_name": "a", "_os": "b"}], {"$os": "b", "$initial_os": "b"}),
    "another property": ([{"plan": "pro", "_lib": "web"}], {}),
    "without a profile": ([{}, {"_browser": "Chrome", "_process_person_profile": False}], {}),
    "a recording": ([{"_browser": "Chrome", "name": "$snapshot"}], {}),
    "an exception": ([{"_browser": "Chrome", "name": "$exception"}], {}),
}


def test_promotes_properties_of_events() -> None:
    """With the switch on, some event properties are copied to the person; without it, none is."""
    on, off = fresh(promote_properties="on"), fresh()
    for room in (on, off):
        send(room, *(event(name, **change) for name, (changes, _) in PROMOTED.items() for change in changes))
    assert profiles(on) == {name: left for name, (_, left) in PROMOTED.items()}
    written = {
        name: {key for change in changes for kind in ("_set", "_set_once") for key in change.get(kind, {})}
        for name, (changes, _) in PROMOTED.items()
    }
    assert {name: set(found) for name, found in profiles(off).items()} == written


def test_small_changes_may_be_skipped() -> None:
    """With `promoted_changes=skipped`, an event that only replaces such values writes none of them."""
    first, second = event("u", _browser="a", plan=1), event("u", _browser="b", plan=2)
    third = event("u", _browser="c", _set={"plan": 3})
    both = {"promote_properties": "on", "promoted_changes": "skipped"}
    assert properties(first, second, **both)["$browser"] == "a"
    assert properties(first, second, third, **both)["$browser"] == "c"
    assert properties(first, event("u", "$set", _set={"$browser": "d"}), **both)["$browser"] == "d"


def test_without_a_profile_there_is_no_person() -> None:
    """`$process_person_profile: false` makes an event and no person; with true, or anything else, it makes one."""
    service = fresh()
    send(service, event("u", _process_person_profile=False, _set={"p": 1}))
    assert (service.persons(), service.count(), service.warnings()) == ([], 1, [])
    (before,) = service.select("select person_id from events")
    send(service, event("u", _process_person_profile=True), event("v", _process_person_profile="false"))
    persons = service.persons()
    assert [(person.distinct_ids, person.properties) for person in persons] == [(("u",), {}), (("v",), {})]
    assert before == (persons[0].id,)
    assert warnings_of(service) == [("invalid_process_person_profile", "v")]


def test_a_dropped_copy_replaces_nothing() -> None:
    one = identify("u", "d")
    service = fresh()
    send(service, one)
    send(service, one | {"properties": one["properties"] | {"$process_person_profile": False}})
    assert service.count() == 1


def test_old_events_may_be_dropped() -> None:
    """The project setting that drops old events does so after the 200, and only a warning shows it."""
    service = fresh(drop_events_older_than=317 * 86_400 + 43_200)
    send(service, event("old", day=1), event("young", day=2))
    assert service.select("select distinct_id from events") == [("young",)]
    assert warnings_of(service) == [("event_dropped_too_old", "old")]
    assert [person.distinct_ids for person in service.persons()] == [("young",)]


def test_other_rules_make_the_persons_anew(tmp_path: Path) -> None:
    """If a file is opened with other switches, it has the persons, groups and warnings of these switches."""
    for switch, left in (("off", {}), ("on", {"$os": "a", "$initial_os": "a"}), ("off", {})):
        rules = Settings(clock=lambda: NOW, promote_properties=switch)  # type: ignore[arg-type]
        with LocalService(tmp_path / "store", keys=KEYS, settings=rules) as service:
            room = Room(service, 1)
            if not service.count():
                send(room, event("u", _os="a", _groups=7))
            assert [person.properties for person in room.persons()] == [left]
            assert warnings_of(room) == [("groups_not_an_object", "u")]


def test_a_query_sees_all_persons() -> None:
    """Persons are made when a query may see them, however the query names them."""
    room = fresh()
    for round, sql in enumerate((
        "select count(distinct person_id) from events",
        "select count(distinct e.person_id) from (select * from events) e",
        "select count(*) from events e where CAST(e AS VARCHAR) not like '%NULL%'",
        "select count(*) from events where CAST(events AS VARCHAR) not like '%NULL%'",
        "select count(*) from events a natural join events b",
        "select count(columns('person.*')) from events",
        "select count(*) from events where \"$group_0\" = 'k'",
        "with x as (select person_id from events) select count(*) from x",
        "select count(*) from persons",
        "select count(*) from PERSON_DISTINCT_IDS d join persons p on p.id = d.person_id",
    ), 1):  # fmt: skip
        send(room, *(event(f"u{round}-{number}", _groups={"t": "k"}) for number in range(10)))
        assert room.select(sql) == [(10 * round,)], sql


_IDS = st.sampled_from(["a", "b", "c", "d", "null"])
_VALUES = st.fixed_dictionaries(
    {},
    optional={
        "_set": st.dictionaries(st.sampled_from("pq"), st.sampled_from([None, 1, "x"]), max_size=2),
        "_set_once": st.dictionaries(st.sampled_from("pqr"), st.sampled_from([None, 2]), max_size=2),
        "_unset": st.lists(st.sampled_from("pqr"), max_size=1),
        "_process_person_profile": st.booleans(),
        "_browser": st.sampled_from("xyz"),
        "day": st.integers(1, 9),
    },
)
_STEPS = st.one_of(
    st.tuples(st.just("event"), _IDS, st.just(""), _VALUES),
    st.tuples(st.sampled_from(["identify", "$create_alias", "$merge_dangerously"]), _IDS, _IDS, _VALUES),
)


def _made(step: tuple[str, str, str, dict[str, Any]]) -> dict[str, Any]:
    kind, one, two, values = step
    if kind == "event":
        return event(one, **values)
    return identify(one, two, **values) if kind == "identify" else alias(one, two, kind, **values)


@settings(max_examples=8)
@given(steps=st.lists(_STEPS, min_size=2, max_size=12), sizes=st.lists(st.integers(1, 4), min_size=12, max_size=12))
def test_looking_in_between_changes_nothing(steps: list[Any], sizes: list[int]) -> None:
    """Persons made at once equal those made step by step, however the events are batched."""
    at_once, bit_by_bit = fresh(promote_properties="on"), fresh(promote_properties="on")
    events = [_made(step) for step in steps]
    send(at_once, *events)
    for size in sizes:
        now, events = events[:size], events[size:]
        if now:
            send(bit_by_bit, *now)
            bit_by_bit.persons()
    assert _without_ids(at_once) == _without_ids(bit_by_bit)
    assert warnings_of(at_once) == warnings_of(bit_by_bit)


def _without_ids(room: Room) -> list[tuple[Any, ...]]:
    """The persons without their ids, which differ between projects."""
    return [(one.distinct_ids, one.properties, one.created_at, one.is_identified) for one in room.persons()]
