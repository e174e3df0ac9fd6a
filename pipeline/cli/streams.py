"""Output whose reader has closed the pipe (`| head`): discarded silently, without changing how a command ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any, TextIO


def discard_output(stream: TextIO) -> None:
    """Redirect a stream to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


@contextmanager
def stderr_that_may_close() -> Iterator[None]:
    """A run whose stderr was closed continues to its own end and exit code."""
    with redirect_stderr(_MayClose(sys.stderr)):
        yield


class _MayClose:
    """A text stream that is discarded once its reader has closed the pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            discard_output(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            discard_output(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
