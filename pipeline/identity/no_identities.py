"""The identities of an export that pairs no ids: the counterpart of `pipeline.identity.identities`.

It needs no Arrow, which takes longer to load than a small export takes to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.encoder.updates import SealedLink
from pipeline.identity.summary import MergeSummary
from pipeline.uuids import Hasher


class NoIdentities:
    """Every id is its own person."""

    moves, persons, summary = False, 0, MergeSummary

    def canonical(self, ids: Sequence[str]) -> Sequence[str]:
        return ids

    owners = canonical

    def links(self, hasher: Hasher, as_of: int) -> Iterator[SealedLink]:
        return iter(())

    def write(self, path: Path, parts: Sequence[str], named: str = "") -> None:
        """Copy `no-identities.parquet`, which is what pyarrow writes for `identities.SCHEMA` without rows."""
        path.write_bytes(files("pipeline.identity").joinpath("no-identities.parquet").read_bytes())

    def release(self) -> None:
        """Do nothing: there is nothing to release."""

    def identified(self) -> NDArray[np.uint64]:
        return np.zeros(0, np.uint64)

    def person_numbers(self, hashed: NDArray[np.uint64]) -> NDArray[np.int32]:
        return np.full(len(hashed), -1, np.int32)
