"""Clusters of ids that are one person, and the canonical id of each.

A cluster is a connected component that has two users only where a record names both. Pairs are taken in one fixed
order, and a pair that would join two persons is left out: the first user of a device keeps it. That is Kruskal's
algorithm with at most one user in a component, so the order of rows cannot matter.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.accumulators import NEVER
from pipeline.identity.numbering import counts, marked
from pipeline.identity.observed_pairs import ALIAS, IDENTIFY, MERGE, NAMED, SETTLED
from pipeline.identity.rules import PairArrays

_AT_ONCE = 50_000
_IDS_AT_ONCE = 200_000


def components(pairs: PairArrays, open_: NDArray[np.bool_], users: NDArray[np.bool_]) -> NDArray[np.int32]:
    """By id: the number of one id of its component. Only pairs of `open_` join.

    1. Ids that earlier plans merged are one person.
    2. Users join where a record or the operator names both; a record that absorbs an id counts only where it is the
       first that absorbs it.
    3. Then everything else, the operator's pairs first, by the time of the first row; a pair that would join two
       users, or two persons of earlier plans, is left out.
    """
    anonymous, user, kinds = pairs.anonymous, pairs.user, pairs.kinds
    settled = open_ & ((kinds & SETTLED) != 0)
    survivors = marked(user[settled], len(users))
    taken = open_ & ~_contested(pairs, open_)
    parent = np.arange(len(users), dtype=np.int32)
    easy = taken & _easy(pairs, taken, users, survivors)
    _to_the_first(pairs, easy, parent)
    forest = _Forest(parent, users, survivors)
    del parent
    both = users[anonymous] & users[user]
    remaining = taken & ~settled & ~easy
    forest.join(pairs, np.flatnonzero(settled), guarded=False)
    forest.join(pairs, in_order(pairs, remaining & both), guarded=False, apart=True)
    forest.join(pairs, in_order(pairs, remaining & ~both), guarded=True, apart=True)
    return forest.roots()


def _easy(
    pairs: PairArrays, taken: NDArray[np.bool_], users: NDArray[np.bool_], survivors: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Pairs of ids that can join nothing but their first partner, so that their order does not matter.

    Such an id is no user, absorbed no id in any plan, and is paired with users alone, or only once.
    """
    size = len(users)
    open_to_others = marked(pairs.user[taken], size) | survivors
    open_to_others |= marked(pairs.anonymous[taken & ((pairs.kinds & SETTLED) != 0)], size) | users
    device = ~users[pairs.user] & (counts(pairs.anonymous, size, taken)[pairs.anonymous] > 1)
    open_to_others |= marked(pairs.anonymous[taken & device], size)
    return np.asarray(~open_to_others[pairs.anonymous])


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


def _contested(pairs: PairArrays, open_: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Stated pairs that absorb an id which another stated pair absorbed before; records without order never do."""
    directed = (pairs.kinds & (IDENTIFY | ALIAS | NAMED | SETTLED)) != 0
    places = in_order(pairs, open_ & directed)
    _, firsts = np.unique(pairs.anonymous[places], return_index=True)
    lost = np.zeros(len(pairs), bool)
    lost[places] = True
    lost[places[firsts]] = False
    return np.asarray(lost & ((pairs.kinds & (MERGE | SETTLED)) == 0))


def _two_by_two(pairs: PairArrays, places: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    for start in range(0, len(places), _AT_ONCE):
        some = places[start : start + _AT_ONCE]
        yield from zip(pairs.anonymous[some].tolist(), pairs.user[some].tolist(), strict=True)


class _Forest:
    """Union-find over all ids; each tree's root knows whether a user or an earlier person is in it."""

    def __init__(self, parent: NDArray[np.int32], users: NDArray[np.bool_], survivors: NDArray[np.bool_]) -> None:
        self._parent = array("i", parent.tobytes())
        self._users = bytearray(users.tobytes())
        self._survivors = bytearray(survivors.tobytes())

    def join(self, pairs: PairArrays, places: NDArray[np.int64], *, guarded: bool, apart: bool = False) -> None:
        """Join the ids of pairs in this order. `guarded`: never two users; `apart`: never two earlier persons."""
        users, survivors, parent, root = self._users, self._survivors, self._parent, self._root
        for one, other in _two_by_two(pairs, places):
            one, other = root(one), root(other)
            if one == other or (guarded and users[one] and users[other]):
                continue
            if apart and survivors[one] and survivors[other]:
                continue
            parent[one] = other
            users[other] |= users[one]
            survivors[other] |= survivors[one]

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
    stated = joined & ((pairs.kinds & (IDENTIFY | ALIAS | NAMED | SETTLED)) != 0)
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
