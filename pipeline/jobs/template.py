"""The path of a window's files: a path, URL or pattern in which `{date:%Y/%m/%d}` stands for the window's date."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.storage import is_remote, refuse_foreign

DIRECTIVES: Mapping[str, Callable[[datetime], str]] = {
    "%Y": lambda wall: f"{wall.year:04d}",
    "%y": lambda wall: f"{wall.year % 100:02d}",
    "%m": lambda wall: f"{wall.month:02d}",
    "%d": lambda wall: f"{wall.day:02d}",
    "%j": lambda wall: f"{wall.timetuple().tm_yday:03d}",
    "%H": lambda wall: f"{wall.hour:02d}",
    "%M": lambda wall: "00",
    "%S": lambda wall: "00",
    "%%": lambda wall: "%",
}
"""The directives of strftime that are the same in every locale and on every platform."""
_DATE = re.compile(r"\{date:([^{}]*)\}")
_HINT = "write the date as in exports/{date:%Y/%m/%d}/*.jsonl.gz"


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A path with the date of a window in it. Raises UsageError if windows of this kind would share their files."""

    text: str
    kind: str

    def __post_init__(self) -> None:
        refuse_foreign(self.text)
        rest = _DATE.sub("", self.text)
        if "{" in rest or "}" in rest:
            raise UsageError(f"only {{date:…}} is allowed in braces: {self.text!r}", hint=_HINT)
        first = datetime(2001, 1, 1)
        others = [datetime(2001, 1, 2), datetime(2001, 2, 1), datetime(2002, 1, 1)]
        if self.kind == "hour":
            others.append(first + timedelta(hours=1))
        if any(self.at(first) == self.at(other) for other in others):
            hint = "write the hour too: {date:%Y/%m/%d/%H}" if self.kind == "hour" else _HINT
            raise UsageError(f"several {self.kind}s would have the same path: {self.text!r}", hint=hint)

    def at(self, wall: datetime) -> str:
        """The path of the window whose clock shows this time."""
        return _DATE.sub(lambda match: _formatted(match[1], wall), self.text)

    def pattern(self, wall: datetime, folder: Path) -> str:
        """The path as a pattern for `glob`, relative to a folder; in a store, its URL."""
        if is_remote(self.text):
            return self.at(wall)
        return os.path.join(glob.escape(str(folder)), self.at(wall))


def _formatted(form: str, wall: datetime) -> str:
    def formatted(match: re.Match[str]) -> str:
        if match[0] not in DIRECTIVES:
            raise UsageError(f"{match[0]!r} is not allowed in a date", hint=f"use {', '.join(DIRECTIVES)}")
        return DIRECTIVES[match[0]](wall)

    return re.sub(r"%.?", formatted, form)
