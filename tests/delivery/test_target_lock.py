"""Only one run at a time uses a plan, and only one sends to a target."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.errors import Busy
from pipeline.options import ApplyOptions
from tests.support.deliveries import KEY, Asked, Reply, planned, serving


def test_a_second_run_asks_the_target_nothing(tmp_path: Path, call: Any) -> None:
    """Neither a second run of the same plan nor one of another plan for the same project; another project, or consent,
    lets it run."""
    one, other = planned(tmp_path / "one", 10), planned(tmp_path / "other", 10)
    begun, goes_on = threading.Event(), threading.Event()

    def answer(asked: Asked) -> Reply:
        if not begun.is_set():
            begun.set()
            assert goes_on.wait(60)
        return Reply()

    def apply(directory: Path, key: str = KEY, **asked: Any) -> Any:
        return pipeline.apply_plan(directory, server.url, ApplyOptions(**asked), project_key=key)

    with serving(answer, methods=("GET", "POST")) as server:
        first = threading.Thread(target=lambda: apply(one, max_concurrency=1))
        first.start()
        try:
            assert begun.wait(60)
            asked = len(server.asked)
            for directory, what in (
                (one, "this plan is in use by another run: process"),
                (other, rf"another run is sending to .* with the plan {one}"),
            ):
                said = call("apply", directory, "--to", server.url, "--yes")
                assert (said.code, len(server.asked)) == (2, asked)
                assert re.search(what, said.two_lines[0])
                assert str(os.getpid()) in said.two_lines[0]
                with pytest.raises(Busy, match=what):
                    apply(directory)
            assert apply(other, dry_run=True).counts.would_send == 10
            assert apply(planned(tmp_path / "third", 10), KEY + "_of_another").balanced
            assert apply(other, allow_beside=True).balanced
        finally:
            goes_on.set()
            first.join(60)
    assert apply_again(one, server.url)


def apply_again(directory: Path, url: str) -> bool:
    """After the run the lock is free: nothing is left to send."""
    return pipeline.apply_plan(directory, url, ApplyOptions(), project_key=KEY).balanced
