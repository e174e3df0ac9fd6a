"""Worker processes may be started before they get their configuration, and end silently."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pipeline.engines.local import Workers
from pipeline.errors import Unfinished
from pipeline.transform.block import observe_unit
from tests.support.clusters import end_process, work_for
from tests.support.commands import generic
from tests.support.crashes import spawned
from tests.support.deliveries import export


@pytest.mark.parametrize("count", [0, 2])
def test_workers_that_are_configured_later_make_the_same(tmp_path: Path, count: int) -> None:
    """The result is that of workers configured at their start; one engine inside another ends the processes of both."""
    config, units = work_for(tmp_path, files=5)
    assert config.staging is not None
    with Workers(count, config) as workers:
        found = list(workers.map(observe_unit, units))
    first = {file.name: file.read_bytes() for file in config.staging.rglob("*.p*")}
    for file in (config.staging / "units").iterdir():  # what is whole is not made again
        file.unlink()
    with Workers(count) as outer:
        with outer as workers:
            workers.configure(config)
            assert list(workers.map(observe_unit, units)) == found
        assert spawned(os.getpid()) == []
    assert found == [(unit, 1) for unit in units]
    assert {file.name: file.read_bytes() for file in config.staging.rglob("*.p*")} == first
    assert len(first) == 2 * 5


@pytest.mark.parametrize(("function", "code"), [(observe_unit, -9), (end_process, 1)])
def test_a_worker_that_died_ends_the_run(function: Callable[..., Any], code: int, tmp_path: Path) -> None:
    """Before it got its configuration, or during its work."""
    config, units = work_for(tmp_path, files=1)
    with Workers(1) as workers:
        while not (found := spawned(os.getpid())):
            continue
        if function is observe_unit:
            (child,) = found
            os.kill(child, signal.SIGKILL)
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        workers.configure(config)
        with pytest.raises(Unfinished, match=rf"a worker process ended by itself \(exit {code}\)"):
            list(workers.map(function, units))


def test_an_interrupt_of_the_whole_group_is_the_parent_s_to_answer(tmp_path: Path) -> None:
    """Ctrl-C reaches every process of a terminal: workers, just started or at work, leave it to their parent."""
    source = export(tmp_path / "export", 4_000, files=40)
    command = [sys.executable, "-m", "pipeline", "plan", str(source), *generic(), "-o", str(tmp_path / "plan")]
    planning = subprocess.Popen([*command, "--workers", "2", "--quiet"], stderr=subprocess.PIPE, text=True)
    interrupted = 0
    while planning.poll() is None:
        for child in spawned(planning.pid):
            with suppress(ProcessLookupError):  # it has ended
                os.kill(child, signal.SIGINT)
                interrupted += 1
    assert (planning.communicate()[1], planning.returncode) == ("", 0)
    assert interrupted
