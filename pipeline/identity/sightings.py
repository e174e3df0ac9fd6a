"""When each id has its first event, and which ids are users', by the 64-bit hashes of the ids that events have.

Two ids that share one, which five million ids do once in a
million plans, get the earlier of two dates, and a link that is dated too early still comes before what it joins; or
one is taken for a user's, and then a merge is left out. So a collision never merges, and the same source always
gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.accumulators import NEVER

_AT_ONCE = 200_000


class IdActivity(NamedTuple):
    """By id: µs UTC of its first event, NEVER without one; and whether an event names it as a user's id."""

    earliest: NDArray[np.int64]
    users: NDArray[np.bool_]


def find_activity(
    hashed: NDArray[np.uint64],
    order: NDArray[np.int32],
    chunks: Iterable[NDArray[np.void]],
) -> IdActivity:
    """Look for ids, by their hashes, among those of events, once over all of them. `order` sorts `hashed`.

    `chunks` are arrays with the fields `person`, `time` and `user` (not 0 where it is a user's id), in any order and
    number, those of earlier plans included where windows follow each other.
    """
    earliest = np.full(len(hashed), NEVER, np.int64)
    users = np.zeros(len(hashed), bool)
    for chunk in chunks:
        if not len(chunk) or not len(hashed):
            continue
        by = np.argsort(chunk["person"], kind="stable")  # most chunks are sorted
        person = chunk["person"][by]
        starts = np.flatnonzero(np.concatenate(([True], person[1:] != person[:-1])))
        person = person[starts]
        where = np.searchsorted(hashed, person, sorter=order)
        where[where == len(hashed)] = 0
        number = order[where]
        hit = hashed[number] == person
        number = number[hit]
        earliest[number] = np.minimum(earliest[number], np.minimum.reduceat(chunk["time"][by], starts)[hit])
        users[number] |= np.bitwise_or.reduceat(chunk["user"][by], starts)[hit] != 0
    for start in range(0, len(hashed) - 1, _AT_ONCE):
        some = order[start : start + _AT_ONCE + 1]
        ascending = hashed[some]
        for twin in np.flatnonzero(ascending[1:] == ascending[:-1]).tolist():
            earliest[some[twin + 1]], users[some[twin + 1]] = earliest[some[twin]], users[some[twin]]
    return IdActivity(earliest, users)
