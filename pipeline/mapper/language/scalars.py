"""Strings of any export as YAML scalars and comments."""

from __future__ import annotations

import json
import re

from pipeline.text import printable

_PLAIN = re.compile(r"[A-Za-z_$/][\w$./-]*", re.ASCII)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""What YAML does not allow in a file, and the line ends that it turns into spaces."""


def scalar(text: str) -> str:
    """A string as a YAML scalar, in quotes if it needs them."""
    return text if _PLAIN.fullmatch(text) else quoted(text)


def quoted(text: str) -> str:
    """A string as a YAML scalar in double quotes, on one line."""
    return _escaped(json.dumps(text, ensure_ascii=False))


def json_scalar(text: str) -> str:
    """One line of JSON as a YAML scalar; characters that YAML does not allow are written as JSON escapes."""
    return "'" + _escaped(text).replace("'", "''") + "'"


def comment(text: str, limit: int = 400) -> str:
    """A string as a comment on one line."""
    return f"# {_escaped(printable(text, limit))}"


def _escaped(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
