"""When memory runs out, a command ends with two lines that name the limit, whatever code ran into it first."""

from __future__ import annotations

import errno
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline import out_of_memory
from pipeline.cli import run
from pipeline.errors import MappingError, UnreadableExport, UsageError
from pipeline.options import PlanOptions

SHORTAGES: list[Callable[[], BaseException]] = [
    MemoryError,
    lambda: pa.ArrowMemoryError("malloc of size 64 failed"),
    lambda: OSError(errno.ENOMEM, "Cannot allocate memory"),
    lambda: RuntimeError("can't start new thread"),
    lambda: ImportError("libarrow.so: failed to map segment from shared object"),
    lambda: ValueError("[digital envelope routines] malloc failure"),
    lambda: RuntimeError("Out of Memory Error: Allocation failure"),
    lambda: RuntimeError("std::bad_alloc"),
]
FOLLOWING: list[Callable[[], Exception]] = [
    lambda: RuntimeError("cannot join thread before it is started"),
    lambda: UnreadableExport("t.parquet is not a whole Parquet file"),
    lambda: ValueError("the store cannot be opened"),
    lambda: KeyError("a"),
]
OTHERS: list[Callable[[], Exception]] = [
    lambda: OSError(errno.ENOSPC, "No space left on device"),
    lambda: RuntimeError("something else"),
    lambda: UsageError("the service answered: out of memory"),
    lambda: UnreadableExport("a file that is named out of memory"),
]


def _chained(last: BaseException, following: list[Exception], how: random.Random) -> BaseException:
    for error in following:
        if how.random() < 0.5:
            error.__cause__ = last
        error.__context__ = last
        error.__suppress_context__ = how.random() < 0.5
        last = error
    return last


@pytest.mark.parametrize("seed", range(20))
def test_a_shortage_is_found_behind_the_errors_that_followed_it(seed: int) -> None:
    how = random.Random(seed)
    for _ in range(20):
        first = how.choice(SHORTAGES)()
        others = [how.choice(FOLLOWING) for _ in range(how.randrange(4))]
        assert out_of_memory.shortage_of(_chained(first, [one() for one in others], how)) is first
        other = _chained(how.choice(OTHERS)(), [one() for one in others], how)
        assert out_of_memory.shortage_of(other) is None


def test_an_error_that_says_what_to_do_is_shown_unchanged() -> None:
    """A mapping that nests too deeply is a MemoryError of Python's parser."""
    error = MappingError("the mapping is too large to compile", file="shop.yaml")
    error.__context__ = MemoryError()
    assert out_of_memory.shortage_of(error) is None


def test_a_command_without_a_limit_says_that_the_system_gives_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(out_of_memory, "limit", lambda: None)
    monkeypatch.setattr("pipeline.cli.cli.main", _exhausted)
    assert run(["plan", str(tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "Error: out of memory: the system gives no more",
        "Try: free some memory, or use less: --workers 1; then run the same command again",
    ]


def _exhausted(*arguments: object, **named: object) -> None:
    raise MemoryError


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of a table in Parquet, and its export."""
    folder = tmp_path_factory.mktemp("export")
    count = 50_000
    columns = {
        "event": ["Seen"] * count,
        "distinct_id": [f"u-{number % 99}" for number in range(count)],
        "timestamp": [f"2023-01-02T03:04:{number % 60:02}Z" for number in range(count)],
        "text": [f"v{number}" for number in range(count)],
    }
    pq.write_table(pa.table(columns), folder / "t.parquet")
    settings = {name: name for name in ("event", "distinct_id", "timestamp")}
    pipeline.plan_export(folder / "t.parquet", folder / "plan", PlanOptions(mapping="generic", settings=settings))
    return folder


def limited(megabytes: int, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command with at most this much address space."""
    command = ["sh", "-c", f'ulimit -v {megabytes * 1024} && exec "$0" "$@"', sys.executable, "-P", "-m", "pipeline"]
    return subprocess.run([*command, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v limits address space on Linux")
@pytest.mark.parametrize("megabytes", [220, 260, 300, 500, 620, 750])
@pytest.mark.parametrize("command", ["plan", "survey", "rehearse"])
def test_a_command_under_a_limit_ends_well_or_names_the_limit(
    command: str, megabytes: int, export: Path, tmp_path: Path
) -> None:
    shutil.copytree(export / "plan", tmp_path / "plan")
    columns = [word for name in ("event", "distinct_id", "timestamp") for word in ("--set", f"{name}={name}")]
    words = {
        "plan": ["plan", export / "t.parquet", "-m", "generic", *columns, "-o", tmp_path / "new"],
        "survey": ["survey", export / "t.parquet"],
        "rehearse": ["rehearse", tmp_path / "plan"],
    }
    ended = limited(megabytes, *words[command])
    if ended.returncode:
        assert ended.returncode == 2, ended.stderr
        error, hint = [line for line in ended.stderr.splitlines() if line.startswith(("Error:", "Try:"))]
        assert (ended.returncode, "(ulimit -v)" in error, "ulimit -v" in hint) == (2, True, True), ended.stderr
