"""The merges that rows state, as a sealed part of their own, sent before every event.

A merge cannot be undone, so a link is made once: the same pair said by a thousand rows is one link, with a uuid
of its own made of (kind, ids). It is dated 1 ms before the earliest event of either id, because a merge that arrives
after the events it joins leaves two people (service-behaviour 1.10). An id that two users claim goes to the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import xxhash

from pipeline.identity import SEPARATOR, Hasher
from pipeline.junk import is_junk
from pipeline.plan.copies import Keys
from pipeline.schema import Link, Options
from pipeline.validate import HOUR, MAX_ID

BEFORE = 1_000
"""A merge is dated this long before the first event it concerns, in µs."""
WITHOUT_TIME = 49 * HOUR


class SealedLink(msgspec.Struct, frozen=True):
    """A link as it is sent. `time` is µs UTC; `rows` counts the rows that state it."""

    kind: str
    distinct_id: str
    other: str
    time: int
    uuid: str
    rows: int


class Links:
    """Links of a plan being made. Held in memory: one entry for each pair of ids, not for each row."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[tuple[str, str], tuple[int, int]]] = {}
        self.refused: dict[str, int] = {}

    def add(self, links: Iterable[Link]) -> None:
        for link in links:
            problem = refusal(link)
            if problem:
                self.refused[problem] = self.refused.get(problem, 0) + 1
                continue
            claims = self._found.setdefault((link.kind, link.other), {})
            rows, first = claims.get((link.kind, link.distinct_id), (0, 2**62))
            time = link.time if link.time is not None else 2**62
            claims[link.kind, link.distinct_id] = (rows + 1, min(first, time))

    def seal(self, hasher: Hasher, keys: Keys, options: Options) -> Iterator[SealedLink]:
        """The links in a fixed order, dated. An id that several users claim goes to the earliest claim."""
        chosen: list[tuple[str, str, str, int, int]] = []
        for (kind, other), claims in self._found.items():
            ranked = sorted((first, user, rows) for (_, user), (rows, first) in claims.items())
            first, user, rows = ranked[0]
            chosen.append((kind, user, other, first, rows))
            lost = len(ranked) - 1
            if lost:
                self.refused["conflicting_link"] = self.refused.get("conflicting_link", 0) + lost
        first_seen = _first_seen({one for link in chosen for one in link[1:3]}, keys)
        chosen.sort()
        for kind, user, other, said, rows in chosen:
            time = min(first_seen.get(user, 2**62), first_seen.get(other, 2**62))
            if time == 2**62:
                time = said if said < 2**62 else options.as_of - WITHOUT_TIME
            uuid = hasher(SEPARATOR.join(("link", kind, user, other)))
            yield SealedLink(kind, user, other, max(0, time - BEFORE), uuid, rows)


def refusal(link: Link) -> str:
    """Why a link is never sent, or "". The event of the row is not concerned."""
    if link.distinct_id == link.other:
        return "self_link"
    if is_junk(link.distinct_id) or is_junk(link.other):
        return "junk_link"
    if max(len(link.distinct_id), len(link.other)) > MAX_ID or "\0" in link.distinct_id + link.other:
        return "long_link"
    return ""


def _first_seen(ids: set[str], keys: Keys) -> dict[str, int]:
    """The earliest event time of each id that has events, by one look at the key records."""
    if not ids:
        return {}
    names = sorted(ids)
    hashes = np.array([xxhash.xxh3_64_intdigest(one.encode("utf-8", "surrogatepass")) for one in names], np.uint64)
    order = np.argsort(hashes)
    hashes = hashes[order]
    earliest = np.full(len(hashes), 2**62, np.int64)
    for chunk in keys.chunks():
        where = np.searchsorted(hashes, chunk["person"])
        where[where == len(hashes)] = 0
        hit = hashes[where] == chunk["person"]
        np.minimum.at(earliest, where[hit], chunk["time"][hit])
    return {names[int(index)]: int(time) for index, time in zip(order, earliest, strict=True) if time < 2**62}


def count_lines(path: Path) -> int:
    """How many links a sealed file holds."""
    with path.open("rb") as file:
        return sum(1 for _ in file)
