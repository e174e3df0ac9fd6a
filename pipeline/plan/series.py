"""A plan that is one of a series: a job plans an export window by window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar
from uuid import UUID

import numpy as np

from pipeline.encoder.updates import SealedLink
from pipeline.plan.duplicates import Settled
from pipeline.plan.window_index import IdentityIndex

AT_ONCE = 5_000


class _Sealed(Protocol):
    @property
    def uuid(self) -> str: ...


T = TypeVar("T", bound=_Sealed)


@dataclass(frozen=True, slots=True)
class Series:
    """The other plans of the series: the events they settled are left out, and their pairs of ids count.

    More merges than `max_merges` stop the plan; None holds all merges back.
    """

    settled: Settled
    known: IdentityIndex
    max_merges: int | None


def new_links(links: Iterator[SealedLink], series: Series, warnings: Counter[str]) -> Iterator[SealedLink]:
    """The merges to send, without those that are settled or held back; both are counted in `warnings`."""
    while some := list(islice(links, AT_ONCE)):
        for link, known in zip(some, _known(some, series.settled), strict=True):
            if known:
                warnings["settled_link"] += 1
            elif series.max_merges is None:
                warnings["held_link"] += 1
            else:
                yield link


def unsettled(made: Iterator[T], settled: Settled, code: str, warnings: Counter[str]) -> Iterator[T]:
    """The updates that are not settled; the others are counted in `warnings` under `code`."""
    while some := list(islice(made, AT_ONCE)):
        for one, known in zip(some, _known(some, settled), strict=True):
            if known:
                warnings[code] += 1
            else:
                yield one


def _known(made: Iterable[_Sealed], settled: Settled) -> list[bool]:
    uuids = np.frombuffer(b"".join(UUID(one.uuid).bytes for one in made), ">u8").astype(np.uint64).reshape(-1, 2)
    order = np.lexsort((uuids[:, 1], uuids[:, 0]))
    known = np.zeros(len(uuids), bool)
    known[order], _ = settled.find(uuids[order, 0], uuids[order, 1])
    return list(map(bool, known))
