"""What a sample has to show, and candidates who show it.

A stratum is an event name in a UTC year, an entry of `events` in the mapping, a kind of merge, or a kind of profile
update. Of each the persons with the smallest hashes are candidates, so the choice depends neither on workers nor on the
order of files, and memory does not grow with the history.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.encoder.encoded import read_event
from pipeline.encoder.updates import EMPTY_OBJECT, SealedInitial, SealedLink, SealedPerson
from pipeline.id_hash import hash_id
from pipeline.plan.samples.source_pairs import NAME_CHARACTERS, SourcePair
from pipeline.plan.sealed.directory import Directory, read_lines
from pipeline.plan.sealed.manifest import Plan, SealedBlock
from pipeline.text import printable
from pipeline.transform.block import BlockTransformer, rows_sent
from pipeline.transform.tasks import Task

EACH = 8
"""Candidates of each stratum."""
MOST_STRATA = 4_096
"""Strata, where there are more those with the smallest hashes: a sample of a few thousand events shows no more."""
SKETCH = 1 << 20
"""Counters by the last bits of a person's hash: each is at least the number of events of a person."""
NAMES = {"event": "event {0} in {1}", "rule": "rule {0}", "merge": "merge by {0}", "profile": "profile update with {0}"}


class Stratum(NamedTuple):
    """`kind` is a key of NAMES; `name` and `year` tell one from another."""

    kind: str
    name: str
    year: str = ""

    def __str__(self) -> str:
        return printable(NAMES[self.kind].format(self.name, self.year), NAME_CHARACTERS)


class Seen(NamedTuple):
    """The persons of one block: their hashes with their numbers of events, and for each stratum its number of events
    and the smallest hashes of its persons."""

    persons: bytes
    counts: bytes
    strata: dict[Stratum, tuple[int, list[int]]]


class Strata:
    """The strata of a plan with their candidates, and how many events each person has at most."""

    def __init__(self) -> None:
        self.events: dict[Stratum, int] = {}
        self.more = False
        self._persons: dict[Stratum, list[int]] = {}
        self._order: list[tuple[int, Stratum]] = []
        self._sketch = np.zeros(SKETCH, np.uint32)

    def add(self, seen: Seen) -> None:
        """Add the persons of one block."""
        where = np.frombuffer(seen.persons, np.uint64) & np.uint64(SKETCH - 1)
        np.add.at(self._sketch, where.astype(np.intp), np.frombuffer(seen.counts, np.uint32))
        for stratum, (events, persons) in seen.strata.items():
            self.count(stratum, events, persons)

    def count(self, stratum: Stratum, events: int, persons: Iterable[int]) -> None:
        """Add events and persons of one stratum."""
        found = self._persons.get(stratum)
        if found is None:
            entry = -xxhash.xxh3_64_intdigest(msgspec.json.encode(stratum)), stratum
            if len(self._order) == MOST_STRATA:
                self.more = True
                if entry < self._order[0]:
                    return
                _, dropped = heapq.heapreplace(self._order, entry)
                del self._persons[dropped], self.events[dropped]
            else:
                heapq.heappush(self._order, entry)
            found = self._persons[stratum] = []
        self.events[stratum] = self.events.get(stratum, 0) + events
        found[:] = sorted({*found, *persons})[:EACH]

    def candidates(self, stratum: Stratum, large: int) -> list[int]:
        """The persons of a stratum, those who may have more than `large` events last."""
        return sorted(self._persons[stratum], key=lambda person: (self._at_most(person) > large, person))

    def _at_most(self, person: int) -> int:
        return int(self._sketch[person & SKETCH - 1])

    def in_order(self) -> list[Stratum]:
        """The strata, those first that a small sample shows: rules, merges and profiles, then each event name in the
        year of most of its events, the most frequent name first, then the names in their other years."""
        ranks: dict[str, int] = {}
        ranked: list[tuple[int, int, Stratum]] = []
        for stratum in sorted(self.events, key=lambda one: (-self.events[one], one)):
            if stratum.kind != "event":
                ranked.append((-1, 0, stratum))
                continue
            rank = ranks[stratum.name] = ranks.get(stratum.name, -1) + 1
            ranked.append((rank, -self.events[stratum], stratum))
        return [stratum for _, _, stratum in sorted(ranked)]


def see_block(transformer: BlockTransformer, task: Task, rules: Mapping[int, Mapping[int, str]]) -> Seen:
    """The persons of a block. `rules` has, by block, rows (from 0) that stand for an entry of `events` in the mapping.

    Raises StalePlan.
    """
    events = transformer.planned(task)
    sent, _ = transformer.apply_tables(events, task)
    members: dict[Stratum, list[int]] = {}
    persons = []
    for event in map(read_event, sent):
        person = hash_id(event.properties.distinct_id)
        persons.append(person)
        members.setdefault(Stratum("event", event.event, event.timestamp[:4]), []).append(person)
    strata = {stratum: (len(some), heapq.nsmallest(EACH, set(some))) for stratum, some in members.items()}
    if wanted := rules.get(task.number):
        for row, person in zip(rows_sent(events, task), persons, strict=True):
            if row in wanted:
                strata[Stratum("rule", wanted[row])] = 1, [person]
    hashes: NDArray[np.uint64] = np.array(persons, np.uint64)
    found, counts = np.unique(hashes, return_counts=True)
    return Seen(found.tobytes(), counts.astype(np.uint32).tobytes(), strata)


def rules_shown(plan: Plan, directory: Directory) -> dict[int, dict[int, str]]:
    """By block: the rows (from 0 in it) that the plan shows for an entry of `events` in the mapping."""
    rows: dict[str, list[tuple[int, str]]] = {}
    if directory.source_pairs.exists():
        for pair in read_lines(directory.source_pairs, SourcePair):
            if pair.event_rule:
                rows.setdefault(pair.file, []).append((pair.row, pair.event_rule))
    found: dict[int, dict[int, str]] = {}
    for block in read_lines(directory.blocks, SealedBlock) if rows else ():
        for row, rule in rows.get(plan.parts[block.part].path, ()):
            if block.first_row <= row < block.first_row + block.rows:
                found.setdefault(block.number, {})[row - block.first_row] = rule
    return found


def stratum_of(record: SealedLink | SealedPerson) -> Stratum:
    """What a sealed merge or profile update shows."""
    if isinstance(record, SealedLink):
        return Stratum("merge", record.kind)
    if isinstance(record, SealedInitial):
        return Stratum("profile", "what is set before all events")
    members = [f"${name}" for name in ("set", "set_once") if getattr(record, name) != msgspec.Raw(EMPTY_OBJECT)]
    return Stratum("profile", " and ".join([*members, *(["$unset"] if isinstance(record.unset, msgspec.Raw) else [])]))
