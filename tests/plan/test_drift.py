"""The drift of a plan: types, empty values, different values and days of each property, month by month."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.api import plan_export
from pipeline.native import AVAILABLE, native
from pipeline.options import PlanOptions
from pipeline.plan.sealed.directory import read_lines
from pipeline.plan.statistics.drift import Drift, DriftCollector
from pipeline.timestamps import DAY
from pipeline.transform.drift import KINDS, MOST_DISTINCT, DriftCounts, Packed, Taken, entries_of, merged, unpacked
from tests.golden.samples import AS_OF

COUNTERS: list[Any] = [DriftCounts, *([native.Drift] if AVAILABLE else [])]
VALUES: dict[str, list[Any]] = {
    "null": [None], "blank": ["", "  "], "boolean": [True, False], "integer": [0, -7, 2**53], "decimal": [1.5, 1e300],
    "large integer": [2**53 + 1, -(2**53) - 1, 10**30], "numeric text": ["12", "-1.5", "0.5"],
    "object": [{}, {"a": ["}", '"']}, {"a": 2**53, '"9007199254740993': "9007199254740993", "b": 1e300}],
    "list": [[], [1, {"b": "]"}], ["\\", "1" * 30, -(2**53)]],
    "object with large integer": [{"a": [{"b": 2**53 + 1}]}, {"a": "\\", "b": -(10**20)}],
    "rounded number": ["1.60946E+12", "-9,91e+15", "1E+15"],
    "amount with comma": ["49,90", "-1.234,50", "1 234 567,00", "1234,50", "0,00"],
    "list with large integer": [[1, -(2**53) - 1], [{"a": 10**16}]],
    "text": ["1.25E+02", "1.E+15", "12.5E+15", "+1E+15", "E+15", "1-5E+15", "1.5F+15",
             "1,5", "1.23,50", "01,50", ",50", "-,50", "1.2345,50", "1,234", "12,345,50", "1234.567,50",
             " a", "Kraków", "012", "1.", "1e5", "-", 'a "quote" and a \\', "127.0.0.1", "x" * 99, "x" * 100,
             "é😀\\" * 40, "\n" * 120],
}  # fmt: skip
KIND_OF = {json.dumps(value): kind for kind, values in VALUES.items() for value in values}
NAMES = ["plan", "ü x", 'quo"te', "$ip", "city", "", "n" * 50]
Event = tuple[str, int, dict[str, Any]]
"""Its name, its time in µs, its properties."""


def encoded(event: Event) -> bytes:
    """An event as it is sent."""
    name, _, properties = event
    own = {"distinct_id": 'a "person" \\'}
    imported = {"$geoip_disable": True, "historical_migration": True, "analytics_source": "shop"}
    return msgspec.json.encode({"event": name, "properties": own | properties | imported, "timestamp": "t"})


def counted(counter: Any, events: list[Event], place: int = 0, run: int = 7) -> None:
    """Count the events as one block, in runs of so many."""
    texts = [encoded(event) for event in events]
    names = list(dict.fromkeys(name for name, _, _ in events))
    counter.add(
        [b"".join(text + b"," for text in texts[at : at + run]) for at in range(0, len(texts), run)],
        np.array([len(text) for text in texts], np.int64).tobytes(),
        names,
        np.array([names.index(name) for name, _, _ in events], np.uint32).tobytes(),
        np.array([time for _, time, _ in events], np.int64).tobytes(),
        list(range(len(events))),
        place,
    )


def some_events(seed: int, count: int) -> list[Event]:
    """Events of all kinds of values, over four months and one day before 1970."""
    chance = Random(seed)
    days, values = [-1, *range(18_000, 18_120)], [value for some in VALUES.values() for value in some]
    return [
        (
            chance.choice(["Viewed", "Bought", "Äh 灯"]),
            chance.choice(days) * DAY + chance.randrange(DAY),
            {name: chance.choice(values) for name in chance.sample(NAMES, chance.randrange(len(NAMES)))},
        )
        for _ in range(count)
    ]


def story(taken: list[Taken]) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int, str], Packed]]:
    """The events by name and month, and the entries, in no order."""
    events: Counter[tuple[str, int]] = Counter()
    entries: dict[tuple[str, int, str], Packed] = {}
    for event, month, count, _ in taken:
        events[event, month] += count
    for event, month, name, packed in entries_of(taken):
        key = event, month, name
        entries[key] = merged(entries[key], packed) if key in entries else packed
    return dict(events), entries


@pytest.mark.parametrize("counter", COUNTERS)
def test_every_value_is_counted_by_type_month_and_property(counter: Any) -> None:
    """Against counts of the values themselves, and without what the import sets by itself."""
    events = some_events(1, 3_000)
    one = counter()
    counted(one, events)
    assert one.events == 3_000
    series, entries = story(one.take())
    months = [str(np.datetime64(time // DAY, "D").astype("datetime64[M]")) for _, time, _ in events]
    assert Counter(series.values()).total() == len(set(zip((name for name, _, _ in events), months, strict=True)))
    said: dict[tuple[str, str, str], list[tuple[int, int, Any]]] = defaultdict(list)
    for row, ((event, time, properties), month) in enumerate(zip(events, months, strict=True)):
        for name, value in properties.items():
            if (name, value) != ("$ip", "127.0.0.1"):
                said[event, month, name].append((row, time // DAY, value))
    found = {
        (event, str(np.datetime64(month, "M")), name): unpacked(one) for (event, month, name), one in entries.items()
    }
    assert found.keys() == said.keys()
    for key, one_ in found.items():
        rows: dict[str, list[int]] = defaultdict(list)
        for row, _, value in said[key]:
            rows[KIND_OF[json.dumps(value)]].append(row)
        counts, first = (dict(zip(KINDS, numbers, strict=True)) for numbers in (one_.counts, one_.places))
        assert {kind: count for kind, count in counts.items() if count} == {kind: len(rows[kind]) for kind in rows}
        assert {kind: row for kind, row in first.items() if row < 2**63} == {kind: rows[kind][0] for kind in rows}
        days = [day for _, day, _ in said[key]]
        assert (one_.first, one_.last) == (min(days), max(days))
        different = {json.dumps(value) for *_, value in said[key]}
        assert len(one_.hashes) == sum(KIND_OF[value] not in ("null", "blank") for value in different)
        lengths = [len(value) for *_, value in said[key] if isinstance(value, str) and len(value) >= 100]
        expected = (len(lengths), max(lengths), lengths.count(max(lengths))) if lengths else (0, 0, 0)
        assert one_.long[:3] == expected


@pytest.mark.skipif(not AVAILABLE, reason="the native part is not built")
@settings(max_examples=25)
@given(
    st.lists(st.lists(st.sampled_from([*'"\\\nu', "é", "灯", "😀", "a", '{"', "x" * 9]), min_size=50, max_size=110)),
    st.booleans(),
)
def test_the_end_and_the_length_of_a_text_are_found_whatever_is_in_it(pieces: list[list[str]], escape: bool) -> None:
    """Quotes, backslashes and codes anywhere, about the length from which a text is long."""
    texts = ["".join(text) for text in pieces]
    texts += [
        f"{'x' * length}{piece}abc" for length in range(90, 110) for piece in ("\n", '"', "\\", "é", "😀", "\n\\")
    ]
    values = [json.dumps(text, ensure_ascii=escape).encode() for text in texts]
    events: list[Event] = [("Viewed", 0, {"note": msgspec.Raw(value), "next": 1}) for value in values]
    taken = []
    for counter in (DriftCounts(), native.Drift()):
        counted(counter, events)
        taken.append(story(counter.take()))
    assert taken[0] == taken[1]


@given(seed=st.integers(0, 10**6), count=st.integers(0, 300), data=st.data())
@settings(max_examples=15)
def test_any_split_and_order_of_blocks_gives_the_same(
    seed: int, count: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Blocks of any size, over workers of either kind, taken at any time, spilled or not: the same drift and file."""
    events = some_events(seed, count)
    whole = COUNTERS[0]()
    for place, event in enumerate(events):
        counted(whole, [event], place)
    expected = finished([whole.take()], tmp_path_factory.mktemp("whole"), most=10_000)
    bounds = sorted({0, count, *data.draw(st.lists(st.integers(0, count), max_size=6))})
    workers = [COUNTERS[number % len(COUNTERS)]() for number in range(3)]
    taken = []
    for start, end in data.draw(st.permutations(list(pairwise(bounds)))):
        worker = data.draw(st.sampled_from(workers))
        counted(worker, events[start:end], start)
        if data.draw(st.booleans()):
            taken.append(worker.take())
    taken += [worker.take() for worker in workers]
    assert finished(taken, tmp_path_factory.mktemp("split"), most=5) == expected


