"""Chooses the events from which a plan computes statistics that need property values.

A cell is an event name in a UTC month. The sample has all events of a small cell, and the events with the smallest
hashes of any other. A cell's share depends only on the numbers of events of all cells, and an event's hash only on its
bytes, so the sample is the same whatever the blocks, the processes and the order of the files.

While the cells grow, their shares shrink. So a process that has seen some of the events returns all of these that are
in the sample and some more, which the planner removes (`pipeline.plan.statistics.sample`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.transform.events import Events

MOST_OF_CELL = 2_000
LEAST_EVENTS, MOST_EVENTS = 15_000, 200_000
BYTES_AN_EVENT = 16_384
"""A sample has at most one event per this many bytes of the export, within these bounds: examining an event takes
about ten times as long as reading it."""
_ALL = 2**64


class Sampled(NamedTuple):
    """The events of a block that may be in the sample. `cells` are the event names and months (since January 1970) of
    all events of the block, `counts` the number of events in each. Each chosen event has its bytes in `texts`, its
    size, the index of its cell, its row, its hash and its time."""

    cells: list[tuple[str, int]]
    counts: list[int]
    texts: bytes
    sizes: NDArray[np.int64]
    cell_of: NDArray[np.int64]
    rows: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    times: NDArray[np.int64]


def most_events(size: int) -> int:
    """The most events that the sample of an export of `size` bytes can have."""
    return min(max(size // BYTES_AN_EVENT, LEAST_EVENTS), MOST_EVENTS)


class Shares:
    """Counts the events in cells, and returns each cell's share of a sample of at most `most` events."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers: dict[tuple[str, int], int] = {}
        self._counts = np.zeros(64, np.int64)

    @property
    def of_cell(self) -> int:
        """The most events of one cell in the sample: MOST_OF_CELL, or fewer if there are many cells."""
        counts = np.sort(self._counts[: len(self._numbers)])
        counts = np.minimum(counts, MOST_OF_CELL)
        total = np.cumsum(counts)
        if not len(counts) or total[-1] <= self._most:
            return MOST_OF_CELL
        # If the smaller cells are whole, and all others have as many as the next one:
        sizes = total - counts + counts * np.arange(len(counts), 0, -1)
        whole = int(np.searchsorted(sizes, self._most, "right"))
        left = self._most - int(total[whole - 1] if whole else 0)
        return max(left // (len(counts) - whole), 1)

    def add(self, cells: Sequence[tuple[str, int]], counts: Sequence[int]) -> NDArray[np.int64]:
        """Add events of some cells. Returns the numbers of the cells, which `total` and `bounds` take."""
        known = self._numbers
        numbers = np.array([known.setdefault(cell, len(known)) for cell in cells], np.int64)
        if len(known) > len(self._counts):
            self._counts = np.concatenate((self._counts, np.zeros(len(known), np.int64)))
        self._counts[numbers] += np.array(counts, np.int64)
        return numbers

    def cells(self) -> list[tuple[str, int]]:
        """The cells by number."""
        return list(self._numbers)

    def total(self, number: int) -> int:
        """How many events a cell has."""
        return int(self._counts[number])

    def bounds(self, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The greatest hash that an event of each of these cells may have to be in the sample."""
        most = self.of_cell
        return np.array(
            [_ALL - 1 if count <= most else most * _ALL // count - 1 for count in self._counts[numbers].tolist()],
            np.uint64,
        )


class Sampler:
    """Chooses among the events of the blocks of one process."""

    def __init__(self, most: int) -> None:
        self._shares = Shares(most)

    def choose(self, events: Events) -> Sampled:
        """The events of a block that may be in the sample, judging by what this process has seen."""
        names = events.distinct_names
        months = events.times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
        found, cell_of, counts = np.unique(
            months * max(len(names), 1) + events.name_of, return_inverse=True, return_counts=True
        )
        cells = [(names[cell % len(names)], cell // len(names)) for cell in found.tolist()]
        bounds = self._shares.bounds(self._shares.add(cells, counts.tolist()))
        hashes = events.hashes[:, 0]
        chosen = np.flatnonzero(hashes <= bounds[cell_of])
        sizes = events.sizes[chosen]
        starts = np.cumsum(events.sizes + 1)[chosen] - 1 - sizes
        run_starts = np.cumsum([0, *map(len, events.runs)])
        run_of = np.searchsorted(run_starts, starts, "right") - 1
        starts -= run_starts[run_of]
        pieces = zip(run_of.tolist(), starts.tolist(), (starts + sizes).tolist(), strict=True)
        texts = b"".join([events.runs[run][start:end] for run, start, end in pieces])
        rows = np.array([events.row_of[index] for index in chosen.tolist()], np.int64)
        return Sampled(
            cells, counts.tolist(), texts, sizes, cell_of[chosen], rows, hashes[chosen], events.times[chosen]
        )
