"""A plan that is one of a series: a job plans an export window by window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol, TypeVar
from uuid import UUID

import msgspec
import numpy as np

from pipeline.encoder.updates import SealedLink
from pipeline.plan.duplicates import Settled
from pipeline.plan.window_index import IdentityIndex

AT_ONCE = 5_000


class _Sealed(Protocol):
    @property
    def uuid(self) -> str: ...


T = TypeVar("T", bound=_Sealed)


class Series(msgspec.Struct, frozen=True):
    """The other plans of the series: `settled` are the events they settled, which are left out, and `ids` their
    ids and pairs of ids.

    More merges than `max_merges` stop the plan; None withholds all merges.
    """

    settled: Settled
    ids: IdentityIndex
    max_merges: int | None


def new_links(
    links: Iterator[SealedLink], settled: Settled, warnings: Counter[str], *, withhold: bool
) -> Iterator[SealedLink]:
    """The merges to send, without those that are settled or withheld; both are counted in `warnings`."""
    while some := list(islice(links, AT_ONCE)):
        for link, is_settled in zip(some, _are_settled(some, settled), strict=True):
            if is_settled:
                warnings["settled_link"] += 1
            elif withhold:
                warnings["held_link"] += 1
            else:
                yield link


def unsettled(updates: Iterator[T], settled: Settled, code: str, warnings: Counter[str]) -> Iterator[T]:
    """The updates that are not settled; the others are counted in `warnings` under `code`."""
    while some := list(islice(updates, AT_ONCE)):
        for one, is_settled in zip(some, _are_settled(some, settled), strict=True):
            if is_settled:
                warnings[code] += 1
            else:
                yield one


def _are_settled(updates: Iterable[_Sealed], settled: Settled) -> list[bool]:
    uuids = np.frombuffer(b"".join(UUID(one.uuid).bytes for one in updates), ">u8").astype(np.uint64).reshape(-1, 2)
    order = np.lexsort((uuids[:, 1], uuids[:, 0]))
    are_settled = np.zeros(len(uuids), bool)
    are_settled[order], _ = settled.find(uuids[order, 0], uuids[order, 1])
    return list(map(bool, are_settled))
