"""A plan that was stopped reuses the finished blocks, and becomes the plan that it would have been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.transform.staged import unstage
from tests.support.commands import generic, in_process
from tests.support.deliveries import export

GOES_ON = "Resuming a plan of the same export that was stopped: "


def words_for(source: Path, *more: object) -> list[str]:
    return ["plan", str(source), *generic(), "-o", str(source.with_name("plan")), *map(str, more)]


def digest_of(source: Path) -> Any:
    return json.loads((source.with_name("plan") / "plan.json").read_bytes())["digest"]


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """An export, whose plan was killed when at least its first four blocks were finished."""
    source = export(tmp_path / "export", 4_000, files=200)
    words = [sys.executable, "-m", "pipeline", *words_for(source, "--workers", 1, "--quiet")]
    staged = tmp_path / "plan" / "unfinished-plan" / "scratch" / "staged"
    with subprocess.Popen(words) as planning:
        while not all((staged / "units" / f"{number:08d}").exists() for number in range(4)):
            assert planning.poll() is None
            time.sleep(0.005)
        planning.send_signal(signal.SIGKILL)
    return source


def test_a_killed_plan_goes_on_to_the_same_digest(stopped: Path) -> None:
    """Any damaged file is made again; another clock changes nothing."""
    staged = stopped.with_name("plan") / "unfinished-plan" / "scratch" / "staged"
    instant = json.loads((staged / "begun.json").read_bytes())["as_of"]
    assert not (stopped.with_name("plan") / "plan.json").exists()
    os.truncate(staged / "events" / "00000000.pack", 1)
    block = staged / "events" / "00000003.pack"
    block.write_bytes(flipped(block.read_bytes(), 100))
    (staged / "facts" / "00000001.parquet").unlink()
    (staged / "units" / "00000002").write_bytes(b"")
    done = in_process(*words_for(stopped, "--workers", 0))
    assert done.returncode == 0
    assert GOES_ON in done.stderr
    found = digest_of(stopped)
    assert not (stopped.with_name("plan") / "unfinished-plan").exists()
    again = in_process(*words_for(stopped, "--workers", 0, "--as-of", instant_of(instant)))
    assert (again.returncode, digest_of(stopped), GOES_ON in again.stderr) == (0, found, False)


def test_damage_of_a_block_is_found_when_it_is_read(stopped: Path) -> None:
    """Not only in the bytes of events, for which the plan has a digest: also in where they come from."""
    staged = stopped.with_name("plan") / "unfinished-plan" / "scratch" / "staged"
    block = (staged / "events" / "00000003.pack").read_bytes()
    assert unstage(block).count == 20
    for at in range(8, len(block)):
        with pytest.raises(ValueError, match="a block of events is damaged"):
            unstage(flipped(block, at))


@pytest.mark.parametrize("changed", ["option", "export"])
def test_another_plan_begins_anew(changed: str, stopped: Path) -> None:
    """With another option, or when a file has changed."""
    more = ["--since", "2020-01-01"] if changed == "option" else []
    if changed == "export":
        os.utime(stopped / "part-0.jsonl", (1_700_000_000, 1_700_000_000))
    done = in_process(*words_for(stopped, "--workers", 0, *more))
    assert (done.returncode, GOES_ON in done.stderr) == (0, False)
    assert not (stopped.with_name("plan") / "unfinished-plan").exists()


def flipped(content: bytes, at: int) -> bytes:
    """With another bit in one byte."""
    return bytes([*content[:at], content[at] ^ 1, *content[at + 1 :]])


def instant_of(micros: int) -> str:
    """In the spelling of `--as-of`."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(micros // 1_000_000)) + f".{micros % 1_000_000:06d}Z"
