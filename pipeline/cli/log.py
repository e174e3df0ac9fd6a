"""`--log-format json`: what goes to stderr as one JSON object a line, for programs that collect logs.

    {"at": "2024-05-01T03:00:12.345Z", "level": "warning", "message": "…"}

`level` is `info`, `warning`, `error`, `hint` (what to do about the error before it) or `progress`, which has numbers
beside the message. Every message of every command goes through the one stream, so none can be forgotten.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

import click

LEVELS = {"Error: ": "error", "Try: ": "hint", "Warning: ": "warning", "Note: ": "info"}
"""How a message for people begins, and its level."""


class JsonLines:
    """A text stream that writes each line as an object; it is no terminal, so nothing is drawn on it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._line(line)
        return len(text)

    def flush(self) -> None:
        """Write what is begun, too: a question has no end of line."""
        line, self._begun = self._begun, ""
        self._line(line)
        self._stream.flush()

    def isatty(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def record(self, level: str, message: str, **numbers: object) -> None:
        """Write one object."""
        self._stream.write(object_of(level, message, **numbers))
        self._stream.flush()

    def _line(self, line: str) -> None:
        text = line.strip("\r")
        if text.strip():
            begin = next((begin for begin in LEVELS if text.startswith(begin)), "")
            self.record(LEVELS.get(begin, "info"), text.removeprefix(begin))


def object_of(level: str, message: str, **numbers: object) -> str:
    """One object as a line."""
    import msgspec

    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return msgspec.json.encode({"at": at, "level": level, "message": message, **numbers}).decode() + "\n"


def is_json() -> bool:
    """Whether stderr takes objects."""
    return isinstance(sys.stderr, JsonLines)


def progress(message: str, numbers: Callable[[], Mapping[str, object]]) -> None:
    """A line of progress; `numbers` are those of its object."""
    if isinstance(sys.stderr, JsonLines):
        sys.stderr.record("progress", message, **numbers())
    else:
        print(message, file=sys.stderr, flush=True)


def _choose(ctx: click.Context, parameter: click.Parameter, value: str) -> None:
    if value == "json" and not is_json() and not ctx.resilient_parsing:
        sys.stderr = JsonLines(sys.stderr)  # until the run ends (`stderr_that_may_close`)


option = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, is_eager=True,
    expose_value=False, callback=_choose, help="How messages and progress are written to stderr.",
)  # fmt: skip
"""The option of every command that may run for long."""
