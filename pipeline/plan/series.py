"""A plan that is one of a series: a job plans an export window by window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar
from uuid import UUID

import msgspec
import numpy as np

from pipeline.encoder.updates import SealedGroup, SealedLink, SealedPerson
from pipeline.identity.groups import GroupHistory
from pipeline.plan.sealed.directory import Directory, LinesWriter
from pipeline.plan.settled import Settled
from pipeline.plan.window_index import GROUPS, GroupIndex, IdentityIndex

AT_ONCE = 5_000
T = TypeVar("T", SealedLink, SealedGroup, SealedPerson)


class Series(msgspec.Struct, frozen=True):
    """The other plans of the series: `settled` are the events that they settled, which are left out, `ids` their ids
    and pairs of ids, and `groups` their groups.

    More merges than `max_merges` stop the plan; None withholds all merges. Only the `files` of an export are read: the
    others were read before, and still help decide how these are read.
    """

    settled: Settled
    ids: IdentityIndex
    max_merges: int | None
    groups: GroupIndex
    files: Collection[str]


@contextmanager
def group_history(directory: Directory, series: Series | None, files: dict[str, str]) -> Iterator[GroupHistory | None]:
    """The groups of a series, for one of its plans, which durably writes its own groups into a table. `files` receives
    the table's digest. None for a plan that stands alone."""
    if series is None:
        yield None
        return
    with LinesWriter(directory.path / GROUPS) as writer:
        yield GroupHistory(series.groups.find, writer.write)
        files[GROUPS] = writer.close()


def new_links(
    links: Iterator[SealedLink], settled: Settled, warnings: Counter[str], *, withhold: bool
) -> Iterator[SealedLink]:
    """The merges to send, without settled and withheld ones; both are counted in `warnings`."""
    for link in unsettled(links, settled, "settled_link", warnings):
        if withhold:
            warnings["held_link"] += 1
        else:
            yield link


def unsettled(updates: Iterator[T], settled: Settled, code: str, warnings: Counter[str]) -> Iterator[T]:
    """The updates that are not settled; the others are counted in `warnings` under `code`."""
    while some := list(islice(updates, AT_ONCE)):
        for one, is_settled in zip(some, _are_settled((update.uuid for update in some), settled), strict=True):
            if is_settled:
                warnings[code] += 1
            else:
                yield one


def _are_settled(uuids_of: Iterable[str], settled: Settled) -> list[bool]:
    uuids = np.frombuffer(b"".join(UUID(one).bytes for one in uuids_of), ">u8").astype(np.uint64).reshape(-1, 2)
    order = np.lexsort((uuids[:, 1], uuids[:, 0]))
    are_settled = np.zeros(len(uuids), bool)
    are_settled[order] = settled.find(uuids[order, 0], uuids[order, 1]).settled
    return list(map(bool, are_settled))
