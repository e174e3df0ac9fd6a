"""The kinds of statements that rows make about people and groups, and numbers that stand for missing values."""

from __future__ import annotations

KINDS = {
    "row": 1, "identify": 2, "alias": 4, "user": 6, "merge": 8, "service": 128, "dangerous": 134, "seen": 256,
    "person": 512,
}  # fmt: skip
"""The kinds of rows that pair two ids, as bits; `pipeline.identity.observed_pairs` describes them."""
NULL_ONCE, SHOWN_ONCE, SET_ONCE, SHOWN, SET, UNSET = range(1, 7)
"""The kinds of property updates; updates of one instant apply in this order. NULL_ONCE is a null that is set once: any
value outranks it, because the service treats a stored null as absent (docs/know/service.md#persons). SHOWN and
SHOWN_ONCE are what the service itself copies from events (`pipeline.identity.promotion`)."""
GROUP, GROUPS = 7, 8
"""Kinds of group updates: a row sets properties of a group, or an event names groups in `$groups`."""
KNOWN = 9
"""The kind of an update without properties: a row that is not an event names its id as a user's."""
NULL = b"null"
NEVER = 2**62
"""Means "no time" in a minimum of times; its negative means that in a maximum."""
ABSENT = -(2**62)
"""Means "no receive time"."""
PLACE_SHIFT = 32
"""A place in the source is the number of a block, shifted left by this, plus the row's number in the block, from 0."""
USER, FLOAT = 1, 2
"""Flags of an event: it names its id as a user's; the id looks like a floating-point number."""
