"""Which planned events are the same as others at the target: each of these stands for one planned event."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.preflight.compare import RECORD, paired

KEYS = st.lists(st.integers(0, 6), max_size=30)


@given(KEYS, KEYS)
def test_each_other_event_stands_for_one_planned_event(planned: list[int], others: list[int]) -> None:
    """Of every key as many planned events as there are, and no more than there are others."""
    want, have = np.zeros(len(planned), RECORD), np.zeros(len(others), RECORD)
    want["key"], have["key"] = planned, others
    assert Counter(paired(want, have)["key"].tolist()) == Counter(planned) & Counter(others)
