"""Every sample by every way of reading it, and thousands of damaged containers: a few in the suite (3 minutes).

Each sample in a bucket, with its rows in another order, on two other machines and through code that changes nothing is
what its golden file says; no damaged container, footer or mutated row is lost or differs in silence.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extractors import test_damage, test_parquet
from tests.extractors.test_stores import same_in_a_bucket
from tests.golden.samples import GOLDEN
from tests.mapper.test_own_code import unchanged_by_code
from tests.native.test_differential import agree
from tests.support.stores import a_bucket
from tests.test_golden import UNTOUCHED, same_elsewhere, same_when_rewritten


@pytest.mark.parametrize("name", GOLDEN)
def test_every_sample_is_the_same_events_however_it_is_read(name: str, tmp_path: Path) -> None:
    """In a bucket, in another order of rows, and through code that changes nothing."""
    with a_bucket() as bucket:
        same_in_a_bucket(name, bucket)
    if name not in UNTOUCHED:
        same_when_rewritten(name, tmp_path / "rewritten")
    unchanged_by_code(name, tmp_path / "plan")


@pytest.mark.parametrize(
    "environment",
    [
        {"TZ": "Asia/Kolkata", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "5", "BACKCAST_NATIVE": "0"},
        {"TZ": "America/Los_Angeles", "LC_ALL": "C", "PYTHONHASHSEED": "6"},
    ],
)
def test_no_sample_depends_on_the_machine(environment: dict[str, str]) -> None:
    """With a compiler and without."""
    same_elsewhere(GOLDEN, **environment)


@pytest.mark.parametrize("seed", range(2, 6))
def test_no_damage_loses_a_row_in_silence(seed: int, tmp_path: Path) -> None:
    """More than ten thousand damaged containers, and a thousand footers of Parquet."""
    for name in test_damage.CONTAINERS:
        test_damage.check(name, tmp_path, seed, 130)
    for name in test_parquet.FILES:
        test_parquet.check(name, tmp_path / "a.parquet", seed, 300)


def test_native_and_python_agree_on_many_mutated_exports() -> None:
    """`make sanitize` tries 20,000 rows, and `make differential` 200,000."""
    agree(5_000, 2_000_000)
