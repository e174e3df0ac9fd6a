"""Daily counts add up, in memory or on disk."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.plan.statistics.daily_counts import DailyCounts
from pipeline.plan.statistics.spilling_counts import SpillingCounts
from pipeline.timestamps import DAY
from tests.support.fact_rows import fact_tables

NAMES = st.sampled_from(["Seen", "é", "", 'q"\n', "\u2028"])
CELLS = st.tuples(NAMES, st.integers(0, 2), st.sampled_from(["bad_value", "too_old"]))


@settings(max_examples=25)
@given(
    st.lists(st.tuples(NAMES, st.integers(0, 3 * DAY)), max_size=8),
    st.lists(st.dictionaries(CELLS, st.integers(1, 9), max_size=4), max_size=8),
    st.sampled_from([0, 2, 1000]),
)
def test_daily_counts_add_up_whether_or_not_they_fit_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[str, int]],
    others: list[dict[tuple[str, int, str], int]],
    most: int,
) -> None:
    """Sorted, each once: events that are sent, skips and rejects."""
    place = tmp_path_factory.mktemp("cells")
    cells, expected = SpillingCounts(place / "cells.jsonl", most), Counter[tuple[str, int, str]]()
    for counts in others:
        cells.add(counts)
        expected.update(counts)
    facts = [{"name": name, "time": time, "row": row, "hi": row, "lo": 0} for row, (name, time) in enumerate(events)]
    expected.update((name, time // DAY, "mapped") for name, time in events)
    with fact_tables(place, facts) as tables:
        daily = DailyCounts(tables, cells)
        assert list(daily.cells()) == sorted((*cell, count) for cell, count in expected.items())
        times = [time for _, time in events]
        assert (daily.events, daily.first, daily.last) == (
            len(events), min(times, default=None), max(times, default=None)
        )  # fmt: skip
        assert sum(daily.quarters()[1].tolist()) == len(events)
