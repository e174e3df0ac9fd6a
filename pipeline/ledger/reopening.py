"""Turns settled events that did not land into events to be sent again, in the ledger that settled them.

Their batch counts as split: pieces that landed stay settled, and the others wait to be sent
unchanged. So the next run sends exactly these, records each before it is sent, and resumes like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from pipeline.errors import Busy
from pipeline.ledger.schema import BatchKey
from pipeline.ledger.writer import Ledger

DETAIL = "missing at the target; sent again"


def reopen(ledger: Ledger, missing: Iterable[BatchKey], runs: int) -> int:
    """Let settled events wait again, and return how many; `ledger` is open, `missing` are runs of neighbours, in
    order.

    `runs` is the number of runs of the ledger when the events were found missing. Raises Busy if another run came
    between: it may have sent them.
    """
    with ledger.transaction():
        if ledger.runs_before() != runs:
            raise Busy(
                "another run sent events of this plan since they were compared; nothing was sent again",
                hint="run the same command again",
            )
        count = 0
        for (phase, request), of_request in groupby(missing, key=lambda run: run[:2]):
            batches = [key for key, state in ledger.rows_of(phase, request) if state == "settled"]
            indices = {index for run in of_request for index in range(run.first, run.last + 1)}
            for key in batches:
                gone = [index for index in range(key.first, key.last + 1) if index in indices]
                if gone:
                    ledger.reopen(key, list(_runs(key, gone)), DETAIL)
                    count += len(gone)
        return count


def _runs(key: BatchKey, gone: list[int]) -> Iterator[tuple[BatchKey, bool]]:
    """The pieces of a batch in order, and whether each must be sent again."""
    missing = set(gone)
    for again, run in groupby(range(key.first, key.last + 1), key=missing.__contains__):
        indices = list(run)
        yield key._replace(first=indices[0], last=indices[-1]), again
