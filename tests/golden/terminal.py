"""What commands print on a terminal of 80 columns; and into a pipe and on a terminal of 160 what is wide or long.

`make golden` writes the files again.

Colours are written as ⟦1;32⟧; times of the run, seconds and ports are replaced. stderr is below a line.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.local_service import LocalService
from tests.support.deliveries import Asked, Reply, passed_on, serving
from tests.support.forked import Forked
from tests.support.jobs import KEYS, PERSONAL_KEY, days, put, row, write_job
from tests.support.terminals import on_a_terminal

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = Path(__file__).resolve().parent / "terminal"
PIPED = 110
"""Columns of output that does not go to a terminal."""
WIDTHS = (80, 160, PIPED)
COLUMNS = ("event", "distinct_id", "timestamp")
ZONE = ("--timezone", "America/New_York")
_NOW = re.compile(r"20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?")
_REPLACED = (
    (re.compile(r"\x1b\[([\d;]*)m"), r"⟦\1⟧"),
    (re.compile(r"⟦[\d;]+⟧( *)⟦0⟧"), r"\1"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\b\d+\.\d s\b"), "N s"),
)


_FEW = ("--workers", "0", "--as-of", "2024-01-01")
_Take = Callable[..., None]


def captures(columns: int) -> dict[str, str]:
    """The screens of a story of commands, by name: an export that is planned, rehearsed, sent, verified and damaged.

    Commands whose output is wide or long have more columns, and those that write into a pipe have `PIPED` columns.
    """
    screens: dict[str, str] = {}

    def take(name: str, *words: object, env: dict[str, str] | None = None) -> None:
        code, shown, errors = on_a_terminal(*words, columns=columns, env=env, errors=columns == PIPED)
        if columns == PIPED:
            shown, errors = errors, ""  # stdout is the file; progress on a terminal has its own test
        text = f"$ backcast {' '.join(map(str, words))}\n{shown}" + (f"--- stderr\n{errors}" if errors else "")
        screens[name] = _stable(f"{text}--- exit {code}\n")

    with _empty_folder():
        Path("export").symlink_to(ROOT / "sample_data" / "mixpanel")
        Path("broken").symlink_to(ROOT / "sample_data" / "rejects")
        Path("clean").symlink_to(ROOT / "sample_data" / "june")
        _planned(take)
        if columns != PIPED:
            _changed(take)
        if columns == 80:
            _story(take, columns)
            _killed(take)
    return screens


def _planned(take: _Take) -> None:
    """Output that is read with `less` or in the log of a pipeline: nothing is cropped there."""
    take("survey", "survey", "export")
    take("plan", "plan", "export", "-m", "mixpanel", *ZONE, "-o", "plan", *_FEW)
    settings = [word for name in COLUMNS for word in ("--set", f"{name}={name}")]
    take("plan-not-ready", "plan", "broken", "-m", "generic", *settings, "-o", "unfit", *_FEW)
    take("rejects", "rejects", "unfit")


def _changed(take: _Take) -> None:
    """A mapping that gives an event another name, compared with the shipped one."""
    shipped = (ROOT / "mappings" / "mixpanel.yaml").read_text("utf-8")
    Path("mine.yaml").write_text(shipped.replace("$mp_click: {as: $autocapture", "$mp_click: {as: Clicked"), "utf-8")
    take("plan-changed", "plan", "export", "-m", "mine.yaml", *ZONE, "-o", "changed", *_FEW)
    take("diff", "diff", "plan", "changed")


def _killed(take: _Take) -> None:
    """An apply whose process is killed during a request, what `status` knows of it, and the next apply."""
    june = ("clean", "-m", "june", "-o", "killed", "--workers", "0", "--as-of", "2024-06-01")
    take("plan-clean", "plan", *june, "--max-batch-events", "5")
    with LocalService(keys=KEYS) as service:
        env = {"BACKCAST_PROJECT_KEY": service.capture_key}
        killed: list[Forked] = []
        started = threading.Event()

        def answer(asked: Asked) -> Reply:
            if asked.number == 2:
                started.wait()
                killed[0].send_signal(signal.SIGKILL)
                return Reply(0)
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            killed.append(Forked("apply", "killed", "--to", server.url, "--max-concurrency", "1", env=env))
            started.set()
            assert killed[0].wait() == -signal.SIGKILL
            take("status-killed", "status", "killed")
            take("apply-resumed", "apply", "killed", "--to", server.url, env=env)


def _story(take: _Take, columns: int) -> None:
    take("rehearse-refused", "rehearse", "plan", "--fault", "poison,event=Purchase")
    take("rejects-refused", "rejects", "plan", "--code", "refused_event")
    take("rehearse", "rehearse", "plan")
    with LocalService(keys=KEYS) as service:
        env = {"BACKCAST_PROJECT_KEY": service.capture_key, "BACKCAST_PERSONAL_KEY": PERSONAL_KEY}
        to = ("plan", "--to", service.url)
        take("apply-dry-run", "apply", *to, "--dry-run", env=env)
        take("apply-stopped", "apply", *to, "--phases", "identities", env=env)
        take("apply", "apply", *to, env=env)
        take("verify", "verify", *to, env=env)
        service.store._writer.execute("delete from accepted where event = 'Signed Up'")
        take("verify-differs", "verify", *to, env=env)
        take("status", "status", "plan")
        days(Path(), 1, 3)
        put(Path(), 2, [row(2, 1, distinct_id="")])
        job = write_job(Path(), service.url)
        on_a_terminal("run", job, columns=columns, env=env)
        take("run-history", "run", job.name, "--history", env=env)


def _stable(text: str) -> str:
    """The output, with everything that differs from run to run replaced, and without spaces at the end of lines."""
    for pattern, words in _REPLACED:
        text = pattern.sub(words, text)
    text = _NOW.sub(lambda found: found[0] if found[0] < "2025" else "NOW", text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@contextmanager
def _empty_folder() -> Iterator[None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def path_of(name: str, columns: int) -> Path:
    """The golden file of a screen."""
    return FOLDER / f"{name}-{columns}.txt"


def regenerate() -> None:
    """Write the golden files again, to be read as a diff."""
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.glob("*.txt"):
        file.unlink()
    for columns in WIDTHS:
        for name, text in captures(columns).items():
            path_of(name, columns).write_text(text, encoding="utf-8")
