"""The values of events: those of a sample, or of all, compared property by property with what landed.

The sample has EACH events of every stratum (phase, event name and year): those with the smallest hashes of their uuids,
so a second verification compares the same ones. If all events are compared, only those whose digest differs from that
of what landed are compared property by property. Both are read from their requests and go through `compare_values` in
chunks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pipeline.encoder.encoded import read_event, read_properties
from pipeline.identity.database import Database
from pipeline.models import Step
from pipeline.plan.sealed.directory import Directory
from pipeline.verify.expected import Sent, identity, read_places
from pipeline.verify.findings import Fields, KnownDifference, ValueCheck
from pipeline.verify.landed import ASKED, in_chunks, landed_events
from pipeline.verify.session import Journal, Session
from pipeline.verify.values import KNOWN, compare_properties, landed_properties

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

MOST_NAMED = 100_000
"""At most this many differences of each kind are named with their rows; all are counted."""
EACH = 25
"""The sample has this many events of each stratum."""
MOST_STRATA = 1_000
"""At most this many strata are sampled: those with the smallest hashes."""
_SHOWN_PROPERTIES = 10


class Altered(msgspec.Struct, frozen=True, array_like=True):
    """An event in which these properties have a different value than was sent."""

    phase: str
    request: int
    index: int
    uuid: str
    event: str
    changed: list[str]


class _Chunk(msgspec.Struct, array_like=True):
    """The result for some events: how many were compared, and what was found."""

    compared: int = 0
    altered: list[Altered] = []
    known: dict[str, tuple[int, list[str]]] = {}


class Values(NamedTuple):
    """The check of the values, and the first MOST_NAMED altered events."""

    check: ValueCheck
    altered: list[Altered]


def sample_of(database: Database, directory: Directory) -> tuple[list[Sent], int]:
    """The sample of what was sent, ordered by time, and the number of its strata. `database` has the view `planned` of
    `pipeline.verify.comparison`."""
    strata = database.rows(
        f"SELECT phase, min_by(number << 32 | place, hash(hi, lo), {EACH}) FROM planned WHERE state = 'settled'"
        f" GROUP BY phase, name, day[:4] ORDER BY hash(phase, name, day[:4]) LIMIT {MOST_STRATA}"
    )
    places = sorted((phase, one >> 32, one & 0xFFFFFFFF) for phase, some in strata for one in some)
    chosen = sorted(read_places(directory, places), key=lambda sent: (read_event(sent.event).timestamp, sent[:3]))
    return chosen, len(strata)


def compare_values(
    client: ManagementClient,
    session: Session,
    sent: Iterable[Sent],
    *,
    fields: Fields,
    total: int,
    strata: int = 0,
    equal: int = 0,
    progress: Step,
) -> Values:
    """Compare events with what landed under their uuids; events of which nothing landed are reported elsewhere.

    `total` is how many there are, `equal` how many others are known to have landed as they were sent.
    """
    journal = Journal(session, "values.jsonl", _Chunk)
    for number, chunk in enumerate(in_chunks(sent)):
        if number >= journal.done:
            journal.add(_compare(client, chunk))
        progress("values", min((number + 1) * ASKED, total), total)
    compared, count, altered = equal, 0, list[Altered]()
    counts: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    for found in journal:
        compared += found.compared
        count += len(found.altered)
        altered += found.altered[: MOST_NAMED - len(altered)]
        for code, (events, some) in found.known.items():
            counts[code] += events
            names[code] = list(dict.fromkeys([*names.get(code, []), *some]))[:_SHOWN_PROPERTIES]
    known = [KnownDifference(code, events, names[code], *KNOWN[code]) for code, events in counts.most_common()]
    return Values(ValueCheck(fields, compared, strata, count, known), altered)


def _compare(client: ManagementClient, chunk: Sequence[Sent]) -> _Chunk:
    events = [read_event(one.event) for one in chunk]
    days = {event.timestamp[:10] for event in events}
    landed = landed_events(client, [event.uuid for event in events], days, values=True)
    found = _Chunk(0, [], {})
    for (phase, request, index, text), event in zip(chunk, events, strict=True):
        own = identity(event.event, event.properties.distinct_id, event.timestamp)
        rows = [row for row in landed.get(event.uuid, []) if identity(*row[1:4]) == own]
        if not rows:
            continue
        sent = read_properties(text)
        # If there are several copies, one of them may be as it was sent.
        best = min(
            (compare_properties(sent, landed_properties(row.properties)) for row in rows),
            key=lambda result: (len(result.altered), len(result.known)),
        )
        found.compared += 1
        if best.altered:
            found.altered.append(Altered(phase, request, index, event.uuid, event.event, best.altered))
        for code, names in best.known.items():
            count, some = found.known.get(code, (0, []))
            found.known[code] = count + 1, list(dict.fromkeys([*some, *names]))[:_SHOWN_PROPERTIES]
    return found
