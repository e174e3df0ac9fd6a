"""A simulated year: 400 nightly runs of a job (`tests/jobs/test_run_year.py`); about two minutes on a quiet machine."""

from __future__ import annotations

from pathlib import Path

from tests.jobs.test_run_year import simulate


def test_after_a_year_the_target_has_the_union_once(tmp_path: Path) -> None:
    """The receipt proves it."""
    simulate(tmp_path, 400, 2024)
