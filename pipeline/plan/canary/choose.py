"""Chooses the people of a sample.

Each stratum in turn gets the first of its candidates for whom there is room, unless a chosen person already shows it.
People who fill a large part of the sample are taken last, only if no other person shows a stratum, and are named.
Remaining room goes to further candidates, so that one person's oddities do not stand for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from pipeline.encoder.encoded import read_properties
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database
from pipeline.plan.canary.lines import Hashes, SealedLines, group_hash
from pipeline.plan.canary.people import (
    Candidates,
    Line,
    NamedEvents,
    Person,
    add_events,
    add_rules,
    find_candidates,
)
from pipeline.plan.canary.strata import Stratum, in_order
from pipeline.plan.fact_tables import FactTables
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory
from pipeline.plan.sealed.facts import Canary, LargePerson

LARGE_SHARE, LEAST_LARGE = 10, 10
"""A person with more than this part of a sample is large, or one with this many events in a small sample."""
MOST_NOT_SHOWN = 20


class ChosenCanary(NamedTuple):
    """A sample: the hashes of all ids of its people, and their `lines` in the sealed files, by phase and in order."""

    seal: Canary
    ids: Hashes
    lines: Mapping[str, list[int]]


class _Ids(NamedTuple):
    """The ids of candidates and of ids merged with them: their hashes in order, and the number of each id's person.
    `number` has the number of each candidate."""

    hashes: Hashes
    persons: np.ndarray[tuple[int], np.dtype[np.int64]]
    number: dict[str, int]


def choose_canary(tables: FactTables, directory: Directory, most: int, paths: Sequence[str]) -> ChosenCanary:
    """The sample of at most `most` events; empty if every person has more. `paths` are the paths of the files read."""
    large = max(most // LARGE_SHARE, LEAST_LARGE)
    lines = SealedLines(directory)
    candidates = find_candidates(tables, most, large)
    add_rules(tables, directory, paths, candidates)
    candidates.events.update(lines.strata)
    candidates.ids.update(lines.candidates)
    persons, ids = _people(tables, lines, candidates, most)
    first = [("groups", number) for number in lines.first_groups]
    choice = _Choice(most, first, _groups_reader(tables, directory, lines))
    strata = in_order(candidates.events)
    shows = {stratum: _of(persons, ids, candidates.ids[stratum]) for stratum in strata}
    for stratum, some in shows.items():
        for person in some:
            person.strata.add(stratum)
    named = _choose(choice, shows, large)
    chosen = [person.number for person in choice.chosen]
    least = 0 if chosen else len(first) + min((one.size for one in persons), default=0) or _least(tables)
    not_shown = [stratum for stratum in shows if stratum not in choice.shown]
    by_phase: dict[str, list[int]] = {}
    for phase, number in sorted(choice.lines if chosen else ()):
        by_phase.setdefault(phase, []).append(number)
    counts = {phase: len(by_phase.get(phase, ())) for phase in PHASES}
    seal = Canary(
        most=most,
        events=counts | {EVENTS: sum(person.events for person in choice.chosen)},
        persons=len(chosen),
        strata=len(shows),
        shown=len(shows) - len(not_shown),
        not_shown=[str(stratum) for stratum in not_shown[:MOST_NOT_SHOWN]],
        large=named,
        more_strata=candidates.more,
        least=least,
    )
    return ChosenCanary(seal, ids.hashes[np.isin(ids.persons, chosen)], by_phase)


def _people(database: Database, lines: SealedLines, candidates: Candidates, most: int) -> tuple[list[Person], _Ids]:
    """The people of these candidates, with their ids, their events, and their lines unless there are too many."""
    texts = list(dict.fromkeys(one for some in candidates.ids.values() for one in some))
    owner_of = dict(zip(texts, lines.owners(_hashes(texts)).tolist(), strict=True))
    owners = np.unique(np.fromiter(owner_of.values(), np.uint64))
    number = {owner: index for index, owner in enumerate(owners.tolist())}
    of_id = {text: number[owner] for text, owner in owner_of.items()}
    persons = [Person(index, "") for index in range(len(owners))]
    for text in reversed(texts):
        persons[of_id[text]].name = text
    links = lines.whose.get("identities", owners[:0])
    merged, times = np.unique(links[np.isin(links, owners)], return_counts=True)
    merged = merged[times <= most]
    for link in lines.links(np.flatnonzero(np.isin(links, merged)).tolist()):
        person = number[hash_id(link.distinct_id)]
        of_id[link.distinct_id] = of_id[link.other] = person
    hashes = _hashes(list(of_id))
    order = np.argsort(hashes, kind="stable")
    numbers = np.fromiter(of_id.values(), np.int64, len(of_id))
    ids = _Ids(hashes[order], numbers[order], {text: of_id[text] for text in texts})
    add_events(database, of_id, persons)
    for phase, whose in lines.whose.items():
        own = np.flatnonzero(np.isin(whose, ids.hashes))
        of_person = ids.persons[np.searchsorted(ids.hashes, whose[own])]
        too_many = np.bincount(of_person, minlength=len(persons)) > most
        for index in np.flatnonzero(too_many).tolist():
            persons[index].events += most + 1
        for line, index in zip(own.tolist(), of_person.tolist(), strict=True):
            if not too_many[index]:
                persons[index].lines.append((phase, line))
    return persons, ids


def _hashes(ids: Sequence[str]) -> Hashes:
    return np.fromiter(map(hash_id, ids), np.uint64, len(ids))


def _of(persons: Sequence[Person], ids: _Ids, candidates: Iterable[str]) -> list[Person]:
    return [persons[number] for number in dict.fromkeys(ids.number[one] for one in candidates)]


def _least(database: Database) -> int:
    """The number of events of the id with the fewest."""
    return database.number("SELECT min(events) FROM (SELECT count(*) AS events FROM events GROUP BY person)")


def _choose(choice: _Choice, shows: Mapping[Stratum, Sequence[Person]], large: int) -> list[LargePerson]:
    """Take people for each stratum. Returns the large ones that were taken because no other person shows it."""
    few = {stratum: [one for one in some if one.size <= large] for stratum, some in shows.items()}
    for stratum, some in few.items():
        choice.show(stratum, some)
    named = []
    for stratum, all_ in shows.items():
        taken = choice.show(stratum, sorted(all_, key=lambda person: person.size))
        if taken is not None:
            named.append(LargePerson(taken.name, taken.size, str(stratum)))
    for person in (person for some in few.values() for person in some):
        choice.take(person)
    return named


def _groups_reader(database: Database, directory: Directory, lines: SealedLines) -> Callable[[Person], set[Line]]:
    """A function that gives the lines of the groups that a person's events name."""
    whose = lines.whose["groups"]
    if not len(whose):
        return lambda person: set()
    order = np.argsort(whose, kind="stable")
    events = NamedEvents(database, directory)

    def read(person: Person) -> set[Line]:
        found = set()
        for event in events.of(person.number):
            for group in _named_groups(event):
                where = order[min(int(np.searchsorted(whose, group, sorter=order)), len(order) - 1)]
                if whose[where] == group:
                    found.add(("groups", int(where)))
        return found

    return read


