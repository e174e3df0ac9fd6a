"""The ids, pairs and groups of one plan of a series, sealed with it for the plans that follow.

A merge depends on all rows about two ids: a device may be alone in one window and paired with its user in another. And
the last value of a group's property may be in any window. So every plan of a series writes three tables, which list
each id, pair and group once:

sightings.bin   each id that has an event or is a user's: its hash, its first event, whether it is a user's; sorted
paired.jsonl    each pair of ids that its rows show: [anonymous, user, kinds, first]; sorted
known.jsonl     each group that its rows show, with the last values of all windows up to this one (`GroupState`)

`earlier_pairs` reads what the other plans have about the ids of this plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.identity.event_ids import SIGHTING, sightings
from pipeline.identity.groups import GroupState
from pipeline.identity.numbering import hashes
from pipeline.plan.sealed.directory import BytesWriter, Directory, LinesWriter, read_lines
from pipeline.plan.sealed.manifest import Plan
from pipeline.timestamps import lost_digits
from pipeline.validator.placeholder_ids import is_placeholder

if TYPE_CHECKING:
    from pipeline.identity.observed_pairs import ObservedPair, ObservedPairs

SIGHTINGS, PAIRED, GROUPS = "sightings.bin", "paired.jsonl", "known.jsonl"
EARLIER = "an earlier window"
"""Shown instead of a file, for a pair that only other plans of the series have."""
AT_ONCE = 200_000


class WindowPair(NamedTuple):
    """Two ids that rows pair. `kinds` are those of `ObservedPair`, added up; `first` is in µs UTC, NEVER if unknown."""

    anonymous: str
    user: str
    kinds: int
    first: int


class IdentityIndex(Protocol):
    """The ids and pairs of the other plans of a series (`pipeline.jobs.indexes`), by the xxh3-64 of ids."""

    def pairs(self, ids: Iterable[NDArray[np.uint64]], *, pending_merges: bool) -> Iterator[WindowPair]:
        """Every pair that a path of pairs connects to one of these ids; `pending_merges` adds pairs that were held
        back."""
        ...

    def sightings(self, ids: NDArray[np.uint64]) -> Iterator[NDArray[np.void]]:
        """The SIGHTING records of these ids."""
        ...


class GroupIndex(Protocol):
    """The groups of the other plans of a series (`pipeline.jobs.indexes`)."""

    def find(self, owner: str) -> GroupState | None:
        """A group by its type and key, joined by SEPARATOR."""
        ...

    def types(self) -> Sequence[str]:
        """The group types, in the order in which they were sent."""
        ...


def write_window_index(directory: Directory, observed: ObservedPairs, files: dict[str, str]) -> None:
    """Write both tables, durably. The database of `observed` has the ids of events; `files` receives the digests."""
    with BytesWriter(directory.path / SIGHTINGS) as table:
        for some in sightings(observed.database):
            table.write_bytes(some.tobytes())
        files[SIGHTINGS] = table.close()
    with LinesWriter(directory.path / PAIRED) as writer:
        pairs = _aggregated_pairs(observed)
        writer.write_all(pair for pair in pairs if pair.anonymous != pair.user and not _has_placeholder(pair))
        files[PAIRED] = writer.close()


def earlier_pairs(directory: Directory, index: IdentityIndex, *, pending_merges: bool) -> Iterator[ObservedPair]:
    """The pairs of other plans of a series that lead, directly or through other ids, to an id of this plan's tables.

    Their rows are not counted here, because their own plans counted them. `pending_merges` includes pairs whose merge
    was held back.
    """
    from pipeline.identity.kinds import NEVER
    from pipeline.identity.observed_pairs import ObservedPair

    for pair in index.pairs(WindowIndex(directory).ids(), pending_merges=pending_merges):
        yield ObservedPair(*pair, last=-NEVER, events=0, row=0)


class WindowIndex(msgspec.Struct, frozen=True):
    """The tables of a plan, read back. `unfinished`: its rest is never sent. `group_types` are the types that it sends.

    `pending_merges`: merges of its pairs were held back. `sent_merges`: it sent merges that were held back before.
    """

    directory: Directory
    pending_merges: bool = False
    sent_merges: bool = False
    unfinished: bool = False
    group_types: tuple[str, ...] = ()

    @staticmethod
    def from_plan(plan: Plan, directory: Directory) -> WindowIndex:
        """The tables of a plan that was sent completely."""
        types = tuple(one.type for one in plan.people.groups.types if one.sent)
        merges = bool(plan.events.phases.get("identities"))
        return WindowIndex(directory, bool(plan.warnings.get("held_link")), merges, group_types=types)

    @staticmethod
    def from_unfinished_plan(directory: Directory) -> WindowIndex:
        """The tables of a plan whose rest is never sent: none of its merges can be relied upon."""
        return WindowIndex(directory, pending_merges=True, unfinished=True)

    def sightings(self) -> Iterator[NDArray[np.void]]:
        """SIGHTING records, sorted by hash, in chunks."""
        with (self.directory.path / SIGHTINGS).open("rb") as file:
            while len(chunk := np.fromfile(file, SIGHTING, AT_ONCE)):
                yield chunk

    def pairs(self) -> Iterator[WindowPair]:
        """The pairs, sorted by both ids."""
        if (self.directory.path / PAIRED).exists():
            yield from (
                WindowPair(*line) for line in read_lines(self.directory.path / PAIRED, tuple[str, str, int, int])
            )

    def groups(self) -> Iterator[GroupState]:
        """The groups after this plan."""
        if not self.unfinished and (self.directory.path / GROUPS).exists():
            yield from read_lines(self.directory.path / GROUPS, GroupState)

    def ids(self) -> Iterator[NDArray[np.uint64]]:
        """The hashes of all ids in both tables."""
        yield from (chunk["person"] for chunk in self.sightings())
        pairs = self.pairs()
        while some := list(islice(pairs, AT_ONCE)):
            yield hashes(one for pair in some for one in pair[:2])


def _aggregated_pairs(observed: ObservedPairs) -> Iterator[WindowPair]:
    sql = (
        "SELECT anonymous, owner, bit_or(kinds) AS kinds, min(first) AS first FROM observed"
        " GROUP BY anonymous, owner ORDER BY anonymous, owner"
    )
    return (WindowPair(*row) for row in observed.database.tuples(sql))


def _has_placeholder(pair: WindowPair) -> bool:
    """Whether an id of the pair is a placeholder or a rounded number: it never joins ids, and would connect
    everyone."""
    return any(is_placeholder(one) or lost_digits(one) for one in (pair.anonymous, pair.user))
