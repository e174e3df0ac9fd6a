"""What a plan appends, and what it keeps of ids, pairs and properties, is the same in C as in Python."""

from __future__ import annotations

import random
import sys
from array import array
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from pipeline.encoder.event import Encoder
from pipeline.identity.accumulators import NEVER, IdAccumulator, PairAccumulator, PropertyAccumulator
from pipeline.identity.aggregator import IdentityAggregator
from pipeline.identity.property_updates import ABSENT, json_of
from pipeline.mapper.codegen.runtime import Spreader
from pipeline.models import Note, RejectReason, SealedOptions, Skip, UnvalidatedEvent
from pipeline.native import AVAILABLE, native
from pipeline.transform.events import Events, number_names
from pipeline.transform.observer import NOTE, Observer, observer
from pipeline.transform.rows import RowTransformer
from pipeline.validator.rules import fast_test

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="backcast was installed without a compiler")

AS_OF = 1_800_000_000_000_000

IDS = st.sampled_from(["u", "v", "ü", "\u706f", "\U0001f600", "u\u0000", "", "a" * 300])
NUMBERS = st.integers(-3, 3) | st.sampled_from([NEVER, -NEVER, 2**63 - 1, -(2**63)])
VALUES = st.sampled_from([b"1", b"1.10", b'"a"', b'"\xc3\xa9"', b"", Raw(b"2"), 3, "x", None, [1, "y"]])
HELD = st.dictionaries(st.sampled_from(["a", "b", "", "é"]), VALUES, max_size=3)


@given(
    st.lists(st.tuples(IDS, NUMBERS, st.booleans(), NUMBERS)),
    st.lists(st.tuples(IDS, IDS, st.sampled_from([1, 2, 4, 8]), st.none() | NUMBERS, NUMBERS)),
)
def test_ids_and_pairs_are_folded_as_in_python(
    ids: list[tuple[str, int, bool, int]], pairs: list[tuple[str, str, int, int | None, int]]
) -> None:
    """First, events, place, and whose an id is; kinds, first, last, rows and place of a pair."""
    sides = (IdAccumulator(), PairAccumulator()), (native.IdAccumulator(), native.PairAccumulator())
    for of_ids, of_pairs in sides:
        for id_row in ids:
            of_ids.add_id(*id_row)
        for pair_row in pairs:
            of_pairs.add_pair(*pair_row)
    for expected, found in zip(*sides, strict=True):
        assert found.columns() == expected.columns()
        assert (len(found), found.bytes) == (len(expected), expected.bytes)


@given(st.lists(st.tuples(st.booleans(), IDS, HELD, NUMBERS, NUMBERS)))
def test_properties_are_folded_as_in_python(rows: list[tuple[bool, str, dict[str, Any], int, int]]) -> None:
    """The last that is set, else the first that is set once; ties too."""
    expected, found = PropertyAccumulator(), native.PropertyAccumulator(json_of)
    for once, *row in rows:
        for one in (expected, found):
            (one.set_once if once else one.set)(*row)
    assert (found.rows(), found.columns()) == (expected.rows(), expected.columns())
    assert (len(found), found.bytes) == (len(expected), expected.bytes)


@given(st.lists(st.tuples(st.booleans(), IDS, HELD, NUMBERS, NUMBERS)))
def test_members_are_folded_like_the_dict_of_them(rows: list[tuple[bool, str, dict[str, Any], int, int]]) -> None:
    """Their texts, and values that Python put there."""
    expected, found = native.PropertyAccumulator(json_of), native.PropertyAccumulator(json_of)
    for once, owner, values, *times in rows:
        members = native.Header(blanks=True)({name: value for name, value in values.items() if value is not None})
        if not isinstance(members, native.Members):
            continue  # other tests of this process have used up the names
        for one, of in ((expected, members.as_dict()), (found, members)):
            (one.set_once if once else one.set)(owner, of, *times)
    assert found.rows() == expected.rows()
    assert (len(found), found.bytes) == (len(expected), expected.bytes)


JSON = st.sampled_from(["1.10", "null", '"EMPTY"', '"EMPT\\u0059"', '"é"', "{}", '{"a":[1]}', '""'])
SPREADS = st.sampled_from(
    [((), ("initial_*",), {}, "", "", ()), (("initial_*",), (), {"initial_b": "c"}, "initial_", "$", ("EMPTY", ""))]
)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "initial_a", "initial_b", "c"]), JSON)), SPREADS)
def test_members_are_chosen_as_in_python(members: list[tuple[str, str]], spread: tuple[Any, ...]) -> None:
    """By their names and without what stands for missing; what two of them would be called is left to Python."""
    text = "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}"
    opened = native.Opener()(Raw(text.encode()))
    spreader = Spreader(*spread)
    blanks = native.Blanks(frozenset(spread[-1]), frozenset(spread[-1]), frozenset()) if spread[-1] else None
    called: list[Any] = []
    select = native.Spread(spreader.new_name, blanks, called.append, called.append)
    if opened is not None:
        found, expected = select(opened), spreader(Raw(text.encode()))
        names = [spreader.new_name(name) for name, _ in members]
        if found is None:
            assert len(set(names)) < len(names)
        else:
            assert [(name, bytes(value)) for name, value in found.items()] == [
                (name, bytes(value)) for name, value in expected.items()
            ]
    assert called == []


