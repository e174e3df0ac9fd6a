"""Hashes of ids, for tables in which the ids themselves would need too much room."""

from __future__ import annotations

import xxhash


def hash_id(id_: str) -> int:
    """xxh3-64 of an id. Each caller documents the effect of two ids with the same hash."""
    return xxhash.xxh3_64_intdigest(id_.encode("utf-8", "surrogatepass"))
