"""Final profiles, groups and the choice of who gets a profile: the same in any order of rows, bytes unchanged."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pipeline.encoder.event import Encoder
from pipeline.encoder.identified_ids import IdentifiedIds
from pipeline.encoder.updates import SealedGroup, SealedPerson, encode_group, encode_profile
from pipeline.errors import UsageError
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database
from pipeline.identity.event_ids import ProfileCounts, write_identified
from pipeline.identity.groups import GroupCounts, group_updates
from pipeline.identity.kinds import ABSENT, NULL_ONCE, SET, SET_ONCE, UNSET
from pipeline.identity.last_values import last_values, last_values_in
from pipeline.identity.persons import PersonCounts, final_persons
from pipeline.identity.settings import GroupTypes, choose_types, parse_policy
from pipeline.models import Finding, GroupUpdate, Note, PersonUpdate, SealedOptions
from pipeline.plan import statements as plan_statements
from pipeline.plan.checks import run_checks
from pipeline.plan.sealed.manifest import GroupsSeal, GroupTypeSeal, PeopleSeal
from pipeline.plan.statements import pieces
from pipeline.transform.statements import groups_named
from pipeline.uuids import Hasher, namespace
from pipeline.validator.rules import WITHOUT_TIME
from tests.support.identity_pairs import AS_OF, SeenId
from tests.support.plan_facts import facts
from tests.support.stated import add_seen, statements

HASHER = Hasher(namespace("tiny"))


class Statement(NamedTuple):
    """One row sets or changes one property of a person."""

    owner: str
    name: str
    kind: int
    time: int | None
    received: int | None
    value: bytes


def update(one: Statement) -> PersonUpdate:
    """The row as a worker maps it."""
    value = {one.name: Raw(one.value)}
    note = {SET: Note(set=value), SET_ONCE: Note(set_once=value), UNSET: Note(unset=(one.name,))}[one.kind]
    return PersonUpdate(one.owner, one.time, note, one.received)


def stated(
    owner: str, name: str, value: str, at: int | None = 100, kind: int = SET, got: int | None = None
) -> Statement:
    """One row sets a property to a value, given as JSON."""
    return Statement(owner, name, kind, at, got, value.encode())


def persons(
    *blocks: Sequence[Statement],
    policy: str = "overwrite",
    counts: PersonCounts | None = None,
    moves: Callable[[Sequence[str]], Sequence[str]] | None = None,
    wanted: Callable[[Sequence[str]], Sequence[bool]] | None = None,
    removes: bool = False,
) -> list[SealedPerson]:
    """The profiles that result from these rows."""
    with statements(*([update(one) for one in block] for block in blocks)) as found:
        counts = counts if counts is not None else PersonCounts()
        finals = last_values_in(found.person_updates(moves, promoted=False))
        return list(final_persons(finals, parse_policy(policy), HASHER, counts, wanted=wanted, removes=removes))


def shown(found: list[SealedPerson]) -> list[tuple[str, int, str, str]]:
    """Id, time and both objects, as the profile's bytes have them."""
    return [(one.distinct_id, one.time, bytes(one.set).decode(), bytes(one.set_once).decode()) for one in found]


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 600), st.sampled_from([1, 3, 40, 1_000]))
def test_queries_come_to_what_row_by_row_comes_to(seed: int, count: int, owners: int) -> None:
    """Many updates or few of one owner, at equal times and not, of every kind, of owners that are joined, in any
    pieces."""
    chance = random.Random(seed)
    kinds = chance.choice([(SET,), (SET_ONCE,), (SET, SET_ONCE), (SET_ONCE, SET, UNSET)])
    names = [f"{'é' * chance.randrange(3)}u{number}" for number in range(owners)]
    rows = [
        Statement(
            chance.choice(names), chance.choice("abc"), chance.choice(kinds), chance.randrange(5),
            chance.choice((None, 7)), chance.choice((b"0", b"1", b"null")),
        )
        for _ in range(count)
    ]  # fmt: skip
    targets = {name: chance.choice(names) for name in names if chance.random() < 0.3}
    moves = chance.choice([None, lambda ids: [targets.get(one, one) for one in ids]])
    cut = chance.randrange(count)
    with (
        pytest.MonkeyPatch.context() as patch,
        statements([update(one) for one in rows[:cut]], [update(one) for one in rows[cut:]]) as stated,
    ):
        patch.setattr(plan_statements, "PIECE_BYTES", chance.choice([1, 1_000, 10_000, 4 << 20]))
        cut_up = list(pieces(stated.person_updates(moves, promoted=False)))
    found = [one for piece in cut_up for one in last_values_in(piece)]
    of: dict[str, list[Any]] = {}
    for one in rows:
        owner = one.owner if moves is None else targets.get(one.owner, one.owner)
        kind = NULL_ONCE if (one.kind, one.value) == (SET_ONCE, b"null") else one.kind
        value = b"" if kind == UNSET else one.value
        got = ABSENT if one.received is None else one.received
        of.setdefault(owner, []).append((one.name, one.time, got, kind, value))
    expected = [last_values(owner, max(one[1] for one in of[owner]), of[owner]) for owner in sorted(of)]
    assert found == expected
    assert all(list(one.set) == sorted(one.set) for one in found)


