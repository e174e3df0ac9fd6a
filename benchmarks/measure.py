"""Run one command and measure it whole: wall time, CPU time, and the memory of all its processes together.

Memory is proportional set size, so that pages shared by processes count once. Reading it costs the kernel a
walk over the pages (15 ms for 300 MB on a small machine), so a timed run reads it twice a second, and between
those only where the cheap resident sizes, read every 20 ms, are 5 % higher than ever. (Alone they would mislead,
since they count twice what forked processes share.) A run for the memory alone reads it at each sample.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE_SECONDS = 0.02
TREE_EVERY = 5
READ_EVERY = 25
NEW_PEAK = 1.05
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measure:
    """One run: wall and CPU seconds, its peak in MB (10^6 bytes), the CPU share of others, its output."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    foreign: float
    stdout: str


class Failed(RuntimeError):
    """A measured command did not end with 0."""


def run(
    command: list[str],
    environment: Mapping[str, str] | None = None,
    aside: tuple[int, ...] = (),
    *,
    fine: bool = False,
    codes: tuple[int, ...] = (0,),
) -> Measure:
    """Run `command` to its end; `aside` are processes of ours (the sink) whose CPU time is not foreign.

    It may keep the bytecode of what it imports, as installed programs do: with PYTHONDONTWRITEBYTECODE each start would
    compile all its modules, which takes more than a second.

    `fine` reads the memory at each sample, which takes time from the command. `codes` are the exit codes of a success.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        own_environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        busy, own = _machine(), _own(aside)
        begin = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**own_environment, **(environment or {})},
        )
        peak, code, usage = _watch(process.pid, fine)
        seconds = time.perf_counter() - begin
        process.returncode = code
        cpu = usage.ru_utime + usage.ru_stime
        foreign = (_machine() - busy) - (_own(aside) - own) - cpu
        out.seek(0)
        err.seek(0)
        if code not in codes:
            tail = err.read().decode(errors="replace")[-2_000:]
            raise Failed(f"exit {code}: {' '.join(command)}\n{tail}")
        share = max(0.0, foreign / seconds / (os.cpu_count() or 1))
        return Measure(seconds, cpu, peak / 1e6, share, out.read().decode())


def _watch(pid: int, fine: bool) -> tuple[int, int, Any]:
    """Sample until the process ends: (peak bytes, exit code, resource usage of it and its children)."""
    tree, number, resident_peak, peak = [pid], 0, 0, 0
    while True:
        if fine or number % TREE_EVERY == 0:
            tree = _tree(pid)
        regular = fine or number % READ_EVERY == 0
        number += 1
        resident = sum(map(_resident, tree))
        if regular or resident > resident_peak * NEW_PEAK:
            resident_peak = max(resident_peak, resident)
            peak = max(peak, sum(map(_proportional, tree)))
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return peak, os.waitstatus_to_exitcode(status), usage
        time.sleep(SAMPLE_SECONDS)


def _tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        with suppress(OSError):
            for thread in Path(f"/proc/{one}/task").iterdir():
                waiting.extend(map(int, (thread / "children").read_text().split()))
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(pid)


def _machine() -> float:
    """CPU seconds that the whole machine was busy."""
    fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / TICKS


def _own(aside: tuple[int, ...]) -> float:
    """CPU seconds of this process and those set aside."""
    times = os.times()
    total = times.user + times.system
    for pid in aside:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


@dataclass(frozen=True, slots=True)
class Sink:
    """The server that only reads and answers, in its own process."""

    url: str
    pid: int

    def counts(self) -> dict[str, int]:
        """Requests and bytes so far; events and uuids too when it opens bodies."""
        with urllib.request.urlopen(f"{self.url}/counts", timeout=30) as answer:
            counts: dict[str, int] = json.load(answer)
        return counts


@contextmanager
def sink(*, open_bodies: bool = False, keep: Path | None = None) -> Iterator[Sink]:
    """A running sink; it ends with the block, or with this process. `keep`: where it writes the bodies it gets."""
    command = [sys.executable, str(Path(__file__).with_name("sink.py")), *(["--open"] if open_bodies else [])]
    command += ["--keep", str(keep)] if keep is not None else []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield Sink(f"http://127.0.0.1:{port}", process.pid)
        finally:
            process.stdin.close()
            process.wait(timeout=10)