@given(st.lists(IDS.map(lambda name: name + "")))
def test_names_are_numbered_as_in_python(names: list[str]) -> None:
    """In the order of their first."""
    assert native.number_names(names) == number_names(names)


def test_folds_of_many_ids_lose_none() -> None:
    """More than a table has room for at first, each of them twice."""
    found = native.PairAccumulator()
    for number in range(40_000):
        found.add_pair(f"d{number % 20_000}", "u", 1, number, number)
    (ends, anonymous), _, _, _, _, events, _ = found.columns()
    assert set(array("q", events)) == {2}
    assert [anonymous[start:end].decode() for start, end in pairwise(array("i", ends))] == sorted(
        f"d{number}" for number in range(20_000)
    )


NOTES = st.builds(Note, st.none() | IDS, st.none() | IDS, st.none() | HELD, st.none() | HELD)
EVENTS_OBSERVED = st.tuples(
    st.sampled_from(["Seen", "Left"]), IDS, st.integers(0, 9), st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9), st.none() | NOTES,
    st.dictionaries(st.sampled_from(["$set", "$groups", "x"]), st.integers()), st.booleans(),
)  # fmt: skip
"""The last says whether it goes the slow way."""


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("unsets", [False, True])
@given(rows=st.lists(EVENTS_OBSERVED), cut=st.none() | st.integers(0, 20))
def test_what_a_plan_keeps_of_an_event_is_the_same(
    wanted: bool, unsets: bool, rows: list[Any], cut: int | None
) -> None:
    """Names, columns, ids and notes; where the C part leaves a note to be heard, it is."""
    kept = []
    for native_too in (False, True):
        made_of, aggregator = Events(), IdentityAggregator(AS_OF, persons=wanted, unsets=unsets)
        aggregator.start_block(3)
        observed: Any = (
            observer(made_of, aggregator)
            if native_too
            else Observer(made_of.names, aggregator.accumulators[0], aggregator.place)
        )
        left_over = []
        for row, (event, who, time, received, wall, note, properties, slow) in enumerate(rows):
            draft = UnvalidatedEvent(event, who, time, properties, received=received, wall=wall, note=note)
            if slow:
                walls = observed.walls
                observed.add(event, time, received, wall)
                if row == cut:
                    observed.cut(row, walls)
                    break
                continue
            left = observed(row, draft, time, who, properties)
            if left & NOTE:
                aggregator.add_note(row, who, time, received, note)
            left_over.append(left & ~NOTE)
        aggregator.finish_block()
        kept.append((made_of.names, observed.columns(), observed.walls, left_over, aggregator.take()))
    assert kept[0] == kept[1]


def test_what_a_plan_keeps_of_many_ids_is_the_same() -> None:
    """More than waits at once, more than a table has room for at first, and what was said of an id not where it was."""
    chance = random.Random(7)
    kept = []
    rows = [
        (row, f"u{chance.randrange(3_000)}", f"d{chance.randrange(9)}", chance.sample("abcd", chance.randrange(4)))
        for row in range(20_000)
    ]
    for native_too in (False, True):
        made_of, aggregator = Events(), IdentityAggregator(AS_OF, unsets=False)
        aggregator.start_block(1)
        ids, place = aggregator.accumulators[0], aggregator.place
        observed: Any = observer(made_of, aggregator) if native_too else Observer(made_of.names, ids, place)
        for row, who, device, names in rows:
            said = dict.fromkeys(names, row % 7)
            note = Note(who, device, said, None) if row % 2 else Note(who, device, None, said)
            draft = UnvalidatedEvent("Seen", who, row, {}, note=note)
            if observed(row, draft, row, who, {}) & NOTE:
                aggregator.add_note(row, who, row, None, note)
        assert len(observed.columns()[0]) == 8 * len(rows)
        kept.append(aggregator.take())
    assert kept[0] == kept[1]
    assert len(kept[0].ids.hashed) > 8 * 2_900


def test_an_observer_asks_for_what_it_understands() -> None:
    """Wrong arguments are errors, and nothing is kept of them."""
    names: list[str] = []
    observed: Any = native.Observer(names, native.IdAccumulator(), None, None, 0, ABSENT)
    for wrong in ((0, object(), 5, "u", {}), (0, UnvalidatedEvent("Seen", "u", 5, {}), 2**64, "u", {}), ("x",)):
        with pytest.raises((AttributeError, OverflowError, TypeError)):
            observed(*wrong)
    with pytest.raises(ValueError, match="more than there are"):
        observed.cut(1, 0)
    with pytest.raises(TypeError):
        native.Observer(names, None, native.PairAccumulator(), None, 0, ABSENT)
    assert (names, observed.columns()) == ([], (b"",) * 4)


