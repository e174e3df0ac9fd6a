"""Who is who: pairs of ids become links that the service takes, in any order, and two people are never joined."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import UsageError
from pipeline.identity.observed_pairs import EarlierLink, read_pairs
from pipeline.identity.summary import DecisionCount
from pipeline.uuids import Hasher, namespace
from pipeline.validator.rules import WITHOUT_TIME
from tests.support.identity_pairs import AS_OF, MergingService, Resolved, Seen, resolved


def one_block(*pairs: Seen, **more: object) -> Resolved:
    """All pairs in one block."""
    return resolved([pairs], **more)  # type: ignore[arg-type]


def test_a_device_and_its_user_become_one_link_before_the_first_event_of_either() -> None:
    """Dated one millisecond before, with a uuid made only of kind and ids, spelled as the events spell them."""
    found = one_block(Seen("Dev-1 ", "User@Example.com", 9_000), events={"Dev-1 ": 5_000, "User@Example.com": 7_000})
    (link,) = found.links
    assert (link.kind, link.distinct_id, link.other) == ("identify", "User@Example.com", "Dev-1 ")
    assert (link.time, link.rows) == (4_000, 1)
    assert link.uuid == Hasher(namespace("tiny"))("link\x1fidentify\x1fUser@Example.com\x1fDev-1 ")
    assert found.decision("Dev-1 ", "User@Example.com") == ("merge", "same_row")
    before = one_block(Seen("d", "u", 9_000_000), events={"u": 1_000_000, "d": 8_000_000})  # signed up elsewhere
    assert [link.time for link in before.links] == [999_000]


@dataclass(frozen=True)
class Case:
    """Pairs, the resulting links as (kept, absorbed), decision and reason of pairs, and what else is known."""

    pairs: list[Seen]
    star: set[tuple[str, str]]
    decisions: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    kind: str = ""


def alias(other: str, kept: str, at: int = 100) -> Seen:
    """A record that says that an id is another id of a user."""
    return Seen(other, kept, at, "alias")


CASES = {
    "a shared device goes to its first user alone; the second user stays apart": Case(
        [Seen("tablet", "ann", 10), Seen("tablet", "bob", 20), Seen("phone", "bob", 5)],
        {("ann", "tablet"), ("bob", "phone")},
        {("tablet", "ann"): ("first_user", "first_user"), ("tablet", "bob"): ("conflict", "other_user")},
    ),
    "of two users at one instant the lesser id is first": Case([Seen("d", "b"), Seen("d", "a")], {("a", "d")}),
    "a device that became an e-mail, as Mixpanel's older libraries wrote it, is never merged": Case(
        [Seen("ann@example.com", "1001"), Seen("ann@example.com", "ann@example.com")], set(),
        {
            ("ann@example.com", "1001"): ("refused", "email_as_device"),
            ("ann@example.com", "ann@example.com"): ("refused", "self_pair"),
        },
    ),
    "an e-mail that a record calls another id of a user is followed": Case(
        [alias("ann@example.com", "1001")], {("1001", "ann@example.com")},
        asked={"users": ["1001", "ann@example.com"]},
    ),
    "a user's number in the device's place would weld two users; as a user's id it is as good as any": Case(
        [Seen("324172", "346298"), Seen("dev", "324172")], {("324172", "dev")},
        {("324172", "346298"): ("refused", "user_as_device")}, {"users": ["324172"]},
    ),
    "the label of a Mixpanel cluster joins the user, in capitals": Case(
        [Seen("225CC746-2B1F", "346298"), Seen("d791b834", "346298")],
        {("346298", "225CC746-2B1F"), ("346298", "d791b834")},
        asked={"events": {"225CC746-2B1F": 5, "346298": 6, "d791b834": 7}},
    ),
    "as a device of that name": Case(
        [Seen("$device:d791b834", "346298"), Seen("d791b834", "346298")],
        {("346298", "$device:d791b834"), ("346298", "d791b834")},
        asked={"events": {"$device:d791b834": 5, "346298": 6, "d791b834": 7}},
    ),
    "one user of too many devices and one device of too many users are refused, and others are not touched": Case(
        [
            *(Seen(f"d{number}", "bot") for number in range(4)), *(Seen("kiosk", f"u{number}") for number in range(4)),
            Seen("phone", "u1"),
        ],
        {("u1", "phone")},
        {("d0", "bot"): ("refused", "too_many_ids"), ("kiosk", "u0"): ("refused", "too_many_users")}, {"most": 3},
    ),
    "a chain is a star, since the service refuses a chain at its second link": Case(
        [alias("a", "b", 5), Seen("b", "c", 9, "user")], {("c", "a"), ("c", "b")},
        {("a", "b"): ("merge", "stated"), ("b", "c"): ("merge", "stated")},
    ),
    "who is identified is a user, whom no other absorbs as a device": Case(
        [Seen("a", "b", 5, "identify"), Seen("b", "c", 9, "identify")], {("b", "a")},
        {("b", "c"): ("conflict", "other_user")},
    ),
    "the service absorbed whom it had not identified yet, and nobody after that": Case(
        [Seen("a", "b", 5, "service"), Seen("b", "c", 9, "service"), Seen("x", "y", 6, "service"),
         Seen("y", "z", 5, "service"), Seen("n", "new", 1, "service"), Seen("n", "later", 2, "service")],
        {("b", "a"), ("z", "x"), ("z", "y"), ("later", "n"), ("later", "new")},
        {("b", "c"): ("conflict", "other_user")}, {"events": dict.fromkeys("abcnxyz", 0)},
    ),
    "a cycle is one person whose earliest id is kept": Case(
        [alias("a", "b"), alias("b", "c"), alias("c", "a")], {("b", "a"), ("b", "c")},
        asked={"events": {"a": 30, "b": 10, "c": 20}}, kind="alias",
    ),
    "merges of merges without users are aliases of the tool's last id, as Amplitude's": Case(
        [alias("1", "2"), alias("3", "4"), alias("2", "5"), alias("4", "5")],
        {("5", "1"), ("5", "2"), ("5", "3"), ("5", "4")}, asked={"events": {"1": 1, "5": 99}}, kind="alias",
    ),
    "a user is kept over the device that Mixpanel's $create_alias keeps": Case(
        [alias("u-1", "device")], {("u-1", "device")}, asked={"users": ["u-1"]}, kind="identify",
    ),
    "a row joins no two users, and a record of the tool does": Case(
        [Seen("d1", "ann", 1), Seen("d2", "bob", 2), Seen("d2", "ann", 3), Seen("d3", "eve", 4), alias("d1", "d3", 5),
         Seen("d1", "d2", 6, "seen")],
        {("ann", "d1"), ("ann", "d3"), ("ann", "eve"), ("bob", "d2")},
        {("d2", "ann"): ("conflict", "other_user"), ("d1", "d2"): ("conflict", "other_user")},
    ),
    "an id that two records absorb joins both, unless the operator gives it to one": Case(
        [alias("x", "a", 9), alias("x", "b", 8), alias("y", "a", 1), Seen("y", "c", kind="named")],
        {("a", "x"), ("a", "b"), ("c", "y")}, {("y", "a"): ("conflict", "other_user")},
    ),
    "an id that never comes alone is a bridge to what a record joins to it": Case(
        [Seen("a", "u", 1), alias("z", "a", 2), Seen("n", "u", 3)], {("u", "a"), ("u", "z")},
        {("n", "u"): ("refused", "never_alone")}, {"events": {"u": 1, "z": 0}, "users": ["u"]},
    ),
    "a tool's own number of a person joins ids, and is never one that is kept or absorbed": Case(
        [Seen("d", "\x1ftool 1", kind="seen"), alias("\x1ftool 1", "\x1ftool 2"), Seen("e", "\x1ftool 2", kind="seen")],
        {("d", "e")}, asked={"events": {"d": 10, "e": 20}},
    ),
    "a merge without order goes to both": Case(
        [Seen("x", "a", 9, "merge"), Seen("x", "b", 8, "merge")], {("a", "x"), ("a", "b")}, asked={"events": {"a": 1}},
    ),
    "an id that two events name in other letters stays as it is spelled": Case(
        [Seen("é", "ü\u2603"), Seen("e\u0301", "U"), Seen("\U0001f600", "z")],
        {("ü\u2603", "é"), ("U", "e\u0301"), ("z", "\U0001f600")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_who_is_who(name: str) -> None:
    """Each case has a name; the service takes every link, and makes the persons of the plan."""
    case = CASES[name]
    found = one_block(*case.pairs, **case.asked)
    assert found.star() == case.star
    assert {pair: found.decision(*pair) for pair in case.decisions} == case.decisions
    assert not case.kind or {link.kind for link in found.links} == {case.kind}
    service = MergingService(found.links)
    assert (service.persons(), service.refused) == (found.persons(), [])


def test_an_id_that_changes_with_every_call_is_left_alone() -> None:
    """A server sends the user with a new random device each time: no such id has an event of its own."""
    calls = [Seen(f"call-{number}", "u") for number in range(500)]
    found = one_block(*calls, Seen("d", "u"), events={"u": 1, "d": 2})
    assert found.star() == {("u", "d")}
    assert found.summary.decisions == [
        DecisionCount("merge", "same_row", 1), DecisionCount("refused", "never_alone", 500),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["row", "identify", "alias", "merge"])
def test_what_the_service_refuses_is_refused_here(kind: str) -> None:
    """Whichever row states it, the pair is in the table with its reason."""
    refused = {
        ("null", "u"): "junk_id", ("d", "undefined"): "junk_id", ("", "u"): "junk_id",
        ("00000000-0000-0000-0000-000000000000", "u"): "junk_id", ("x" * 201, "u"): "long_id",
        ("d", "u\0"): "long_id", ("d", "d"): "self_pair",
    }  # fmt: skip
    found = one_block(*(Seen(anonymous, user, kind=kind) for anonymous, user in refused))
    assert found.links == []
    for pair, reason in refused.items():
        assert found.decision(*pair) == ("refused", reason)


def test_the_table_has_the_first_row_of_each_pair_and_its_count() -> None:
    """The earliest row counts; times are empty if no row has one."""
    block = [Seen("d", "u", 20, events=3, row=7), Seen("x", "y", None, "alias", row=4)]
    found = resolved([block, [Seen("d", "u", 10, events=2, row=9)]])
    first, second = found.table
    assert [str(first[name]) for name in ("first_seen", "last_seen")] == [
        "1970-01-01 00:00:00.000010+00:00", "1970-01-01 00:00:00.000020+00:00"
    ]  # fmt: skip
    assert (first["events"], first["where"]) == (5, "part-1:9")
    assert (second["first_seen"], second["last_seen"], second["where"]) == (None, None, "part-0:4")
    assert list(first) == [
        "anonymous_id", "user_id", "first_seen", "last_seen", "events", "where", "decision", "reason"
    ]  # fmt: skip


def test_the_summary_shows_the_largest_persons_and_the_busiest_ids() -> None:
    """What a person checks before anything is merged permanently."""
    found = one_block(
        *(Seen(f"d{number}", "ann", events=2) for number in range(3)), Seen("d0", "bob", 999), Seen("e", "bob"), most=9
    )
    assert (found.summary.links, found.summary.persons) == (4, 2)
    (largest,) = found.summary.largest
    assert (largest.canonical, largest.ids, largest.some) == ("ann", 4, ["d0", "d1", "d2"])
    assert [(one.id, one.partners, one.events) for one in found.summary.shared] == [("d0", 2, 3)]
    assert [(one.id, one.partners, one.events) for one in found.summary.crowded] == [("ann", 3, 6), ("bob", 2, 2)]


def test_users_and_ids_joined_to_them_are_identified() -> None:
    """A device that stays alone, and one whose pair is refused, are not."""
    found = one_block(Seen("d", "u"), Seen("null", "v"), Seen("x", "y", kind="alias"), Seen("lost", "u", 99), most=9,
                      events={"d": 1, "u": 1})  # fmt: skip
    assert found.identified == {"d", "u", "x", "y"}


def settled(kept: str, other: str, state: str = "settled") -> EarlierLink:
    """A link of an earlier plan."""
    return EarlierLink(kept, other, "identify", 40, state)


def test_a_link_that_an_earlier_plan_settled_is_not_sent_again() -> None:
    """If a row of this source shows it, with or without a time, it is in the table; otherwise it is not."""
    found = one_block(Seen("d", "u"), Seen("e", "u"), earlier=[settled("u", "d"), settled("v", "old")])
    assert found.star() == {("u", "e")}
    assert found.decision("d", "u") == ("merge", "settled")
    assert len(found.table) == 2
    found = resolved([[], [Seen("d", "u", None, "identify", row=8)]], earlier=[settled("u", "d")])
    assert [(row["where"], row["reason"]) for row in found.table] == [("part-1:8", "settled")]


def test_one_in_doubt_keeps_its_date_and_one_unsent_is_planned_anew() -> None:
    """The service collapses copies only of the same day, so what may have landed is sent unchanged."""
    earlier = [settled("u", "d", "in_doubt"), settled("u", "e", "unsent")]
    events = dict.fromkeys("ude", 7_000)
    found = one_block(Seen("d", "u", 9_000), Seen("e", "u", 9_000), earlier=earlier, events=events)
    assert [(link.other, link.time) for link in found.links] == [("d", 40), ("e", 6_000)]


def test_the_id_that_earlier_plans_kept_goes_on_being_kept() -> None:
    """The service would refuse to absorb it, since it is identified by now; so two persons of earlier plans are never
    joined, which is shown instead of sent."""
    found = one_block(Seen("u", "v", kind="alias"), Seen("e", "v"), users=["u", "v"], earlier=[settled("u", "d")])
    assert found.star() == {("u", "v"), ("u", "e")}
    service = MergingService([settled("u", "d"), *found.links])
    assert (service.persons(), service.refused) == ({frozenset({"u", "d", "v", "e"})}, [])
    found = one_block(Seen("u", "v", kind="merge"), earlier=[settled("u", "d"), settled("v", "e")])
    assert (found.links, found.decision("u", "v")) == ([], ("conflict", "settled_apart"))


def write(path: Path, text: str) -> Path:
    """A file of pairs."""
    path.write_bytes(text.encode())
    return path


def test_the_operators_pairs_override_the_rules(tmp_path: Path) -> None:
    """A pair named by hand overrides the rule of the first user, and may have an e-mail as its anonymous id."""
    named = write(tmp_path / "p.csv", "\ufeffuser_id,anonymous_id\r\nbob,tablet\r\n\r\n1001,ann@example.com\r\n")
    found = one_block(Seen("tablet", "ann", 1), Seen("tablet", "bob", 9), Seen("ann@example.com", "1001"), named=named)
    assert found.star() == {("bob", "tablet"), ("1001", "ann@example.com")}
    assert found.decision("tablet", "ann") == ("conflict", "other_user")
    assert found.decision("ann@example.com", "1001") == ("merge", "named")
    assert [row["where"] for row in found.table] == ["part-0:1", "part-0:1", "part-0:1"]


def test_a_named_pair_that_no_row_shows_is_merged_and_located_in_its_file(tmp_path: Path) -> None:
    """The file has JSON lines; ids are kept to the last space."""
    lines = ['{"anonymous_id": " d", "user_id": "u"}', "", '{"user_id": "v", "anonymous_id": "e"}']
    named = write(tmp_path / "p.jsonl", "\n".join(lines))
    found = one_block(named=named, events={"u": 9_000})
    assert {(link.distinct_id, link.other, link.time) for link in found.links} == {
        ("u", " d", 8_000), ("v", "e", AS_OF - WITHOUT_TIME - 1_000)
    }  # fmt: skip
    assert [(row["where"], row["reason"]) for row in found.table] == [
        ("named.csv:1", "named"),
        ("named.csv:3", "named"),
    ]


CONTRADICTIONS = [
    ("anonymous_id,user_id\nd,u\nx,y\nd,v\n", 4, "already paired in line 2"),
    ("anonymous_id,user_id\nd,u\nd,u\n", 3, "already paired in line 2"),
    ("anonymous_id,user_id\na,b\nb,c\n", 3, "anonymous id here and a user's id in line 2"),
    ("anonymous_id,user_id\na,null\n", 2, "is a placeholder"),
    ("anonymous_id,user_id\na,a\n", 2, "paired with itself"),
    ("anonymous_id,user_id\na," + "x" * 201 + "\n", 2, "201 characters"),
    ("anonymous_id,user_id\na\n", 2, "1 cells"),
    ('anonymous_id,user_id\n"a\nb",u\n"c"x,u\n', 4, "not CSV"),
    ("anonymous,user\na,b\n", 1, "does not name anonymous_id"),
    ("anonymous_id,user_id,x\na,b,c\n", 1, "columns other than"),
    ("", 1, "does not name anonymous_id"),
    ('{"anonymous_id": "a", "user_id": "b"}\n{"anonymous_id": 3, "user_id": "b"}\n', 2, "not a pair"),
    ('{"anonymous_id": "a", "user_id": "b"}\n{"anonymous_id": "c", "usr": "b"}\n', 2, "not a pair"),
    ('{"anonymous_id": "a", "x": ' + "[" * 9000 + "]" * 9000 + ', "user_id": "b"}\n', 1, "not a pair"),
]


def test_a_file_of_pairs_that_contradicts_itself_stops_the_plan(tmp_path: Path) -> None:
    """The error has file and line; nothing that is written by hand is guessed at. A missing file is a usage error."""
    for text, line, problem in CONTRADICTIONS:
        named = write(tmp_path / "pairs", text)
        with pytest.raises(UsageError, match=problem) as raised:
            one_block(Seen("q", "r"), named=named)
        assert str(raised.value).endswith(f"at {named}:{line}")
        assert raised.value.hint
    with pytest.raises(UsageError, match="cannot read"):
        list(read_pairs(tmp_path / "none.csv"))


IDS = ["d1", "d2", "d3", "d4", "u1", "u2", "u3", "x@y.zz", "null"]
SEEN = st.builds(
    Seen, st.sampled_from(IDS), st.sampled_from(IDS), st.none() | st.integers(0, 6),
    st.sampled_from(["row", "row", "identify", "alias", "merge"]), st.integers(1, 3), st.integers(1, 9),
)  # fmt: skip
EVENTS = st.dictionaries(st.sampled_from(IDS), st.integers(0, 6))


@settings(max_examples=15)
@given(st.lists(SEEN, max_size=14), EVENTS, st.sets(st.sampled_from(IDS)), st.integers(1, 6), st.randoms())
def test_any_order_and_any_cut_into_blocks_gives_the_same(
    pairs: list[Seen], events: dict[str, int], users: set[str], most: int, chance: random.Random
) -> None:
    """The same table, links, persons and summary; only the place of a row changes with its order."""
    ids = {one for seen in pairs for one in seen[:2]}
    events = {one: at for one, at in events.items() if one in ids}
    before = resolved([pairs], events, users=users, most=most)
    shuffled = chance.sample(pairs, len(pairs))
    cut = chance.randint(0, len(pairs))
    turned = dict(reversed(events.items()))
    after = resolved([shuffled[:cut], shuffled[cut:]], turned, users=users, most=most)
    tables = [[{**row, "where": None} for row in found.table] for found in (before, after)]
    assert before._replace(table=tables[0]) == after._replace(table=tables[1])


@settings(max_examples=15)
@given(st.lists(SEEN, max_size=14), EVENTS, st.sets(st.sampled_from(IDS)), st.integers(1, 6), st.randoms())
def test_the_service_takes_every_link_in_any_order_and_makes_the_persons_of_the_plan(
    pairs: list[Seen], events: dict[str, int], users: set[str], most: int, chance: random.Random
) -> None:
    """No link is refused, chains do not occur, no person has too many ids, and refused pairs are not joined."""
    found = resolved([pairs], events, users=users, most=most)
    service = MergingService(chance.sample(found.links, len(found.links)))
    assert (service.persons(), service.refused) == (found.persons(), [])
    assert max(map(len, found.persons()), default=1) <= most + 1
    for row in found.table:
        together = found.canonical[row["anonymous_id"]] == found.canonical[row["user_id"]]
        if row["decision"] in ("merge", "first_user"):
            assert together
        if row["decision"] == "conflict":
            assert not together


@settings(max_examples=15)
@given(st.lists(SEEN, max_size=14), EVENTS)
def test_two_users_are_one_person_only_if_a_record_joins_them(pairs: list[Seen], events: dict[str, int]) -> None:
    """A person has at most one more user than there are records that join its ids."""
    found = resolved([pairs], events)
    users = {
        row["user_id"] for row in found.table if row["reason"] not in ("self_pair", "junk_id", "long_id")
        if any(one.kind in ("row", "identify") and one[:2] == (row["anonymous_id"], row["user_id"]) for one in pairs)
    }  # fmt: skip
    for ids in found.persons():
        records = {one[:2] for one in pairs if one.kind in ("alias", "merge") and {*one[:2]} <= ids}
        assert len(users & ids) <= 1 + len(records)


@settings(max_examples=12)
@given(st.lists(SEEN, max_size=10), st.lists(SEEN, max_size=10), EVENTS)
def test_a_second_plan_sends_nothing_twice_and_is_not_refused(
    first: list[Seen], second: list[Seen], events: dict[str, int]
) -> None:
    """The links of both runs together: each id absorbed once, and the service refuses none."""
    before = resolved([first], events)
    settled = [EarlierLink(link.distinct_id, link.other, link.kind, link.time, "settled") for link in before.links]
    after = resolved([first, second], events, earlier=settled)
    assert MergingService([*before.links, *after.links]).refused == []
    assert not {link.other for link in before.links} & {link.other for link in after.links}
    again = resolved([first], events, earlier=settled)
    assert again.links == []


def test_memory_does_not_grow_with_the_people_of_an_export(tmp_path: Path) -> None:
    """A hundred thousand more ids cost a few tens of bytes each; `make soak` measures five million."""
    peaks = []
    for ids in (20_000, 100_000):
        (tmp_path / str(ids)).mkdir()
        command = [sys.executable, "-m", "tests.soak.soak_identities", "leaf", str(ids), str(tmp_path / str(ids))]
        found = json.loads(subprocess.check_output(command, cwd=Path(__file__).parent.parent.parent))
        assert found["links"] == found["rows"] == ids * 4 // 5
        peaks.append(found["grown"])
    assert peaks[1] - peaks[0] < 150
    assert peaks[1] < 400
