"""Every crash point, one after another, in 25 minutes at most; `make test` tries one of each kind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from tests.delivery.test_files import bucket_content, content
from tests.delivery.test_files import whole as whole
from tests.preflight.conftest import ask as ask
from tests.preflight.conftest import here as here
from tests.preflight.test_pausing import killed_at_a_step
from tests.support.crashes import SCENES, Scene, copied, die_at_point, die_at_request, die_writing, points, write_files
from tests.support.management_service import Asking
from tests.support.stores import a_bucket

SECONDS = 1_500
"""How long all of it may take; at the end of the time it says how far it came."""


@cache
def until() -> float:
    """When that is, by the clock of `time.monotonic`: other tests may run before the first of these."""
    return time.monotonic() + SECONDS


def numbered(what: str, count: int) -> Iterator[int]:
    """The numbers below `count`, as long as time is left."""
    for number in range(count):
        if time.monotonic() > until():
            pytest.fail(f"{what}: only {number} of {count} crash points before the {SECONDS} seconds were over")
        yield number
    print(f"\n{what}: all {count} crash points")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_run_killed_at_every_step_is_finished_by_the_next(scene: Scene, tmp_path: Path) -> None:
    """Before and after each commit of the ledger, each request and each answer."""
    plan = scene.plan(tmp_path / "made")
    names = points(scene, plan, tmp_path / "whole")
    for number in numbered(f"{scene.name}, from within", len(names)):
        die_at_point(scene, plan, tmp_path / "run", number)
        rmtree(tmp_path / "run")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_run_killed_at_every_request_is_finished_by_the_next(scene: Scene, tmp_path: Path) -> None:
    """By SIGKILL from outside, before and after the service took the batch."""
    plan = scene.plan(tmp_path / "made")
    requests = scene.requests(points(scene, plan, tmp_path / "whole"))
    for number in numbered(f"{scene.name}, from outside", 2 * requests):
        die_at_request(scene, plan, tmp_path / "run", number // 2, after=number % 2 == 1)
        rmtree(tmp_path / "run")


def test_a_run_killed_at_every_step_of_writing_is_finished_by_the_next(
    whole: tuple[Path, Path], tmp_path: Path
) -> None:
    """To a folder and to a bucket: byte for byte the files of a run that was not killed."""
    plan, files = whole
    (tmp_path / "counted").mkdir()
    for number in numbered("files", len(write_files(copied(plan, tmp_path / "counted"), tmp_path / "out"))):
        assert content(die_writing(plan, tmp_path / f"file-{number}", number)) == content(files)
    with a_bucket() as bucket:
        names = write_files(copied(plan, tmp_path / "bucket"), tmp_path / "none", bucket=bucket.url)
        expected = bucket_content(bucket)
    for number in numbered("objects", len(names)):
        with a_bucket() as bucket:
            die_writing(plan, tmp_path / f"object-{number}", number, bucket.url)
            assert bucket_content(bucket) == expected, names[number]


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 6))
def test_functions_are_on_again_after_a_kill_at_any_step(
    ask: Asking, here: Any, tmp_path: Path, phase: str, nth: int
) -> None:
    """Before and after each change of a function, and each batch."""
    killed_at_a_step(ask, here, tmp_path, phase, nth)
