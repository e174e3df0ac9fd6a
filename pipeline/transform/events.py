"""What a mapper is, and what the events of one block are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.encoder.buffer import split_events
from pipeline.models import Reject
from pipeline.transform.field_names import Names
from pipeline.uuids import Hasher
from pipeline.values import Record


class Mapper(Protocol):
    """What a mapping compiles to, or a mapper written by hand. `opens` is for `pipeline.extractors.rows`.

    `map_row` and `map_members` take a row and whether a plan observes it: then the events, which are the same, carry
    their notes. `unsets` says whether a note may remove a property, `blanks` whether a blank cell of a delimited file
    is a value.
    """

    @property
    def tool(self) -> str: ...

    @property
    def hasher(self) -> Hasher: ...

    @property
    def opens(self) -> tuple[str, ...]: ...

    @property
    def map_row(self) -> Callable[[Record, bool], Any]: ...

    @property
    def map_members(self) -> Callable[[Any, bool], Any] | None: ...

    @property
    def unsets(self) -> bool: ...

    @property
    def blanks(self) -> bool: ...


@dataclass(slots=True)
class Events:
    """What one block becomes, before the plan's tables.

    `runs` are the events as text, each followed by a comma, some hundreds in each; `sizes` their bytes without it;
    `events` cuts them apart. The lists of the second group run in parallel, one entry an event; `nth` numbers the
    events of one row. Those of the third group do too, and like the notes they are filled only when observing.
    `name_of` are the names again, as indices of `distinct_names`.
    `digest` is the block's seal (`EventBuffer.seal`); `digests` are xxh3-128 of each event.
    `cells` counts (event name, days since 1970, outcome); outcome is `mapped` or a skip's or reject's code.
    `examples` holds one (row from 0, byte offset, detail) for each warning code; `rejects` are complete.
    `walls` are readings of a wall clock and `walls_received` the receive times beside them, µs, for the proof of the
    zone. `good_rows` could be read, and `found` are the names that they have (`transform.field_names`). What rows
    state beside their events goes to an `identity.aggregator.IdentityAggregator`.
    """

    rows: int = 0
    good_rows: int = 0
    mapped: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)
    digest: str = ""
    count: int = 0

    runs: list[bytes] = field(default_factory=list)
    sizes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    row_of: list[int] = field(default_factory=list)
    nth: list[int] = field(default_factory=list)
    uuids: NDArray[np.uint8] = field(default_factory=lambda: np.empty((0, 16), np.uint8))
    keyless: frozenset[int] = frozenset()

    digests: list[bytes] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    distinct_names: list[str] = field(default_factory=list)
    name_of: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    times: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    received: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    warnings: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    cells: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    walls: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    walls_received: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    found: Names = field(default_factory=dict)

    @property
    def events(self) -> list[bytes]:
        """Each event by itself, as it would be sent."""
        return split_events(self.runs, self.sizes)
