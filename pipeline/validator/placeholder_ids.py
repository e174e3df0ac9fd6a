"""Placeholder ids: words that trackers write if an id is missing.

The service accepts an event with such an id but refuses to merge it, and one person would collect thousands of
strangers (docs/know/service.md#ids-and-text). So such an id is passed over, and the next id that the mapping names is
used.
"""

from __future__ import annotations

import msgspec

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
_DEVICE = "$device:"
_NIL_UUID = "00000000-0000-0000-0000-000000000000"
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def _quoted(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(f"{quote}{word}{quote}" for word in words for quote in ("", "'", '"'))


_ALWAYS: frozenset[str] = frozenset()
_SPELLINGS: dict[str, frozenset[str]] = {_NIL_UUID: _ALWAYS}
"""Keyed by the word in lower case: the spellings that are junk, or `_ALWAYS` if every spelling is."""
for _word in _quoted(_EXACT):
    _SPELLINGS[_word.lower()] = _SPELLINGS.get(_word.lower(), frozenset()) | {_word}
_SPELLINGS.update(dict.fromkeys(_quoted(_ANY_CASE), _ALWAYS))
SPELLINGS = frozenset(_SPELLINGS)
"""The words in lower case, quoted and unquoted. An ASCII id that begins with a letter or a digit is a placeholder only
if it is one of these, in any case."""

PERSON_LESS = frozenset(word.lower() for word in (*_ANY_CASE, *_EXACT, _NIL_UUID)) | {
    "anonymous-user", "backend", "nan", "system", "user"
}  # fmt: skip
"""The ids, in lower case, whose events the per-event endpoint takes without a person
(docs/know/service.md#per-event-endpoint)."""


def is_person_less(text: str) -> bool:
    """Whether the per-event endpoint takes events with this id without a person, whatever its case."""
    return len(text) < 50 and trimmed(text).lower() in PERSON_LESS


def trimmed(text: str) -> str:
    """An id as the per-event endpoint stores it."""
    return text.strip(_BLANKS)


def is_placeholder(text: str) -> bool:
    """Whether an id is blank, a word that the service refuses (quoted or not), the nil UUID, or a JSON object or list.

    A tracker writes JSON if it is given a whole user as the id: another spelling of `[object Object]`. The same applies
    after `$device:`, which Mixpanel writes before the id of a device.
    """
    spellings = _SPELLINGS.get(text.lower())
    if spellings is None:
        if text[:1] == "$" and text.startswith(_DEVICE):
            return is_placeholder(text[len(_DEVICE) :])
        return not text or (((head := text[0]) in "[{" or head.isspace()) and (text.isspace() or _is_nested(text)))
    return not spellings or text in spellings


def _is_nested(text: str) -> bool:
    """Whether a string is a JSON object or list."""
    try:
        return isinstance(msgspec.json.decode(text.encode()), (dict, list))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
