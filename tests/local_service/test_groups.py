"""The local service keeps group types and groups as the real one does (docs/know/service.md#groups)."""

from __future__ import annotations

from typing import Any

from tests.support.rehearsal import event, fresh, send, warnings_of


def group(
    kind: Any, key: Any, values: Any = ..., name: str = "$groupidentify", day: int = 1, user: str = "", **more: Any
) -> dict[str, Any]:
    """A group event, as the service's own SDKs send it unless a user is named."""
    given = {} if values is ... else {"_group_set": values}
    return event(user or f"${kind}_{key}", name, day, _group_type=kind, _group_key=key, **given, **more)


def test_the_contracts_spelling_can_be_unknown() -> None:
    """With `group_events=observed` the contract's spelling writes nothing, and a warning says so."""
    service = fresh(group_events="observed")
    send(service, group("company", "acme", {"a": 1}, "$group_identify"), group("company", "b", {}))
    assert [made.key for made in service.groups()] == ["b"]
    assert warnings_of(service) == [("group_event_not_known", "$company_acme")]
    assert service.count() == 2


def test_types_are_numbered_as_they_appear() -> None:
    """The first use of a type numbers it: in an event's `$groups`, which makes no group, or in a group event."""
    service = fresh()
    send(service, event("u", _groups={"team": "t1"}), group("company", "acme", {"a": 1}))
    assert service.select('select "index", type from group_types') == [(0, "team"), (1, "company")]
    send(service, event("u", _groups={"project": 7, "company": "acme"}))
    columns = '"$group_0", "$group_1", "$group_2", "$group_3"'
    found = service.select(f"select {columns} from events where event = 'Seen' order by uuid")
    assert found == [("t1", "", "", ""), ("", "acme", "7", "")]
    assert [(made.index, made.key) for made in service.groups()] == [(1, "acme")]


def test_a_sixth_type_is_passed_over() -> None:
    """There are only five types: a further one gives no column, no group and no error, but a warning."""
    service = fresh()
    send(service, event("u", _groups={f"t{n}": f"k{n}" for n in range(6)}), group("t5", "x", {"a": 1}))
    send(service, group("t4", "y", {"a": 1}), event("v", _groups={"t6": 1}))
    assert [(made.index, made.type) for made in service.groups()] == [(4, "t4")]
    assert warnings_of(service) == [("too_many_group_types", who) for who in ("u", "$t5_x", "v")]
    assert service.warnings()[0].details == {"group_type": "t5", "types": ["t0", "t1", "t2", "t3", "t4"]}
    assert service.select("select \"$group_4\" from events where distinct_id = 'u'") == [("k4",)]
    assert service.count() == 4


def test_types_are_per_project() -> None:
    service = fresh()
    send(service, event("u", _groups={"a": 1}))
    send(service, event("u", _groups={"b": 1}), group("b", "x"), second=True)
    assert service.groups() == []
    assert [(made.index, made.type) for made in service.groups(second=True)] == [(0, "b")]


def test_groups_that_are_not_an_object_are_ignored_with_a_warning() -> None:
    service, wrong = fresh(), [["company"], "company", 7, None]
    send(service, *(event("u", _groups=groups) for groups in wrong))
    assert service.select("select type from group_types") == []
    assert warnings_of(service) == [("groups_not_an_object", "u")] * len(wrong)


def test_a_group_event_without_type_or_key_does_nothing() -> None:
    service, lacking = fresh(), [("", "k"), (None, "k"), ("t", ""), ("t", 0), ("t", None), ("t", False)]
    send(service, *(group(kind, key, {"a": 1}, user="u") for kind, key in lacking))
    assert (service.groups(), service.count()) == ([], len(lacking))
    assert warnings_of(service) == [("group_event_without_type_or_key", "u")] * len(lacking)


def test_group_set_must_be_an_object() -> None:
    """Null or nothing writes an empty group; for anything else but an object the event is dropped."""
    service, kept, wrong = fresh(), [{}, None, ...], ["a", ["a"], 1, False]
    send(service, *(group("company", str(number), values) for number, values in enumerate([*kept, *wrong])))
    assert [(made.key, made.properties) for made in service.groups()] == [("0", {}), ("1", {}), ("2", {})]
    assert service.count() == len(kept)
    assert [warning.type for warning in service.warnings()] == ["invalid_group_set"] * len(wrong)


def test_long_keys_and_types() -> None:
    """A key of over 400 characters drops its event; a type of over 400 is ignored."""
    service, long = fresh(), [("company", "k" * 401), ("t" * 401, "k"), ("t" * 400, "k")]
    send(service, *(group(kind, key, {}, user="u") for kind, key in long))
    assert [made.type for made in service.groups()] == ["t" * 400]
    warned = [(one.type, one.dropped) for one in service.warnings()]
    assert warned == [("group_key_too_long", True), ("group_type_too_long", False)]
    assert service.count() == 2


def test_a_group_event_makes_a_person_of_its_id() -> None:
    """The id that a group event is sent under becomes a person; a `$set` on it is not for that person."""
    service = fresh()
    send(service, group("company", "acme", {"a": 1}, _set={"p": 1}, _set_once={"q": 1}))
    assert [(one.distinct_ids, one.properties) for one in service.persons()] == [(("$company_acme",), {})]


def test_without_a_profile_there_are_no_groups() -> None:
    """An event with `$process_person_profile: false` is in no group and names no type."""
    service = fresh()
    send(service, event("u", _groups={"a": 1}, _process_person_profile=False), event("v", _groups={"b": "x"}))
    assert service.select('select "$group_0" from events order by distinct_id') == [("",), ("x",)]
    send(service, event("w", _groups={"b": "y"}, _process_person_profile=False))
    assert service.select("select \"$group_0\" from events where distinct_id = 'w'") == [("",)]


def test_types_may_have_any_name() -> None:
    for names in (["it's", 'a"b', "a/b~c"], ["a.b", "{x}", "ü"]):
        service = fresh()
        for name in names:
            send(service, event("u", _groups={name: name}), group(name, "k", {"a": 1}))
        columns = ", ".join(f'"$group_{index}"' for index in range(3))
        found = service.select(f"select {columns} from events where event = 'Seen' order by uuid")
        assert found == [(names[0], "", ""), ("", names[1], ""), ("", "", names[2])]
        assert [made.type for made in service.groups()] == names
