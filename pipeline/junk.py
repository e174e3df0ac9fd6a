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


_ALWAYS: frozenset[str] = frozenset()
_SPELLINGS: dict[str, frozenset[str]] = {_NIL_UUID: _ALWAYS}
"""By the word in small letters: the spellings that are junk, or `_ALWAYS` for every one."""
for _word in _quoted(_EXACT):
    _SPELLINGS[_word.lower()] = _SPELLINGS.get(_word.lower(), frozenset()) | {_word}
_SPELLINGS.update(dict.fromkeys(_quoted(_ANY_CASE), _ALWAYS))


def is_junk(text: str) -> bool:
    """Whether an id is blank, one of the service's refused words (quoted or not), or the nil UUID."""
    spellings = _SPELLINGS.get(text.lower())
    if spellings is None:
        return not text or text.isspace()
    return not spellings or text in spellings
