"""The rules for which pairs may join ids at all, and a plan's decision and reason for each pair.

The operator's pairs and those that an earlier plan settled skip every rule except the service's.
Sources: docs/know/exports.md#identity-in-exports, #placeholder-values; docs/know/service.md#ids-and-text;
docs/know/peers.md#merges-and-ids.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.identity.kinds import NEVER
from pipeline.identity.numbering import EMAIL, LONG, PLACEHOLDER, counts, marked
from pipeline.identity.observed_pairs import IDENTIFY, NAMED, ROW, SERVICE, SETTLED, SETTLED_USER

MAX_IDS_PER_PERSON = 50


class Decision(IntEnum):
    """The decision on a pair; identities.parquet has the names in lower case."""

    MERGE = 0
    FIRST_USER = 1
    REFUSED = 2
    CONFLICT = 3
    LAST_USER = 4


class Reason(IntEnum):
    """The reason of a decision; identities.parquet has the names in lower case.

    Merged because SAME_ROW, STATED, NAMED (by the operator), SETTLED (by an earlier plan). FIRST_USER: this user of the
    id came first; LAST_USER: last, and the policy on shared devices is `latest`. Refused: SELF_PAIR; JUNK_ID; LONG_ID,
    which the service would cut; EMAIL_AS_DEVICE and USER_AS_DEVICE: a tool wrote a person's id as the device's;
    NEVER_ALONE: the id occurs on no event without its user and in no record, so there is nothing to join (a server's id
    that changes with every call); TOO_MANY_USERS: the id of a shared machine or a placeholder; TOO_MANY_IDS: more than
    --max-ids-per-person. Conflict: OTHER_USER came first; SETTLED_APART: earlier plans made two persons of the ids,
    which the service no longer merges; LATER_USER and SHARED_DEVICE: the policy on shared devices is `latest` or
    `none`; TWO_USERS: a record would join two users, and the policy on these is `none`.
    """

    SAME_ROW = 0
    STATED = 1
    NAMED = 2
    SETTLED = 3
    FIRST_USER = 4
    SELF_PAIR = 5
    JUNK_ID = 6
    LONG_ID = 7
    EMAIL_AS_DEVICE = 8
    USER_AS_DEVICE = 9
    NEVER_ALONE = 10
    TOO_MANY_USERS = 11
    TOO_MANY_IDS = 12
    OTHER_USER = 13
    SETTLED_APART = 14
    LAST_USER = 15
    LATER_USER = 16
    SHARED_DEVICE = 17
    TWO_USERS = 18


class PairArrays(msgspec.Struct):
    """The pairs as arrays with one entry per pair, sorted by (anonymous id, user id).

    `anonymous` and `user` are numbers of ids, `kinds` sums of kinds, `first` is in µs UTC or NEVER, `events` counts the
    rows that show the pair.
    """

    anonymous: NDArray[np.int32]
    user: NDArray[np.int32]
    kinds: NDArray[np.uint16]
    first: NDArray[np.int64]
    events: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.anonymous)


def apply_rules(
    pairs: PairArrays, flags: NDArray[np.uint8], users: NDArray[np.bool_], earliest: NDArray[np.int64], most: int
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Apply every rule to every pair, in order. Returns, by pair, the reason of the first rule that refuses it (0 if
    none does), and, by id, whether it is a user's.

    `flags`, `users` and `earliest` are by id: its flags, whether a row names it as a user's id, and its first event.
    An id on the user's side of an otherwise valid pair is a user's id, too.
    """
    reasons = np.zeros(len(pairs), np.uint8)
    free = (pairs.kinds & SETTLED) == 0
    soft = free & ((pairs.kinds & NAMED) == 0)

    def refuse(where: NDArray[np.bool_], reason: Reason) -> None:
        reasons[where & (reasons == 0)] = reason

    either = flags[pairs.anonymous] | flags[pairs.user]
    refuse(free & (pairs.anonymous == pairs.user), Reason.SELF_PAIR)
    refuse(free & ((either & PLACEHOLDER) != 0), Reason.JUNK_ID)
    refuse(free & ((either & LONG) != 0), Reason.LONG_ID)
    users = users.copy()
    users[pairs.user[(reasons == 0) & ((pairs.kinds & (ROW | IDENTIFY | SERVICE | NAMED | SETTLED_USER)) != 0)]] = True
    device = soft & ((pairs.kinds & ~np.uint16(ROW | IDENTIFY)) == 0)
    refuse(device & ((flags[pairs.anonymous] & EMAIL) != 0), Reason.EMAIL_AS_DEVICE)
    row = soft & (pairs.kinds == ROW)
    refuse(row & users[pairs.anonymous], Reason.USER_AS_DEVICE)
    refuse(row & (earliest[pairs.anonymous] == NEVER) & ~_in_records(pairs, reasons, len(users)), Reason.NEVER_ALONE)
    of_device = soft & ~users[pairs.anonymous]
    refuse(of_device & _crowded(pairs.anonymous, of_device & (reasons == 0), most), Reason.TOO_MANY_USERS)
    refuse(of_device & _crowded(pairs.user, of_device & (reasons == 0), most), Reason.TOO_MANY_IDS)
    return reasons, users


def _in_records(pairs: PairArrays, reasons: NDArray[np.uint8], ids: int) -> NDArray[np.bool_]:
    """By pair: whether a record also names its anonymous id, which then may be a bridge."""
    records = (pairs.kinds != ROW) & (reasons == 0)
    found = marked(pairs.anonymous[records], ids) | marked(pairs.user[records], ids)
    return np.asarray(found[pairs.anonymous])


def _crowded(ids: NDArray[np.int32], counting: NDArray[np.bool_], most: int) -> NDArray[np.bool_]:
    """By pair: whether its id is in more than `most` of the pairs that count."""
    return np.asarray(counts(ids, int(ids.max(initial=-1)) + 1, counting)[ids] > most)
