"""The README's blocks run as they stand, in an empty directory, on a free port."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"<!-- runs in tests/test_readme.py -->\n```(sh|python)\n(.*?)```", re.S)


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall(README.read_text(encoding="utf-8"))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which `backcast` and `python` are this interpreter's, and no key is set."""
    programs = tmp_path / "bin"
    programs.mkdir()
    backcast = programs / "backcast"
    backcast.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipeline "$@"\n')
    backcast.chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("BACKCAST")}
    root = str(README.parent)
    return {**kept, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": root, "COLUMNS": "110"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.skipif(shutil.which("bash") is None, reason="the blocks are written for bash")
def test_every_marked_block_runs_as_it_stands(tmp_path: Path, environment: dict[str, str]) -> None:
    """The quick start, the sending and the library example run one after the other and say what the README says."""
    place = tmp_path / "empty"
    place.mkdir()
    port = str(free_port())
    said = []
    for language, text in blocks():
        text = text.replace("8100", port)
        command = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [sys.executable, "-c", text]
        ran = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        said.append(ran.stdout)
    quick, sending, library = said
    assert "looks like mixpanel" in quick
    assert "not ready: the clock of this project stood at UTC-8, not UTC" in quick
    assert "Plan: 4 events to send, from 4 of 5 rows in 1 part; 1 skipped, 0 rejected." in quick
    assert "Proved: every event that was settled was found once." in quick
    assert "State: rehearsed" in quick
    assert re.search(r"Dry run.*would send +4\b.*accepted +4\b.*already settled +4\b", sending, re.S)
    assert "Proved: every event that was settled was found once." in sending
    assert library.splitlines() == [
        "Plan: 4 events to send, from 4 of 5 rows in 1 part; 1 skipped, 0 rejected.",
        "4 events in 1 batch",
    ]


def test_the_readme_names_every_command_and_exit_code() -> None:
    """No command and no exit code is missing from the README's tables."""
    from pipeline import errors
    from pipeline.cli import COMMANDS

    text = README.read_text(encoding="utf-8")
    missing = [name for name in COMMANDS if f"`backcast {name}" not in text]
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    missing += [str(code) for code in sorted(codes) if f"| {code} |" not in text]
    assert missing == []
