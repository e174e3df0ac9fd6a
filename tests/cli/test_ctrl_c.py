"""Ctrl-C while DuckDB works raises KeyboardInterrupt, wherever the main thread is waiting."""

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
    for asked in sys.argv[4:]:
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            with ctrl_c.as_keyboard_interrupt() if asked.startswith("service") else contextlib.nullcontext():
                eval(asked)
        except BaseException as error:
            print(asked, type(error).__name__)
"""
ASKED = [
    "database.run(ENDLESS)",
    "database.number(ENDLESS)",
    "database.rows(ENDLESS)",
    "list(database.stream(STREAM))",
    "service.select(ENDLESS)",  # a separate process, as for a command
]


def test_it_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    """Each statement ends with it, one after the other in one process."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), ENDLESS, STREAM, *ASKED],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [f"{asked} KeyboardInterrupt" for asked in ASKED], done.stderr
