"""Everything that a ledger says was sent, event by event, with its file and row in the export.

The facts of a plan are joined with its ledger; what merges, groups and profiles wrote is read from their requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import msgspec

from pipeline.encoder.encoded import read_event
from pipeline.identity.database import Database
from pipeline.ledger import BatchKey, read_batches, read_unanswered
from pipeline.models import Step
from pipeline.plan.requests.query import SENT, add_ledger, line_states, opened
from pipeline.plan.requests.store import read_events
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, sealed_file
from pipeline.plan.sealed.manifest import Plan
from pipeline.timestamps import format_utc, read_iso
from pipeline.uuids import uuid_text

SETTLED, IN_DOUBT = "settled", "in doubt"
_AT_ONCE = 20_000
_LINES = SENT.format(columns="state, name, distinct_id, time, hi, lo, part, row") + " ORDER BY facts.number, place"
_IDS = SENT.format(columns="distinct_id, count(*), min(time), max(time)") + " GROUP BY distinct_id"


class SentLine(msgspec.Struct, frozen=True):
    """An event that the service has, or may have (`in doubt`). `row` counts from 1 in `file`; for a merge, a group or a
    profile, `file` is its file in the plan and `row` its line."""

    phase: str
    uuid: str
    event: str
    distinct_id: str
    timestamp: str
    state: str
    file: str
    row: int


class SentEvent(NamedTuple):
    """A line, and the encoded event unless it belongs to the phase events."""

    line: SentLine
    encoded: bytes = b""


class SentId(msgspec.Struct, frozen=True):
    """A distinct_id of events that were sent, their number, and the times of the first and last of them."""

    distinct_id: str
    events: int
    first: str
    last: str


class SentEvents:
    """What was sent of a plan, in a database. `opened_sent` makes one of these."""

    def __init__(self, database: Database, plan: Plan, directory: Directory) -> None:
        self._database = database
        self._plan = plan
        self._directory = directory
        add_ledger(database, self._batches())
        database.run("CREATE TABLE ids (distinct_id VARCHAR, events BIGINT, first BIGINT, last BIGINT)")
        self.events = database.number("SELECT sum(last - first + 1) FROM ledger")

    def _batches(self) -> Iterator[tuple[BatchKey, str]]:
        yield from ((key, SETTLED) for key in read_batches(self._directory.ledger, "settled"))
        yield from ((key, IN_DOUBT) for key in read_unanswered(self._directory.ledger))

    def lines(self, progress: Step) -> Iterator[SentEvent]:
        """Every event that is settled or in doubt, phase by phase in the order of sending.

        `progress` is called with how many events were read and how many there are. Raises BrokenLedger, UnsafePlan.
        """
        done = 0
        for done, event in enumerate(chain.from_iterable(map(self._of_phase, PHASES)), 1):
            yield event
            if not done % 5_000:
                progress("events that were sent", done, self.events)
        progress("events that were sent", done, self.events)

    def _of_phase(self, phase: str) -> Iterator[SentEvent]:
        return self._of_rows() if phase == EVENTS else self._of_updates(phase)

    def _of_rows(self) -> Iterator[SentEvent]:
        self._database.run(f"INSERT INTO ids {_IDS}")
        files = [part.path for part in self._plan.parts]
        for state, event, distinct_id, time, hi, lo, part, row in self._database.tuples(_LINES, _AT_ONCE):
            uuid = uuid_text(hi, lo)
            yield SentEvent(SentLine(EVENTS, uuid, event, distinct_id, format_utc(time), state, files[part], row))

    def _of_updates(self, phase: str) -> Iterator[SentEvent]:
        file = sealed_file(phase, self._directory).name
        states = line_states(self._directory, phase, self._batches())
        for request, events in read_events(self._directory, phase):
            ids = []
            for row, event in enumerate(events, request.first + 1):
                if state := next(states):
                    sent = read_event(event)
                    distinct_id = sent.properties.distinct_id
                    time = read_iso(sent.timestamp).us
                    ids.append((distinct_id, 1, time, time))
                    line = SentLine(phase, sent.uuid, sent.event, distinct_id, sent.timestamp, state, file, row)
                    yield SentEvent(line, event)
            self._database.insert("ids", ids)

    def ids(self) -> Iterator[SentId]:
        """The distinct_ids of the lines read so far, sorted."""
        query = (
            "SELECT distinct_id, sum(events)::BIGINT, min(first), max(last) FROM ids"
            " GROUP BY distinct_id ORDER BY distinct_id"
        )
        for id_, events, first, last in self._database.tuples(query):
            yield SentId(id_, events, format_utc(first), format_utc(last))


@contextmanager
def opened_sent(plan: Plan, directory: Directory) -> Iterator[SentEvents]:
    """What was sent of a plan, read from its directory."""
    with opened(directory) as database:
        yield SentEvents(database, plan, directory)
