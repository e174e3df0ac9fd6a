"""Copies are found exactly and decided by what the rows say, never by their place, in constant memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.options import PlanOptions
from pipeline.plan.duplicates import decide_copies
from pipeline.plan.fact_tables import FactTables
from pipeline.plan.requests.query import opened
from tests.support.fact_rows import fact_tables
from tests.support.sent_events import planned as mapped_events
from tests.support.tiny_tool import DAY, HOUR, THEN, Made, make_plan, planned, row, write


class Key(NamedTuple):
    """The facts of an event's key, in plain words. `content` is the digest of the event."""

    hi: int
    lo: int
    received: int
    time: int
    content: int
    keyless: bool
    block: int
    row: int
    position: int = 0
    row_events: int = 1


def fact_of(key: Key) -> dict[str, Any]:
    """The fact of an event of this key."""
    fact = key._asdict()
    return {**fact, "content_hi": fact.pop("content")}


def naive(keys: list[Key], collapse: bool) -> dict[tuple[int, int, int], tuple[int, str]]:
    """The outcome of each copy by place: its ordinal, or the code of its skip."""
    groups: dict[tuple[int, int], list[Key]] = defaultdict(list)
    for key in keys:
        groups[key.hi, key.lo].append(key)
    decided = {}
    for group in groups.values():
        if group[0].keyless and not collapse:
            for ordinal, key in enumerate(sorted(group, key=lambda key: key[6:])):
                if ordinal:
                    decided[key[6:9]] = (ordinal, "")
            continue
        best = max(group, key=lambda key: (key.received, key.time, key.content, [-place for place in key[6:9]]))
        for key in group:
            if key != best:
                equal = key.keyless or key.content == best.content
                decided[key[6:9]] = (0, "duplicate_event" if equal else "superseded")
    return decided


def _clashes(keys: list[Key]) -> Iterator[bool]:
    """For each row with a source key, whether it is of another day than the row that is sent for its key."""
    for key in keys:
        same = [one for one in keys if (one.hi, one.lo) == (key.hi, key.lo) and not one.keyless]
        best = max(same, key=lambda one: (one.received, one.time, one.content), default=key)
        yield best.time // DAY != key.time // DAY


def never(places: Iterator[Any]) -> Iterator[Any]:
    """The digests of rows by their content alone: no test has rows that are equal but written differently."""
    for place in places:
        block, number, position = place
        yield np.array([block << 40 | number << 16 | position], np.uint64), np.array([[CONTENTS[place], 0]], np.uint64)


CONTENTS: dict[tuple[int, int, int], int] = {}


@contextmanager
def decided_in(place: Path, keys: list[Key], *, collapse: bool) -> Iterator[FactTables]:
    """The tables of a plan after it decided on these rows."""
    CONTENTS.update({key[6:9]: key.content for key in keys})  # type: ignore[misc]
    with fact_tables(place, map(fact_of, keys)) as tables:
        decide_copies(tables, collapse=collapse, canonical=never)
        yield tables


def found_in(tables: FactTables) -> dict[Any, Any]:
    """The outcome of each copy."""
    rows = tables.rows("SELECT block, row, position, ordinal, coalesce(code, '') FROM decided")
    found = {(block, row, position): (ordinal, code) for block, row, position, ordinal, code in rows}
    assert len(found) == len(rows)
    return found


HALVES = st.sampled_from([0, 1, 2, 2**60, 2**63, 2**64 - 2, 2**64 - 1])
"""Halves of uuids that agree in many leading bits, in all of them, and at both ends."""


@st.composite
def key_lists(draw: st.DrawFn) -> list[Key]:
    """Some blocks of records with many copies; whether a uuid has a source key is the same for all of its rows."""
    uuids = draw(st.lists(st.tuples(HALVES, HALVES), min_size=1, max_size=5, unique=True))
    count = draw(st.integers(1, 30))
    return [
        Key(
            *(uuid := draw(st.sampled_from(uuids))),
            received=draw(st.integers(0, 2)),
            time=THEN + draw(st.integers(0, 2)) * DAY,
            content=draw(st.integers(0, 2)),
            keyless=uuids.index(uuid) % 2 == 1,
            block=number // 4,
            row=number % 4,
        )
        for number in range(count)
    ]


