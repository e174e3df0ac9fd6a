"""The C part keeps within its bounds whatever Python passes: wrong types, sizes, callbacks that raise, change things or
call again.

Each of these is harmless or an error of Python's. `make sanitize` runs them where a byte too many is seen.
"""

from __future__ import annotations

import gc
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from typing import Any

import pytest
from msgspec import Raw

from pipeline.extractors.jsonl_rows import JsonlRows
from pipeline.models import Note, UnvalidatedEvent
from pipeline.native import AVAILABLE, native

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="backcast was installed without a compiler")

ERRORS = (AttributeError, BufferError, IndexError, KeyError, LookupError, MemoryError, OverflowError, RuntimeError)
ERRORS += (TypeError, ValueError)
TAIL = b',"a":1},"timestamp":"'


def members_of(text: bytes = b"{}", *opens: str) -> Any:
    """The Members of a row."""
    (row,) = native.Lines(text, opens, False)
    assert isinstance(row, native.Members)
    return row


def many(count: int, what: str = "n") -> bytes:
    """A row with this many members."""
    return b"{" + b",".join(b'"%s%d":%d' % (what.encode(), number, number) for number in range(count)) + b"}"


class Late:
    """Does something when it is released."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def __del__(self) -> None:
        self.act()


class Zone(tzinfo):
    """A zone that does something when it is asked, as msgspec asks it while it encodes a time."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def utcoffset(self, when: datetime | None) -> timedelta:
        """Act, then UTC."""
        self.act()
        return timedelta(0)


def renames(changes: list[tuple[Any, ...]], collided: Any = None, watched: Any = (), seen: Any = None) -> Any:
    """The Renames of these, with callbacks that the tests can see."""
    return native.Renames(tuple(changes), collided or (lambda *_: ()), frozenset(watched), seen or (lambda _, w: w))


spread_all: Any = (
    native.Spread(lambda name: f"x_{name}", None, lambda *_: (), lambda *_: (), True) if AVAILABLE else None
)


@pytest.mark.parametrize("added", [10, 63, 64, 65, 500, 5000])
def test_more_names_than_there_were_are_renamed(added: int) -> None:
    """The callback that looks at the watched names may add any number of others."""
    row = members_of(b'{"w":1}')

    def seen(members: Any, warnings: Any) -> Any:
        for number in range(added):
            members[f"r{number}"] = number
        return warnings

    call = renames([(f"r{number}", f"s{number}") for number in range(added)], watched=["w"], seen=seen)
    assert call(row, ()) == ()
    assert row.as_dict() == {"w": Raw(b"1"), **{f"s{number}": number for number in range(added)}}


def test_what_a_callback_took_away_is_not_renamed() -> None:
    """A collision's callback may remove everything except what was removed before it."""
    row = members_of(b'{"a":1,"b":2,"c":3,"d":4,"e":5}')

    def collided(old: str, new: str, value: Any, members: Any, warnings: Any) -> Any:
        for name in list(members):
            del members[name]
        return (*warnings, (old, new))

    call = renames([("a", "d"), ("b", "x"), ("c", None)], collided)
    assert call(row, ()) == (("a", "d"),)
    assert row.as_dict() == {"x": Raw(b"2")}


def test_a_callback_that_raises_loses_no_reference() -> None:
    """Its error is raised, and what was removed is released once."""
    marker = object()
    before = sys.getrefcount(marker)

    def failing(*_: Any) -> Any:
        raise LookupError

    for watched in ((), ("v",)):
        row = members_of(b'{"a":1,"b":2}')
        row["v"], row["a"] = marker, marker
        with pytest.raises(LookupError):
            renames([("v", "b"), ("a", "b")], failing, watched, failing)(row, ())
        del row
    gc.collect()
    assert sys.getrefcount(marker) == before


def test_a_callback_may_rename_the_same_row_again() -> None:
    """It is called within itself, for the same members."""
    row = members_of(many(70))
    depth = []

    def seen(members: Any, warnings: Any) -> Any:
        if len(depth) < 5:
            depth.append(1)
            call(members, warnings)
        return warnings

    call = renames([(f"n{number}", f"m{number}") for number in range(70)], None, ["n0"], seen)
    call(row, ())
    assert list(row) == [f"m{number}" for number in range(70)]


