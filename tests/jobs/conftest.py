"""Fixtures for the tests of jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.local_service import LocalService
from tests.support.jobs import KEYS
from tests.support.services import running


@pytest.fixture
def service() -> Iterator[LocalService]:
    """A target of jobs, still empty."""
    with running(KEYS) as found:
        yield found


@pytest.fixture(scope="module")
def one_service() -> Iterator[LocalService]:
    """A target for all examples of a property test: their ids differ."""
    with running(KEYS) as found:
        yield found
