"""Merges as they are sealed and sent, before every event.

A merge cannot be undone, so a link is made once, with a uuid of its own made of (kind, ids). It is dated 1 ms before
the earliest event of either id, because a merge that arrives after the events it joins leaves two people
(docs/know/service.md#merges). `pipeline.identity` decides which there are.
"""

from __future__ import annotations

import msgspec

BEFORE = 1_000
"""A merge is dated this long before the first event it concerns, in µs."""


class SealedLink(msgspec.Struct, frozen=True):
    """A link as it is sent. `time` is µs UTC; `rows` counts the rows that state it."""

    kind: str
    distinct_id: str
    other: str
    time: int
    uuid: str
    rows: int
