"""Fixtures for the tests of preflight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.commands import Printed
from tests.support.deliveries import planned
from tests.support.management_service import ALL, Asking, asking
from tests.support.preflight import A


@pytest.fixture
def here(call: Callable[..., Printed], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Printed]:
    """Run a command with the keys of project 1."""
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", A)
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", ALL)
    return call


@pytest.fixture
def ask() -> Iterator[Asking]:
    """An empty target with two projects."""
    with asking() as found:
        yield found


@pytest.fixture(scope="session")
def thirty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of 30 events, 10 each of Step 0, 1 and 2, of the first of January to March 2023, and 7 merges."""
    return planned(tmp_path_factory.mktemp("plan"), 30, links=True)
