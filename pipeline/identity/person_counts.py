"""Which persons get a profile under `--persons identified`, and how many there are of each kind.

Identified is an id that an event names as a user's, and every id that the identity table joins to another.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.event_ids import EventIds


class ProfileCounts(NamedTuple):
    """Distinct ids that occur on events, and their events, with and without identity; copies of events included."""

    identified_ids: int
    anonymous_ids: int
    identified_events: int
    anonymous_events: int


def seal_identified(path: Path, ids: EventIds, joined: NDArray[np.uint64]) -> ProfileCounts:
    """Write the table of identified ids (`pipeline.encoder.identified_ids.IdentifiedIds`), sorted, and count.

    `joined` are the hashes that `Identities.identified` gives; they are sorted in their place.
    """
    joined.sort()
    if (joined[1:] == joined[:-1]).any():
        joined = np.unique(joined)
    totals = np.zeros(4, np.int64)
    with path.open("wb") as table:
        for some in ids.chunks():
            upto = int(np.searchsorted(joined, some["person"][-1], side="right"))
            near, joined = joined[:upto], joined[upto:]
            known = (some["user"] != 0) | np.isin(some["person"], near)
            np.union1d(some["person"][known], near).tofile(table)
            events = some["events"].astype(np.int64)
            totals += (int(known.sum()), int((~known).sum()), int(events[known].sum()), int(events[~known].sum()))
        joined.tofile(table)
    return ProfileCounts(*totals.tolist())
