"""The digests of planned files are computed during the walk, and the remaining work reports its progress."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pipeline.api import plan_export
from pipeline.extractors import open_source
from pipeline.options import PlanOptions
from pipeline.plan.sealed.digests import BackgroundDigests

MB = 1_000_000
COLUMNS = {name: name for name in ("event", "distinct_id", "timestamp")}
LINE = b'{"event":"x","distinct_id":"u","timestamp":"2023-01-01T00:00:00Z","n":%05d}\n'


def large(path: Path, first: int, rows: int = 150_000) -> Path:
    """A file of 11 MB; two of them have the same size and other bytes."""
    path.write_bytes(b"".join(LINE % ((first + number) % 100_000) for number in range(rows)))
    return path


def test_digests_that_are_waited_for_say_how_far_they_are(tmp_path: Path) -> None:
    """The MB read so far, ascending, of all of them."""
    source = open_source([str(large(tmp_path / "a.jsonl", 0))])
    steps: list[tuple[str, int, int]] = []
    with BackgroundDigests(source.parts) as digests:
        found = digests.of_unchanged(lambda *step: steps.append(step), every=0.001)
    content = (tmp_path / "a.jsonl").read_bytes()
    assert found == [hashlib.sha256(content).hexdigest()]
    done = [one for _, one, _ in steps]
    assert {(name, total) for name, _, total in steps} == {("MB for digests", len(content) // MB)}
    assert done == sorted(done)
    assert 0 < done[-1] <= len(content) // MB


def test_files_of_one_size_say_how_far_they_are_compared(tmp_path: Path) -> None:
    """Before the first row is read, since one may be a copy of the other; a plan passes the progress on."""
    small = [large(tmp_path / f"{name}.jsonl", first, 8_000) for name, first in (("a", 0), ("b", 1))]
    steps: list[Any] = []
    options = PlanOptions(mapping="generic", settings=COLUMNS, collapse_identical=True, workers=0)
    plan_export([str(file) for file in small], tmp_path / "plan", options, step=lambda *step: steps.append(step))
    total = sum(file.stat().st_size for file in small) // MB
    compared = [step for step in steps if step[0] == "MB of files of one size"]
    assert compared[-1] == ("MB of files of one size", total, total)
    assert [step[0] for step in steps if step not in compared][:2] == [
        "done; comparing events and ids", "done; running the checks",
    ]  # fmt: skip
