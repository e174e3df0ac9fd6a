"""What a command prints when nobody reads any more (`| head`): lost without a word, and no reason to end otherwise."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


def let_go_of(stream: TextIO) -> None:
    """Send what is still to be printed to a stream nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def forgiving_stderr() -> Iterator[None]:
    """Messages and progress stop nothing: a run whose stderr was closed goes on, to its own end and exit code."""
    before = sys.stderr
    sys.stderr = _Forgiving(before)
    try:
        yield
    finally:
        sys.stderr = before


class _Forgiving:
    """A text stream that is let go of at the first sign that its reader is gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            let_go_of(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            let_go_of(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
