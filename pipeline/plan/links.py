"""The merges that rows state, as a sealed part of their own, sent before every event.

A merge cannot be undone, so a link is made once: the same pair said by a thousand rows is one link, with a uuid
of its own made of (kind, ids). It is dated 1 ms before the earliest event of either id, because a merge that arrives
after the events it joins leaves two people (service-behaviour 1.10). An id that two users claim goes to the first.
Nothing here depends on the order of rows or files, and what grows is spilled to disk (laws 3 and 8).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

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
"""A merge that nothing dates lies this long before the plan's instant, in µs; none is younger."""
MOST_CLAIMS = 100_000
"""So many claims are held in memory before they go to disk."""
DATED_AT_ONCE = 200_000
"""So many links are dated by one look at the key records."""
NEVER = 2**62


class SealedLink(msgspec.Struct, frozen=True):
    """A link as it is sent. `time` is µs UTC; `rows` counts the rows that state it."""

    kind: str
    distinct_id: str
    other: str
    time: int
    uuid: str
    rows: int


class _Claim(NamedTuple):
    """Some rows say that `user` absorbs `other`; `first` is their earliest time, NEVER where none has one."""

    other: str
    user: str
    kind: str
    first: int
    rows: int


class Links:
    """Links of a plan being made. `refused` counts the rows whose claim was refused, by code."""

    def __init__(self, directory: Path, most: int = MOST_CLAIMS) -> None:
        self._directory = directory
        self._most = most
        self._held: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._runs: list[Path] = []
        self.refused: Counter[str] = Counter()

    def add(self, links: Iterable[Link]) -> None:
        held = self._held
        for link in links:
            problem = refusal(link)
            if problem:
                self.refused[problem] += 1
                continue
            key = (link.other, link.distinct_id, link.kind)
            first, rows = held.get(key, (NEVER, 0))
            held[key] = (first if link.time is None else min(first, link.time), rows + 1)
        if len(held) > self._most:
            self._spill()

    def seal(self, hasher: Hasher, keys: Keys, options: Options) -> Iterator[SealedLink]:
        """The links by the id that is absorbed, dated. One that several users claim goes to the earliest claim."""
        chosen = self._chosen()
        while some := list(islice(chosen, DATED_AT_ONCE)):
            first_seen = _first_seen({one for claim in some for one in (claim.user, claim.other)}, keys)
            for other, user, kind, said, rows in some:
                time = min(first_seen.get(user, NEVER), first_seen.get(other, NEVER))
                if time == NEVER:
                    time = min(said, options.as_of - WITHOUT_TIME)
                uuid = hasher(SEPARATOR.join(("link", kind, user, other)))
                yield SealedLink(kind, user, other, max(0, time - BEFORE), uuid, rows)

    def _chosen(self) -> Iterator[_Claim]:
        for _, claims in groupby(self._merged(), key=lambda claim: claim.other):
            best: _Claim | None = None
            for _, same in groupby(claims, key=lambda claim: claim.user):
                claim = _one_kind(list(same))
                if best is not None:
                    claim, lost = sorted((best, claim), key=_precedence)
                    self.refused["conflicting_link"] += lost.rows
                best = claim
            if best is not None:
                yield best

    def _merged(self) -> Iterator[_Claim]:
        """Every claim once, sorted by the absorbed id, then the user."""
        runs = [_read(path) for path in self._runs]
        ordered = heapq.merge(*runs, self._sorted())
        for (other, user, kind), same in groupby(ordered, key=lambda claim: claim[:3]):
            firsts, rows = zip(*((claim.first, claim.rows) for claim in same), strict=True)
            yield _Claim(other, user, kind, min(firsts), sum(rows))

    def _sorted(self) -> list[_Claim]:
        return sorted(_Claim(*key, *told) for key, told in self._held.items())

    def _spill(self) -> None:
        path = self._directory / f"claims-{len(self._runs):04d}.run"
        with path.open("wb") as file:
            for claim in self._sorted():
                file.write(msgspec.json.encode(claim) + b"\n")
        self._runs.append(path)
        self._held.clear()


def _one_kind(claims: list[_Claim]) -> _Claim:
    """A pair that rows state in two kinds is one merge, of the kind that was said first."""
    return min(claims, key=_precedence)._replace(rows=sum(claim.rows for claim in claims))


def _precedence(claim: _Claim) -> tuple[int, str, str]:
    return claim.first, claim.user, claim.kind


def _read(path: Path) -> Iterator[_Claim]:
    decode = msgspec.json.Decoder(_Claim).decode
    with path.open("rb") as file:
        for line in file:
            yield decode(line)


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
    names = sorted(ids)
    hashes = np.array([xxhash.xxh3_64_intdigest(one.encode("utf-8", "surrogatepass")) for one in names], np.uint64)
    order = np.argsort(hashes)
    hashes = hashes[order]
    earliest = np.full(len(hashes), NEVER, np.int64)
    for chunk in keys.chunks():
        where = np.searchsorted(hashes, chunk["person"])
        where[where == len(hashes)] = 0
        hit = hashes[where] == chunk["person"]
        np.minimum.at(earliest, where[hit], chunk["time"][hit])
    return {names[int(index)]: int(time) for index, time in zip(order, earliest, strict=True) if time < NEVER}
