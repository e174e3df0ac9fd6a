"""Clusters of ids that are one person, and the canonical id of each.

A cluster is a connected component that has two users only if a record joins them. Pairs are taken in the order of time,
which decides as it did at the source: the first user of a device keeps it. That is Kruskal's algorithm with a rule for
each kind of pair, so the order of rows cannot matter.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.accumulators import NEVER
from pipeline.identity.numbering import counts, marked
from pipeline.identity.observed_pairs import ALIAS, IDENTIFY, MERGE, NAMED, SERVICE, SETTLED
from pipeline.identity.rules import PairArrays

_AT_ONCE = 50_000
_IDS_AT_ONCE = 200_000


def components(
    pairs: PairArrays, open_: NDArray[np.bool_], users: NDArray[np.bool_], earliest: NDArray[np.int64]
) -> NDArray[np.int32]:
    """By id: the number of one id of its component. Only pairs of `open_` join. `earliest` is the first event of each.

    Ids that earlier plans merged are one person. Then the operator's pairs join, and everything else by the time of its
    first row, by the rule of its kind (docs/use/people-and-groups.md). No pair joins two persons of earlier plans, and
    no record takes an id from the user that the operator gives it.
    """
    named = open_ & ((pairs.kinds & NAMED) != 0)
    directed = (pairs.kinds & (IDENTIFY | ALIAS | SERVICE)) != 0
    taken = open_ & (named | ~directed | ~marked(pairs.anonymous[named], len(users))[pairs.anonymous])
    survivors = marked(pairs.user[open_ & ((pairs.kinds & SETTLED) != 0)], len(users))
    parent = np.arange(len(users), dtype=np.int32)
    easy = taken & _easy(pairs, taken, users, survivors)
    _to_the_first(pairs, easy, parent)
    forest = _Forest(parent, users, survivors)
    if ((pairs.kinds & SERVICE) != 0).any():
        forest.remember(earliest, pairs.user[easy], pairs.first[easy])
    del parent
    forest.join(pairs, in_order(pairs, taken & ~easy))
    return forest.roots()


def _easy(
    pairs: PairArrays, taken: NDArray[np.bool_], users: NDArray[np.bool_], survivors: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Pairs of ids that can join nothing but their first partner, so that their order does not matter.

    Such an id is no user, absorbed no id in any plan, and is only once in a pair, or only in rows and records that give
    a device to its first user. Records identify whom they keep, which counts for a later merge of the service.
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
    """Hang each id of the easy pairs under the partner that comes first in the order of `in_order`."""
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
    """Places of some pairs in the order in which they are taken: settled, named, then by time, then by ids."""
    places = np.flatnonzero(some)
    kinds = pairs.kinds[places]
    rank = np.where(kinds & SETTLED, 0, np.where(kinds & NAMED, 1, 2)).astype(np.uint8)
    return places[np.lexsort((pairs.first[places], rank))]


def _one_by_one(pairs: PairArrays, places: NDArray[np.int64]) -> Iterator[tuple[int, int, int, int]]:
    for start in range(0, len(places), _AT_ONCE):
        some = places[start : start + _AT_ONCE]
        columns = (pairs.anonymous, pairs.user, pairs.kinds, pairs.first)
        yield from zip(*(column[some].tolist() for column in columns), strict=True)


class _Forest:
    """Union-find over all ids. Each tree's root knows whether a user or an earlier person is in it; where the service's
    own merges are, also whether it had identified the person, and since when there is one."""

    def __init__(self, parent: NDArray[np.int32], users: NDArray[np.bool_], survivors: NDArray[np.bool_]) -> None:
        self._parent = array("i", parent.tobytes())
        self._users = bytearray(users.tobytes())
        self._survivors = bytearray(survivors.tobytes())
        self._identified = bytearray()
        self._since = array("q")

    def remember(self, earliest: NDArray[np.int64], kept: NDArray[np.int32], times: NDArray[np.int64]) -> None:
        """Keep what the service's own merges depend on; ids of `kept` have a person from these times on."""
        since = earliest.copy()
        np.minimum.at(since, kept, times)
        self._since = array("q", since.tobytes())
        self._identified = bytearray(self._survivors)

    def join(self, pairs: PairArrays, places: NDArray[np.int64]) -> None:
        """Join the ids of pairs in this order, by the rule of each pair's kind."""
        users, survivors, identified, since = self._users, self._survivors, self._identified, self._since
        parent, root = self._parent, self._root
        for one, other, kinds, time in _one_by_one(pairs, places):
            one, other = root(one), root(other)
            if kinds & SETTLED or one == other:
                refused = False
            elif survivors[one] and survivors[other]:
                refused = True
            elif kinds & (NAMED | ALIAS | MERGE):
                refused = False
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


def canonical_ids(
    pairs: PairArrays,
    joined: NDArray[np.bool_],
    roots: NDArray[np.int32],
    users: NDArray[np.bool_],
    earliest: NDArray[np.int64],
    numbers: NDArray[np.bool_],
) -> NDArray[np.int32]:
    """By id: the canonical id of its person. `joined` marks the pairs whose two ids are one person; `numbers` the ids
    that are a tool's own numbers of persons.

    The service refuses a chain of merges at its second link (docs/know/service.md#merges), so every link of a person
    goes to one id. It is, in this order: the one that earlier plans kept; a user's id before any other; one that the
    tool's records keep and never absorb; one that they do not absorb; the one whose first event is the earliest; the
    least by its text. A tool's own number is taken only where the person has no other id.
    """
    stated = joined & ((pairs.kinds & (IDENTIFY | ALIAS | SERVICE | NAMED | SETTLED)) != 0)
    absorbed = marked(pairs.anonymous[stated], len(roots))
    kept = marked(pairs.user[stated], len(roots))
    survivors = marked(pairs.user[(pairs.kinds & SETTLED) != 0], len(roots))
    rank = np.full(len(roots), 1, np.uint8)
    rank[kept] = 0
    rank[absorbed] = 2
    rank[~users] += 3
    rank[~survivors] += 6
    rank[numbers] += 12
    best_rank = np.full(len(roots), 255, np.uint8)
    np.minimum.at(best_rank, roots, rank)
    first = np.full(len(roots), NEVER, np.int64)
    best = np.full(len(roots), len(roots), np.int32)
    for among in _candidates(rank, best_rank, roots):
        np.minimum.at(first, roots[among], earliest[among])
    for among in _candidates(rank, best_rank, roots):
        among = among[earliest[among] == first[roots[among]]]
        np.minimum.at(best, roots[among], among)
    return np.asarray(best[roots])


def _candidates(
    rank: NDArray[np.uint8], best: NDArray[np.uint8], roots: NDArray[np.int32]
) -> Iterator[NDArray[np.int32]]:
    """The ids that no other of their component outranks, some at a time."""
    for start in range(0, len(roots), _IDS_AT_ONCE):
        some = slice(start, start + _IDS_AT_ONCE)
        yield (start + np.flatnonzero(rank[some] == best[roots[some]])).astype(np.int32)
