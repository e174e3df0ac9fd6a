"""Cells add up, in memory or spilled."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.plan.statistics.daily_counts import DailyCounts

CELLS = st.tuples(
    st.sampled_from(["Seen", "é", "", 'q"\n', "\u2028"]),
    st.integers(-2, 2),
    st.sampled_from(["mapped", "duplicate_event"]),
)


@given(st.lists(st.dictionaries(CELLS, st.integers(-3, 9), max_size=4), max_size=8), st.sampled_from([0, 2, 1000]))
def test_cells_add_up_whether_or_not_they_fit_in_memory(
    tmp_path_factory: pytest.TempPathFactory, added: list[dict[tuple[str, int, str], int]], most: int
) -> None:
    """Sorted, each once, and without those that came to nothing."""
    cells = DailyCounts(tmp_path_factory.mktemp("cells"), most)
    expected = Counter[tuple[str, int, str]]()
    for counts in added:
        cells.add(counts)
        for cell, count in counts.items():
            expected[cell] += count
    assert list(cells.items()) == sorted((cell, count) for cell, count in expected.items() if count)
