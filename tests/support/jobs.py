"""Jobs to run: their files, the exports of their days, and what must land."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.config import Secret
from pipeline.jobs import Job, load_job, read_history, state_file
from pipeline.jobs.run import JobRun, run_due_windows
from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from pipeline.options import RunOptions
from tests.support.commands import in_process
from tests.support.deliveries import COLUMNS, KEY, Identity, uuid
from tests.support.deliveries import copies as copies
from tests.support.deliveries import landed as landed
from tests.support.forked import PYTHON, Forked

PERSONAL_KEY = "phx_testpersonal"
OWN = Secret(PERSONAL_KEY)
KEYS = Keyring((Project(1, "Rehearsal", KEY),), {PERSONAL_KEY: frozenset({"*"})})
CRASHING = """
import contextlib, os, signal
from pipeline.config import Secret
from pipeline.jobs import load_job
from pipeline.jobs.hooks import JobHooks
from pipeline.jobs.run import run_due_windows
from pipeline.options import RunOptions

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

@contextlib.contextmanager
def dying(value):
    yield value
    kill()

run_due_windows(
    load_job({job!r}), Secret({key!r}), Secret({personal!r}), RunOptions(workers=0), JobHooks({at}), now={now}
)
"""
CRASHES = {
    "planned": "reading=lambda window: dying(lambda rows, length: None)",
    "before the ledger": "sending=lambda window, events: kill()",
    "while it sends": "sending=lambda window, events: contextlib.nullcontext(lambda counts: kill())",
    "before it is recorded": "sending=lambda window, events: dying(lambda counts: None)",
    "recorded": "ended=lambda ended: kill()",
    "read back": "proved=lambda proof: kill()",
}
"""By moment: the hooks that kill a run there."""
LATE = datetime(2024, 6, 1, tzinfo=UTC)
"""A moment at which every day of these exports is due."""


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return int(moment.timestamp()) * 1_000_000


def write_job(folder: Path, to: str, name: str = "nightly", **keys: str) -> Path:
    """A job file over `exports/YYYY/MM/DD`, from 2024-01-01 until 2024-01-05; `keys` are YAML strings, "" drops one."""
    said = {
        "job": name,
        "source": "exports/{date:%Y/%m/%d}/*.jsonl",
        "mapping": "generic",
        "set": "{" + ", ".join(f"{key}: {value}" for key, value in COLUMNS.items()) + "}",
        "timezone": "UTC",
        "from": "2024-01-01",
        "until": "2024-01-05",
        "persons": "{properties: none}",
        "to": to,
    }
    said |= {key.rstrip("_"): value for key, value in keys.items()}
    path = folder / "job.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in said.items() if value), "utf-8")
    return path


def row(day: int, number: int, **members: Any) -> dict[str, Any]:
    """A row of a day in January 2024; its uuid follows from the day and the number."""
    return {
        "event": f"Step {number % 3}",
        "distinct_id": f"person-{number % 7}",
        "timestamp": f"2024-01-{day:02d}T10:{number // 60 % 60:02d}:{number % 60:02d}Z",
        "uuid": uuid(day * 100_000 + number),
        "number": number,
        **members,
    }


def put(folder: Path, day: int, rows: Sequence[dict[str, Any]], name: str = "a.jsonl") -> Path:
    """A file of a day's export."""
    path = folder / f"exports/2024/01/{day:02d}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    return path


def days(folder: Path, *numbers: int, rows: int = 10) -> list[dict[str, Any]]:
    """A file with this many rows for each of these days; all their rows."""
    made = []
    for day in numbers:
        mine = [row(day, number) for number in range(rows)]
        put(folder, day, mine)
        made += mine
    return made


def identities(rows: Sequence[dict[str, Any]]) -> set[Identity]:
    """What must land from these rows: (uuid, event, distinct_id, timestamp)."""
    return {(one["uuid"], one["event"], one["distinct_id"], one["timestamp"][:-1] + ".000000Z") for one in rows}


def run(job: Path | Job, now: datetime = LATE, *, key: str = KEY, **asked: Any) -> JobRun:
    """Run a job in this process."""
    found = job if isinstance(job, Job) else load_job(job)
    names = ("dry_run", "allow_firing")
    options = RunOptions(workers=0, **{name: asked.pop(name) for name in names if name in asked})
    return run_due_windows(found, Secret(key), options=options, now=micros(now), **asked)


def outcomes(done: JobRun) -> dict[str, str]:
    """The outcome of each window."""
    return {one.window: one.outcome for one in done.windows}


def code(done: JobRun) -> int:
    """The exit code of a run."""
    return 0 if done.problem is None else done.problem.exit_code


def counts(job: Path) -> list[tuple[str, str, int, int]]:
    """The history: (window, state, events sent, already settled) of each attempt."""
    _, attempts = read_history(state_file(load_job(job).state))
    return [(one.window, one.state, one.sent, one.already) for one in attempts]


def proofs(job: Path) -> list[tuple[str, str]]:
    """The history: the result of reading back in each attempt."""
    _, attempts = read_history(state_file(load_job(job).state))
    return [(one.proof, one.detail) for one in attempts]


def started(job: Path, personal_key: str = "") -> Forked:
    """A `backcast run` process."""
    keys = {"BACKCAST_PROJECT_KEY": KEY, "BACKCAST_PERSONAL_KEY": personal_key}
    return Forked("run", job, "--workers", "0", env=keys)


def crashed(job: Path, at: str, now: datetime = LATE, personal_key: str = "") -> int:
    """The exit code of a process that runs a job and is killed by the hooks `at`."""
    script = CRASHING.format(job=str(job), key=KEY, personal=personal_key, at=at, now=micros(now))
    with tempfile.TemporaryFile() as program:
        program.write(script.encode())
        program.seek(0)
        return Forked(program=PYTHON, stdin=program).wait()


def ran(job: Path, *options: str, personal_key: str = "") -> tuple[int, str, str]:
    """The exit code of a `backcast run` in this process, and what it printed."""
    keys = {"BACKCAST_PROJECT_KEY": KEY, "BACKCAST_PERSONAL_KEY": personal_key}
    done = in_process("run", job, "--workers", "0", *options, env=keys)
    return done.returncode, done.stdout, done.stderr


def sent_once(service: LocalService, rows: Sequence[dict[str, Any]]) -> bool:
    """Whether exactly these rows are there, and none arrived twice."""
    return landed(service) == identities(rows) and set(copies(service).values()) <= {1}
