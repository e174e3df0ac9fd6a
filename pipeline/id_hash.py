"""How an id is known where its text would take too much room: in the tables of a plan, and in those that are sealed."""

from __future__ import annotations

import xxhash


def hash_id(one: str) -> int:
    """xxh3-64 of an id. Whoever relies on it says what two ids of one hash come to."""
    return xxhash.xxh3_64_intdigest(one.encode("utf-8", "surrogatepass"))
