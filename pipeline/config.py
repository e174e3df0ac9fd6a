"""Settings from outside: keys and secrets, found in the environment or a file and never shown.

Flags come before the environment. A key never stands in argv, since every user of the machine can read that (law 9).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pipeline.errors import UsageError

PROJECT_KEY = "BACKCAST_PROJECT_KEY"
PERSONAL_KEY = "BACKCAST_PERSONAL_KEY"


class Secret:
    """A text that never shows itself: `repr`, `str` and formatting give `***`; `reveal` gives it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")


def project_key(file: str | None = None, environment: Mapping[str, str] = os.environ) -> Secret:
    """The capture key, from the file or the environment. Raises UsageError when it is absent or plainly wrong."""
    key = _read(file, PROJECT_KEY, "--project-key-file", environment)
    text = key.reveal()
    if not text:
        raise UsageError(
            "there is no project key", hint=f"set {PROJECT_KEY}, or give --project-key-file FILE; it begins with phc_"
        )
    if text.startswith("phx_"):
        raise UsageError(
            "the project key given is a personal key (phx_…), which capture refuses",
            hint="take the project's own key, which begins with phc_",
        )
    if not text.isascii() or len(text) > 64 or any(c.isspace() for c in text):
        raise UsageError("the project key has a shape that capture refuses", hint="copy it again: phc_ and letters")
    return key


def personal_key(file: str | None = None, environment: Mapping[str, str] = os.environ) -> Secret:
    """The management key, from the file or the environment; empty when there is none."""
    return _read(file, PERSONAL_KEY, "--personal-key-file", environment)


def _read(file: str | None, variable: str, flag: str, environment: Mapping[str, str]) -> Secret:
    if file is None:
        return Secret(environment.get(variable, "").strip())
    try:
        return Secret(Path(file).read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the key in {file}: {error}", hint=f"give a readable file to {flag}") from None
