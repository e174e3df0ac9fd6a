"""`plan --estimate` says from a sample how large an import is, how long it takes, and which limit is reached first."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.options import ApplyOptions, PlanOptions
from pipeline.plan import estimate
from pipeline.plan.estimate import Estimate, estimate_plan
from tests.support.commands import generic
from tests.support.deliveries import COLUMNS, export, row

OPTIONS = PlanOptions(mapping="generic", settings=COLUMNS, workers=2)


def uneven(folder: Path, files: int, *, packed: bool = False) -> tuple[Path, int]:
    """Files of 40 to 400 rows, and the number of all rows."""
    folder.mkdir()
    number = 0
    for file in range(files):
        rows = 40 + 360 * (file * 7 % files) // files
        text = "".join(json.dumps(row(number + one)) + "\n" for one in range(rows)).encode()
        number += rows
        name = f"part-{file:03d}.jsonl"
        (folder / (name + ".gz" if packed else name)).write_bytes(gzip.compress(text) if packed else text)
    return folder, number


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_sample_of_the_files_estimates_the_events_of_all(tmp_path: Path, packed: bool) -> None:
    """24 of 96 files, plain or compressed: within 3 % of the plan."""
    source, rows = uneven(tmp_path / "export", 96, packed=packed)
    found = estimate_plan([str(source)], OPTIONS)
    assert (found.files, found.sampled.files) == (96, 24)
    assert found.sampled.rows < rows / 2
    assert found.bytes == sum(path.stat().st_size for path in source.iterdir())
    assert found.rows == pytest.approx(rows, rel=0.03)
    assert found.events == pytest.approx(rows, rel=0.03)


def test_the_first_blocks_of_a_large_file_estimate_the_rest(tmp_path: Path) -> None:
    """In one file of several blocks two are read; the requests are as large as those of an apply."""
    source = tmp_path / "wide.jsonl"
    rows = (row(number) | {"text": "x" * (800 + number % 400)} for number in range(12_000))
    source.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    found = estimate_plan([str(source)], OPTIONS)
    assert found.sampled.rows < 9_000
    assert found.events == pytest.approx(12_000, rel=0.02)
    pipeline.plan_export(source, tmp_path / "plan", replace(OPTIONS, workers=0))
    asked = ApplyOptions(dry_run=True)
    outcome = pipeline.apply_plan(tmp_path / "plan", "http://127.0.0.1:1", asked)
    assert outcome.counts.would_send == 12_000
    assert found.requests == pytest.approx(outcome.counts.batches_made, rel=0.34)


def test_kinds_of_files_are_taken_for_themselves(tmp_path: Path) -> None:
    """Few large rows of one kind and many small ones of another: each has its own number of events per byte."""
    source = export(tmp_path / "export", 3_000, files=3)
    wide = "".join(json.dumps(row(9_000 + one) | {"text": "x" * 5_000}) + "\n" for one in range(100)).encode()
    (source / "wide.jsonl.gz").write_bytes(gzip.compress(wide, 0))
    found = estimate_plan([str(source)], OPTIONS)
    assert found.events == 3_100
    assert found.spread < 0.05


def limits(found: Estimate) -> list[str]:
    return [limit.name for limit in found.limits]


def test_the_limit_that_binds_first_is_named_first(tmp_path: Path) -> None:
    """A low rate is reached first; one that this machine cannot reach is not."""
    source = [str(export(tmp_path / "export", 2_000))]
    slow = estimate_plan(source, OPTIONS, rate=10)
    assert limits(slow) == ["rate", "cpu"]
    assert slow.apply_hours == pytest.approx(2_000 / 10 / 3_600, rel=0.01)
    fast = estimate_plan(source, OPTIONS, rate=10**9)
    assert limits(fast) == ["cpu", "rate"]
    assert limits(estimate_plan(source, OPTIONS)) == ["cpu"]


def test_the_time_for_the_sample_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is over, one file of each kind has been sampled nevertheless."""
    monkeypatch.setattr(estimate, "SECONDS", 0.0)
    source, rows = uneven(tmp_path / "export", 30)
    found = estimate_plan([str(source)], OPTIONS)
    assert found.sampled.files == 1
    assert found.events == pytest.approx(rows, rel=0.05)


def test_the_command_writes_nothing(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a directory nor a file; a person sees which limit is reached first, a program gets the numbers."""
    source = export(tmp_path / "export", 100)
    monkeypatch.chdir(tmp_path)
    shown = call("plan", source, *generic(), "--estimate", "--rate", "50")
    assert (shown.code, shown.out.splitlines()[0].endswith(" kB in 2 requests: 2.0 s to send.")) == (0, True)
    assert "Binds first: 50 events a second (--rate)." in shown.out
    shown = call("plan", source, *generic(), "--estimate")
    assert shown.out.splitlines()[0].endswith("kB in 2 requests: 0.1 s to send at 1,000 events a second.")
    assert "How fast the service takes events is not known; --rate EVENTS gives" in shown.out
    found = call("plan", source, *generic(), "--estimate", "--json").json
    assert (found["format"], found["events"], found["limits"][0]["name"]) == ("backcast.estimate/2", 100, "cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["export"], 2, "-o is missing"),
        (["export", "--rate", "5", "-o", "plan"], 2, "plan uses --rate only for an estimate"),
        (["-", "--estimate"], 2, "an estimate cannot sample standard input"),
        (["empty.jsonl", "--estimate"], 4, "no row of the sample became an event"),
    ],
)
def test_what_cannot_be_estimated_is_named(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, said: str
) -> None:
    """With what to do about it."""
    export(tmp_path / "export", 10)
    (tmp_path / "empty.jsonl").write_text('{"event": "", "distinct_id": "", "timestamp": "", "uuid": ""}\n')
    monkeypatch.chdir(tmp_path)
    done = call("plan", *words, *generic())
    assert (done.code, said in done.two_lines[0]) == (code, True), done.err
