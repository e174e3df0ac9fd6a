"""Identifies each event that a ledger says is settled, by joining the facts of a plan with its batches.

A later plan of a series must know them without reading any file again: files may be gone or changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from pipeline.id_hash import hash_id
from pipeline.identity.database import numbers_of
from pipeline.ledger import BatchKey, read_batches
from pipeline.plan.duplicates import cells_of
from pipeline.plan.requests.query import SENT, add_ledger, line_states, opened
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, sealed_file
from pipeline.plan.sealed.phases import SealedRecord, line_decoder

SETTLED = np.dtype([(name, "<u8") for name in ("hi", "lo", "content", "person", "cell")])
"""One event: its uuid before the copy's number changed it, the first half of its content digest, and hashes of its
person and of its name and day (`cells_of`). Merges, groups and profiles have only a uuid."""
AT_ONCE = 50_000
_EVENTS = SENT.format(
    columns="coalesce(key_hi, hi) AS hi, coalesce(key_lo, lo) AS lo, content_hi AS content, person, name, time"
)


def settled_facts(directory: Directory, batches: Iterable[BatchKey]) -> Iterator[NDArray[np.void]]:
    """The SETTLED records of these batches of the ledger, in chunks."""
    batches = list(batches)
    with opened(directory) as database:
        add_ledger(database, ((batch, "settled") for batch in batches))
        for batch in database.stream(_EVENTS, AT_ONCE):
            found = np.zeros(batch.num_rows, SETTLED)
            for name in ("hi", "lo", "content", "person"):
                found[name] = numbers_of(batch, name)
            names = batch.column("name").to_pylist()
            hashes = {name: hash_id(name) for name in set(names)}
            found["cell"] = cells_of(np.array([hashes[name] for name in names], np.uint64), numbers_of(batch, "time"))
            yield found
    lines = chain.from_iterable(settled_lines(directory, phase, batches) for phase in PHASES if phase != EVENTS)
    while some := list(islice(lines, AT_ONCE)):
        found = np.zeros(len(some), SETTLED)
        uuids = b"".join(UUID(sealed.uuid).bytes for _, sealed in some)
        found["hi"], found["lo"] = np.frombuffer(uuids, ">u8").reshape(-1, 2).T
        yield found


def settled_lines(
    directory: Directory, phase: str, batches: Iterable[BatchKey] | None = None
) -> Iterator[tuple[int, SealedRecord]]:
    """The lines of a phase other than events that are in one of these batches, or in one that the ledger says is
    settled; each with its number from 1."""
    settled = read_batches(directory.ledger, "settled") if batches is None else batches
    decode, path = line_decoder(phase), sealed_file(phase, directory)
    if path.exists():
        states = line_states(directory, phase, ((batch, "settled") for batch in settled))
        with path.open("rb") as lines:
            for row, (line, state) in enumerate(zip(lines, states, strict=True), 1):
                if state:
                    yield row, decode(line)