def _named_groups(event: bytes) -> list[np.uint64]:
    if b'"$groups"' not in event:
        return []
    named = msgspec.json.decode(read_properties(event).get("$groups", b"{}"))
    if not isinstance(named, dict):
        return []
    return [np.uint64(group_hash(type_, str(key))) for type_, key in named.items()]


class _Choice:
    """The chosen people and everything that is sent for them, at most `most` events."""

    def __init__(self, most: int, first: Iterable[Line], groups_of: Callable[[Person], set[Line]]) -> None:
        self.chosen: list[Person] = []
        self.shown: set[Stratum] = set()
        self.lines: set[Line] = set(first)
        self._room = most - len(self.lines)
        self._taken: set[int] = set()
        self._groups_of = groups_of

    def show(self, stratum: Stratum, persons: Iterable[Person]) -> Person | None:
        """Take the first of these people for whom there is room, unless the stratum is already shown."""
        if stratum in self.shown:
            return None
        return next((person for person in persons if self.take(person)), None)

    def take(self, person: Person) -> bool:
        """Take a person, with the groups that the person's events name, if there is room for everything."""
        if person.number in self._taken or person.size > self._room:
            return False
        lines = {*person.lines, *self._groups_of(person)} - self.lines
        if person.events + len(lines) > self._room:
            return False
        self._room -= person.events + len(lines)
        self.chosen.append(person)
        self._taken.add(person.number)
        self.lines |= lines
        self.shown |= person.strata
        return True
