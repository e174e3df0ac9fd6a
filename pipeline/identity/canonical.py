"""The id that each person keeps: all others of the person are linked straight to it, as a star.

The service refuses a chain at its second link (docs/know/service.md#merges), so every link goes to one id. It is, in
this order: the one that earlier plans kept; a user's id over any other; the one that the tool's records keep and never
absorb; one that they do not absorb; the one whose first event is the earliest; the least by its text.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.accumulators import NEVER
from pipeline.identity.numbering import marked
from pipeline.identity.observed_pairs import ALIAS, IDENTIFY, NAMED, SETTLED
from pipeline.identity.rules import PairArrays

_AT_ONCE = 200_000


def canonical_ids(
    pairs: PairArrays,
    joined: NDArray[np.bool_],
    roots: NDArray[np.int32],
    users: NDArray[np.bool_],
    earliest: NDArray[np.int64],
    numbers: NDArray[np.bool_],
) -> NDArray[np.int32]:
    """By id: the id that its person keeps. `joined` are the pairs whose two ids are one person; `numbers` are the ids
    that are a tool's own numbers, which no person keeps that has another."""
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
    for start in range(0, len(roots), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        yield (start + np.flatnonzero(rank[some] == best[roots[some]])).astype(np.int32)
