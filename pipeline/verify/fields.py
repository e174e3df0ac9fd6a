"""The values of events: those of a sample, or of all, compared property by property with what landed.

The sample is EACH events of every stratum (phase, event name and year), those with the smallest hashes of their uuids,
so a second verification compares the same ones. Of all events, those are compared property by property whose digest
is another than that of what landed; they are transformed once more for it. Both go through `compare_values`, some at a
time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import xxhash

from pipeline.encoder.encoded import read_event, read_properties
from pipeline.models import Step
from pipeline.verify.expected import EACH, Candidate, Stratum, identity
from pipeline.verify.findings import Fields, KnownDifference, ValueCheck
from pipeline.verify.landed import ASKED, Row, landed_events
from pipeline.verify.session import Journal, Session
from pipeline.verify.values import KNOWN, compare_properties, landed_properties

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

MOST_NAMED = 100_000
"""Differences of each kind that are named with their rows; all are counted."""
MOST_STRATA = 1_000
"""Strata that are sampled; those with the smallest hashes, where there are more."""
_SHOWN_PROPERTIES = 10


class Sent(NamedTuple):
    """An event as it was sent, and its place: the index of its phase, its block, its index in it."""

    phase: int
    block: int
    at: int
    event: bytes


class Altered(msgspec.Struct, frozen=True, array_like=True):
    """An event of which these properties have another value than was sent."""

    phase: int
    block: int
    index: int
    uuid: str
    event: str
    changed: list[str]


class _Chunk(msgspec.Struct, array_like=True):
    """The result of some events: how many were compared, and what was found."""

    compared: int = 0
    altered: list[Altered] = []
    known: dict[str, tuple[int, list[str]]] = {}


class Values(NamedTuple):
    """The check of the values, and the first MOST_NAMED altered events."""

    check: ValueCheck
    altered: list[Altered]


def sample_of(candidates: Iterable[Candidate]) -> tuple[list[Sent], int]:
    """The sample, in the order of time, and the number of its strata. The order of the candidates does not matter."""
    strata: dict[Stratum, list[tuple[int, int, int]]] = {}
    kept: list[tuple[int, Stratum]] = []
    events: dict[tuple[Stratum, int, int], bytes] = {}
    for one in candidates:
        held = strata.get(one.stratum)
        if held is None:
            entry = -xxhash.xxh3_64_intdigest(msgspec.json.encode(one.stratum)), one.stratum
            if len(kept) == MOST_STRATA and entry < kept[0]:
                continue
            held = strata[one.stratum] = []
            heapq.heappush(kept, entry)
            if len(kept) > MOST_STRATA:
                _, dropped = heapq.heappop(kept)
                for _, block, index in strata.pop(dropped):
                    del events[dropped, block, index]
        heapq.heappush(held, (-one.hash, one.block, one.index))
        events[one.stratum, one.block, one.index] = one.event
        if len(held) > EACH:
            _, block, index = heapq.heappop(held)
            del events[one.stratum, block, index]
    chosen = [Sent(stratum[0], block, index, event) for (stratum, block, index), event in events.items()]
    chosen.sort(key=lambda sent: (read_event(sent.event).timestamp, sent[:3]))
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
    """Compare events with what landed under their uuids; those of which nothing landed are reported elsewhere.

    `total` is how many there are, `equal` how many others are known to be as they were sent.
    """
    journal = Journal(session, "values.jsonl", _Chunk)
    for number, chunk in enumerate(_chunks(sent)):
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


def _chunks(sent: Iterable[Sent]) -> Iterator[list[Sent]]:
    chunk: list[Sent] = []
    for one in sent:
        chunk.append(one)
        if len(chunk) == ASKED:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _compare(client: ManagementClient, chunk: Sequence[Sent]) -> _Chunk:
    events = [read_event(one.event) for one in chunk]
    days = {event.timestamp[:10] for event in events}
    landed: dict[str, list[Row]] = {}
    for row in landed_events(client, [event.uuid for event in events], days, values=True):
        landed.setdefault(row.uuid, []).append(row)
    found = _Chunk(0, [], {})
    for (phase, block, index, text), event in zip(chunk, events, strict=True):
        own = identity(event.uuid, event.event, event.properties.distinct_id, event.timestamp)
        rows = [row for row in landed.get(event.uuid, []) if identity(*row[:4]) == own]
        if not rows:
            continue
        sent = read_properties(text)
        # Of several copies one may be as it was sent.
        best = min(
            (compare_properties(sent, landed_properties(row.properties)) for row in rows),
            key=lambda result: (len(result.altered), len(result.known)),
        )
        found.compared += 1
        if best.altered:
            found.altered.append(Altered(phase, block, index, event.uuid, event.event, best.altered))
        for code, names in best.known.items():
            count, some = found.known.get(code, (0, []))
            found.known[code] = count + 1, list(dict.fromkeys([*some, *names]))[:_SHOWN_PROPERTIES]
    return found
