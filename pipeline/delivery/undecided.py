"""The events of one batch that have no final verdict yet, if the service answers for each event.

If the answer differs between events, it divides the rows that the batch has in the ledger: into ranges of events that
were accepted, single events that were refused, and ranges that are sent again, together in one request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from pipeline.batcher import Batch, Envelope, seal_batch, unpack
from pipeline.delivery.capture_v1 import request_id
from pipeline.delivery.destination import Verdicts
from pipeline.delivery.size import KeyedBatch
from pipeline.encoder.encoded import uuid_of
from pipeline.ledger import BatchKey, Refusal


class Division(NamedTuple):
    """One row of the ledger and the rows that replace it; those in `again` wait, each with its bytes."""

    row: BatchKey
    accepted: Sequence[BatchKey]
    refused: Sequence[Refusal]
    again: Sequence[tuple[BatchKey, int]]


@dataclass(slots=True)
class Undecided:
    """The events of a batch without a final verdict: `rows` in the ledger with their bytes, and one `batch` of all.

    At first there is the row of the whole batch, until the first answer that differs between events: then it is
    `divided`.
    """

    key: BatchKey
    batch: Batch
    envelope: Envelope
    divided: bool = False
    rows: list[tuple[BatchKey, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [(self.key, self.batch.bytes)]

    def divide(self, verdicts: Verdicts) -> list[Division]:
        """Remove the events that have a final verdict. Returns what becomes of each row."""
        events = unpack(self.batch.body)
        results: list[str | None] = [None] * len(events)
        for verdict in verdicts.refused:
            results[verdict.position] = verdict.reason
        again = {verdict.position for verdict in verdicts.again}
        divisions: list[Division] = []
        rest: list[tuple[BatchKey, int]] = []
        start = 0
        for row, _ in self.rows:
            numbers = range(start, start + row.events)
            start += row.events
            refused = [
                Refusal(row._replace(first=first, last=first), uuid_of(events[number]), reason)
                for number, first in zip(numbers, range(row.first, row.last + 1), strict=True)
                if (reason := results[number]) is not None
            ]
            open_ranges: list[tuple[BatchKey, int]] = []
            accepted: list[BatchKey] = []
            for kind, first, last in _ranges([_kind(number in again, results[number]) for number in numbers]):
                key = row._replace(first=row.first + first, last=row.first + last)
                if kind == "again":
                    own = events[numbers[first] : numbers[last] + 1]
                    open_ranges.append((key, sum(map(len, own)) + len(own) - 1 + self.envelope.length))
                elif kind == "accepted":
                    accepted.append(key)
            divisions.append(Division(row, accepted, refused, open_ranges))
            rest += open_ranges
        self.rows, self.divided = rest, True
        if rest:
            open_events = [events[position] for position in sorted(again)]
            sealed = seal_batch(open_events, rest[0][0].first, self.envelope)
            self.batch = replace(sealed, last=rest[-1][0].last, request=request_id(self.batch))
        return divisions

    def single(self) -> KeyedBatch | None:
        """The batch under the name of its row; None if it has several rows."""
        return KeyedBatch(self.rows[0][0], self.batch, recorded=True) if len(self.rows) == 1 else None

    def one_by_one(self) -> list[KeyedBatch]:
        """Each row as a batch of its own."""
        events = unpack(self.batch.body)
        batches: list[KeyedBatch] = []
        start = 0
        for row, _ in self.rows:
            sealed = seal_batch(events[start : start + row.events], row.first, self.envelope)
            batches.append(KeyedBatch(row, sealed, recorded=True))
            start += row.events
        return batches


def _kind(again: bool, reason: str | None) -> str:
    return "again" if again else "accepted" if reason is None else "refused"


def _ranges(kinds: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """(kind, first, last) of each run of equal kinds."""
    start = 0
    for kind, run in groupby(kinds):
        length = len(list(run))
        yield kind, start, start + length - 1
        start += length
