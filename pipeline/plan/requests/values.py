"""Events of a plan by request number and place, for when the facts are not enough."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipeline.plan.requests.store import RequestReader, read_requests
from pipeline.plan.sealed.directory import Directory


class EventValues(RequestReader):
    """Reads events of one phase. Each call inflates a request once, so ask for many events in one call."""

    def __init__(self, directory: Directory, phase: str, digests: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, digests)
        self._requests = {request.number: request for request in read_requests(directory, phase)}

    def at(self, numbers: NDArray[np.int64], places: NDArray[np.int64]) -> list[bytes]:
        """The events in these requests at these places, in the requested order. Raises
        StalePlan."""
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        bounds = [*np.flatnonzero(np.diff(ordered, prepend=-1)).tolist(), len(ordered)]
        found = [b""] * len(numbers)
        for start, end in pairwise(bounds):
            events = self.events(self._requests[int(ordered[start])])
            for index in order[start:end].tolist():
                found[index] = events[places[index]]
        return found
