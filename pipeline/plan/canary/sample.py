"""Chooses the persons of a sample, and says where their events are.

Each stratum in its order gets the first of its candidates that has room, unless a person who is chosen shows it.
Persons with a large part of the sample are taken last, where nobody else shows a stratum, and are named. What room is
left goes to further candidates, so that one person's oddities do not stand for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import msgspec

from pipeline.encoder.updates import SealedLink, SealedPerson
from pipeline.engines.local import Workers
from pipeline.errors import UsageError
from pipeline.id_hash import hash_id
from pipeline.models import Step
from pipeline.plan.canary.persons import Groups, Person, Place, event_tasks, find_owners, find_persons
from pipeline.plan.canary.strata import Strata, Stratum, rules_shown, see_block, stratum_of
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory
from pipeline.plan.sealed.facts import LargePerson
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.sealed.phases import sealed_records
from pipeline.text import pluralize
from pipeline.transform.tasks import TransformConfig

LARGE_SHARE, LEAST_LARGE = 10, 10
"""A person is large with more than this part of a sample, or this many events in a small one."""
MOST_NOT_SHOWN = 20
Ranges = Mapping[tuple[str, int], list[tuple[int, int]]]
"""Ranges of events, (first, last) both inclusive and in order, by phase and block."""


class CanarySample(msgspec.Struct, frozen=True):
    """The sample of at most `most` events. `events` counts them by phase, `shown` counts the `strata` that it shows.

    `not_shown` names the first of the others; `more_strata`: there are more than are counted.
    """

    most: int
    ranges: Ranges
    events: Mapping[str, int]
    persons: int
    strata: int
    shown: int
    not_shown: list[str] = msgspec.field(default_factory=list)
    large: list[LargePerson] = msgspec.field(default_factory=list)
    more_strata: bool = False

    @property
    def size(self) -> int:
        """All of its events."""
        return sum(self.events.values())


def choose_canary(
    plan: Plan,
    directory: Directory,
    config: TransformConfig,
    most: int,
    *,
    workers: int,
    progress: Step = lambda name, done, total: None,
) -> CanarySample:
    """The sample of a plan with at most `most` events. Raises UsageError where no person has so few; StalePlan,
    UnsafePlan, UnreadableExport."""
    strata = Strata()
    large = max(most // LARGE_SHARE, LEAST_LARGE)
    with Workers(workers, config) as processes:
        see = partial(see_block, rules=rules_shown(plan, directory))
        for done, (_, seen) in enumerate(processes.walk(see, event_tasks(plan, directory, config)), 1):
            strata.add(seen)
            progress("blocks read for the names of the canary", done, 0)
        for phase in PHASES:
            for _, _, record in sealed_records(phase, plan, directory) if phase != EVENTS else ():
                if isinstance(record, SealedLink | SealedPerson):
                    strata.count(stratum_of(record), 1, [hash_id(record.distinct_id)])
        candidates = {stratum: strata.candidates(stratum, large) for stratum in strata.in_order()}
        owners = find_owners(plan, directory, {one for some in candidates.values() for one in some})
        persons, groups = find_persons(plan, directory, config, processes, owners, most, progress)
    choice = _Choice(groups, most)
    shows: dict[Stratum, list[Person]] = {}
    for stratum, ids in candidates.items():
        shows[stratum] = [persons[owner] for owner in dict.fromkeys(owners[one] for one in ids)]
        for person in shows[stratum]:
            person.strata.add(stratum)
    few = {stratum: [one for one in some if one.size <= large] for stratum, some in shows.items()}
    for stratum, some in few.items():
        choice.show(stratum, some)
    named = []
    for stratum, some in shows.items():
        taken = choice.show(stratum, sorted(some, key=lambda person: person.size))
        if taken is not None:
            named.append(LargePerson(taken.name, taken.size, str(stratum)))
    for person in (person for some in few.values() for person in some):
        choice.take(person)
    if not persons:
        raise UsageError("the plan sends nothing of any person, so a canary shows nothing", hint="leave --canary out")
    if not choice.chosen:
        least = min(person.size for person in persons.values()) + len(groups.first)
        raise UsageError(
            f"a canary of {pluralize(most, 'event')} has no room: it consists of whole persons, and the smallest one"
            f" that was looked at needs {least:,} with the first group of each type",
            hint=f"--canary {max(least, 1_000)}",
        )
    not_shown = [stratum for stratum in shows if stratum not in choice.shown]
    return CanarySample(
        most,
        _ranges(choice.places),
        {phase: sum(place[0] == phase for place in choice.places) for phase in PHASES},
        len(choice.chosen),
        len(shows),
        len(shows) - len(not_shown),
        [str(stratum) for stratum in not_shown[:MOST_NOT_SHOWN]],
        named,
        strata.more,
    )


class _Choice:
    """The persons that are chosen, and all that is sent of them, at most `most` events."""

    def __init__(self, groups: Groups, most: int) -> None:
        self.chosen: set[int] = set()
        self.shown: set[Stratum] = set()
        self.places: set[Place] = set(groups.first)
        self._groups = groups.places
        self._most = most

    def show(self, stratum: Stratum, persons: Iterable[Person]) -> Person | None:
        """Take the first of these persons that has room, unless the stratum is shown already."""
        if stratum in self.shown:
            return None
        return next((person for person in persons if self.take(person)), None)

    def take(self, person: Person) -> bool:
        """Take a person with the groups that its events name, where there is room for all of it."""
        if id(person) in self.chosen or person.places is None:
            return False
        places = {*person.places, *(self._groups[one] for one in person.groups if one in self._groups)} - self.places
        if len(self.places) + len(places) > self._most:
            return False
        self.chosen.add(id(person))
        self.places |= places
        self.shown |= person.strata
        return True


def _ranges(places: Iterable[Place]) -> Ranges:
    """The places as ranges."""
    ranges: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for phase, block, index in sorted(places):
        of_block = ranges.setdefault((phase, block), [])
        if of_block and of_block[-1][1] == index - 1:
            of_block[-1] = of_block[-1][0], index
        else:
            of_block.append((index, index))
    return ranges
