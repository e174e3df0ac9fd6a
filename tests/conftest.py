"""What the tests of several files are given."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from commands import Printed, calling
from deliveries import KEY

os.environ.pop("COLUMNS", None)  # xdist tells its workers a width, and tables would keep to it


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Printed]:
    """Run a command in this process, with a project key and no personal one."""
    monkeypatch.delenv("BACKCAST_PERSONAL_KEY", raising=False)
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", KEY)
    return calling(capfd, monkeypatch)
