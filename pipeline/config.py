"""Settings from outside: keys and secrets, found in a file or the environment and never shown.

A file that a flag names comes before the environment. A key is never in argv, since every user of the machine can
read that (docs/know/promises.md#secrets). Messages say what is wrong with a key without showing it.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import UsageError

PROJECT_KEY = "BACKCAST_PROJECT_KEY"
PERSONAL_KEY = "BACKCAST_PERSONAL_KEY"
LONGEST = 64
"""Characters of a capture key; capture refuses a longer one (docs/know/service.md#event-fields)."""

_LEAST_ENCODED = 6
"""At least this many characters of base64 are taken for a part of a secret."""


class Secret:
    """A string that never shows itself: `repr`, `str` and formatting give `***`; `reveal` gives it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The string itself, for the one line that sends it."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return "***"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")


def masking(*secrets: str) -> re.Pattern[str]:
    """A pattern for what to replace by `***` in text that may repeat a secret: the secret, and the secret as base64,
    each also percent-encoded or escaped as JSON and HTML do, completely or in part.

    In base64 it may be anywhere in a longer text: the pattern finds the characters that come only from the secret's
    bits.
    """
    forms = []
    for secret in filter(None, secrets):
        forms.append("".join(map(_escaped, secret)))
        bits = len(secret.encode()) * 8
        for before in range(3):
            first, last = -(-before * 8 // 6), (before * 8 + bits) // 6
            encoded = base64.b64encode(bytes(before) + secret.encode()).decode()[first:last]
            if len(encoded) >= _LEAST_ENCODED:
                forms.append("".join(map(_escaped, encoded)) + r"[\w+/-]*(?:=|%3[Dd])*")
    return re.compile("|".join(sorted(forms, key=len, reverse=True)) or "(?!)")


def _escaped(character: str) -> str:
    """A pattern for a character as it is or escaped; for the two that differ in URL-safe base64, either spelling."""
    either = {"+": "+-", "/": "/_"}.get(character, character)
    codes = "|".join(f"{ord(one):02x}" for one in either)
    numbers = "|".join(str(ord(one)) for one in either)
    escapes = rf"%(?:25){{0,8}}(?:{codes})|\\{{1,8}}u00(?:{codes})|&#x0{{0,8}}(?:{codes});|&#0{{0,8}}(?:{numbers});"
    return rf"(?:\\{{0,8}}[{re.escape(either)}]|(?i:{escapes}))"


class KeyFault(NamedTuple):
    """What is wrong with a capture key and what to do, without the key. `stops`: nothing can be sent with it."""

    message: str
    hint: str
    stops: bool = True


def project_key(
    file: str | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    cloud: bool = False,
    warn: Callable[[str], None] = lambda line: None,
) -> Secret:
    """The capture key, from the file or the environment. Raises UsageError if it is absent or plainly wrong."""
    return checked_project_key(_read(file, PROJECT_KEY, "--project-key-file", environment), cloud=cloud, warn=warn)


def given_project_key(file: str | None = None, environment: Mapping[str, str] = os.environ) -> Secret | None:
    """The capture key as it was given, whatever its shape; None if none was. Raises UsageError for the file."""
    if file is None and PROJECT_KEY not in environment:
        return None
    return _read(file, PROJECT_KEY, "--project-key-file", environment)


def checked_project_key(key: Secret, *, cloud: bool = False, warn: Callable[[str], None] = lambda line: None) -> Secret:
    """The key itself, after a check of its shape. Raises UsageError; `warn` is called if it is merely odd."""
    fault = project_key_fault(key.reveal(), cloud=cloud)
    if fault is not None and fault.stops:
        raise UsageError(fault.message, hint=fault.hint)
    if fault is not None:
        warn(f"{fault.message}; {fault.hint}")
    return key


def project_key_fault(text: str, *, cloud: bool = False) -> KeyFault | None:
    """What is wrong with a capture key; None if nothing is. `cloud`: it is for one of the service's own regions.

    Capture refuses most of these (docs/know/service.md#event-fields). Quotes, and text of any other shape, it takes for
    an unknown key: the answer is 200 and the events are lost. A region's keys begin with phc_, except those of its
    oldest projects, which have 14 or more letters and digits. Other services may give keys of any shape.
    """
    if not text:
        return KeyFault(
            "there is no capture key", f"set {PROJECT_KEY}, or give --project-key-file FILE; it begins with phc_"
        )
    if text.startswith("phx_"):
        return KeyFault(
            "the capture key given is a personal key (phx_…), which capture refuses",
            "use the capture key of the project, which begins with phc_",
        )
    if any(quote in text for quote in "\"'`"):
        return KeyFault("the capture key contains quotes, which do not belong to a key", "remove the quotes")
    if len(text) > LONGEST or not _is_token(text):
        return KeyFault("the capture key has a shape that capture refuses", "copy it again: phc_ and letters")
    if text.startswith("phc_") and text != "phc_":
        return None
    return KeyFault(
        "the capture key does not look like one, which begins with phc_",
        "copy it from the settings of the project, unless its keys look like this",
        stops=cloud and not re.fullmatch(r"[A-Za-z0-9_-]{14,}", text),
    )


def personal_key(file: str | None = None, environment: Mapping[str, str] = os.environ) -> Secret:
    """The management key, from the file or the environment; empty if there is none. Raises UsageError."""
    key = _read(file, PERSONAL_KEY, "--personal-key-file", environment)
    text = key.reveal()
    if text.startswith("phc_"):
        raise UsageError(
            "the personal key given is a capture key (phc_…), which the management API refuses",
            hint="create a personal key, which begins with phx_, in the settings of your user",
        )
    if text and not _is_token(text):
        raise UsageError(
            "the personal key contains a character that an HTTP header cannot carry",
            hint="copy it again, without spaces or line breaks; it begins with phx_",
        )
    return key


def required_personal_key(file: str | None = None) -> Secret:
    """The management key. Raises UsageError, also if there is none."""
    key = personal_key(file)
    if not key:
        raise UsageError(
            "there is no personal key",
            hint=f"set {PERSONAL_KEY}, or give --personal-key-file FILE; it begins with phx_",
        )
    return key


def _is_token(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _read(file: str | None, variable: str, flag: str, environment: Mapping[str, str]) -> Secret:
    if file is None:
        return Secret(environment.get(variable, "").strip())
    try:
        return Secret(Path(file).read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the key in {file}: {error}", hint=f"give {flag} a file that you may read"
        ) from None
