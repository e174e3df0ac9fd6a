"""Which persons get a profile under `--persons identified`, and how many there are of each kind.

Identified is an id that an event names as a user's, and every id that the identity table joins to another. The ids
of all events are looked at by their 64-bit hashes, spread over files by the first bits, so memory does not grow.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SPREAD_BITS = 6
_FAN = 1 << SPREAD_BITS
_BOUNDS = np.arange(_FAN, dtype=np.uint64) << np.uint64(64 - SPREAD_BITS)
_AT_ONCE = 400_000
_ID = np.dtype([("person", "<u8"), ("events", "<u8"), ("user", "<u4")])


class ProfileCounts(NamedTuple):
    """Distinct ids that occur on events, and their events, with and without identity; copies of events included."""

    identified_ids: int
    anonymous_ids: int
    identified_events: int
    anonymous_events: int


def seal_identified(
    path: Path, scratch: Path, chunks: Iterable[NDArray[np.void]], joined: NDArray[np.uint64], user_bit: int = 0
) -> ProfileCounts:
    """Write the table of identified ids (`pipeline.identified.Identified`) and count.

    `chunks` are key records in any order (`Keys.chunks`); `joined` the hashes that `Identities.identified` gives;
    `user_bit` the bit of a record's `name` that marks a user's id. Deterministic: the file is sorted.
    """
    folder = scratch / "ids-of-events"
    folder.mkdir()
    names = [folder / f"{number:02d}" for number in range(_FAN)]
    with ExitStack() as stack:
        files = [stack.enter_context(name.open("wb", buffering=1 << 14)) for name in names]
        for chunk in chunks:
            found = _folded(chunk["person"], np.ones(len(chunk), np.uint64), chunk["name"] & np.uint32(user_bit))
            cuts = [*np.searchsorted(found["person"], _BOUNDS).tolist(), len(found)]
            for file, (start, stop) in zip(files, pairwise(cuts), strict=True):
                found[start:stop].tofile(file)
    joined = np.unique(joined)
    cuts = [*np.searchsorted(joined, _BOUNDS).tolist(), len(joined)]
    totals = np.zeros(4, np.int64)
    with path.open("wb") as table:
        for name, (start, stop) in zip(names, pairwise(cuts), strict=True):
            ids = _read(name)
            users = (ids["user"] != 0) | np.isin(ids["person"], joined[start:stop])
            np.union1d(ids["person"][users], joined[start:stop]).tofile(table)
            events = ids["events"].astype(np.int64)
            totals += (int(users.sum()), int((~users).sum()), int(events[users].sum()), int(events[~users].sum()))
    shutil.rmtree(folder)
    return ProfileCounts(*totals.tolist())


def _read(path: Path) -> NDArray[np.void]:
    """What was written of some ids, folded piece by piece."""
    ids = np.zeros(0, _ID)
    with path.open("rb") as file:
        while len(some := np.fromfile(file, _ID, _AT_ONCE)):
            both = np.concatenate((ids, some))
            ids = _folded(both["person"], both["events"], both["user"])
    return ids


def _folded(person: NDArray[np.uint64], events: NDArray[np.uint64], user: NDArray[np.uint32]) -> NDArray[np.void]:
    """Each id once, sorted, its events added up and its marks together."""
    order = np.argsort(person, kind="stable")
    ids, starts = np.unique(person[order], return_index=True)
    folded = np.zeros(len(ids), _ID)
    if len(ids):
        folded["person"] = ids
        folded["events"] = np.add.reduceat(events[order], starts)
        folded["user"] = np.bitwise_or.reduceat(user[order], starts)
    return folded
