"""The clusters of ids that are one person: connected components, joined pair by pair.

A component has two users only if a record joins them. Pairs are taken in time order, which decides as the source tool
did: the first user of a device keeps it. This is Kruskal's algorithm with a rule for each kind of pair, so the order of
rows cannot matter.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.kinds import NEVER
from pipeline.identity.numbering import counts, marked
from pipeline.identity.observed_pairs import ALIAS, IDENTIFY, MERGE, NAMED, SERVICE, SETTLED
from pipeline.identity.rules import PairArrays

_AT_ONCE = 50_000


class Components(NamedTuple):
    """By id: the number that stands for its component. And the pairs of records that join two users, or would."""

    roots: NDArray[np.int32]
    joining: NDArray[np.int64]


def components(
    pairs: PairArrays,
    open_: NDArray[np.bool_],
    users: NDArray[np.bool_],
    earliest: NDArray[np.int64],
    *,
    apart: bool = False,
) -> Components:
    """Join ids by the pairs in `open_`. `earliest` is each id's first event. `apart`: no record joins two users.

    Ids that earlier plans merged are one person. Then the operator's pairs join, then all others in the order of their
    first rows, by the rule of their kind (docs/use/people-and-groups.md). No pair joins two persons of earlier plans,
    and no record takes an id from the user that the operator gave it.
    """
    named = open_ & ((pairs.kinds & NAMED) != 0)
    directed = (pairs.kinds & (IDENTIFY | ALIAS | SERVICE)) != 0
    taken = open_ & (named | ~directed | ~marked(pairs.anonymous[named], len(users))[pairs.anonymous])
    survivors = marked(pairs.user[open_ & ((pairs.kinds & SETTLED) != 0)], len(users))
    parent = np.arange(len(users), dtype=np.int32)
    easy = taken & _easy(pairs, taken, users, survivors)
    _to_the_first(pairs, easy, parent)
    forest = _Forest(parent, users, survivors, apart=apart)
    if ((pairs.kinds & SERVICE) != 0).any():
        forest.remember(earliest, pairs.user[easy], pairs.first[easy])
    del parent
    forest.join(pairs, in_order(pairs, taken & ~easy))
    return Components(forest.roots(), np.array(forest.joining, np.int64))


def _easy(
    pairs: PairArrays, taken: NDArray[np.bool_], users: NDArray[np.bool_], survivors: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Pairs of ids that can join only their first partner, so that their order does not matter.

    Such an id is not a user's, absorbed no id in any plan, and occurs in one pair only, or only in rows and records
    that give a device to its first user. Records identify the id they keep, which affects later merges in the service.
    """
    size = len(users)
    open_to_others = marked(pairs.user[taken], size) | survivors
    open_to_others |= marked(pairs.anonymous[taken & ((pairs.kinds & SETTLED) != 0)], size) | users
    further = ~users[pairs.user] | ((pairs.kinds & (ALIAS | MERGE | SERVICE)) != 0)
    further &= counts(pairs.anonymous, size, taken)[pairs.anonymous] > 1
    open_to_others |= marked(pairs.anonymous[taken & further], size)
    later = ((pairs.kinds & (NAMED | ALIAS | SERVICE)) != 0) & marked(pairs.anonymous[taken], size)[pairs.user]
    return np.asarray(~open_to_others[pairs.anonymous] & ~later)


def _to_the_first(pairs: PairArrays, easy: NDArray[np.bool_], parent: NDArray[np.int32]) -> None:
    """Attach each id of the easy pairs to the partner that comes first in the order of `in_order`."""
    named = marked(pairs.anonymous[easy & ((pairs.kinds & NAMED) != 0)], len(parent))
    first = np.full(len(parent), NEVER, np.int64)
    for last in (False, True):
        for start in range(len(pairs) - len(pairs) % _AT_ONCE, -1, -_AT_ONCE):
            some = start + np.flatnonzero(easy[start : start + _AT_ONCE])[::-1]
            some = some[((pairs.kinds[some] & NAMED) != 0) | ~named[pairs.anonymous[some]]]
            if last:
                some = some[pairs.first[some] == first[pairs.anonymous[some]]]
                parent[pairs.anonymous[some]] = pairs.user[some]
            else:
                np.minimum.at(first, pairs.anonymous[some], pairs.first[some])


def in_order(pairs: PairArrays, some: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Numbers of some pairs in the order in which they are taken: settled, named, then by time, then by ids."""
    places = np.flatnonzero(some)
    kinds = pairs.kinds[places]
    rank = np.where(kinds & SETTLED, 0, np.where(kinds & NAMED, 1, 2)).astype(np.uint8)
    return places[np.lexsort((pairs.first[places], rank))]


def _one_by_one(pairs: PairArrays, places: NDArray[np.int64]) -> Iterator[tuple[int, int, int, int, int]]:
    for start in range(0, len(places), _AT_ONCE):
        some = places[start : start + _AT_ONCE]
        columns = (pairs.anonymous, pairs.user, pairs.kinds, pairs.first)
        yield from zip(some.tolist(), *(column[some].tolist() for column in columns), strict=True)


class _Forest:
    """Union-find over all ids. Each tree's root knows whether the tree has a user or an earlier person; if there are
    merges of the service itself, also whether the service had identified the person, and since when the person
    exists. `joining` are the pairs of records that join two users, or would without `apart`; none in an export of the
    service itself, whose persons are kept."""

    def __init__(
        self, parent: NDArray[np.int32], users: NDArray[np.bool_], survivors: NDArray[np.bool_], *, apart: bool
    ) -> None:
        self.joining = array("q")
        self._apart = apart
        self._parent = array("i", parent.tobytes())
        self._users = bytearray(users.tobytes())
        self._survivors = bytearray(survivors.tobytes())
        self._identified = bytearray()
        self._since = array("q")

    def remember(self, earliest: NDArray[np.int64], kept: NDArray[np.int32], times: NDArray[np.int64]) -> None:
        """Keep what the service's own merges depend on. The ids of `kept` have had a person since these times."""
        since = earliest.copy()
        np.minimum.at(since, kept, times)
        self._since = array("q", since.tobytes())
        self._identified = bytearray(self._survivors)

    def join(self, pairs: PairArrays, places: NDArray[np.int64]) -> None:
        """Join the ids of pairs in this order, by the rule of each pair's kind."""
        users, survivors, identified, since = self._users, self._survivors, self._identified, self._since
        parent, root = self._parent, self._root
        for place, one, other, kinds, time in _one_by_one(pairs, places):
            one, other = root(one), root(other)
            if kinds & SETTLED or one == other:
                refused = False
            elif survivors[one] and survivors[other]:
                refused = True
            elif kinds & NAMED:
                refused = False
            elif kinds & (ALIAS | MERGE):
                joining = bool(users[one] and users[other]) and not since
                if joining:
                    self.joining.append(place)
                refused = joining and self._apart
            elif kinds & SERVICE:
                refused = bool(identified[one]) and since[other] < time
            else:
                refused = bool(users[one] and users[other])
            if not refused and one != other:
                parent[one] = other
                users[other] |= users[one]
                survivors[other] |= survivors[one]
                if since:
                    identified[other] |= identified[one]
                    since[other] = min(since[one], since[other], time)
            if since and kinds & (NAMED | ALIAS | SERVICE):
                identified[other] = 1

    def roots(self) -> NDArray[np.int32]:
        """By id: the root of its tree."""
        parent = np.frombuffer(self._parent, np.int32)
        while True:
            further = parent[parent]
            if (further == parent).all():
                return further
            parent = further

    def _root(self, one: int) -> int:
        parent = self._parent
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one