Shown = list[tuple[str, int, str, str]]
PROFILES: dict[str, tuple[list[Statement], str, Shown]] = {
    "values are kept byte for byte": (
        [stated("u", 'é"', '{"n": 12345678901234567890, "m":1.10,"z":-0.0,  "s":"\\u00e9"}')],
        "overwrite", [("u", 100, '{"é\\"":{"n": 12345678901234567890, "m":1.10,"z":-0.0,  "s":"\\u00e9"}}', "{}")],
    ),
    "a profile row without a time is 49 hours old, and wins over every event that is old enough to be sent": (
        [stated("u", "a", "1", AS_OF - WITHOUT_TIME - 1), stated("u", "a", "2", None)],
        "overwrite", [("u", AS_OF - WITHOUT_TIME, '{"a":2}', "{}")],
    ),
    "by default nothing that is there is overwritten": (
        [stated("u", "a", "1"), stated("u", "b", "2", kind=SET_ONCE)], "fill-only", [("u", 100, "{}", '{"a":1,"b":2}')],
    ),
    "what is there is overwritten if it is asked for": (
        [stated("u", "a", "1"), stated("u", "b", "2", kind=SET_ONCE)], "overwrite", [("u", 100, '{"a":1}', '{"b":2}')],
    ),
    "or names get a prefix": (
        [stated("u", "a", "1"), stated("u", "b", "2", kind=SET_ONCE)], "prefix=old_",
        [("u", 100, '{"old_a":1,"old_b":2}', "{}")],
    ),
}  # fmt: skip
"""By its rule: rows, the policy, and the profiles."""


@pytest.mark.parametrize("rule", PROFILES)
def test_a_profile_is_what_rows_say_at_last(rule: str) -> None:
    """Wherever the rows are in the files."""
    rows, policy, expected = PROFILES[rule]
    for blocks in ([rows], [rows[::-1]], [rows[:1], rows[1:]]):
        assert shown(persons(*blocks, policy=policy)) == expected


def test_the_counts_of_workers_add_up() -> None:
    """Each writes the profiles of some persons."""
    counts, both = [PersonCounts(), PersonCounts()], PersonCounts()
    for one, owner in zip(counts, ("u", "v"), strict=True):
        persons([stated(owner, "a", "1", 5), stated("null", "a", "1", 5)], counts=one)
        both.add(one)
    assert (both.persons, both.properties, both.names["a"], both.left_out) == (2, 2, 2, {"junk_person": 2})


def test_what_was_taken_away_at_last_is_not_written_and_is_counted() -> None:
    """Unless it was set again later."""
    counts = PersonCounts()
    gone = [stated("u", "a", "1", 5), stated("u", "a", "", 6, UNSET), stated("u", "b", "", 5, UNSET)]
    found = persons([*gone, stated("u", "b", "2", 6, SET_ONCE)], counts=counts)
    assert shown(found) == [("u", 6, "{}", '{"b":2}')]
    assert (counts.persons, counts.properties, counts.left_out) == (1, 1, {"unset_property": 1})
    assert counts.examples == {"unset_property": ["a of u"]}


