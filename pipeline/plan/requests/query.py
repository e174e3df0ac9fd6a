"""Queries over a sealed plan: its facts and its ledger, as tables of a scratch database."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.identity.database import Database, files_in
from pipeline.ledger import BatchKey
from pipeline.plan.requests.store import PackedRequest, check_digest, read_requests
from pipeline.plan.sealed.directory import EVENTS, Directory, read_lines
from pipeline.plan.sealed.manifest import read_plan

MEMORY = "400MB"


@contextmanager
def opened(directory: Directory, memory: str = MEMORY) -> Iterator[Database]:
    """A database with the view `facts` of a plan. It has the columns of `pipeline.plan.requests.facts` and `number`,
    the number of the request in its phase, null for an event that is left out. What does not fit into `memory` spills
    next to the plan."""
    with scratch_database(directory, memory) as database:
        add_facts(database, directory)
        yield database


@contextmanager
def scratch_database(directory: Directory, memory: str = MEMORY) -> Iterator[Database]:
    """An empty database that spills next to a plan, or into a temporary folder if the plan cannot be written to."""
    where = directory.path if os.access(directory.path, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(dir=where, prefix=".query-") as scratch,
        Database(Path(scratch), memory=memory, threads=2) as database,
    ):
        yield database


def add_facts(database: Database, directory: Directory, name: str = "facts") -> None:
    """Add the view of a plan's facts under this name. Raises StalePlan if they changed after they were sealed."""
    if directory.plan.exists():
        for file, digest in read_plan(directory).files.items():
            if Path(file).parts[0] == directory.facts.name:
                check_digest(directory, file, digest)
    bases = {request.part: request.number - request.nth for request in read_requests(directory, EVENTS)}
    database.run(f"CREATE TABLE {name}_bases (file BIGINT, base BIGINT)")
    database.insert(f"{name}_bases", bases.items())
    database.run(
        f"CREATE VIEW {name} AS SELECT base + request AS number, facts.* EXCLUDE (filename) FROM"
        f" {files_in(directory.facts, 'filename = true')} AS facts LEFT JOIN {name}_bases AS bases"
        " ON bases.file = CAST(parse_filename(facts.filename, true) AS BIGINT)"
    )


SENT = """
SELECT {columns} FROM facts JOIN ledger
ON ledger.phase = 'events' AND facts.number = ledger.number AND facts.place BETWEEN ledger.first AND ledger.last
"""
"""A query for the events in the batches of `add_ledger`."""


def add_ledger(database: Database, batches: Iterable[tuple[BatchKey, str]], name: str = "ledger") -> None:
    """Add a table of batches with their state: phase, number, first, last (both inclusive, places in the request)."""
    database.run(f"CREATE TABLE {name} (phase VARCHAR, number BIGINT, first BIGINT, last BIGINT, state VARCHAR)")
    database.insert(name, ((*key, state) for key, state in batches))


def line_states(directory: Directory, phase: str, batches: Iterable[tuple[BatchKey, str]]) -> Iterator[str]:
    """The state of each line of a phase's sealed file according to these batches, "" for a line in none of them."""
    known: dict[int, list[tuple[int, int, str]]] = {}
    for key, state in batches:
        if key.phase == phase:
            known.setdefault(key.request, []).append((key.first, key.last, state))
    for request in read_requests(directory, phase):
        states = [""] * request.events
        for first, last, state in known.get(request.number, ()):
            states[first : last + 1] = [state] * (last - first + 1)
        yield from states


def every_batch(directory: Directory) -> Iterator[BatchKey]:
    """Each request of a plan, as a batch that contains the whole request."""
    for request in read_lines(directory.requests, PackedRequest):
        yield BatchKey(request.phase, request.number, 0, request.events - 1)
