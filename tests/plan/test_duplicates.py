"""Copies are found exactly and decided by what the rows say, never by where they stand, in constant memory."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.options import PlanOptions
from pipeline.plan.decisions import DECISION, Decisions, copies_of, rows_out
from pipeline.plan.duplicates import Decided, decide, decide_one
from pipeline.plan.key_records import KeyRecords
from pipeline.transform.event_keys import KEY, KEYLESS
from pipeline.transform.tasks import DuplicateDecision
from tests.support.sent_events import planned as mapped_events
from tests.support.tiny_tool import DAY, HOUR, THEN, Made, make_plan, planned, row, write


class Key(NamedTuple):
    """A key record in plain words. `content` is the digest of the event."""

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


def as_array(keys: list[Key]) -> Any:
    """One block's KEY records, as a worker gives them."""
    array = np.zeros(len(keys), KEY)
    for index, key in enumerate(keys):
        for name in ("hi", "lo", "received", "time", "block", "row", "position", "row_events"):
            array[name][index] = getattr(key, name)
        array["content_hi"][index] = key.content
        array["name"][index] = KEYLESS if key.keyless else 0
    return array[np.argsort(array["hi"], kind="stable")]


def naive(keys: list[Key], collapse: bool) -> dict[tuple[int, int, int], tuple[int, str]]:
    """What becomes of each copy: its ordinal, or the code of its skip. By place."""
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
    """Of each row with a source key whether it is of another day than the row that stands for its key."""
    for key in keys:
        same = [one for one in keys if (one.hi, one.lo) == (key.hi, key.lo) and not one.keyless]
        best = max(same, key=lambda one: (one.received, one.time, one.content), default=key)
        yield best.time // DAY != key.time // DAY


def _all_decided(records: KeyRecords, collapse: bool) -> Iterator[Decided]:
    for run in records.runs():
        if isinstance(run, Path):
            yield from decide_one(run, records.most, collapse=collapse, canonical=True)
        else:
            yield decide(run, collapse=collapse, canonical=True)


def decided_in(place: Path, keys: list[Key], *, collapse: bool, most: int) -> tuple[dict[Any, Any], list[Decided]]:
    """What the plan's own code decides, with room for `most` records at a time."""
    records = KeyRecords(place / "keys", most)
    for block in sorted({key.block for key in keys}):
        records.add(as_array([key for key in keys if key.block == block]))
    decisions = Decisions(place / "decisions", most, bucket_blocks=2)
    counts = list(_all_decided(records, collapse))
    for one in counts:
        decisions.add(one.decisions)
        on_disk = sum(path.stat().st_size for path in (place / "decisions").iterdir()) // DECISION.itemsize
        assert decisions.count - on_disk <= most
    found = {}
    for block, some in decisions.by_block():
        for copy in copies_of(some):
            assert (block, copy.row, copy.position) not in found
            found[block, copy.row, copy.position] = (copy.ordinal, copy.code)
    records.remove()
    assert not list(place.glob("keys*"))
    return found, counts


HALVES = st.sampled_from([0, 1, 2, 2**60, 2**63, 2**64 - 2, 2**64 - 1])
"""Halves of uuids that agree in many leading bits, in all of them, and at both ends."""


@st.composite
def key_lists(draw: st.DrawFn) -> list[Key]:
    """Some blocks of records, full of copies; whether a uuid has a source key is the same for all of its rows."""
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