def test_a_mapping_may_rename_more_names_than_fit_into_sixteen_bits() -> None:
    """Any number of changes, each found again."""
    call = renames([(f"old{number}", f"new{number}") for number in range(40_000)])
    row = members_of(b'{"old39999":1,"old5":2}')
    call(row, ())
    assert row.as_dict() == {"new5": Raw(b"2"), "new39999": Raw(b"1")}


def test_members_may_change_while_a_value_of_theirs_ends() -> None:
    """What a value does when it is released happens after everything else."""

    def grow() -> None:
        for number in range(300):
            row[f"late{number}"] = number

    for act, left in (("__setitem__", 302), ("__delitem__", 301)):
        row = members_of(b'{"a":1}')
        row["b"] = Late(grow)
        getattr(row, act)(*("b", Raw(b"2"))[: 1 + (left == 302)])
        assert left == 301 or bytes(row.get("b")) == b"2"
        assert len(row) == len(list(row)) == len(row.items()) == left


def test_an_object_with_more_members_than_there_is_room_for_is_left_to_python() -> None:
    """1,024 is the most (MOST_SPREAD)."""
    wide, other = (members_of(json.dumps({f"m{number}": 1 for number in range(size)}).encode()) for size in (1_025, 1))
    select = native.Spread(lambda name: name, None, None, lambda *given: given)
    assert select(wide) is None
    assert select(wide, other, ()) == (wide, other, ())


def test_members_may_change_while_they_are_written() -> None:
    """An encoder that runs Python may find another row than the one that was measured: an error, or the row as it
    is."""
    write = native.Writer(frozenset(["distinct_id"]), TAIL, TAIL)

    def grow() -> None:
        for number in range(300):
            row[f"late{number}"] = "x" * number

    def shrink() -> None:
        row["a"] = Raw(b"1")

    def swell() -> None:
        row["a"] = Raw(b'"' + b"y" * 5000 + b'"')

    def clear() -> None:
        for name in list(row):
            del row[name]

    for act in (grow, shrink, swell, clear):
        row = members_of(b'{"a":"' + b"x" * 500 + b'"}')
        row["when"] = datetime(2020, 1, 1, tzinfo=Zone(act))
        text = bytearray(b"before")
        try:
            done = write(text, b"{", "u", row, b"end", 1 << 20)
        except RuntimeError:
            assert text == b"before"
        else:
            assert not done or text.endswith(TAIL + b"end")


def test_members_are_not_copied_into_themselves() -> None:
    row = members_of(many(32))
    with pytest.raises(TypeError):
        spread_all(row, row, ())


def test_members_are_not_values_of_members() -> None:
    """They would be released without end; the object that is opened with its row is its own."""
    row = members_of(b'{"p":{"a":1},"b":2}', "p")
    for put in (
        lambda: row.__setitem__("x", row),
        lambda: row["p"].setdefault("x", row),
        lambda: spread_all(row, row["p"], ()),
    ):
        with pytest.raises(TypeError):
            put()


class Name(str):
    """A name that compares by its own Python code."""

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        raise LookupError


def test_a_name_is_a_str() -> None:
    """Nothing else is put into a row, or looked up by its own Python code."""
    row = members_of(b'{"a":1}')

    def refused(build: Callable[..., object], *given: Any) -> None:
        with pytest.raises(TypeError):
            build(*given)

    for name in (1, None, b"a", Name("a"), [], object()):
        assert row.get(name) is None
        assert name not in row
        refused(row.__setitem__, name, 1)
        refused(native.Renames, ((name, None),), print, frozenset(), print)
        refused(native.Lines, b"{}", (name,), False)
        if name.__hash__:
            refused(native.Writer, frozenset([name]), b"", b"")
            refused(native.Renames, (), print, frozenset([name]), print)
    assert row.as_dict() == {"a": Raw(b"1")}


def test_an_observer_looks_for_attributes_of_any_object() -> None:
    """Slots of one type are never read from another, also if asking a type runs Python that asks for one more."""
    observed: list[Any] = [native.Observer([], [], [])]

    class Other:
        __slots__ = ("event", "note", "received", "wall")

        def __init__(self) -> None:
            self.event, self.received, self.wall, self.note = "Other", None, None, None

    class Asking(type):
        def __getattribute__(cls, name: str) -> Any:
            if name in ("wall", "note"):
                observed[0](Other(), 5, "u", {})
            return super().__getattribute__(name)

    class Wide(metaclass=Asking):
        __slots__ = (*(f"s{number}" for number in range(50)), "event", "note", "received", "wall")

        def __init__(self) -> None:
            self.event, self.received, self.wall, self.note = "Wide", 1, 2, None

    for draft in (Wide(), Other(), UnvalidatedEvent("Seen", "u", 5, {}), Wide()):
        observed[0](draft, 5, "u", {})
    for properties in ([], (), "text", members_of(), 5, None, {"$set"}):
        with suppress(TypeError):
            observed[0](UnvalidatedEvent("Seen", "u", 5, {}), 5, "u", properties)


