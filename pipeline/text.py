"""Text for people: counts in sentences (`1 event`, `12,000 events`), and the content of rows made safe to show.

The content of an export comes from strangers: an escape sequence would control a terminal, and a right-to-left
override would reverse a page. `printable` shows both as escapes instead.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Sequence

ELLIPSIS = "…"

_PLAIN = re.compile(r"[\x20-\x7e]*", re.ASCII)
_DRIVING = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
"""Unicode categories that are not shown as they are: controls, formats, surrogates, private use, line ends."""
_JOINERS = "\u200c\u200d"
_VARIATION = "\ufe0f"
_VIRAMA = 9
"""The combining class of the marks that join two letters of an Indic script."""

_VOWELS = "aeiou"
_HISSING = ("s", "x", "ch", "sh")


def pluralize(count: int, what: str) -> str:
    """A number with its noun, which is given in the singular."""
    return f"{count:,} {what if count == 1 else plural(what)}"


def plural(noun: str) -> str:
    """The plural of a regular English noun: event, batch, property, key."""
    if noun.endswith("y") and noun[-2] not in _VOWELS:
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(_HISSING) else "s")


def are(count: int) -> str:
    """The verb that goes with a count."""
    return "is" if count == 1 else "are"


def were(count: int) -> str:
    """The verb in the past that goes with a count."""
    return "was" if count == 1 else "were"


def some_of(texts: Sequence[str], most: int, separator: str = ", ", what: str = "", count: int | None = None) -> str:
    """The first `most` of some texts, and how many more there are, in all or of `count`; `what` they are."""
    others = (len(texts) if count is None else count) - len(texts[:most])
    counted = pluralize(others, f"more {what}") if what else f"{others:,} more"
    more = f"{separator.strip(', ')} and {counted}" if others > 0 else ""
    return separator.join(texts[:most]) + more


def printable(text: str, limit: int = 40) -> str:
    """At most `limit` characters of `text`, control characters as `\\x1b` or `\\u202e`; cut text ends in `…`.

    Joiners stay if the script needs them (`_joins`); elsewhere they are invisible, so they are shown as escapes.
    """
    cut = text[:limit]
    if not _PLAIN.fullmatch(cut):
        cut = _plain(cut)
    if len(text) > limit or len(cut) > limit:
        return cut[: max(0, limit - 1)] + ELLIPSIS
    return cut


def quoted(text: str) -> str:
    """A string as one word of a shell command. Control characters are escaped as bash and zsh read them."""
    if _plain(text) == text:
        return shlex.quote(text)
    return "$'" + _plain(text.replace("\\", "\\\\").replace("'", "\\'")) + "'"


def _plain(text: str) -> str:
    """The text with control characters as escapes."""
    return "".join(
        _escaped(one) if unicodedata.category(one) in _DRIVING and not _joins(text, at) else one
        for at, one in enumerate(text)
    )


def _joins(text: str, at: int) -> bool:
    """Whether a joiner is inside an emoji, after an Indic virama, or between Arabic letters."""
    if text[at] not in _JOINERS or not 0 < at < len(text) - 1:
        return False
    before, after = text[at - 1], text[at + 1]
    if unicodedata.combining(before) == _VIRAMA:
        return True
    if unicodedata.bidirectional(before) in ("AL", "NSM") and unicodedata.bidirectional(after) == "AL":
        return True
    is_picture = unicodedata.category(before) in ("So", "Sk") or before == _VARIATION
    return text[at] == _JOINERS[1] and is_picture and unicodedata.category(after) == "So"


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode()
