"""What a plan does with devices of several users, and with records that make one person of several users.

`--shared-devices`: `first` and `stop` give a device to its first user, `latest` to its last one, `none` to no user.
Users whom a record joins are one person, so a device that only they have is not shared. `--joined-users`: `first`,
`latest` and `stop` join users as the records say, and differ only in the id that the person keeps
(`resolve.canonical_ids`); with `none`, no record joins two users. Neither applies to the operator's pairs and to what
earlier plans settled, and the second not to an export of the service itself, whose persons are the same after a move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.database import numbers_of, read_batches
from pipeline.identity.kinds import NEVER
from pipeline.identity.numbering import counts, marked
from pipeline.identity.observed_pairs import IDENTIFY, ROW
from pipeline.identity.rules import Decision, PairArrays, Reason
from pipeline.identity.summary import SeveralUsers

_MOST, _USERS_SHOWN = 20, 5
KEPT_APART = (Reason.LATER_USER, Reason.SHARED_DEVICE)


class UserPolicies(NamedTuple):
    """The values of --shared-devices and --joined-users."""

    shared_devices: str = "first"
    joined_users: str = "first"


FIRST_USERS = UserPolicies()


class SeveralUsersFound(NamedTuple):
    """How many persons or devices there are, and the largest."""

    number: int
    largest: list[SeveralUsers]


def keep_apart(
    pairs: PairArrays, reasons: NDArray[np.uint8], users: NDArray[np.bool_], policy: str, table: Path
) -> NDArray[np.int64]:
    """Give a reason to all pairs of shared devices, if the policy decides about them, until `allow_one_person` takes it
    from those that merge. Returns the pairs of these devices, also those of records, by device and last row. `table`
    has the strings of pairs."""
    if policy not in ("latest", "none"):
        return np.zeros(0, np.int64)
    device = (reasons == 0) & ((pairs.kinds & (ROW | IDENTIFY)) != 0) & ~users[pairs.anonymous]
    shared = np.flatnonzero(device & (counts(pairs.anonymous, len(users), device)[pairs.anonymous] > 1))
    reasons[shared[_of_devices(pairs, users)[shared]]] = (
        Reason.LATER_USER if policy == "latest" else Reason.SHARED_DEVICE
    )
    return _by_last_row(pairs, shared, table)


def profile_pairs(
    pairs: PairArrays, places: NDArray[np.int64], policy: str, table: Path, canonical: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Those of the pairs, given in their order, that decide which user gets the profile of an id that is on no event
    without one: the first pair of an id counts."""
    if policy == "latest":
        return _by_last_row(pairs, places, table)[::-1]
    if policy == "none":
        least, greatest = _bounds(pairs.anonymous[places], canonical[pairs.user[places]], len(canonical))
        return np.asarray(places[(least == greatest)[pairs.anonymous[places]]])
    return places


def allow_one_person(
    pairs: PairArrays, reasons: NDArray[np.uint8], shared: NDArray[np.int64], roots: NDArray[np.int32]
) -> bool:
    """Take the reason of `keep_apart` away from pairs whose users are one person without these devices: the person of
    the device's last row, or of all its rows. `shared` is what `keep_apart` returned. Returns whether there are any."""
    devices, owners = pairs.anonymous[shared], roots[pairs.user[shared]]
    last = owners[np.searchsorted(devices, devices, side="right") - 1]
    least, greatest = _bounds(devices, owners, len(roots))
    one = np.where(reasons[shared] == Reason.LATER_USER, owners == last, least[devices] == greatest[devices])
    allowed = shared[one & np.isin(reasons[shared], KEPT_APART)]
    reasons[allowed] = 0
    return bool(len(allowed))


def _of_devices(pairs: PairArrays, users: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """By pair: whether only rows and records that pair a device with its user show it."""
    return np.asarray(((pairs.kinds & ~np.uint16(ROW | IDENTIFY)) == 0) & ~users[pairs.anonymous])


def _bounds(
    devices: NDArray[np.int32], owners: NDArray[np.int32], size: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """By id: the least and the greatest owner of a device."""
    least, greatest = np.full(size, size, np.int32), np.full(size, -1, np.int32)
    np.minimum.at(least, devices, owners)
    np.maximum.at(greatest, devices, owners)
    return least, greatest


def _by_last_row(pairs: PairArrays, places: NDArray[np.int64], table: Path) -> NDArray[np.int64]:
    """Pairs by device and by the time of their last row. Earlier windows of a job know only the first."""
    last = np.concatenate([np.zeros(0, np.int64), *(numbers_of(batch, "last") for batch in read_batches(table))])
    last = np.where((last == -NEVER) & (pairs.first != NEVER), pairs.first, last)
    return np.asarray(places[np.lexsort((last[places], pairs.anonymous[places]))])


def shared_devices(
    pairs: PairArrays,
    decisions: NDArray[np.uint8],
    users: NDArray[np.bool_],
    text: Callable[[int], str],
) -> SeveralUsersFound:
    """The devices with a user they were not given to, and their users, the first one first."""
    conflict = (decisions == Decision.CONFLICT) & _of_devices(pairs, users)
    if not conflict.any():
        return SeveralUsersFound(0, [])
    open_ = (decisions != Decision.REFUSED) & marked(pairs.anonymous[conflict], len(users))[pairs.anonymous]
    sizes = counts(pairs.anonymous, len(users), open_)

    def users_of(device: int) -> NDArray[np.int32]:
        places = np.flatnonzero(open_ & (pairs.anonymous == device))
        return pairs.user[places[np.argsort(pairs.first[places], kind="stable")]]

    return _largest(sizes, users_of, text)


def joined_users(
    clusters: NDArray[np.int32],
    joining: NDArray[np.int32],
    users: NDArray[np.bool_],
    canonical: NDArray[np.int32],
    text: Callable[[int], str],
) -> SeveralUsersFound:
    """The persons whom records make of several users. `clusters` are the roots of ids if no policy keeps users apart,
    `joining` an id of each pair that joins two users."""
    if not len(joining):
        return SeveralUsersFound(0, [])
    several = users & marked(clusters[joining], len(users))[clusters]
    sizes = counts(clusters, len(users), several)

    def users_of(root: int) -> NDArray[np.int32]:
        found = np.flatnonzero(several & (clusters == root)).astype(np.int32)
        return found[np.argsort(canonical[found] != found, kind="stable")]

    return _largest(sizes, users_of, text)


def newest_users(
    newest: NDArray[np.bool_], roots: NDArray[np.int32], users: NDArray[np.bool_], earliest: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The users of the persons in `newest` whose first event is the latest of their person."""
    some = np.flatnonzero(newest[roots] & users & (earliest != NEVER))
    latest = np.full(len(roots), -NEVER, np.int64)
    np.maximum.at(latest, roots[some], earliest[some])
    return np.asarray(some[earliest[some] == latest[roots[some]]])


def _largest(
    sizes: NDArray[np.uint32], users_of: Callable[[int], NDArray[np.int32]], text: Callable[[int], str]
) -> SeveralUsersFound:
    found = np.flatnonzero(sizes)
    largest: Iterable[int] = found[np.lexsort((found, -sizes[found].astype(np.int64)))][:_MOST].tolist()
    return SeveralUsersFound(
        len(found),
        [
            SeveralUsers(text(one), int(sizes[one]), [text(user) for user in users_of(one)[:_USERS_SHOWN].tolist()])
            for one in largest
        ],
    )
