"""Fixtures that several test files use."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support.browser import Browser, Tab, browsing, chromium
from tests.support.commands import Printed, calling
from tests.support.deliveries import KEY
from tests.support.required import require

# A busy machine makes a single example slow, which is not a fault of the code.
hypothesis.settings.register_profile("backcast", deadline=None)
hypothesis.settings.load_profile("backcast")
os.environ.pop("COLUMNS", None)  # xdist gives its workers a width, and tables would be folded to it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs like this, and then no process that is started here receives Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["XDG_STATE_HOME"] = str(Path(__file__).parent.parent / ".pytest_cache" / "state")
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # The tests start hundreds of processes, and each would compile the whole package again: a quarter of their time.
    os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parent.parent / ".pytest_cache" / "bytecode")


def pytest_xdist_auto_num_workers() -> int:
    """Two processes per core: half of the tests' time is waiting for answers, locks and disks."""
    return min(8, 2 * (os.cpu_count() or 1))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that wait longest, clusters and pages, so that none of them runs alone at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/engines", "tests/docs")))


def pytest_collection_finish() -> None:
    """Hide the thousands of tests from the garbage collector, which spends a sixth of the time looking at them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the remaining objects be freed in order; libraries in C++ complain at length otherwise."""
    gc.unfreeze()


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Printed]:
    """Run a command in this process, with a project key and no personal one."""
    monkeypatch.delenv("BACKCAST_PERSONAL_KEY", raising=False)
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", KEY)
    return calling(capfd, monkeypatch)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A running Chromium, one for all tests of a process."""
    program = chromium()
    require(program, "there is no Chromium on this machine")
    assert program is not None
    with browsing(program, tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def tab(browser: Browser) -> Tab:
    """A new page of the browser."""
    return browser.tab()
