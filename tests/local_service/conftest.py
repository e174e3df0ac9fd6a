"""Local services that the tests of several files use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.local_service import LocalService
from pipeline.local_service.settings import Behaviour
from tests.support import capture_service, management_service, page_service
from tests.support.management_service import Asking


@pytest.fixture(scope="session")
def shared() -> LocalService:
    """A shared service that takes events."""
    return capture_service.shared()


@pytest.fixture
def service() -> Iterator[LocalService]:
    """An empty service that takes events."""
    with capture_service.make() as fresh:
        yield fresh


@pytest.fixture
def seeded() -> Iterator[LocalService]:
    """A service with hog functions and a recording, whose pages are read."""
    with page_service.make() as fresh:
        yield fresh


@pytest.fixture(scope="session")
def ask() -> Asking:
    """The shared management API, as its contract states it."""
    return management_service.shared()


@pytest.fixture(scope="session")
def observed() -> Asking:
    """The shared management API, as in the real service's source."""
    return management_service.shared("observed")


@pytest.fixture
def fresh() -> Iterator[Asking]:
    """A management API for one test."""
    with management_service.asking() as found:
        yield found


@pytest.fixture(scope="session", params=["contract", "observed"])
def either(request: pytest.FixtureRequest) -> Asking:
    """The shared management API, in each behaviour."""
    behaviour: Behaviour = request.param
    return management_service.shared(behaviour)


@pytest.fixture(scope="session")
def queried() -> Asking:
    """A shared service that has one event, in project 1, for queries."""
    return management_service.queried()