NEWEST = 1_700_000_000_000_000
SECOND = 1_600_000_000_000_000
UUID = "c6ef3124-b53a-4b13-a233-0088f79dcbcb"


def transformer() -> Any:
    """What `RowTransformer.append` and `appender` read of one."""
    encoder = Encoder("shop", SealedOptions(as_of=NEWEST))
    made: Any = SimpleNamespace(
        encoder=encoder, is_valid=fast_test(), newest=NEWEST, max_bytes=400, keyless=set(),
        valid_heads={"Seen": encoder.head("Seen")}, content_of=lambda row: f"content of {row}",
        buffer=SimpleNamespace(ends=[], times=[], keys=[], own={}), events=SimpleNamespace(row_of=[]),
    )  # fmt: skip
    made.append = lambda *arguments: RowTransformer.append(made, *arguments)
    return made


def members(**values: Any) -> Any:
    return native.Header()(values)


def outcomes() -> list[Any]:
    """An outcome of each kind, each made anew: writing one may change its properties."""
    ordinary: dict[str, Any] = {"event": "Seen", "distinct_id": "u", "time": SECOND, "key": "k"}
    changes: list[dict[str, Any]] = [
        {}, {"time": SECOND + 5_000}, {"time": SECOND + 5}, {"time": 0}, {"uuid": UUID}, {"uuid": UUID, "key": None},
        {"key": None}, {"key": ""}, {"warnings": (("code", "detail"),)}, {"event": "Other"}, {"event": None},
        {"distinct_id": None}, {"distinct_id": ""}, {"distinct_id": 'a"b'}, {"distinct_id": "\ud800"},
        {"distinct_id": "é"}, {"distinct_id": "u" * 201}, {"time": None}, {"time": RejectReason("bad_timestamp", "")},
        {"time": -1}, {"time": NEWEST}, {"time": NEWEST + 1}, {"time": 1 << 80}, {"time": 1.5}, {"time": True},
    ]  # fmt: skip
    written = [{"properties": made(a="x")} for made in (dict, members)]
    written += [{"properties": made(**values)} for made in (dict, members) for values in (
        {}, {"a": "x" * 400}, {"a": '"' * 120}, {"import_name": "x"}, {"$ip": ""}, {"$ip": "10.0.0.1"},
    )]  # fmt: skip
    events = [
        UnvalidatedEvent(**{**ordinary, **properties, **change})
        for properties in ({"properties": members(a="x")}, {"properties": {"a": "x"}})
        for change in changes
    ]
    events += [UnvalidatedEvent(**{**ordinary, **properties}) for properties in written]
    return [*events, Skip("left_out"), RejectReason("bad_value", ""), [], None]


def test_every_outcome_is_appended_as_python_appends_it() -> None:
    """Its text, the columns, and whether it was appended at all."""
    python, quick = transformer(), transformer()
    append = RowTransformer.appender(quick, quick.is_valid)
    texts = bytearray(), bytearray()
    appended = []
    for row, (one, other) in enumerate(zip(outcomes(), outcomes(), strict=True)):
        appended.append(python.append(texts[0], row, one))
        assert append(texts[1], row, other) == appended[-1], one
        assert texts[0] == texts[1], one
    assert python.buffer == quick.buffer
    assert (python.events, python.keyless) == (quick.events, quick.keyless)
    assert len(quick.buffer.own) == 4
    assert appended.count(True) == 24 == len(quick.events.row_of)


def test_a_failing_rule_stops_the_block_and_holds_nothing() -> None:
    """An exception of a rule is raised, nothing is appended, and no reference stays; wrong arguments are an error."""
    made = transformer()

    def fail(*_: Any) -> bool:
        raise ZeroDivisionError

    append = RowTransformer.appender(made, fail)
    text, event = bytearray(), UnvalidatedEvent("Seen", "u", SECOND, members(a="x"), "k")
    before = sys.getrefcount(event), sys.getrefcount(made.valid_heads["Seen"])
    for _ in range(100):
        with pytest.raises(ZeroDivisionError):
            append(text, 0, event)
    assert (sys.getrefcount(event), sys.getrefcount(made.valid_heads["Seen"])) == before
    assert (text, made.events.row_of) == (b"", [])
    append = RowTransformer.appender(made, made.is_valid)
    made.valid_heads["Seen"] = "text"  # no bytes
    for arguments in ((), (bytearray(), 0), (b"", 0, None), (bytearray(), 0, None, None), (bytearray(), 0, event)):
        with pytest.raises(TypeError):
            append(*arguments)
