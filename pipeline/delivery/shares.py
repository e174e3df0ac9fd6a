"""What each of several processes that send a plan has of it: of its blocks, and of the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipeline.delivery.outcome import SendLimits
from pipeline.extractors.stream import is_plain
from pipeline.ledger import Ledger, read_ended_events, read_open_blocks
from pipeline.models import Part
from pipeline.plan.sealed.contents import planned_blocks
from pipeline.plan.sealed.directory import EVENTS, Directory
from pipeline.plan.sealed.manifest import SealedBlock


class BlockShare(NamedTuple):
    """The blocks of events that one of `processes` sends: those of its `number` modulo these, but none in `without`.

    `whole` has the numbers of the processes that send all blocks of a part, by part. `ended` are the ranges of events
    that are settled or refused already, by block, of blocks with such.
    """

    number: int
    processes: int
    without: frozenset[int]
    whole: Mapping[int, int]
    ended: Mapping[int, Sequence[tuple[int, int]]] = {}

    def has(self, block: SealedBlock) -> bool:
        """Whether this process sends the block."""
        owner = self.whole.get(block.part, block.number % self.processes)
        return owner == self.number and block.number not in self.without


def shares_of_plan(directory: Directory, parts: Sequence[Part], ledger: Ledger, count: int) -> list[BlockShare]:
    """The blocks of each of `count` processes, or of as many as there are blocks with something unsent.

    Blocks with a batch that is in doubt, or that waits to be sent unchanged, are of none.
    """
    assert ledger.path is not None, "a dry run is of one process"
    without, ended = read_open_blocks(ledger.path, EVENTS), read_ended_events(ledger.path, EVENTS)
    ranges: dict[int, list[tuple[int, int]]] = {}
    unsent = 0
    for planned in planned_blocks(directory):
        number = planned.sealed.number
        if number in without:
            continue
        if ended.get(number, 0) == planned.events:
            without.add(number)
            continue
        unsent += 1
        if number in ended:
            ranges[number] = [(key.first, key.last) for key, _ in ledger.rows_of(EVENTS, number)]
    shares = shares_of_blocks(parts, min(count, unsent), frozenset(without))
    return [share._replace(ended=ranges) for share in shares]


def shares_of_blocks(parts: Sequence[Part], count: int, without: frozenset[int]) -> list[BlockShare]:
    """All blocks but some, dealt out in turn.

    Where enough parts can only be read from their beginning, as a compressed file, each of them is of one process;
    otherwise every process would read all of them.
    """
    streams = [number for number, part in enumerate(parts) if not is_plain(part)]
    whole = {part: place % count for place, part in enumerate(streams)} if len(streams) >= count else {}
    return [BlockShare(number, count, without, whole) for number in range(count)]


def share_of_limits(limits: SendLimits, number: int, count: int, refused: int) -> SendLimits:
    """The limits of one of `count` processes. `refused` events of the plan were refused already.

    Each may have all of the refused events that are left, since they may all be in its blocks; the parent adds up.
    """
    return replace(
        limits,
        concurrency=limits.concurrency // count + (number < limits.concurrency % count),
        rates=tuple(rate._replace(most=rate.most / count) for rate in limits.rates),
        max_refused=max(0, limits.max_refused - refused),
        max_seconds=None,
        per_id=None if limits.per_id is None else limits.per_id // count,
    )
