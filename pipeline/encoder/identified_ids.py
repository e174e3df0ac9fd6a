"""Which distinct ids belong to identified persons: a sealed table that workers ask at the price of a look-up.

Under `--persons identified` every other event carries `$process_person_profile: false`. The table holds xxh3-64 of
each identified id, sorted, 8 bytes apiece, mapped into memory and so shared by all workers. An id that is in the
table is always found. Of ten million ids one that is not is taken for identified in about one plan of 700,000; its
person then gets a profile, which costs a profile and harms nothing; and plan and apply agree on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.id_hash import hash_id

_DISTINCT_ID = b'"distinct_id":'
_BEFORE_ID = b',"properties":{' + _DISTINCT_ID
"""Stands once in an encoded event: inside a text every quotation mark has a backslash before it."""
_NO_PROFILE = b'"$process_person_profile":false,'


class IdentifiedIds:
    """The table at `path`, which `pipeline.identity.person_counts` writes."""

    def __init__(self, path: Path) -> None:
        size = path.stat().st_size
        self._sorted: NDArray[np.uint64] = (
            np.memmap(path, np.dtype("<u8"), "r") if size else np.zeros(0, np.uint64)  # an empty file cannot be mapped
        )

    def __len__(self) -> int:
        return len(self._sorted)

    def holds(self, ids: Iterable[str]) -> NDArray[np.bool_]:
        """Of each id, whether its person is identified."""
        return self.holds_hashes(np.fromiter(map(hash_id, ids), np.uint64))

    def holds_hashes(self, hashed: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """The same of ids by their hashes."""
        if not len(self._sorted):
            return np.zeros(len(hashed), bool)
        where = np.searchsorted(self._sorted, hashed)
        where[where == len(self._sorted)] = 0
        return np.asarray(self._sorted[where] == hashed)


def without_profiles(events: Sequence[bytes], identified: IdentifiedIds) -> list[bytes]:
    """Encoded events, those of other ids marked so that the service makes no person of them."""
    cuts = [event.index(_BEFORE_ID) + len(_BEFORE_ID) for event in events]
    ids = [_id(event, cut) for event, cut in zip(events, cuts, strict=True)]
    return [
        event if known else event[: cut - len(_DISTINCT_ID)] + _NO_PROFILE + event[cut - len(_DISTINCT_ID) :]
        for event, cut, known in zip(events, cuts, identified.holds(ids).tolist(), strict=True)
    ]


def _id(event: bytes, start: int) -> str:
    end = event.index(b'"', start + 1)
    if b"\\" in event[start:end]:
        return json.JSONDecoder().raw_decode(event[start:].decode())[0]  # type: ignore[no-any-return]
    return event[start + 1 : end].decode()