class Index:
    """A number that does something when it is asked."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def __index__(self) -> int:
        self.act()
        return 60


def things(chance: random.Random) -> Iterator[Any]:
    """Anything that may be passed, right or wrong."""
    row = members_of(many(chance.choice((0, 1, 31, 32, 33, 70))))
    pool: list[Callable[[], Any]] = [
        lambda: chance.choice(["a", "n0", "n31", "", "\ud800", "é" * 300, "$set", "$ip", "p", "x" * 5000]),
        lambda: chance.choice([0, 1, -1, 5, 2**31, 2**62, 2**63 - 1, -(2**63), 2**64, 1.5, True, None]),
        lambda: chance.choice([b"", b"{", b'{"a":1}\n', bytes(16), b"x" * 5000, bytearray(b"abc"), memoryview(b"ab")]),
        lambda: chance.choice(
            [(), ("p",), ["a", "b"], [1, None], {"a": 1, "n1": [2]}, {"$groups": "g"}, frozenset("ab")]
        ),
        lambda: chance.choice([Raw(b"1"), Raw(b""), Raw(b'"q'), Raw(b"null"), object(), Name("n0"), Index(gc.collect)]),
        lambda: row,
        lambda: members_of(b'{"p":{"a":1,"b":"c"},"q":2}', "p"),
        lambda: Note(*(chance.choice([None, "u", 5, {"a": 1}]) for _ in range(4))),  # type: ignore[arg-type]
        lambda: UnvalidatedEvent(
            "Seen", "u", 5, {}, note=chance.choice([None, Note("d", "u", {"a": 1}, {"b": object()})])
        ),
        lambda: Late(lambda: "n0" in row and row.__delitem__("n0")),
        lambda: datetime(2020, 1, 1, tzinfo=Zone(lambda: row.setdefault(f"z{chance.random()}", 1))),
        lambda: lambda *given: given[-1],
        lambda: lambda *given: row.__setitem__(f"c{chance.random()}", 1),
        lambda: chance.choice([(("a", "b"), ("n0", None)), (("n1", "n0"),), ((1, 2, 3),), (5,)]),
    ]
    while True:
        yield chance.choice(pool)()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_called_with_whatever_answers_or_raises(seed: int) -> None:
    """Each type made with anything, each of its methods called with anything: no crash, no other kind of error."""
    chance = random.Random(seed)
    given = things(chance)
    types = [native.Lines, native.Renames, native.Spread, native.Writer, native.Opener, native.Observer]
    made: list[Any] = [
        members_of(many(40)),
        native.Observer([], [], []),
        native.Writer(frozenset(["a"]), TAIL, TAIL),
        spread_all,
        renames([("n0", "n1")]),
        native.Opener(),
        native.Opener(again=True),
    ]
    answered = 0
    for _ in range(4_000):
        arguments = [next(given) for _ in range(chance.randrange(7))]
        one = chance.choice(made)
        names = [
            name for name in dir(one) if not name.startswith("__") or name in ("__call__", "__setitem__", "__iter__")
        ]
        try:
            if chance.random() < 0.1:
                made.append(chance.choice(types)(*arguments))
            else:
                found = getattr(one, chance.choice(names))
                answer = found(*arguments) if callable(found) else found
                if isinstance(one, native.Lines):
                    list(one)
                assert answer is not NotImplemented
        except ERRORS:
            continue
        answered += 1
    assert answered > 100


def test_rows_may_be_read_by_several_at_once() -> None:
    """Readers that take turns never mistake each other's names for their own repeated ones."""
    line = b'{"a":1,"properties":{"a":1,"b":2}}\n' * 3
    readers = [iter(JsonlRows(line, opens=("properties",), members=True)) for _ in range(3)]
    for _ in range(3):
        for one in readers:
            assert not isinstance(next(one), dict)
