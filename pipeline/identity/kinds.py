"""The kinds of what rows state about people and groups, and numbers that stand for what is missing."""

from __future__ import annotations

KINDS = {"row": 1, "identify": 2, "alias": 4, "user": 6, "merge": 8, "service": 128, "seen": 256, "person": 512}
"""The kinds of rows that pair two ids, as bits; `pipeline.identity.observed_pairs` describes them."""
NULL_ONCE, SHOWN_ONCE, SET_ONCE, SHOWN, SET, UNSET = range(1, 7)
"""The kinds of updates of a property, in the order in which those of one instant count. NULL_ONCE is a null that is set
once: any value counts more, because the service takes a stored null for absent (docs/know/service.md#persons). SHOWN
and SHOWN_ONCE are what the service itself copies from events (`pipeline.identity.promotion`)."""
GROUP, GROUPS = 7, 8
"""Kinds of updates of groups: a row sets properties of a group, or an event names some groups in `$groups`."""
NULL = b"null"
NEVER = 2**62
"""Means "no time" in a minimum of times, and its negative in a maximum."""
ABSENT = -(2**62)
"""Means "no receive time"."""
PLACE_SHIFT = 32
"""A place in the source is the number of a block, shifted left by this, plus a row in the block, from 0."""
USER, FLOAT = 1, 2
"""Flags of an event: it names its id as a user's, and the id looks like a floating-point number."""
