"""Which distinct ids belong to identified people: a sealed table in which workers look them up quickly.

Under `--persons identified` every other event carries `$process_person_profile: false`. The table has the xxh3-64 of
each identified id, sorted, 8 bytes each, mapped into memory and so shared by all workers. An id that is in the table is
always found. Of ten million other ids, one is taken for identified in about one plan of 700,000: that person gets a
profile, which costs a profile and is harmless, and plan and apply agree on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.id_hash import hash_id


class IdentifiedIds:
    """The table at `path`, which `pipeline.identity.event_ids` writes."""

    def __init__(self, path: Path) -> None:
        size = path.stat().st_size
        self._sorted: NDArray[np.uint64] = (
            np.memmap(path, np.dtype("<u8"), "r") if size else np.zeros(0, np.uint64)  # an empty file cannot be mapped
        )

    def __len__(self) -> int:
        return len(self._sorted)

    def holds(self, ids: Iterable[str]) -> NDArray[np.bool_]:
        """Whether each id's person is identified."""
        return self.holds_hashes(np.fromiter(map(hash_id, ids), np.uint64))

    def holds_hashes(self, hashed: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """The same for ids given by their hashes."""
        if not len(self._sorted):
            return np.zeros(len(hashed), bool)
        where = np.searchsorted(self._sorted, hashed)
        where[where == len(self._sorted)] = 0
        return np.asarray(self._sorted[where] == hashed)
