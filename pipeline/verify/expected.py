"""What should have arrived: the facts of the plan joined with its ledger, for events that are settled or in doubt.

Events of the phases without facts are read from their requests, and if every value is compared, all events are. This
also gives a hash of their properties. The result is `expected.parquet` of the session:

phase, number, place   the event: the request in its phase, and the place in it
hi, lo                 its uuid
name, person, time     its name, the `hash_id` of its distinct_id, µs UTC
digest                 the hash of its properties, 0 if these are not compared
state                  settled, or another state: then it may have landed or not
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import xxhash
from msgspec import UNSET, Raw

from pipeline.encoder.encoded import read_event, read_properties
from pipeline.errors import BackcastError
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database, texts
from pipeline.ledger import BatchKey, read_batches
from pipeline.models import Step
from pipeline.plan.requests.query import add_ledger
from pipeline.plan.requests.store import PackedRequest, RequestReader, read_requests
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import Plan, ReplayedPlan
from pipeline.plan.settled import ALREADY_SETTLED
from pipeline.plan.settled_facts import settled_lines
from pipeline.timestamps import read_iso
from pipeline.transform.facts import numbers
from pipeline.verify.landed import in_chunks
from pipeline.verify.session import END, Pages, Session

LANDED = pa.schema([
    ("hi", pa.uint64()), ("lo", pa.uint64()), ("name", pa.string()), ("person", pa.uint64()), ("time", pa.int64()),
    ("digest", pa.uint64()),
])  # fmt: skip
"""What is known of an event, in the plan or at the target."""
IDS = pa.schema([("person", pa.string()), ("id", pa.uint64()), ("distinct_id", pa.string())])
"""An id and its person's uuid; `id` is its `hash_id`."""
_SCHEMA = pa.schema([("phase", pa.string()), ("number", pa.int64()), ("place", pa.int64()), *LANDED])
_AT_ONCE = 16 << 20
"""At most this many bytes of events are decoded for one page."""
_LINES = 50_000


class Sent(NamedTuple):
    """An event as it was sent, and its place: its phase, the request in the phase, and the place in the request."""

    phase: str
    request: int
    at: int
    event: bytes


def read_sent(directory: Directory) -> Iterator[tuple[BatchKey, str]]:
    """The batches of the ledger whose events may have landed, with their state."""
    for state in ("settled", "begun", "waiting"):
        for key in read_batches(directory.ledger, state):
            yield key, state


