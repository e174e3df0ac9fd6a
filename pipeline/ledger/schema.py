"""The tables of a ledger, and the types of its rows. The docstring of the package explains each column."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

VERSION = 3

SCHEMA = (
    "create table meta (key text primary key, value text not null) without rowid",
    "create table runs ("
    " id integer primary key, started text not null, ended text, version text not null, outcome text)",
    "create table batches ("
    " phase text not null, request integer not null, first integer not null, last integer not null,"
    " state text not null check (state in ('begun', 'settled', 'refused', 'split', 'waiting')),"
    " bytes integer not null, tries integer not null default 0, status integer, detail text not null default '',"
    " run integer not null references runs (id), begun text not null, ended text,"
    " primary key (phase, request, first, last)) without rowid",
    "create table refused_events ("
    " phase text not null, request integer not null, event integer not null,"
    " uuid text not null, status integer not null, detail text not null,"
    " primary key (phase, request, event)) without rowid",
    "create table event_warnings ("
    " detail text primary key, events integer not null, example text not null) without rowid",
    "create table tries ("
    " phase text not null, request integer not null, first integer not null, last integer not null,"
    " run integer not null references runs (id), try integer not null,"
    " at text not null, seconds real not null, status integer, detail text not null)",
)


class BatchKey(NamedTuple):
    """The name of a batch: the events `first` to `last` (inclusive) of the request with this number in its phase.

    It is the whole request, or a piece of one that had to be cut."""

    phase: str
    request: int
    first: int
    last: int

    @property
    def events(self) -> int:
        return self.last - self.first + 1


class Refusal(NamedTuple):
    """One event of a batch that the service refused: the name of its row, its uuid and the reason."""

    row: BatchKey
    uuid: str
    detail: str


class PhaseTotals(NamedTuple):
    """Events of one phase by state, over all runs."""

    settled: int = 0
    refused: int = 0
    in_doubt: int = 0

    def is_all(self, planned: int) -> bool:
        """Whether all of `planned` events are settled or refused."""
        return self.settled + self.refused == planned and not self.in_doubt


class Totals(msgspec.Struct, frozen=True):
    """Events by state over all runs, in all and by phase, and their batches. `outcome` is the last run's.

    A batch counts once, however many runs and tries it took: as `sent` if a request of it may have reached a
    server, as `retried` if it then took more than one, in any run. `batches_made` also counts batches that were split,
    and parts of a batch that have a state of their own but were never sent by themselves.
    """

    settled: int = 0
    refused: int = 0
    in_doubt: int = 0
    batches_made: int = 0
    batches_sent: int = 0
    batches_retried: int = 0
    batches_split: int = 0
    outcome: str = ""
    phases: Mapping[str, PhaseTotals] = msgspec.field(default_factory=dict)

    def of(self, phase: str) -> PhaseTotals:
        """One phase's share."""
        return self.phases.get(phase, PhaseTotals())


class InDoubtBatch(msgspec.Struct, frozen=True):
    """A batch that was begun and has not ended. `status` is None if no answer came."""

    phase: str
    request: int
    first: int
    last: int
    events: int
    tries: int
    status: int | None
    detail: str
    begun: str


class RefusalRecord(msgspec.Struct, frozen=True):
    """An event that the service refused for good."""

    phase: str
    request: int
    event: int
    uuid: str
    status: int
    detail: str


class EventRecord(msgspec.Struct, frozen=True):
    """The batch that has an event, as the ledger records it; of a refused event, why. `state` is "" for an event that
    was not begun; `at` is when the last answer came, or when the batch was begun."""

    state: str = ""
    status: int | None = None
    detail: str = ""
    tries: int = 0
    at: str = ""


class WarningCount(msgspec.Struct, frozen=True):
    """Events that the service accepted with a warning, by its reason. `example` is the uuid of the first."""

    detail: str
    events: int
    example: str


class FailureCount(msgspec.Struct, frozen=True):
    """Requests that did not settle their batch, by status (None: no answer came). `detail` is the last one's."""

    status: int | None
    tries: int
    last: str
    detail: str


def read_meta(database: sqlite3.Connection, schema: str = "main") -> dict[str, str]:
    """The table `meta` of an open ledger."""
    return dict(database.execute(f"select key, value from {schema}.meta"))


def has_table(database: sqlite3.Connection, name: str, schema: str = "main") -> bool:
    """Whether an open ledger has the table: a run that died at its start leaves a ledger without tables."""
    query = f"select 1 from {schema}.sqlite_master where type = 'table' and name = ?"
    return database.execute(query, (name,)).fetchone() is not None
