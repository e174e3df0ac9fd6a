"""What the tests of preflight are given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.management_service import Asking, asking
from tests.support.preflight import thirty_events


@pytest.fixture
def ask() -> Iterator[Asking]:
    """A target with two projects and nothing in them."""
    with asking() as found:
        yield found


@pytest.fixture(scope="session")
def thirty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of 30 events and 7 merges."""
    return thirty_events(tmp_path_factory.mktemp("plan"))
