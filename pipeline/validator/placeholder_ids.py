"""Placeholder ids: words that trackers and databases write if an id is missing.

The service accepts an event with such an id but refuses to merge some of them, and one person would collect thousands
of strangers (docs/know/service.md#ids-and-text, docs/know/exports.md#placeholder-values). So such an id is passed over,
and the next id that the mapping names is used.
"""

from __future__ import annotations

import msgspec

_DEVICE = "$device:"
_NIL_UUID = "00000000-0000-0000-0000-000000000000"
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

_NEVER_MERGED = frozenset((
    "anonymous", "guest", "distinctid", "distinct_id", "id", "not_authenticated", "email", "undefined", "true", "false",
    "[object object]", "nan", "none", "null", "0",
))  # fmt: skip
"""What the service refuses to merge, in lower case. It knows some of them in one spelling only, and would merge `NULL`,
which is how a database or a spreadsheet writes them."""
_EXPORTED = frozenset((
    r"\n", "n/a", "#n/a", "<null>", "<nil>", "<none>", "(null)", "(nil)", "(none)", "(undefined)", "(not set)",
))  # fmt: skip
"""How databases, spreadsheets and programs write a missing value; an id that a person could have, such as `na`, is not
among them."""

SPELLINGS = frozenset(f"{quote}{word}{quote}" for word in _NEVER_MERGED | _EXPORTED for quote in ("", "'", '"')) | {
    _NIL_UUID
}
"""The words in lower case, quoted and unquoted. An ASCII id that begins with a letter or a digit and ends without a
blank is a placeholder only if it is one of these, in any case."""

PERSON_LESS = _NEVER_MERGED | {_NIL_UUID, "anonymous-user", "backend", "system", "user"}
"""The ids, in lower case, whose events the per-event endpoint takes without a person
(docs/know/service.md#per-event-endpoint)."""


def is_person_less(text: str) -> bool:
    """Whether the per-event endpoint takes events with this id without a person, whatever its case."""
    return len(text) < 50 and trimmed(text).lower() in PERSON_LESS


def trimmed(text: str) -> str:
    """An id as the per-event endpoint stores it."""
    return text.strip(_BLANKS)


def is_placeholder(text: str) -> bool:
    """Whether an id, without the blanks around it, is empty, one of `SPELLINGS` in any case, or a JSON object or list.

    A tracker writes JSON if it is given a whole user as the id: another spelling of `[object Object]`. The same applies
    after `$device:`, which Mixpanel writes before the id of a device.
    """
    text = text.strip()
    if text.startswith(_DEVICE):
        return is_placeholder(text[len(_DEVICE) :])
    return not text or text.lower() in SPELLINGS or (text[0] in "[{" and _is_nested(text))


def _is_nested(text: str) -> bool:
    """Whether a string is a JSON object or list."""
    try:
        return isinstance(msgspec.json.decode(text.encode()), (dict, list))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
