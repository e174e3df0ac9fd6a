"""A bucket to put plans in, and a folder that stands for this machine's working copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.published import MACHINE
from tests.support.stores import Bucket, a_bucket


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv(MACHINE, str(tmp_path / "machine"))
    with a_bucket() as bucket:
        yield bucket
