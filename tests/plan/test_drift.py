"""The drift of a plan: types, empty values, different values and days of each property, month by month, in a sample."""

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
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.api import plan_export
from pipeline.encoder.buffer import hash_events
from pipeline.options import PlanOptions
from pipeline.plan.sealed.directory import read_lines
from pipeline.plan.sealed.facts import SampleSize
from pipeline.plan.statistics.drift import Drift, DriftFacts, examine
from pipeline.plan.statistics.sample import EventSample, Some
from pipeline.plan.statistics.values import KINDS, MOST_DISTINCT, values_of
from pipeline.timestamps import DAY
from pipeline.transform.events import Events
from pipeline.transform.sample import LEAST_EVENTS, MOST_EVENTS, Sampler, Shares, most_events
from pipeline.transform.unsafe_integers import unsafe_of
from tests.golden.samples import AS_OF

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


def block_of(events: list[Event], run: int = 7) -> Events:
    """The events as those of a block, in runs of `run` events, each in a row of its own."""
    texts = [encoded(event) for event in events]
    names = list(dict.fromkeys(name for name, _, _ in events))
    sizes = np.array([len(text) for text in texts], np.int64)
    times = np.array([time for _, time, _ in events], np.int64)
    return Events(
        runs=[b"".join(text + b"," for text in texts[at : at + run]) for at in range(0, len(texts), run)],
        sizes=sizes,
        distinct_names=names,
        name_of=np.array([names.index(name) for name, _, _ in events], np.uint32),
        times=times,
        row_of=list(range(len(events))),
        hashes=hash_events(b"".join(text + b"," for text in texts), np.cumsum(sizes + 1), times),
    )


def examined(
    blocks: list[list[Event]], folder: Path, most: int = MOST_EVENTS, samplers: list[int] | None = None, **more: int
) -> tuple[Drift, DriftFacts, str]:
    """The drift of events in blocks; the process that `samplers` has for a block's number chose from it."""
    sample = EventSample(folder, most)
    processes = defaultdict(lambda: Sampler(most))
    for number, events in enumerate(blocks):
        sample.add(number, processes[samplers[number] if samplers else 0].choose(block_of(events)))
    found = examine(sample, folder / "drift.jsonl", **more)
    sample.close()
    return found


