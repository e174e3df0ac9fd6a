"""Thousands of random exports, jobs, copies, clocks and values, judged by the models of tests/models (an hour).

A seed that differs is named; make it as small as it goes, and put it into the cases of the model's test. SOAK_SEED is
the first seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.models import test_calendar, test_instants, test_keys, test_people, test_target, test_values

FIRST = int(os.environ.get("SOAK_SEED", "0"))
AT_ONCE = 50
SEEDS: dict[str, tuple[Callable[[int], None], int]] = {
    "people": (test_people.check, 2_000),
    "target": (test_target.check, 1_000),
    "calendar": (test_calendar.check, 300),
    "keys": (test_keys.check, 1_000),
    "instants": (test_instants.check, 600),
    "values": (test_values.check, 1_000),
}
"""The kinds of seeds and how many are tried: a history of people, a session of the target, the nights of a job, a set
of copies, a month of a zone or some strings of times, twenty rows of values."""


@pytest.mark.parametrize(
    ("model", "first"), [(model, first) for model, (_, count) in SEEDS.items() for first in range(0, count, AT_ONCE)]
)
def test_no_seed_differs(model: str, first: int) -> None:
    check, count = SEEDS[model]
    differ = []
    for seed in range(FIRST + first, FIRST + min(first + AT_ONCE, count)):
        try:
            check(seed)
        except AssertionError as error:
            differ.append((seed, str(error)))
    assert not differ, differ
