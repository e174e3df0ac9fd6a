"""Ctrl-C while DuckDB works: heard as what Python raises for it, wherever the main thread asks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ENDLESS = "SELECT count(*) FROM range(30000000000) a(x), range(1000) b(y) WHERE hash(x) % 7 = 3"
STREAM = "SELECT hash(x) AS h FROM range(30000000000) a(x) ORDER BY h DESC LIMIT 5"
SCRIPT = """
import contextlib, os, signal, sys, threading
from pathlib import Path
from pipeline import ctrl_c
from pipeline.identity.database import Database
from pipeline.local_service.server import LocalService
scratch, ENDLESS, STREAM = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
with Database(scratch) as database, LocalService() as service:
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        with ctrl_c.as_keyboard_interrupt() if {asked!r}.startswith("service") else contextlib.nullcontext():
            {asked}
    except BaseException as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize(
    "asked",
    [
        "database.run(ENDLESS)",
        "database.number(ENDLESS)",
        "database.rows(ENDLESS)",
        "list(database.stream(STREAM))",
        "service.select(ENDLESS)",  # as a command asks: the service is a program of its own
    ],
)
def test_it_is_a_keyboard_interrupt(tmp_path: Path, asked: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(asked=asked), str(tmp_path), ENDLESS, STREAM],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert told.stdout.split() == ["KeyboardInterrupt"], told.stderr
