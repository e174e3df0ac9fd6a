"""Ids with more events than the service processes in a minute are found exactly, in bounded memory, and reported."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.identity.database import Database
from pipeline.identity.event_ids import EVENTS_PER_MINUTE, HotId, hot_ids
from pipeline.identity.kinds import PLACE_SHIFT
from pipeline.options import PlanOptions
from tests.support.identity_pairs import SeenId
from tests.support.stated import add_seen
from tests.support.tiny_tool import write


def seen(*ids: tuple[int, int]) -> list[SeenId]:
    """The given number of events of each id, spread over blocks of 1,000."""
    made: list[SeenId] = []
    for one, count in ids:
        numbers = range(len(made), len(made) + count)
        made += [SeenId(one, place=(number // 1000 << PLACE_SHIFT) + number % 1000) for number in numbers]
    return made


def hot(ids: list[SeenId]) -> list[HotId]:
    with TemporaryDirectory() as folder, Database(Path(folder)) as database:
        add_seen(database, ids)
        return hot_ids(database)


def test_the_limit_itself_is_not_above_it() -> None:
    """5,000 events of one id are within the limit; one more is not, and takes as many minutes as its events are times
    the limit, rounded up. Many ids whose hashes begin alike, each below the limit, do not count as one hot id."""
    assert hot(seen((7, EVENTS_PER_MINUTE))) == []
    assert hot(seen((7, EVENTS_PER_MINUTE + 1))) == [HotId(7, EVENTS_PER_MINUTE + 1, 0)]
    assert [HotId(7, events, 0).minutes for events in (5_001, 10_000, 10_000_000)] == [2, 2, 2_000]
    alike = [(7 + number, 900) for number in range(20)]
    assert hot(seen(*alike)) == []
    assert hot(seen(*alike, (99, 6000))) == [HotId(99, 6000, 18 << PLACE_SHIFT)]


@settings(max_examples=12)
@given(counts=st.lists(st.integers(1, 12_000), max_size=6), seed=st.integers(0, 9))
def test_order_changes_nothing(counts: list[int], seed: int) -> None:
    """However the events are shuffled, the same ids are found."""
    whole = seen(*((number << 40, count) for number, count in enumerate(counts)))
    shuffled = random.Random(seed).sample(whole, len(whole))
    found = hot(shuffled)
    above = [count for count in counts if count > EVENTS_PER_MINUTE]
    assert [one.events for one in found] == sorted(above, reverse=True)
    assert found == hot(whole)


@pytest.mark.parametrize("limit", [EVENTS_PER_MINUTE, EVENTS_PER_MINUTE + 1])
def test_a_plan_warns_of_a_hot_id_and_says_where(tmp_path: Path, limit: int) -> None:
    """The warning counts ids; its example names the first row of the busiest id and how long it takes."""
    rows = []
    for second, name in enumerate(["quiet"] * 3 + ["busy"] * limit + ["quiet"] * 10, 1):
        time = f"2021-01-{1 + second // 3600:02d}T03:{second // 60 % 60:02d}:{second % 60:02d}Z"
        rows.append({"event": "Step", "distinct_id": name, "timestamp": time})
    source = write(tmp_path / "export.jsonl", rows)
    options = PlanOptions(mapping="generic", workers=0, settings={name: name for name in rows[0]})
    plan = pipeline.plan_export(source, tmp_path / "plan", options)
    if limit == EVENTS_PER_MINUTE:
        assert "hot_distinct_id" not in plan.warnings
        return
    assert plan.warnings["hot_distinct_id"] == 1
    example = plan.examples["hot_distinct_id"]
    assert (example.part, example.row) == ("export.jsonl", 4)
    assert example.detail == "5,001 of 5,014 events have the same id; sending them takes at least 2 minutes"
    assert plan.ready
