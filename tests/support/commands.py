"""Commands run in this process or in a separate one, and what they print."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import run
from tests.support.deliveries import COLUMNS

SAMPLES = Path(__file__).resolve().parent.parent.parent / "sample_data"


def generic() -> list[str]:
    """The options that name the columns of the tests' export."""
    return ["-m", "generic", *(word for name in COLUMNS for word in ("--set", f"{name}={name}"))]


class Printed:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def two_lines(self) -> tuple[str, str]:
        """An error as people see it, without notes: stderr must contain nothing else."""
        lines = [line for line in self.err.strip().splitlines() if not line.startswith("Note:")]
        assert [line.split(":")[0] for line in lines] == ["Error", "Try"]
        return lines[0], lines[1]


def calling(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Printed]:
    """A function that runs a command in this process; stdin is empty unless given."""

    def call(*words: object, stdin: str = "") -> Printed:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
        capfd.readouterr()
        code = run([str(word) for word in words])
        return Printed(code, *capfd.readouterr())

    return call


def in_process(*words: object, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, with an empty stdin, as `process` runs it in one of its own, which takes longer.

    Its only variables of backcast are those of `env`.
    """
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    arguments = [str(word) for word in words]
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("BACKCAST_")]:
            patch.delenv(name)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(), "utf-8"))
        with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
            try:
                code = run(arguments)
            except SystemExit as leaving:  # click answers a shell that completes words, and exits
                code = int(leaving.code or 0)
    out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(arguments, code, out, err)


def process(*words: object, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as a separate process."""
    return subprocess.run(
        [sys.executable, "-m", "pipeline", *map(str, words)],
        env={**os.environ, **(env or {})}, text=True, timeout=240, check=False,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options,
    )  # fmt: skip
