"""Text of a row as a person may see it: no control characters, no more than so many characters.

What stands in an export is written by strangers: an escape sequence would drive a terminal, an overriding
direction mark would turn a page round. Both are shown as escapes instead.
"""

from __future__ import annotations

import re
import unicodedata

ELLIPSIS = "…"

_PLAIN = re.compile(r"[\x20-\x7e]*", re.ASCII)
_DRIVING = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
"""Unicode categories that are not shown as they stand: controls, formats, surrogates, private use, line ends."""


def printable(text: str, limit: int = 40) -> str:
    """At most `limit` characters of `text`, driving characters as `\\x1b` or `\\u202e`; cut text ends in `…`."""
    cut = text[:limit]
    if not _PLAIN.fullmatch(cut):
        cut = "".join(_escaped(one) if unicodedata.category(one) in _DRIVING else one for one in cut)
    if len(text) > limit or len(cut) > limit:
        return cut[: max(0, limit - 1)] + ELLIPSIS
    return cut


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode()