def test_overwriting_removes_what_was_removed_at_last_and_no_other_policy_does() -> None:
    """The removal is one event, with another uuid; a person of whom nothing remains has an event of its own."""
    gone = [stated("u", "a", "1", 5), stated("u", "a", "", 6, UNSET), stated("v", "b", "", 5, UNSET)]
    rows = [*gone, stated("u", "c", "2", 6)]
    for policy in ("fill-only", "prefix=x_", "overwrite"):
        counts = PersonCounts()
        found = persons(rows, policy=policy, counts=counts, removes=True)
        assert counts.left_out == ({} if policy == "overwrite" else {"unset_property": 2}), policy
    sent = [json.loads(encode_profile(one, Encoder("t", SealedOptions(as_of=0)), "posthog")) for one in found]
    assert [one["properties"].get("$unset") for one in sent] == [["a"], ["b"]]
    assert sent[0]["properties"]["$set"] == {"c": 2}
    assert found[0].uuid != persons([stated("u", "c", "2", 6)])[0].uuid


def test_another_policy_or_choice_of_types_is_refused() -> None:
    """The error lists what may be written: at most five group types, each once, each with a name."""
    for text in ("", "prefix", "prefix=", "prefix= ", "fill-only=x", "replace"):
        with pytest.raises(UsageError, match="is not a profile policy") as raised:
            parse_policy(text)
        assert "overwrite" in raised.value.hint
    for wanted in (list("abcdef"), ["a", "a"], ["a", ""]):
        with pytest.raises(UsageError, match="--group-types"):
            choose_types(Counter("ab"), wanted)


def test_properties_go_to_the_id_that_the_person_keeps() -> None:
    """Properties of a device and of its user end in one profile; the latest value wins."""
    kept = {"d": "u"}
    rows = [stated("d", "a", "1", 9), stated("u", "a", "2", 8), stated("d", "b", "3", 7), stated("x", "a", "4", 1)]
    found = persons(rows, moves=lambda ids: [kept.get(one, one) for one in ids])
    assert shown(found) == [("u", 9, '{"a":1,"b":3}', "{}"), ("x", 1, '{"a":4}', "{}")]


def test_junk_ids_long_ids_and_unwanted_persons_get_no_profile() -> None:
    """A profile of `null` would describe thousands of strangers."""
    counts = PersonCounts()
    rows = [stated(one, "a", "1") for one in ("null", "x" * 201, "n\0", "anonymous-1", "u")]
    found = persons(rows, counts=counts, wanted=lambda ids: [one == "u" for one in ids])
    assert [one.distinct_id for one in found] == ["u"]
    assert counts.left_out == {"junk_person": 1, "long_person": 2, "anonymous_person": 1}
    assert counts.names == {"a": 1}


def test_the_uuid_of_a_profile_changes_with_its_content_alone() -> None:
    """A later plan that computes the same profile makes the same event."""
    one, same, other = (persons([stated("u", "a", value, at)])[0] for value, at in (("1", 5), ("1", 9), ("2", 5)))
    assert one.uuid == same.uuid != other.uuid


@pytest.mark.parametrize(("dialect", "name"), [("contract", "$identify"), ("posthog", "$set")])
def test_a_profile_is_spelled_as_the_target_reads_it(dialect: str, name: str) -> None:
    """One event, which merges nobody."""
    (person,) = persons([stated("u", "a", "1.10", 5_000_000)], policy="fill-only")
    event = encode_profile(person, Encoder("tiny", SealedOptions(AS_OF)), dialect)
    read = json.loads(event)
    assert (read["event"], read["uuid"], read["timestamp"]) == (name, person.uuid, "1970-01-01T00:00:05Z")
    assert read["properties"]["distinct_id"] == "u"
    assert {key for key in read["properties"] if key in ("$set", "$set_once", "$anon_distinct_id")} == {"$set_once"}
    assert b'"$set_once":{"a":1.10}' in event