def finished(taken: list[list[Taken]], folder: Path, most: int) -> tuple[Drift, str]:
    """The drift of what was taken, and the digest of its file."""
    collector = DriftCollector(folder, most)
    for one in taken:
        collector.add(one)
    drift, _, digest = collector.finish(folder / "drift.jsonl")
    return drift, digest


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("different", [MOST_DISTINCT - 1, MOST_DISTINCT, 5_000])
def test_few_different_values_are_exact_and_many_an_estimate(counter: Any, different: int, tmp_path: Path) -> None:
    """Below 64 the number is exact, above it is within a third of it."""
    one = counter()
    counted(one, [("Viewed", 18_000 * DAY, {"page": f"/p/{number % different}"}) for number in range(10_000)])
    summary = finished([one.take()], tmp_path, 100)[0].properties[0]
    assert summary.exact == (different < MOST_DISTINCT)
    if summary.exact:
        assert summary.distinct == different
    else:
        assert 2 / 3 * different < summary.distinct < 4 / 3 * different


def test_an_estimate_is_never_more_than_there_are_values(tmp_path: Path) -> None:
    """Where every value is different, an estimate may be too low, and is never too high."""
    one = COUNTERS[-1]()
    counted(one, [(f"Of {most}", 18_000 * DAY, {"id": str(at)}) for most in range(100, 400, 50) for at in range(most)])
    events = finished([one.take()], tmp_path, 100)[0].properties
    assert len(events) == 6
    assert all(summary.distinct <= summary.events for summary in events)


