"""Plans with something to send in all four phases: rows with devices, and groups and profiles sealed with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from pipeline.batcher import unpack
from pipeline.encoder.event import Encoder
from pipeline.encoder.updates import SealedGroup, SealedPerson
from pipeline.plan.requests.store import digest_of_requests, read_requests
from pipeline.plan.requests.write import RequestPlan, _line_requests
from pipeline.plan.sealed.directory import LinesWriter, sealed_file
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import EventCounts, save, seal
from pipeline.plan.sealed.phases import PHASES
from tests.support.deliveries import planned
from tests.support.plan_config import config_of

THEN = 1_672_531_200_000_000
"""2023-01-01T00:00:00Z, before every row."""
TYPES = ("zoo", "company", "project")
"""Group types in the order that a plan chose, which is neither that of their names nor that of their counts."""


def planned_in_phases(
    folder: Path, rows: int = 40, *, groups: int = 12, persons: int = 7, batch: int = 4, **asked: Any
) -> Path:
    """The directory of a plan with 7 merges, this many groups, events and profiles, and `batch` events per request."""
    directory = planned(folder, rows, batch=batch, links=True, **asked)
    plan, place = open_plan(directory)
    config = config_of(plan, place)
    files, phases = dict(plan.files), dict(plan.events.phases)
    of_group = [
        SealedGroup(TYPES[one % 3], f"key-{one}", THEN, _uuid(1, one), msgspec.Raw(b'{"name":"%d"}' % one))
        for one in range(groups)
    ]
    of_person = [
        SealedPerson(
            f"person-{one % 7}", THEN + one, _uuid(2, one), msgspec.Raw(b"{}"), msgspec.Raw(b'{"plan":"p%d"}' % one)
        )
        for one in range(persons)
    ]
    for phase, lines in (("groups", of_group), ("persons", of_person)):
        path = sealed_file(phase, place)
        with LinesWriter(path) as writer:
            writer.write_all(lines)
            files[path.name] = writer.close()
        phases[phase] = len(lines)
    encoder = Encoder(config.compile(config.options).tool, config.options)
    requests = RequestPlan(config, encoder, 0, ordered=False, hot=())
    own = {phase: [*read_requests(place, phase)] for phase in ("identities", "events")}
    with LinesWriter(place.requests) as index:
        for phase in PHASES:
            index.write_all(own[phase] if phase in own else _line_requests(phase, place, requests, files))
        files[place.requests.name] = index.close()
    counts = EventCounts(sum(phases.values()), phases)
    save(place, seal(msgspec.structs.replace(plan, events=counts, files=files, requests=digest_of_requests(place))))
    return directory


def _uuid(kind: int, number: int) -> str:
    return str(UUID(int=(kind << 64) + number, version=5))


def phase_of(event: dict[str, Any]) -> str:
    """The phase that sent an event, by its kind."""
    if event["event"] == "$group_identify":
        return "groups"
    if event["event"] == "$identify":
        return "identities" if "$anon_distinct_id" in event["properties"] else "persons"
    return "events"


def phase_of_body(body: bytes) -> str:
    """The phase of all events in a request."""
    (phase,) = {phase_of(json.loads(event)) for event in unpack(body)}
    return phase


def in_order(phases: Sequence[str]) -> bool:
    """Whether each phase ended before the next one began."""
    return list(phases) == sorted(phases, key=PHASES.index)