STATED = st.builds(
    stated,
    st.sampled_from(["u", "d", "v"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["1", "2", "null"]),
    st.one_of(st.none(), st.integers(0, 4)),
    st.sampled_from([SET, SET, SET_ONCE, UNSET]),
    st.one_of(st.none(), st.integers(0, 2)),
)


def in_time(one: Statement) -> tuple[int, int, int, bytes]:
    """The sort key of a row among the others."""
    time = AS_OF - WITHOUT_TIME if one.time is None else one.time
    return time, -1 if one.received is None else one.received, one.kind, one.value


@settings(max_examples=60)
@given(st.lists(STATED, max_size=12), st.randoms())
def test_in_any_order_and_cut_profiles_are_what_playing_the_history_in_order_gives(
    rows: list[Statement], chance: random.Random
) -> None:
    """Against a dictionary to which each row is applied, oldest first."""
    shuffled = chance.sample(rows, len(rows))
    cut = chance.randint(0, len(rows))
    whole, parted = PersonCounts(), PersonCounts()
    one_by_one = persons(*([one] for one in rows), counts=whole)
    assert shown(one_by_one) == shown(persons(shuffled[:cut], shuffled[cut:], counts=parted))
    assert whole == parted
    model: dict[str, dict[str, int]] = {}
    for one in sorted(rows, key=in_time):
        profile = model.setdefault(one.owner, {})
        if one.kind == UNSET:
            profile.pop(one.name, None)
        elif one.kind == SET or profile.get(one.name) is None:
            profile[one.name] = json.loads(one.value)
    found = {one.distinct_id: json.loads(bytes(one.set_once)) for one in persons(rows, policy="fill-only")}
    ours, theirs = (
        {
            (owner, name, value)
            for owner, profile in some.items()
            for name, value in profile.items()
            if value is not None
        }
        for some in (found, model)
    )
    assert ours == theirs


Row = tuple[str, str, int | None, dict[str, bytes]]
"""Type, key, time and properties of a group, as a row has them."""


def groups(*rows: Row, wanted: Sequence[str] = (), counts: GroupCounts | None = None) -> list[SealedGroup]:
    """The groups that result from these rows, each in its own block."""
    blocks = (
        [GroupUpdate(type_, key, time, {name: Raw(value) for name, value in properties.items()})]
        for type_, key, time, properties in rows
    )
    with statements(*blocks) as stated:
        found = stated.groups()
        types = choose_types(found.types, wanted)
        return list(group_updates(found, types, HASHER, counts if counts is not None else GroupCounts()))


def test_each_group_comes_once_with_its_last_properties_and_the_first_of_each_type_before_all() -> None:
    """The service numbers types permanently, in the order of arrival."""
    found = groups(
        ("team", "t2", 5, {}), ("team", "t1", 5, {}), ("company", "acme", 9, {"plan": b'"pro"'}),
        ("company", "acme", 8, {"plan": b'"free"'}), ("company", "acme", 11, {}), ("company", "zoo", None, {}),
    )  # fmt: skip
    assert [(one.type, one.key, one.time, bytes(one.set)) for one in found] == [
        ("company", "acme", 11, b'{"plan":"pro"}'), ("team", "t1", 5, b"{}"),
        ("company", "zoo", AS_OF - WITHOUT_TIME, b"{}"), ("team", "t2", 5, b"{}"),
    ]  # fmt: skip
    again = groups(("company", "acme", 99, {"plan": b"1"}))
    assert again[0].uuid == found[0].uuid


def test_groups_of_an_event_are_read_as_the_service_reads_them() -> None:
    """Strings and numbers are keys; nothing else is a group."""
    for text, named in (
        (b'{"company":"acme","team":7}', ["company:acme", "team:7"]), (b"[1]", []), (b'"company"', []),
        (b'{"a":"","b":null,"c":[1],"d":{},"e":true,"f":"\\u00e9"}', ["a:", "f:é"]),
    ):  # fmt: skip
        assert groups_named(text) == tuple(tuple(one.split(":")) for one in named)


@pytest.mark.parametrize(("dialect", "name"), [("contract", "$group_identify"), ("posthog", "$groupidentify")])
def test_a_group_is_spelled_as_the_target_reads_it(dialect: str, name: str) -> None:
    """Under the id that the service's own libraries give it."""
    (group,) = groups(("company", 'a"b', 5_000_000, {"mrr": b"1.10"}))
    event = encode_group(group, Encoder("tiny", SealedOptions(AS_OF)), dialect)
    read = json.loads(event)
    assert (read["event"], read["properties"]["distinct_id"]) == (name, '$company_a"b')
    assert (read["properties"]["$group_type"], read["properties"]["$group_key"]) == ("company", 'a"b')
    assert b'"$group_set":{"mrr":1.10}' in event


def checks_of(types: GroupTypes) -> list[Finding]:
    """What the checks of a plan report for these group types."""
    sealed = [GroupTypeSeal(one, 1, one in types.chosen) for one in (*types.chosen, *types.left_out)]
    return run_checks(facts(people=PeopleSeal(groups=GroupsSeal(types=sealed))))


def test_five_types_are_taken_by_frequency_then_name_and_six_stop_the_plan_until_they_are_chosen() -> None:
    """The plan shows the order; the sixth would be dropped silently."""
    types = choose_types(Counter({"b": 2, "a": 2, "c": 9, "d": 1, "e": 1}))
    assert (types, checks_of(types)) == ((("c", "a", "b", "d", "e"), ()), [])
    (gate,) = checks_of(choose_types(Counter("abcdef")))
    assert (gate.name, gate.level) == ("group_types", "stop")
    assert "6 group types" in gate.detail
    assert "--group-types" in gate.detail
    types = choose_types(Counter("abcdef"), ["f", "a", "new"])
    assert (types, checks_of(types)) == ((("f", "a", "new"), ("b", "c", "d", "e")), [])


def test_groups_without_a_place_are_counted() -> None:
    """A type that was not chosen, a placeholder as key, or a key that the service would cut."""
    counts = GroupCounts()
    rows: list[Row] = [("a", "1", 1, {}), ("b", "1", 1, {}), ("a", "null", 1, {}), ("a", "x" * 200, 1, {})]
    assert [one.key for one in groups(*rows, wanted=["a"], counts=counts)] == ["1"]
    assert (counts.groups, counts.left_out) == (1, {"junk_group": 1, "long_group": 1, "other_type": 1})


def test_types_are_in_the_order_of_the_choice() -> None:
    """Whatever their names are."""
    rows: list[Row] = [("abcdefgh"[number % 8], str(1_000 + number), 5, {"n": b"%d" % number}) for number in range(80)]
    counts = GroupCounts()
    sealed = groups(*rows, *rows, wanted=list("gbdac"), counts=counts)
    assert [one.type for one in sealed[:5]] == list("gbdac")
    assert [one.type for one in sealed[5:]] == [type_ for type_ in "gbdac" for _ in range(9)]
    assert (counts.groups, counts.left_out) == (50, {"other_type": 30})


def identified(
    place: Path, events: Sequence[tuple[str, bool]], joined: Sequence[str]
) -> tuple[IdentifiedIds, ProfileCounts]:
    """The table of these events: (id, whether it is a user's)."""
    place.mkdir(exist_ok=True)
    seen = [SeenId(hash_id(one), user=user) for one, user in events]
    hashed = np.array([hash_id(one) for one in joined], np.uint64)
    with Database(place) as database:
        add_seen(database, seen)
        counts = write_identified(database, place / "identified", hashed)
    return IdentifiedIds(place / "identified"), counts


def test_only_users_and_ids_joined_to_them_are_identified(tmp_path: Path) -> None:
    """One event that names an id as a user's is enough; ids without events are in the table, not in the counts. Without
    users the table is empty."""
    events = [("u", False), ("a", False), ("u", True), ("a", False), ("d", False)]
    table, counts = identified(tmp_path, events, ["d", "quiet"])
    assert table.holds(["u", "a", "d", "quiet", "other"]).tolist() == [True, False, True, True, False]
    assert counts == ProfileCounts(2, 1, 3, 2, one_day_ids=1, one_day_events=2)
    table, counts = identified(tmp_path / "nobody", [("a", False)], [])
    assert (len(table), table.holds(["a"]).tolist(), counts) == (0, [False], (0, 1, 0, 1, 1, 1))


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans())), st.lists(st.sampled_from("abcdef")), st.randoms())
def test_the_table_does_not_depend_on_the_order_of_events(
    events: list[tuple[str, bool]], joined: list[str], chance: random.Random
) -> None:
    """Byte for byte."""
    shuffled = chance.sample(events, len(events))
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        table, counts = identified(Path(one), events, joined)
        assert counts == identified(Path(other), shuffled, joined)[1]
        assert (Path(one) / "identified").read_bytes() == (Path(other) / "identified").read_bytes()
        users = {*joined, *(name for name, user in events if user)}
        assert table.holds("abcdef").tolist() == [name in users for name in "abcdef"]
