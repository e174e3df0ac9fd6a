"""What the tests of jobs are given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.local_service import LocalService
from tests.support.jobs import KEYS
from tests.support.services import running


@pytest.fixture
def service() -> Iterator[LocalService]:
    """A target of jobs, with nothing in it."""
    with running(KEYS) as found:
        yield found


@pytest.fixture(scope="module")
def one_service() -> Iterator[LocalService]:
    """A target for all examples of a property: their ids differ."""
    with running(KEYS) as found:
        yield found
