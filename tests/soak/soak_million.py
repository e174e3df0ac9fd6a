"""A million events through a service that fails a tenth of the requests in five ways, by the real commands (5 minutes).

Equality (the very set that was planned, by count and by a sum of digests), balance, and memory that does not grow with
the number of events: the same with a tenth of them is the measure.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from pipeline.local_service import LocalService

EVENTS = int(os.environ.get("SOAK_EVENTS", "1000000"))
SECONDS = 600
"""How long all of it may take."""
KEY, PERSONAL = "phc_testSOAK", "phx_testSOAK"
FILES = 8
GROWTH = 1.25
SLACK = 48 << 20
"""A command's peak with all events may exceed its peak with a tenth of them by this factor, and by these bytes."""
SERVICE = 448 << 20
"""The service's peak: 200 MB are for its database, which a tenth of the events does not fill."""
COMMAND = [sys.executable, "-m", "pipeline"]


def identity(number: int) -> tuple[str, str, str, str]:
    """The (uuid, event, distinct_id, timestamp) of a row."""
    minutes = number * 7 % (700 * 1440)
    day = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(1_600_000_000 // 86_400 * 86_400 + minutes * 60))
    uuid = UUID(int=(number * 0x9E3779B97F4A7C15F39CC0605CEDC835 + 1) % (1 << 128), version=4)
    person = f"person-{number * 31 % (EVENTS // 5 + 1)}"
    return str(uuid), f"Step {number % 11}", person, f"{day}:{number % 60:02d}.000000Z"


def export(folder: Path, count: int) -> Path:
    folder.mkdir()
    files = [(folder / f"part-{file}.jsonl").open("w", encoding="utf-8") for file in range(FILES)]
    for number in range(count):
        uuid, event, distinct_id, timestamp = identity(number)
        row = {"event": event, "distinct_id": distinct_id, "timestamp": timestamp, "uuid": uuid, "number": number}
        files[number * FILES // count].write(json.dumps(row | {"text": "x" * (number % 300)}) + "\n")
    for file in files:
        file.close()
    return folder


def summed(rows: Iterator[Sequence[str]]) -> tuple[int, int]:
    """How many, and the sum of their digests: equal for equal sets, in any order."""
    count = total = 0
    for row in rows:
        count += 1
        total += int.from_bytes(hashlib.blake2b("\0".join(row).encode(), digest_size=16).digest())
    return count, total % (1 << 128)


class Peaks:
    """The peak memory of a process and of those it started, in bytes, by name; watched until it ends."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.by_process: dict[int, int] = {}
        self._process = process
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while self._process.poll() is None:
            for pid in family(self._process.pid):
                peak = peak_of(pid)
                self.by_process[pid] = max(self.by_process.get(pid, 0), peak)
            time.sleep(0.1)

    @property
    def all(self) -> int:
        """The sum of the peaks of all processes."""
        return sum(self.by_process.values())


def family(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from family(int(child))


def peak_of(pid: int) -> int:
    """The most memory that a process ever had, 0 when it has ended."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


class Run:
    """The commands of one size, each with its peak."""

    def __init__(self, folder: Path, until: float) -> None:
        self.folder = folder
        self.until = until
        self.peaks: dict[str, int] = {}
        self._environment = os.environ | {"BACKCAST_PROJECT_KEY": KEY, "BACKCAST_PERSONAL_KEY": PERSONAL}

    def command(self, name: str, *arguments: str) -> tuple[int, dict[str, object], str]:
        """Run a command to its end: its exit code, its JSON, and its stderr."""
        process = subprocess.Popen(
            [*COMMAND, name, *arguments, "--json", "--quiet"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._environment, cwd=self.folder,
        )  # fmt: skip
        peaks = Peaks(process)
        try:
            said, told = process.communicate(timeout=max(1.0, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            pytest.fail(f"{name} did not end before the {SECONDS} seconds were over")
        self.peaks[name] = max(self.peaks.get(name, 0), peaks.all)
        return process.returncode, json.loads(said or "{}"), told

    @contextmanager
    def service(self, *faults: str) -> Iterator[str]:
        """The service as a separate process; its address. Prints what the faults did."""
        keys = self.folder / "keys.json"
        keys.write_text(json.dumps({"projects": [{"id": 1, "capture_key": KEY}], "keys": {PERSONAL: ["*"]}}))
        chosen = [text for fault in faults for text in ("--fault", fault)]
        process = subprocess.Popen(
            [*COMMAND, "service", "--port", "0", "--keys", "keys.json", "--store", "landed.duckdb", *chosen],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
        )  # fmt: skip
        peaks = Peaks(process)
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found
            yield found[0]
        finally:
            process.terminate()
            told = process.communicate(timeout=60)[1]
            self.peaks["service"] = peaks.all
            print("\n" + "\n".join(line for line in told.splitlines() if line.startswith("Fault")))


def soaked(folder: Path, count: int, until: float) -> dict[str, int]:
    """Plan, apply until done, verify and compare; the peak memory of each command."""
    folder.mkdir()
    run = Run(folder, until)
    export(folder / "export", count)
    columns = [text for name in ("event", "distinct_id", "timestamp", "uuid") for text in ("--set", f"{name}={name}")]
    planned = run.command("plan", "export", "-m", "generic", "-o", "plan", "--max-batch-events", "500", *columns)
    assert (planned[0], planned[1]["verdict"] in ("ready", "warnings")) == (0, True), planned
    with run.service("mix:10%") as url:
        began = time.monotonic()
        code, applied, told = run.command("apply", "plan", "--to", url)
        seconds = time.monotonic() - began
        assert (code, applied["balanced"]) == (0, True), told
        verified = run.command("verify", "plan", "--to", url)
        assert (verified[0], verified[1]["proved"]) == (0, True), verified
    events = applied["events"]
    assert isinstance(events, dict)
    assert (events["made"], events["accepted"], events["refused"], events["in_doubt"]) == (count, count, 0, 0)
    assert summed(landed(folder / "landed.duckdb")) == summed(identity(number) for number in range(count))
    print(f"{count} events in {seconds:.0f} s, {count / seconds:.0f}/s through a service that fails a tenth")
    print("peak memory, all processes: " + ", ".join(f"{name} {peak >> 20} MiB" for name, peak in run.peaks.items()))
    return run.peaks


def landed(store: Path) -> Iterator[Sequence[str]]:
    """The events after copies collapsed, a sixteenth at a time."""
    with LocalService(store) as service:
        for digit in "0123456789abcdef":
            yield from service.select(
                "select cast(uuid as varchar), event, distinct_id, strftime(timestamp, '%Y-%m-%dT%H:%M:%S.%fZ') "
                f"from events where cast(uuid as varchar) like '{digit}%'"
            )


def test_a_million_events_land_once_in_constant_memory(tmp_path: Path) -> None:
    """Everything planned, nothing else, each once; no process needs more memory for ten times the events."""
    until = time.monotonic() + SECONDS
    small = soaked(tmp_path / "small", EVENTS // 10, until)
    large = soaked(tmp_path / "large", EVENTS, until)
    most = {name: peak * GROWTH + SLACK for name, peak in small.items()} | {"service": SERVICE}
    assert {name: peak for name, peak in large.items() if peak > most[name]} == {}, small
