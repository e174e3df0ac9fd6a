"""Identities of a few pairs in one call, and the service's merge rules in twenty lines to judge the links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.encoder.updates import SealedLink
from pipeline.identity.database import Database
from pipeline.identity.event_ids import find_activity
from pipeline.identity.kinds import KINDS, NEVER
from pipeline.identity.numbering import hashes
from pipeline.identity.observed_pairs import NAMED, EarlierLink, ObservedPair, ObservedPairs, add_pair_file
from pipeline.identity.policies import FIRST_USERS, UserPolicies
from pipeline.identity.resolve import resolve
from pipeline.identity.summary import MergeSummary
from pipeline.plan.window_index import SIGHTING
from pipeline.uuids import SEPARATOR, Hasher, namespace

AS_OF = 1_704_067_200_000_000


class Seen(NamedTuple):
    """Rows that have both ids; `at` in µs UTC."""

    anonymous: str
    user: str
    at: int | None = 100
    kind: str = "row"
    events: int = 1
    row: int = 1


class Resolved(NamedTuple):
    """The result for some pairs. `table` has one tuple per pair: ids, decision, reason."""

    table: list[dict[str, Any]]
    links: list[SealedLink]
    summary: MergeSummary
    canonical: dict[str, str]
    identified: frozenset[str]

    def decision(self, anonymous: str, user: str) -> tuple[str, str]:
        """Decision and reason of one pair."""
        (one,) = [row for row in self.table if (row["anonymous_id"], row["user_id"]) == (anonymous, user)]
        return one["decision"], one["reason"]

    def star(self) -> set[tuple[str, str]]:
        """(kept, absorbed) of every link."""
        return {(link.distinct_id, link.other) for link in self.links}

    def persons(self) -> set[frozenset[str]]:
        """The persons of several ids, without the tool's own numbers."""
        whose = [pair for pair in self.canonical.items() if pair[0][:1] != SEPARATOR]
        together = {frozenset(one for one, kept in whose if kept == who) for _, who in whose}
        return {ids for ids in together if len(ids) > 1}


class SeenId(NamedTuple):
    """Some events of one id, by its hash: the time and place of the first, and whether it is a user's."""

    hashed: int
    time: int = 0
    user: bool = False
    events: int = 1
    place: int = 0
    last: int = 0


def event_ids(events: Mapping[str, int], users: Iterable[str] = ()) -> list[SeenId]:
    """One event of each id at its time; those of `users` are marked."""
    hashed = hashes(events).tolist()
    return [SeenId(one, at, id in set(users)) for one, (id, at) in zip(hashed, events.items(), strict=True)]


def sightings_of(seen: Sequence[SeenId]) -> NDArray[np.void]:
    """The same as records, one for each."""
    return np.array([(one.hashed, one.time, one.user) for one in seen], SIGHTING)


def resolved(
    blocks: Sequence[Sequence[Seen]],
    events: Mapping[str, int] | None = None,
    *,
    users: Iterable[str] = (),
    most: int = 50,
    earlier: Iterable[EarlierLink] = (),
    named: Path | None = None,
    as_of: int = AS_OF,
    policies: UserPolicies = FIRST_USERS,
) -> Resolved:
    """The identities of these pairs, block by block. Without `events`, each id has one at 50 µs."""
    ids = sorted({one for block in blocks for seen in block for one in seen[:2]})
    events = dict.fromkeys(ids, 50) if events is None else events
    keys = sightings_of(event_ids(events, users))
    with TemporaryDirectory() as folder, Database(Path(folder)) as database:
        place = Path(folder)
        observed = ObservedPairs(database)
        if named is not None:
            add_pair_file(observed, named)
        for part, block in enumerate(blocks):
            observed.add(
                part,
                (
                    ObservedPair(
                        one.anonymous,
                        one.user,
                        (KINDS | {"named": NAMED})[one.kind],
                        NEVER if one.at is None else one.at,
                        -NEVER if one.at is None else one.at,
                        one.events,
                        one.row,
                    )
                    for one in block
                ),
            )
        look = [keys[: len(keys) // 2], keys[len(keys) // 2 :]]
        events_say = partial(find_activity, chunks=look)
        with resolve(observed, events_say, place, most=most, earlier=earlier, policies=policies) as found:
            found.write(place / "identities.parquet", [f"part-{number}" for number in range(len(blocks))], "named.csv")
            known = frozenset(found.identified().tolist())
            return Resolved(
                pq.read_table(place / "identities.parquet").to_pylist(),
                list(found.links(Hasher(namespace("tiny")), as_of)),
                found.summary(),
                dict(zip(ids, found.canonical(ids), strict=True)),
                frozenset(one for one in ids if int(hashes([one])[0]) in known),
            )


class MergingService:
    """How the service merges (docs/know/service.md#merges), and which of the given links it refuses."""

    def __init__(self, links: Iterable[SealedLink | EarlierLink] = ()) -> None:
        self.person: dict[str, set[str]] = {}
        self.merged: set[str] = set()
        self.refused: list[tuple[str, str]] = []
        for link in links:
            self.merge(link.distinct_id, link.other)

    def merge(self, kept: str, other: str) -> None:
        """One `$identify` or `$create_alias`."""
        into = self.person.setdefault(kept, {kept})
        gone = self.person.setdefault(other, {other})
        if into is gone:
            return
        if gone & self.merged:
            self.refused.append((kept, other))
            return
        into |= gone
        for one in gone:
            self.person[one] = into
        self.merged |= into

    def persons(self) -> set[frozenset[str]]:
        """The persons of several ids."""
        return {frozenset(ids) for ids in self.person.values() if len(ids) > 1}
