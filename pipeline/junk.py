"""Ids that name nobody: words that trackers write where an id is missing.

The service accepts an event with such an id and refuses every merge of it, and one person would collect
thousands of strangers (service-behaviour 1.7). So such an id is passed over for the next one a mapping names.
"""

from __future__ import annotations

_ANY_CASE = (
    "anonymous",
    "guest",
    "distinctid",
    "distinct_id",
    "id",
    "not_authenticated",
    "email",
    "undefined",
    "true",
    "false",
)
_EXACT = ("[object Object]", "NaN", "None", "none", "null", "0", "undefined")
_NIL_UUID = "00000000-0000-0000-0000-000000000000"


def _quoted(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(f"{quote}{word}{quote}" for word in words for quote in ("", "'", '"'))


_LOWERED = _quoted(_ANY_CASE)
_AS_WRITTEN = _quoted(_EXACT) | {_NIL_UUID}
_LONGEST_WORD = max(len(word) for word in _LOWERED)


def is_junk(text: str) -> bool:
    """Whether an id is blank, one of the service's refused words (quoted or not), or the nil UUID."""
    if len(text) > _LONGEST_WORD:
        return text == _NIL_UUID or text.isspace()
    return text.lower() in _LOWERED or text in _AS_WRITTEN or not text or text.isspace()
