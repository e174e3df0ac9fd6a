"""A bucket for plans, a plan in it, and a folder that stands for this machine's working copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline
from tests.support.deliveries import export
from tests.support.published import MACHINE, OPTIONS
from tests.support.stores import Bucket, a_bucket


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv(MACHINE, str(tmp_path / "machine"))
    with a_bucket() as bucket:
        yield bucket


@pytest.fixture
def url(bucket: Bucket, tmp_path: Path) -> str:
    """A plan of 20 events that was not sent."""
    pipeline.plan_export(export(tmp_path / "export", 20), f"{bucket.url}/june", OPTIONS)
    return f"{bucket.url}/june"
