"""A set of events of a plan, a bit for each event of the blocks that have any: small also where it has them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

Place = tuple[int, int, int]
"""An event of the plan: the index of its phase, its block, its index in the block."""


class EventSet:
    """Events by their places."""

    def __init__(self, places: Iterable[Place] = ()) -> None:
        self._bits: dict[tuple[int, int], bytearray] = {}
        self._count = 0
        for phase, block, at in places:
            bits = self._bits.setdefault((phase, block), bytearray())
            if len(bits) <= at >> 3:
                bits.extend(bytes((at >> 3) + 1 - len(bits)))
            self._count += not bits[at >> 3] >> (at & 7) & 1
            bits[at >> 3] |= 1 << (at & 7)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Place]:
        """The places in their order."""
        for phase, block in sorted(self._bits):
            yield from ((phase, block, at) for at in self.indices(phase, block))

    def blocks(self, phase: int) -> set[int]:
        """The blocks of a phase that have any."""
        return {block for of_phase, block in self._bits if of_phase == phase}

    def indices(self, phase: int, block: int) -> list[int]:
        """Those of a block, in order."""
        bits = np.frombuffer(self._bits[phase, block], np.uint8)
        found: list[int] = np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist()
        return found
