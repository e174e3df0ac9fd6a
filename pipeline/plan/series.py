"""A plan that is one of many over one export, window by window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

import numpy as np

from pipeline.plan.copies import Settled
from pipeline.plan.links import SealedLink

AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Series:
    """What the others settled is left out, and a plan with nothing to send is a good one.

    More merges than `most_merges` stop the plan; None holds them all back.
    """

    settled: Settled
    most_merges: int | None


def new_links(links: Iterator[SealedLink], series: Series, warnings: Counter[str]) -> Iterator[SealedLink]:
    """The merges that are to be sent: neither what is settled nor what is held back; both are counted."""
    while some := list(islice(links, AT_ONCE)):
        for link, known in zip(some, _known(some, series.settled), strict=True):
            if known:
                warnings["settled_link"] += 1
            elif series.most_merges is None:
                warnings["held_link"] += 1
            else:
                yield link


def _known(links: Iterable[SealedLink], settled: Settled) -> list[bool]:
    uuids = np.frombuffer(b"".join(UUID(link.uuid).bytes for link in links), ">u8").astype(np.uint64).reshape(-1, 2)
    order = np.lexsort((uuids[:, 1], uuids[:, 0]))
    known = np.zeros(len(uuids), bool)
    known[order], _ = settled.find(uuids[order, 0], uuids[order, 1])
    return list(map(bool, known))
