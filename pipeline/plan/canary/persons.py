"""Whole persons: all ids of some candidates, and every event, merge, profile update and group of theirs.

Ids are told apart by their 64-bit hashes: two ids with the same one are one person here, who is sent
whole as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from pipeline.encoder.encoded import read_event, read_properties
from pipeline.encoder.updates import SealedGroup, SealedLink, SealedPerson
from pipeline.engines.local import Workers
from pipeline.id_hash import hash_id
from pipeline.models import Step
from pipeline.plan.canary.strata import Stratum, stratum_of
from pipeline.plan.sealed.contents import PlannedBlock, task_of, tasks
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.sealed.phases import sealed_records
from pipeline.transform.block import BlockTransformer
from pipeline.transform.tasks import Task, TransformConfig

Place = tuple[str, int, int]
"""An event of the plan: its phase, its block, its index in the block."""
Group = tuple[str, str]
"""Type and key."""


class Person(msgspec.Struct):
    """All of one person. `size` counts what is sent of it; `places` are those, None where they are too many.

    `name` is one of its ids, and `groups` are those that its events name.
    """

    name: str = ""
    size: int = 0
    places: list[Place] | None = msgspec.field(default_factory=list)
    strata: set[Stratum] = msgspec.field(default_factory=set)
    groups: set[Group] = msgspec.field(default_factory=set)

    def add(self, place: Place, most: int) -> None:
        """Add an event, whose place is kept while there are no more than `most`."""
        self.size += 1
        if self.size > most:
            self.places = None
        elif self.places is not None:
            self.places.append(place)


class Found(NamedTuple):
    """The events of some persons in one block: for each its person, as a number of the task's, its index, and stratum.

    `names` has an id of each person, `groups` those that its events name.
    """

    events: list[tuple[int, int, Stratum]]
    names: dict[int, str]
    groups: dict[int, set[Group]]


class Groups(NamedTuple):
    """The places of groups that persons name, and of the `first` ones: one of each type, in the order of the types."""

    places: dict[Group, Place]
    first: list[Place]


def find_owners(plan: Plan, directory: Directory, candidates: Collection[int]) -> dict[int, int]:
    """The person of each id of some candidates, by hashes: the id that survives its merges, or the id itself.

    Merges are a star: every id is merged into a surviving one.
    """
    owners: dict[int, int] = {}
    surviving: set[int] = set()
    for link in _links(plan, directory):
        into = hash_id(link.distinct_id)
        if into in candidates or hash_id(link.other) in candidates:
            surviving.add(into)
    for link in _links(plan, directory) if surviving else ():
        into = hash_id(link.distinct_id)
        if into in surviving:
            owners[hash_id(link.other)] = owners[into] = into
    return {candidate: candidate for candidate in candidates} | owners


def _links(plan: Plan, directory: Directory) -> Iterator[SealedLink]:
    for _, _, record in sealed_records("identities", plan, directory):
        if isinstance(record, SealedLink):
            yield record


def find_persons(
    plan: Plan,
    directory: Directory,
    config: TransformConfig,
    workers: Workers,
    owners: Mapping[int, int],
    most: int,
    progress: Step,
) -> tuple[dict[int, Person], Groups]:
    """All of the persons of `owners`, by their hashes, each with its places unless there are more than `most`.

    Raises StalePlan, UnsafePlan, UnreadableExport.
    """
    persons: dict[int, Person] = {person: Person() for person in owners.values()}
    numbers = {person: number for number, person in enumerate(persons)}
    by_number = list(persons.values())
    ids = np.array(sorted(owners), np.uint64)
    whose = np.array([numbers[owners[id_]] for id_ in ids.tolist()], np.uint32)
    find = partial(find_in_block, ids=ids.tobytes(), whose=whose.tobytes())
    for done, (task, found) in enumerate(workers.walk(find, event_tasks(plan, directory, config)), 1):
        for number, index, stratum in found.events:
            by_number[number].add((EVENTS, task.number, index), most)
            by_number[number].strata.add(stratum)
        for number, name in found.names.items():
            by_number[number].name = by_number[number].name or name
        for number, groups in found.groups.items():
            by_number[number].groups |= groups
        progress("blocks read for the persons of the canary", done, 0)
    for phase in PHASES:
        for block, index, record in sealed_records(phase, plan, directory) if phase != EVENTS else ():
            if isinstance(record, SealedLink | SealedPerson):
                owner = owners.get(hash_id(record.distinct_id))
                if owner is not None:
                    person = persons[owner]
                    person.add((phase, block, index), most)
                    person.name = person.name or record.distinct_id
                    person.strata.add(stratum_of(record))
    return persons, _groups(plan, directory, persons.values())


def _groups(plan: Plan, directory: Directory, persons: Collection[Person]) -> Groups:
    wanted = {group for person in persons for group in person.groups}
    found = Groups({}, [])
    types: set[str] = set()
    for block, index, record in sealed_records("groups", plan, directory):
        if not isinstance(record, SealedGroup):
            continue
        place = "groups", block, index
        if record.type not in types:
            types.add(record.type)
            found.first.append(place)
        if (record.type, record.key) in wanted:
            found.places[record.type, record.key] = place
    return found


def event_tasks(plan: Plan, directory: Directory, config: TransformConfig) -> Iterator[Task]:
    """Every block that has events to send."""

    def choose(planned: PlannedBlock) -> Task | None:
        return task_of(plan, planned) if planned.events else None

    return tasks(directory, choose)


def find_in_block(transformer: BlockTransformer, task: Task, ids: bytes, whose: bytes) -> Found:
    """The events in a block of the persons `whose` (uint32) with these ids (sorted uint64 hashes). Raises StalePlan."""
    known, owner = np.frombuffer(ids, np.uint64), np.frombuffer(whose, np.uint32)
    events = transformer.sent_events(task)
    read = [read_event(event) for event in events]
    hashes = np.array([hash_id(event.properties.distinct_id) for event in read], np.uint64)
    where = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    found = Found([], {}, {})
    for index in np.flatnonzero(known[where] == hashes).tolist():
        number, event = int(owner[where[index]]), read[index]
        found.events.append((number, index, Stratum("event", event.event, event.timestamp[:4])))
        found.names.setdefault(number, event.properties.distinct_id)
        if named := _named_groups(events[index]):
            found.groups.setdefault(number, set()).update(named)
    return found


def _named_groups(event: bytes) -> set[Group]:
    if b'"$groups"' not in event:
        return set()
    named = msgspec.json.decode(read_properties(event).get("$groups", b"{}"))
    return {(type_, str(key)) for type_, key in named.items()} if isinstance(named, dict) else set()