@settings(max_examples=60)
@given(key_lists(), st.booleans(), st.sampled_from([1, 3, 1000]))
def test_copies_are_decided_as_a_naive_look_decides_them(
    tmp_path_factory: pytest.TempPathFactory, keys: list[Key], collapse: bool, most: int
) -> None:
    """However little fits in memory, and however alike the uuids are."""
    place = tmp_path_factory.mktemp("copies")
    found, counts = decided_in(place, keys, collapse=collapse, most=most)
    expected = naive(keys, collapse)
    assert found == expected
    left = [key.time for key in keys if not expected.get(key[6:9], (0, ""))[1]]
    some = [one for one in counts if one.events]
    assert sum(one.events for one in counts) == len(left)
    assert (min(one.first for one in some), max(one.last for one in some)) == (min(left), max(left))
    dropped = Counter[tuple[int, int, str]]()
    for one in counts:
        dropped.update(one.dropped)
    assert sum(one.clashes for one in counts) == sum(_clashes(keys))
    out = [(key, code) for key in keys if (code := expected.get(key[6:9], (0, ""))[1])]
    assert dropped == Counter((0, key.time // DAY, code) for key, code in out)


def test_more_rows_of_one_uuid_than_fit_are_numbered_through(tmp_path: Path) -> None:
    """A row that repeats a thousand times needs no more memory than one that does not."""
    keys = [Key(7, 7, 0, THEN, 0, True, number // 100, number % 100) for number in range(1000)]
    found, _ = decided_in(tmp_path, keys, collapse=False, most=64)
    assert sorted(ordinal for ordinal, _ in found.values()) == list(range(1, 1000))


def test_a_row_is_out_when_all_its_events_are_and_has_the_code_of_its_first(tmp_path: Path) -> None:
    """A row that loses only some of its events stays mapped, and is counted as such."""
    both = [Key(1, 1, 5, THEN, 0, False, 0, 0, 0, 2), Key(2, 2, 5, THEN, 0, False, 0, 0, 1, 2)]
    later = [Key(1, 1, 1, THEN, 1, False, 0, 1, 0, 2), Key(2, 2, 1, THEN, 0, False, 0, 1, 1, 2)]
    partly = [Key(1, 1, 1, THEN, 0, False, 0, 2, 0, 2), Key(3, 3, 0, THEN, 0, False, 0, 2, 1, 2)]
    records = KeyRecords(tmp_path / "keys")
    records.add(as_array([*both, *later, *partly]))
    decisions = Decisions(tmp_path / "decisions")
    for one in _all_decided(records, collapse=False):
        decisions.add(one.decisions)
    ((_, found),) = decisions.by_block()
    assert list(copies_of(found)) == [
        DuplicateDecision(1, 0, 0, "superseded"), DuplicateDecision(1, 1, 0, "duplicate_event"),
        DuplicateDecision(2, 0, 0, "duplicate_event"),
    ]  # fmt: skip
    assert rows_out(found) == (Counter({"superseded": 1}), 1)


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
    """Wherever the two stand."""
    ones = [row(key=f"k{number}", note=f"{number} one", **one) for number, (one, _, _) in enumerate(WINNERS)]
    others = [row(key=f"k{number}", note=f"{number} other", **other) for number, (_, other, _) in enumerate(WINNERS)]
    made = planned(tmp_path, *((others, ones) if turned else (ones, others)))
    assert sorted(map(str, notes(made))) == [f"{number} {winner}" for number, (_, _, winner) in enumerate(WINNERS)]
    assert made.plan.skips == {"superseded": len(WINNERS)}


def test_of_copies_equal_in_time_the_same_one_wins_whatever_their_order(tmp_path: Path) -> None:
    """The greatest content digest decides, which no order of files can change."""
    rows = [row(key="k", note=note) for note in "abcd"]
    winners = [notes(planned(tmp_path / str(turn), rows[turn:], rows[:turn])) for turn in range(1, 4)]
    assert len(winners[0]) == 1
    assert winners == [winners[0]] * 3
    example = planned(tmp_path / "named", rows).plan.examples["superseded"]
    assert "sent instead is row " in example.detail
    assert "the greater digest of the values decides" in example.detail


@pytest.mark.parametrize(("shown", "one", "other"), [(False, "•••", "•••"), (True, "first", "second")])
def test_what_differs_in_a_superseded_row_is_named(tmp_path: Path, shown: bool, one: str, other: str) -> None:
    """Each property with both values, masked unless they are asked for, and the time."""
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
"""By their rule: rows of files, the notes of what is sent, the skips and the warnings that the rule gives."""


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
    """Who knows that they are copies may say so; the event has the uuid of the first."""
    apart = planned(tmp_path / "apart", [row(), row()])
    made = planned(tmp_path / "one", [row(), row()], [row()], collapse_identical=True)
    assert [event["uuid"] for event in made.sent()] == [apart.sent()[0]["uuid"]]
    assert made.plan.skips == {"duplicate_event": 2}


def test_rows_without_a_key_that_differ_at_all_are_not_copies(tmp_path: Path) -> None:
    """A number's last digit is a difference; the order of members is none."""
    texts = [
        f'{{"event":"Seen","id":"u-1","at":{THEN},"a":1,"b":2}}',
        f'{{"event":"Seen","id":"u-1","at":{THEN},"b":2,"a":1}}',
        f'{{"event":"Seen","id":"u-1","at":{THEN},"a":1.0,"b":2}}',
    ]
    made = make_plan(tmp_path / "plan", [write(tmp_path / "a.jsonl", texts)], collapse_identical=True)
    assert (made.plan.events.made, made.plan.skips) == (2, {"duplicate_event": 1})


def test_first_and_last_are_of_the_events_that_remain(tmp_path: Path) -> None:
    """A superseded copy does not stretch the range."""
    rows = [row(key="k", at=THEN, got=1), row(key="k", at=THEN + DAY, got=2), row(key="l", at=THEN + 2 * DAY)]
    made = planned(tmp_path, rows)
    assert (made.plan.first, made.plan.last) == ("2023-09-24T00:00:00Z", "2023-09-25T00:00:00Z")


def test_the_table_of_copies_holds_nothing_but_copies_and_what_a_plan_spills_is_gone(tmp_path: Path) -> None:
    """The table stays small: (block, row, event of the row, ordinal, skip code) for each."""
    made = planned(tmp_path, [row(), row(key="k"), row(key="l")], [row(key="k"), row()])
    lines = [json.loads(line) for line in made.directory.copies.read_text().splitlines()]
    assert lines == [[1, 0, 0, 0, "duplicate_event"], [1, 1, 0, 1, ""]]

    assert sorted(path.name for path in made.directory.path.iterdir()) == [
        "blocks.jsonl", "cells.jsonl", "copies.jsonl", "drift.jsonl", "events.pack", "groups.jsonl", "identities.jsonl",
        "identities.parquet", "persons.jsonl", "plan.json", "plan.lock", "rejects.jsonl",
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