def write_expected(session: Session, directory: Directory, database: Database, *, values: bool, progress: Step) -> Path:
    """Write the file, unless an earlier run did, and return its path. `values`: with a hash of all properties."""
    path = session.path / "expected.parquet"
    if path.exists():
        return path
    add_ledger(database, read_sent(directory), "sent")
    total = database.number("SELECT sum(last - first + 1) FROM sent")
    decoded = _decode(session, directory, database, values=values, total=total, progress=progress)
    columns = "sent.phase, sent.number, place, hi, lo, name, person, time"
    here = "sent.number = events.number AND place BETWEEN first AND last"
    queries = [
        f"SELECT {columns}, digest, state FROM {decoded.relation} AS events JOIN sent"
        f" ON sent.phase = events.phase AND {here}"
    ]
    if not values:
        queries.append(
            f"SELECT {columns}, 0::UBIGINT AS digest, state FROM facts AS events JOIN sent"
            f" ON sent.phase = '{EVENTS}' AND {here}"
        )
    new = path.with_suffix(".new")
    target = str(new).replace("'", "''")
    database.run(f"COPY ({' UNION ALL '.join(queries)}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
    new.replace(path)
    progress("events as planned", total, total)
    return path


def add_replayed(database: Database, plan: Plan) -> None:
    """Fill the table `replayed` (hi, lo): what a plan with `--replay` leaves out because it is already at the target.

    The facts of this plan have the events; merges, groups and profiles are read from the plans that it replays, if
    those still exist.
    """
    replays = plan.replays
    if replays is UNSET:
        return
    database.run(f"INSERT INTO replayed SELECT hi, lo FROM facts WHERE code = '{ALREADY_SETTLED}'")
    while replays is not UNSET:
        found = _replayed_by(replays)
        if found is None:
            break
        earlier, directory = found
        for phase in PHASES:
            lines = () if phase == EVENTS else settled_lines(directory, phase)
            for some in in_chunks((sealed.uuid for _, sealed in lines), _LINES):
                database.append("replayed", dict(zip(("hi", "lo"), halves(some), strict=True)))
        replays = earlier.replays


def _replayed_by(replays: ReplayedPlan) -> tuple[Plan, Directory] | None:
    """The plan that was replayed; None if it is gone, or another one took its place."""
    with suppress(BackcastError, OSError):
        plan, directory = open_plan(replays.directory, discarded=True)
        if plan.digest == replays.digest:
            return plan, directory
    return None


def _decode(
    session: Session, directory: Directory, database: Database, *, values: bool, total: int, progress: Step
) -> Pages:
    """The pages of the events that are read from their requests, from where an earlier run stopped."""
    pages = Pages(session, "decoded", _SCHEMA)
    if pages.cursor == END:
        return pages
    phases = [phase for phase in PHASES if values or phase != EVENTS]
    reached = tuple(pages.cursor or (0, -1))
    pending: list[tuple[PackedRequest, list[bytes]]] = []
    with RequestReader(directory) as reader:
        for index, phase in enumerate(phases):
            sent = {number for (number,) in database.rows(f"SELECT DISTINCT number FROM sent WHERE phase = '{phase}'")}
            for request in read_requests(directory, phase) if sent else ():
                if request.number in sent and (index, request.number) > reached:
                    pending.append((request, reader.events(request)))
                    if sum(one.bytes for one, _ in pending) >= _AT_ONCE:
                        pages.add(_columns(pending, values=values), (index, request.number))
                        pending.clear()
                        progress("events as planned", pages.rows, total)
    if pending:
        pages.add(_columns(pending, values=values), (len(phases), 0))
    pages.finish()
    return pages


def _columns(requests: Sequence[tuple[PackedRequest, list[bytes]]], *, values: bool) -> list[pa.Array]:
    sent = [event for _, events in requests for event in events]
    read = [read_event(event) for event in sent]
    counts = [request.events for request, _ in requests]
    own = event_columns(
        [event.uuid for event in read],
        [event.event for event in read],
        [event.properties.distinct_id for event in read],
        [event.timestamp for event in read],
        [digest_of(read_properties(event)) if values else 0 for event in sent],
    )
    return [
        texts([request.phase for request, events in requests for _ in events]),
        numbers(np.repeat(np.array([request.number for request, _ in requests], np.int64), counts), pa.int64()),
        numbers(np.concatenate([np.arange(count, dtype=np.int64) for count in counts]), pa.int64()),
        *own,
    ]


def event_columns(
    uuids: Sequence[str], names: Sequence[str], ids: Sequence[str], times: Sequence[str], values: Sequence[int]
) -> list[pa.Array]:
    """The columns of LANDED."""
    return [
        *halves(uuids),
        texts([*map(encodable, names)]),
        _hashes(ids),
        numbers(np.fromiter(map(instant, times), np.int64, len(times)), pa.int64()),
        numbers(np.array(values, np.uint64), pa.uint64()),
    ]


def id_columns(persons: Sequence[str], ids: Sequence[str]) -> list[pa.Array]:
    """The columns of IDS."""
    return [texts(persons), _hashes(ids), texts([*map(encodable, ids)])]


def encodable(text: str) -> str:
    """A text of the service without half characters (lone surrogates), which no table takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _hashes(ids: Sequence[str]) -> pa.Array:
    return numbers(np.fromiter(map(hash_id, ids), np.uint64, len(ids)), pa.uint64())


def halves(uuids: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """The columns `hi` and `lo` of uuids."""
    digits = np.frombuffer(bytes.fromhex("".join(uuids).replace("-", "")), ">u8").reshape(-1, 2).astype(np.uint64)
    return numbers(digits[:, 0], pa.uint64()), numbers(digits[:, 1], pa.uint64())


def identity(event: str, distinct_id: str, timestamp: str) -> tuple[str, int, int]:
    """Two events with one uuid are the same if this is equal: the name, the `hash_id` of the distinct_id, µs UTC."""
    return event, hash_id(distinct_id), instant(timestamp)


def instant(timestamp: str) -> int:
    """An event's time in µs UTC, however it is spelled."""
    return read_iso(timestamp, space=True).us


def digest_of(properties: dict[str, Raw]) -> int:
    """A hash of the bytes of properties, independent of their order; never 0."""
    pieces = []
    for name in sorted(properties):
        value = bytes(properties[name])
        key = name.encode("utf-8", "surrogatepass")
        pieces.append(b"%d:%b%d:%b" % (len(key), key, len(value), value))
    return xxhash.xxh3_64_intdigest(b"".join(pieces)) or 1


def read_places(directory: Directory, places: Iterable[tuple[str, int, int]]) -> Iterator[Sent]:
    """The events at these places as they were sent, in the order of phase, request and place."""
    with RequestReader(directory) as reader:
        for phase, of_phase in groupby(places, key=itemgetter(0)):
            requests = read_requests(directory, phase)
            for number, some in groupby(of_phase, key=itemgetter(1)):
                events = reader.events(next(one for one in requests if one.number == number))
                yield from (Sent(phase, number, place, events[place]) for _, _, place in some)