def test_what_is_not_examined_is_counted_and_named(tmp_path: Path) -> None:
    """The properties with most events remain, whose months are within the limit."""
    one = COUNTERS[-1]()
    days = [18_000 * DAY, 18_040 * DAY]
    counted(
        one, [("Viewed", day, {"always": 1, "rare": 2} if at else {"always": 1}) for day in days for at in range(3)]
    )
    counted(one, [("Viewed", days[0], {"once": "x"})])
    collector = DriftCollector(tmp_path)
    collector.add(one.take())
    drift, facts, _ = collector.finish(tmp_path / "drift.jsonl", most=4)
    assert [each.name for each in facts.properties] == ["always", "rare"]
    assert drift.left_out == msgspec.convert(
        {"properties": 1, "events": 1, "names": ["once of Viewed"]}, type(drift.left_out)
    )
    assert drift.events == 7
    assert {line["property"] for line in read_lines(tmp_path / "drift.jsonl", dict)} == {"always", "rare"}


SHOP = """\
format: backcast.mapping/1
tool: shop
title: Shop
event: name
distinct_id: [user]
time: {from: at}
properties: {drop: [secret]}
"""


def test_a_plan_has_the_drift_of_what_it_sends(tmp_path: Path) -> None:
    """What the mapping drops is not in it; the months that differ stand apart, and the lines have every month."""
    rows = [
        {
            "name": "Bought",
            "user": f"u-{number}",
            "at": f"2023-{month:02}-{number % 28 + 1:02}T10:00:00Z",
            "secret": "s",
            "price": number / 4 if month < 3 else f"{number / 4}",
            **({"city": None if number % 2 else "Łódź"} if month > 1 else {}),
        }
        for month in (1, 2, 3, 4)
        for number in range(40)
    ]
    export, mapping = tmp_path / "rows.jsonl", tmp_path / "shop.yaml"
    export.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mapping.write_text(SHOP)
    plan = plan_export([str(export)], tmp_path / "plan", PlanOptions(mapping=mapping, as_of=AS_OF))
    drift = plan.drift
    assert isinstance(drift, Drift)
    assert drift.events == 160
    found = {one.property: one for one in drift.properties}
    assert found.keys() == {"price", "city", "name", "user", "at"}
    price, city = found["price"], found["city"]
    assert price.types == {"numeric text": 80, "decimal": 80}
    assert [(one.month, one.until, one.types) for one in price.periods] == [
        ("2023-01", "2023-02", ["number"]), ("2023-03", "2023-04", ["number as text"]),
    ]  # fmt: skip
    assert (city.events, city.missing, city.null, city.blank, city.distinct, city.exact) == (120, 0, 60, 0, 1, True)
    assert (city.first, city.last) == ("2023-02-01", "2023-04-28")
    lines = [line for line in read_lines(tmp_path / "plan" / "drift.jsonl", dict) if line["property"] == "city"]
    assert [(line["month"], line["events"], line["null"], line["types"]) for line in lines] == [
        (month, 40, 20, {"text": 20}) for month in ("2023-02", "2023-03", "2023-04")
    ]


def test_text_that_is_no_event_is_refused() -> None:
    """The C part reads no byte behind it."""
    if not AVAILABLE:
        pytest.skip("there is no C part")
    event = encoded(("Viewed", 0, {"plan": "pro", "list": [1, 2], "big": {"a": "b"}}))
    for end in range(len(event) - len(b',"timestamp":"t"}')):
        with pytest.raises(ValueError, match="expected"):
            native.Drift().add(
                [event[:end] + b","], np.array([end], np.int64).tobytes(), ["Viewed"], bytes(4), bytes(8), [0], 0
            )
