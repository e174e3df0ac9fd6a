"""What a plan asks earlier plans: which of its events they settled."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

ALREADY_SETTLED = "already_settled"
CODES = ("duplicate_event", "superseded", ALREADY_SETTLED)
"""The codes of events that are left out for others."""


class Found(NamedTuple):
    """Which of some uuids are settled. For each of them, in order: the first half of the content digest that was sent
    and, in a series, a hash of its person and its cell (`pipeline.plan.duplicates.cells_of`)."""

    settled: NDArray[np.bool_]
    content: NDArray[np.uint64]
    person: NDArray[np.uint64] | None = None
    cell: NDArray[np.uint64] | None = None


class Settled(Protocol):
    """The events that earlier plans settled."""

    def find(self, hi: NDArray[np.uint64], lo: NDArray[np.uint64], ordinals: NDArray[np.uint32] | None = None) -> Found:
        """Which of these uuids, ascending, are settled.

        `ordinals` number the copies of a row without a source key, which share a uuid here.
        """
        ...
