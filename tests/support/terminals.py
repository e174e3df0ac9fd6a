"""A terminal of a fixed size as the standard output of commands that run in this process."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from pipeline.cli import run
from tests.support.forked import Forked

ROWS = 50


def on_a_terminal(
    *words: object, columns: int, env: Mapping[str, str] | None = None, errors: bool = False
) -> tuple[int, str, str]:
    """Run a command; its exit code, what it wrote to the terminal, and its stderr.

    stdout is a terminal of this many columns, stderr a file; with `errors` it is the other way round. The command's
    only variables of backcast are those of `env`.
    """
    ours, theirs = pty.openpty()
    set_size(theirs, columns)
    written: list[bytes] = []
    reader = threading.Thread(target=_read, args=(ours, written))
    reader.start()
    with tempfile.TemporaryFile() as other, pytest.MonkeyPatch.context() as patch:
        for name in [one for one in os.environ if one.startswith("BACKCAST_")]:
            patch.delenv(name)
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
            patch.delenv(name, raising=False)
        for name, value in {"TERM": "xterm", **(env or {})}.items():
            patch.setenv(name, value)
        first, second = (other.fileno(), theirs) if errors else (theirs, other.fileno())
        with _descriptors(first, second):
            code = run([str(word) for word in words])
        other.seek(0)
        beside = other.read().decode()
    os.close(theirs)
    reader.join()
    os.close(ours)
    return code, b"".join(written).decode().replace("\r\n", "\n"), beside


def typed(
    *words: object, lines: str = "", cwd: Path, columns: int = 400, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command in a separate process, all of whose streams are a terminal; its exit code and what is shown.

    A person types these lines, and then Ctrl-D at every further question.
    """
    ours, theirs = pty.openpty()
    set_size(theirs, columns)
    written: list[bytes] = []
    reader = threading.Thread(target=_read, args=(ours, written))
    reader.start()
    stream = os.fdopen(theirs, "rb", buffering=0)
    process = Forked(*words, env={"TERM": "dumb", **(env or {})}, cwd=cwd, stdin=stream, stdout=stream, stderr=stream)
    os.write(ours, lines.encode() + b"\x04" * 9)
    code = process.wait()
    stream.close()
    reader.join()
    os.close(ours)
    return code, b"".join(written).decode().replace("\r\n", "\n")


def set_size(terminal: int, columns: int) -> None:
    """Give a terminal this many columns."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))


def _read(terminal: int, written: list[bytes]) -> None:
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # the other end is closed
            return
        if not piece:
            return
        written.append(piece)


@contextmanager
def _descriptors(out: int, err: int) -> Iterator[None]:
    """The descriptors 0, 1 and 2, and the streams of Python on them; 0 is empty."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in range(3)]
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        for number, descriptor in enumerate((nothing, out, err)):
            os.dup2(descriptor, number)
        with (
            os.fdopen(os.dup(1), "w", encoding="utf-8") as stdout,
            os.fdopen(os.dup(2), "w", encoding="utf-8", buffering=1) as stderr,
            redirect_stdout(stdout),
            redirect_stderr(stderr),
        ):
            yield
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(nothing)