@settings(max_examples=40)
@given(key_lists(), st.booleans())
def test_copies_are_decided_as_a_naive_look_decides_them(
    tmp_path_factory: pytest.TempPathFactory, keys: list[Key], collapse: bool
) -> None:
    """However similar the uuids are."""
    expected = naive(keys, collapse)
    with decided_in(tmp_path_factory.mktemp("copies"), keys, collapse=collapse) as tables:
        assert found_in(tables) == expected
        left = sorted(key.time for key in keys if not expected.get(key[6:9], (0, ""))[1])
        assert sorted(time for (time,) in tables.rows("SELECT time FROM sent")) == left
        assert tables.number("SELECT count(*) FROM clashing") == sum(_clashes(keys))


def test_more_rows_of_one_uuid_than_fit_are_numbered_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that repeats thirty thousand times needs no more memory than one that does not."""
    monkeypatch.setattr("pipeline.plan.fact_tables.MEMORY", "40MB")
    keys = [Key(7, 7, 0, THEN, 0, True, number // 5_000, number % 5_000) for number in range(30_000)]
    with decided_in(tmp_path, keys, collapse=False) as tables:
        ordinals = tables.rows("SELECT count(DISTINCT ordinal), min(ordinal), max(ordinal) FROM decided")
    assert ordinals == [(29_999, 1, 29_999)]


def test_a_row_is_out_when_all_its_events_are_and_has_the_code_of_its_first(tmp_path: Path) -> None:
    """A row that loses only some of its events stays mapped, and is counted as such."""
    both = [row(key="a", note=1, got=5), row("Left", key="b", got=5)]
    later = [row(key="a", note=2, got=1), row("Left", key="b", got=5)]
    partly = [row(key="a", note=1, got=5), row("New", key="c")]
    lines = [[{**one, "uuid": f"{OWN[:-1]}{number}"} for number, one in enumerate(of)] for of in (both, later)]
    lines.append([{**partly[0], "uuid": f"{OWN[:-1]}0"}, partly[1]])
    made = planned(tmp_path, [{"many": some} for some in lines])
    assert copies(made) == [
        (0, 2, 0, 0, "superseded"), (0, 2, 1, 0, "duplicate_event"), (0, 3, 0, 0, "duplicate_event"),
    ]  # fmt: skip
    assert made.plan.skips == {"superseded": 1}
    assert made.plan.warnings["partly_duplicate_row"] == 1


def copies(made: Made) -> list[tuple[int, int, int, int, str | None]]:
    """The decisions on copies in the facts: file, row, event of the row, ordinal, code."""
    with opened(made.directory) as database:
        return database.rows(
            "SELECT part, row, position, ordinal, code FROM facts WHERE code IS NOT NULL OR ordinal > 0 ORDER BY ALL"
        )


def notes(made: Made) -> list[str | None]:
    """The property `note` of what is sent, in order."""
    return [event["properties"].get("note") for event in made.sent()]


WINNERS: list[tuple[dict[str, int], dict[str, int], str]] = [
    ({"got": 2}, {"got": 1}, "one"),
    ({"got": 1}, {"got": 2}, "other"),
    ({"got": 1}, {}, "one"),
    ({"got": 1, "at": THEN + 9}, {"got": 2}, "other"),
    ({"at": THEN + 9}, {}, "one"),
    ({"at": THEN}, {"at": THEN + 9}, "other"),
]


@pytest.mark.parametrize("turned", [False, True], ids=["as listed", "turned round"])
def test_the_latest_received_copy_wins_then_the_latest(tmp_path: Path, turned: bool) -> None:
    """Wherever the two are in the files."""
    ones = [row(key=f"k{number}", note=f"{number} one", **one) for number, (one, _, _) in enumerate(WINNERS)]
    others = [row(key=f"k{number}", note=f"{number} other", **other) for number, (_, other, _) in enumerate(WINNERS)]
    made = planned(tmp_path, *((others, ones) if turned else (ones, others)))
    assert sorted(map(str, notes(made))) == [f"{number} {winner}" for number, (_, _, winner) in enumerate(WINNERS)]
    assert made.plan.skips == {"superseded": len(WINNERS)}


def test_of_copies_equal_in_time_the_same_one_wins_whatever_their_order(tmp_path: Path) -> None:
    """The greatest content digest decides, which does not depend on the order of files."""
    rows = [row(key="k", note=note) for note in "abcd"]
    winners = [notes(planned(tmp_path / str(turn), rows[turn:], rows[:turn])) for turn in range(1, 4)]
    assert len(winners[0]) == 1
    assert winners == [winners[0]] * 3
    example = planned(tmp_path / "named", rows).plan.examples["superseded"]
    assert "replaced by row " in example.detail
    assert "the greater digest of the values decides" in example.detail


@pytest.mark.parametrize(("shown", "one", "other"), [(False, "•••", "•••"), (True, "first", "second")])
def test_what_differs_in_a_superseded_row_is_named(tmp_path: Path, shown: bool, one: str, other: str) -> None:
    """Each property with both values, masked unless an option shows them, and the time."""
    rows = [row(key="k", note="first", got=1), row(key="k", note="second", got=2, at=THEN + HOUR)]
    source = write(tmp_path / "a.jsonl", [row(key="j"), *rows])
    made = make_plan(tmp_path / "plan", [source], thresholds=PlanOptions(show_values=shown))
    example = made.plan.examples["superseded"]
    assert (example.part, example.row) == ("a.jsonl", 2)
    assert f'note ("{one}" here, "{other}" sent)' in example.detail
    assert "they differ in timestamp (20" in example.detail


OWN = "0829736a-b140-570d-ac78-774cecf956e2"
TWICE = {"many": [row(key="k"), row("Left", key="k")]}
PARTS = [row(uuid=f"{OWN[:-1]}{number}") for number in range(3)]
Files = tuple[list[dict[str, Any]], ...]
COPIES: dict[str, tuple[Files, list[Any], dict[str, int], dict[str, int]]] = {
    "an equal copy is a duplicate and another one is superseded": (
        ([row(key="k", note="new", got=2), row(key="k", note="old", got=1), row(key="k", note="new", got=2)],),
        ["new"], {"duplicate_event": 1, "superseded": 1}, {},
    ),
    "a copy of a row that is rejected is sent": (
        ([row(key="k", id="", got=9), row(key="k", note="good", got=1)],), ["good"], {}, {},
    ),
    "rows of one own uuid are copies": (
        ([row(uuid=OWN, note="a", got=1), row(uuid=OWN, note="b", got=2)],), ["b"], {"superseded": 1}, {},
    ),
    "a uuid of all ones does not fall off the end of the table": (
        ([row(uuid="ffffffff-ffff-ffff-ffff-ffffffffffff")] * 2,), [None], {"duplicate_event": 1}, {},
    ),
    "identical rows without a key stay separate events, since nothing says that they are one": (
        ([row(), row()], [row()]), [None] * 3, {}, {"identical_rows": 2},
    ),
    "every event of a row has a uuid of its own, also when the row is there twice": (
        ([{"many": [row(key="k"), row("Left", key="k"), row(key="k")]}, *[{"many": [row(), row()], "x": 1}] * 2],),
        [None] * 7, {}, {},
    ),
    "a copied row of several events is one skipped row": (
        ([TWICE, TWICE],), [None] * 2, {"duplicate_event": 1}, {},
    ),
    "a row that loses some of its events stays mapped with one warning": (
        ([{"many": PARTS}, {"many": [*PARTS[:2], row("New", uuid=OWN[:-1] + "f")]}],),
        [None] * 4, {}, {"partly_duplicate_row": 1},
    ),
}  # fmt: skip
"""For each rule: rows of files, the notes of what is sent, the skips and the warnings."""


@pytest.mark.parametrize("rule", COPIES)
def test_of_copies_one_is_sent(tmp_path: Path, rule: str) -> None:
    """Rows are counted as rows and events as events; each has a uuid of its own."""
    files, expected, skips, warnings = COPIES[rule]
    made = planned(tmp_path, *files)
    assert notes(made) == expected
    assert len({event["uuid"] for event in made.sent()}) == len(expected) == made.plan.events.made
    assert made.plan.skips == skips
    assert {code: made.plan.warnings.get(code) for code in warnings} == warnings
    if TWICE in files[0]:
        outcomes = [(name, "2023-09-23", code) for name in ("Seen", "Left") for code in ("mapped", "duplicate_event")]
        assert made.cells() == Counter(dict.fromkeys(outcomes, 1))


def test_collapse_identical_makes_one_event_of_them(tmp_path: Path) -> None:
    """The option is for people who know that the rows are copies; the event has the uuid of the first."""
    apart = planned(tmp_path / "apart", [row(), row()])
    made = planned(tmp_path / "one", [row(), row()], [row()], collapse_identical=True)
    assert [event["uuid"] for event in made.sent()] == [apart.sent()[0]["uuid"]]
    assert made.plan.skips == {"duplicate_event": 2}


def test_rows_without_a_key_that_differ_at_all_are_not_copies(tmp_path: Path) -> None:
    """A different last digit is a difference; another order of members is not."""
    texts = [
        f'{{"event":"Seen","id":"u-1","at":{THEN},"a":1,"b":2}}',
        f'{{"event":"Seen","id":"u-1","at":{THEN},"b":2,"a":1}}',
        f'{{"event":"Seen","id":"u-1","at":{THEN},"a":1.0,"b":2}}',
    ]
    made = make_plan(tmp_path / "plan", [write(tmp_path / "a.jsonl", texts)], collapse_identical=True)
    assert (made.plan.events.made, made.plan.skips) == (2, {"duplicate_event": 1})


def test_first_and_last_are_of_the_events_that_remain(tmp_path: Path) -> None:
    """A superseded copy does not extend the range."""
    rows = [row(key="k", at=THEN, got=1), row(key="k", at=THEN + DAY, got=2), row(key="l", at=THEN + 2 * DAY)]
    made = planned(tmp_path, rows)
    assert (made.plan.first, made.plan.last) == ("2023-09-24T00:00:00Z", "2023-09-25T00:00:00Z")


def test_what_planning_alone_needs_is_gone(tmp_path: Path) -> None:
    """The facts have the decision on each copy; blocks, copies and spilled files are not part of the plan."""
    made = planned(tmp_path, [row(), row(key="k"), row(key="l")], [row(key="k"), row()])
    assert copies(made) == [(1, 1, 0, 0, "duplicate_event"), (1, 2, 0, 1, None)]
    assert sorted(path.name for path in made.directory.path.iterdir()) == [
        "cells.jsonl", "drift.jsonl", "facts", "groups.jsonl", "identities.jsonl", "identities.parquet",
        "persons.jsonl", "plan.json", "plan.lock", "rejects.jsonl", "requests", "requests.jsonl",
    ]  # fmt: skip


EARLIEST = """format: backcast.mapping/1
tool: shop
title: Shop
event: /name
distinct_id: /user
time: {from: /at}
received: {from: /got}
key: {of: /id, needs: /id, keep: earliest}
properties: {drop: [name, user, at, got, id]}
"""


def test_a_mapping_may_keep_the_copy_that_was_received_earliest(tmp_path: Path) -> None:
    """A copy without a receive time still loses."""
    (tmp_path / "shop.yaml").write_text(EARLIEST, encoding="utf-8")
    shared = {"name": "Seen", "user": "u-1", "at": "2023-09-23T00:00:00Z"}
    cases = (("01", "02", "one"), ("02", "01", "other"), ("02", None, "one"), (None, "02", "other"))
    rows = [
        shared | {"note": f"{number} {note}", "id": f"k{number}"} | ({"got": f"2023-09-23T00:00:{got}Z"} if got else {})
        for number, case in enumerate(cases)
        for note, got in zip(("one", "other"), case[:2], strict=True)
    ]
    source = write(tmp_path / "rows.jsonl", rows)
    plan, events = mapped_events(tmp_path / "plan", [source], mapping=str(tmp_path / "shop.yaml"))
    found = sorted(event["properties"]["note"] for event in events)
    assert found == [f"{number} {winner}" for number, (_, _, winner) in enumerate(cases)]
    assert plan.skips == {"superseded": 4}