def test_every_value_is_counted_by_type_and_property() -> None:
    """Compared with counts of the values themselves, and without the properties that the import sets."""
    events = some_events(1, 3_000)
    days = [time // DAY for _, time, _ in events]
    found = values_of(Some([encoded(event) for event in events], list(range(len(events))), days))
    said: dict[str, list[tuple[int, int, Any]]] = defaultdict(list)
    for row, (_, time, properties) in enumerate(events):
        for name, value in properties.items():
            if (name, value) != ("$ip", "127.0.0.1"):
                said[name].append((row, time // DAY, value))
    assert found.keys() == said.keys()
    for key, one in found.items():
        rows: dict[str, list[int]] = defaultdict(list)
        for row, _, value in said[key]:
            rows[KIND_OF[json.dumps(value)]].append(row)
        counts, first = (dict(zip(KINDS, numbers, strict=True)) for numbers in (one.counts, one.places))
        assert {kind: count for kind, count in counts.items() if count} == {kind: len(rows[kind]) for kind in rows}
        assert {kind: row for kind, row in first.items() if row < 2**63} == {kind: rows[kind][0] for kind in rows}
        of_key = [day for _, day, _ in said[key]]
        assert (one.first, one.last) == (min(of_key), max(of_key))
        different = {
            msgspec.json.encode(value) for *_, value in said[key] if KIND_OF[json.dumps(value)] not in ("null", "blank")
        }
        assert one.hashes == tuple(sorted(map(xxhash.xxh32_intdigest, different))[:MOST_DISTINCT])
        lengths = [len(value) for *_, value in said[key] if isinstance(value, str) and len(value) >= 100]
        expected = (len(lengths), max(lengths), lengths.count(max(lengths))) if lengths else (0, 0, 0)
        assert one.long[:3] == expected


@given(seed=st.integers(0, 10**6), count=st.integers(0, 300), data=st.data())
@settings(max_examples=15)
def test_any_split_of_blocks_over_processes_gives_the_same(
    seed: int, count: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Blocks of any size, chosen from by any process, all events or a sample: the same drift and file."""
    events = some_events(seed, count)
    most = data.draw(st.sampled_from([10, 100, 10_000]))

    def of(blocks: list[list[Event]], samplers: list[int] | None) -> tuple[Drift, bytes]:
        folder = tmp_path_factory.mktemp("drift")
        return examined(blocks, folder, most, samplers)[0], (folder / "drift.jsonl").read_bytes()

    whole, lines = of([events], None)
    assert (whole.sample is msgspec.UNSET) == (count <= most or whole.events <= most)
    bounds = sorted({0, count, *data.draw(st.lists(st.integers(0, count), max_size=6))})
    blocks = data.draw(st.permutations([events[start:end] for start, end in pairwise(bounds)]))
    assert of(blocks, [data.draw(st.integers(0, 2)) for _ in blocks]) == (whole, lines)


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=60), st.integers(1, 20_000))
def test_a_sample_has_as_many_of_each_cell_as_fit(counts: list[int], most: int) -> None:
    """Small cells are whole, all others have the same number, and one more of each would be too many; events that a
    subset leaves out are not in the sample of all."""
    shares = Shares(most)
    cells = [("Viewed", month) for month in range(len(counts))]
    before = shares.bounds(shares.add(cells, [1] * len(counts)))
    after = shares.bounds(shares.add(cells, [count - 1 for count in counts]))
    assert (after <= before).all()
    of_cell = shares.of_cell
    assert of_cell <= 2_000
    sampled = sum(min(count, of_cell) for count in counts)
    assert sampled <= max(most, len(counts))
    assert of_cell == 2_000 or sum(min(count, of_cell + 1) for count in counts) > most
    assert [bound == 2**64 - 1 for bound in after.tolist()] == [count <= of_cell for count in counts]


def test_the_sample_grows_with_the_export() -> None:
    """Small exports have the minimum, large ones no more than the maximum."""
    assert [most_events(size) for size in (0, 10**10, 10**15)] == [LEAST_EVENTS, 200_000, MOST_EVENTS]
    assert most_events(10**9) == 10**9 // 16_384


def test_a_sample_estimates_the_whole_and_says_its_margin(tmp_path: Path) -> None:
    """Shares are within the margin, a rare event name is whole, and nothing is counted more often than it occurs."""
    chance = Random(5)
    days = [18_000, 18_040, 18_080]
    events: list[Event] = [
        ("Viewed", chance.choice(days) * DAY, {"page": f"/{at}", **({"paid": True} if chance.random() < 0.3 else {})})
        for at in range(30_000)
    ]
    events += [("Refunded", days[1] * DAY, {"price": "n/a", "once": 1})] * 3
    drift, facts, _ = examined([events[at : at + 5_000] for at in range(0, len(events), 5_000)], tmp_path, 1_503)
    assert isinstance(drift.sample, SampleSize)
    assert (drift.sample.of_month, drift.sample.margin) == (500, 4.4)
    assert 1_350 < drift.sample.events < 1_650
    assert facts.in_sample.startswith(" (in a sample of 1,")
    found = {(one.event, one.property): one for one in drift.properties}
    paid, price = found["Viewed", "paid"], found["Refunded", "price"]
    assert abs(paid.types["boolean"] / paid.events - 0.3) < 0.05
    assert paid.missing + paid.types["boolean"] == paid.events == 30_000
    assert not paid.exact
    assert len(paid.periods) == 1
    assert (price.events, price.types, price.exact) == (3, {"text": 3}, True)


@pytest.mark.parametrize("different", [MOST_DISTINCT - 1, MOST_DISTINCT, 5_000])
def test_few_different_values_are_exact_and_many_an_estimate(different: int, tmp_path: Path) -> None:
    """Below 64 the number is exact, above it is within a third, and never more than there are values."""
    events: list[Event] = [("Viewed", 18_000 * DAY, {"page": f"/p/{number % different}"}) for number in range(10_000)]
    summary = examined([events[:2_000]], tmp_path)[0].properties[0]
    expected = min(different, 2_000)
    assert summary.exact == (different < MOST_DISTINCT)
    assert summary.distinct <= summary.events
    if summary.exact:
        assert summary.distinct == different
    else:
        assert 2 / 3 * expected < summary.distinct < 4 / 3 * expected


def test_what_is_not_examined_is_counted_and_named(tmp_path: Path) -> None:
    """The properties with most events remain, those whose months are within the limit."""
    days = [18_000 * DAY, 18_040 * DAY]
    events: list[Event] = [
        ("Viewed", day, {"always": 1, "rare": 2} if at else {"always": 1}) for day in days for at in range(3)
    ]
    drift, facts, _ = examined([[*events, ("Viewed", days[0], {"once": "x"})]], tmp_path, most_months=4)
    assert [each.name for each in facts.properties] == ["always", "rare"]
    assert drift.left_out == msgspec.convert(
        {"properties": 1, "events": 1, "names": ["once of Viewed"]}, type(drift.left_out)
    )
    assert drift.events == 7
    assert {line["property"] for line in read_lines(tmp_path / "drift.jsonl", dict)} == {"always", "rare"}


def test_large_integers_are_found_in_every_event() -> None:
    """Compared with the kinds of the values themselves: in numbers, objects and lists, and never in strings and
    fractions."""
    odd = [1.23456789012345678, "9007199254740993", {"9007199254740993": "a,9007199254740993,b"}, 9007199254740992]
    odd += [9007199254740993, -9999999999999999, 10**40, [[9007199254740993]], {"a": 8999999999999999}, 1e40, 10**16]
    chance = Random(3)
    events = some_events(4, 2_000)
    events += [
        ("Odd", 0, {"x" * chance.randrange(1, 20): chance.choice(odd), "y": chance.choice(odd)}) for _ in range(500)
    ]
    expected: dict[tuple[str, str], tuple[int, int]] = {}
    large = Counter[tuple[str, str]]()
    for row, (event, _, properties) in enumerate(events):
        found = values_of(Some([encoded((event, 0, properties))], [0], [0]))
        for name, one in found.items():
            if any(count and "large" in kind for count, kind in zip(one.counts, KINDS, strict=True)):
                large[event, name] += 1
                expected.setdefault((event, name), (0, row))
    assert unsafe_of(block_of(events)) == {key: (large[key], row) for key, (_, row) in expected.items()}


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
    """Properties that the mapping drops are not in it; the months that differ are listed separately, and the lines have
    every month."""
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
