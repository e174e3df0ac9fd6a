"""Merges, profiles and groups against the target: compares the settled lines of the plan with what is there.

The events of these phases are compared like all others; this compares what the service made of them. Of each kind, it
compares up to MOST_SAMPLED, those with the smallest hashes of their uuids, or all.

The service stores a group under the number of its type, so the project's group types are read first
(docs/know/service.md#groups).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from pipeline.encoder.updates import SealedGroup, SealedLink, SealedPerson
from pipeline.errors import Refused
from pipeline.id_hash import hash_id
from pipeline.ledger import read_summary
from pipeline.management.problems import Forbidden, NotAllowed, NotFound
from pipeline.models import Step
from pipeline.plan.sealed.directory import Directory, read_lines, sealed_file
from pipeline.plan.sealed.phases import SealedRecord
from pipeline.plan.settled_facts import settled_lines
from pipeline.timestamps import BadTime, read_iso
from pipeline.verify.findings import PeopleCheck, PersonDifference
from pipeline.verify.landed import ASKED, can_ask, in_chunks, in_lists, persons_of
from pipeline.verify.session import Journal, Session
from pipeline.verify.values import landed_properties, same_value

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

MOST_SAMPLED = 10_000
"""A sample compares at most this many merges, profiles and groups each."""
SHOWN = 20
"""A result lists at most this many differences of each kind."""
Latest = Callable[[str, str, str], bool]
_PHASES = ("identities", "groups", "persons")
_NO_BACKSLASH = "ids with a backslash, which a query cannot ask for"
_SECOND = 1_000_000
"""Microseconds. Services keep fewer digits of a person's `created_at` than of an event's time."""


class _Line(NamedTuple):
    """A settled line of a sealed file, counted from 1."""

    part: str
    row: int
    sealed: SealedRecord


class _Chunk(msgspec.Struct, array_like=True):
    """The result for some lines: how many were compared by kind, what differs, and what could not be compared.

    `later` are merges whose persons have a later `created_at` (µs UTC), which need not be wrong: another merge of the
    same person may have created it. `earlier` counts merges whose persons existed before they arrived.
    """

    compared: dict[str, int] = {}
    differences: list[PersonDifference] = []
    kept: int = 0
    skipped: int = 0
    unknown: str = ""
    later: list[tuple[int, PersonDifference]] = []
    earlier: int = 0


@dataclass(frozen=True)
class _Target:
    """What to compare with. `began` is when the first run began (µs UTC): no person of the plan has a later date.

    `alone`: the project has only the events of this plan.
    """

    client: ManagementClient
    latest: Latest | None
    began: int
    alone: bool

    @cached_property
    def group_types(self) -> dict[str, int] | str:
        """The number of each group type of the project, or why they are not known."""
        try:
            return self.client.projects.group_types()
        except Forbidden as error:
            return f"groups, because the personal key lacks the scope {error.scope}"
        except (NotFound, NotAllowed):
            return "groups, because the target does not list the group types of its projects"


def check_people(
    client: ManagementClient,
    session: Session,
    directory: Directory,
    *,
    every: bool,
    progress: Step,
    latest: Latest | None = None,
    alone: bool = False,
) -> PeopleCheck:
    """Compare merges in effect, persons, profile values and groups with the settled lines of a plan.

    `latest` says, by a group's type, key and uuid, whether no other plan updated the group afterwards. `alone`: the
    project has only the events of this plan.
    """
    journal = Journal(session, "people.jsonl", _Chunk)
    history = read_summary(directory.ledger, most=0).history
    target = _Target(client, latest, 0 if history is None else read_iso(history.began).us, alone)
    number = 0
    for phase in _PHASES:
        part = sealed_file(phase, directory).name
        lines: Iterable[_Line] = (_Line(part, *line) for line in settled_lines(directory, phase))
        if not every:
            lines = _sample(lines)
        for chunk in _chunks(lines):
            if number >= journal.done:
                try:
                    journal.add(_compare(target, chunk))
                except Refused as error:
                    if error.status != 400:
                        raise
                    what = "groups" if isinstance(chunk[0].sealed, SealedGroup) else "persons"
                    journal.add(_Chunk(unknown=f"{what}, because {error}"))
            number += 1
            progress("merges, profiles and groups", number * ASKED, 0)
    for dated in _compare_dates(target, journal, directory):
        if number >= journal.done:
            journal.add(dated)
        number += 1
    return _summary(journal)


def _summary(journal: Iterable[_Chunk]) -> PeopleCheck:
    compared: dict[str, int] = {}
    wrong: dict[str, int] = {}
    shown: list[PersonDifference] = []
    unknown: dict[str, None] = {}
    kept = skipped = earlier = 0
    for chunk in journal:
        kept += chunk.kept
        skipped += chunk.skipped
        earlier += chunk.earlier
        if chunk.unknown:
            unknown[chunk.unknown] = None
        for kind, count in chunk.compared.items():
            compared[kind] = compared.get(kind, 0) + count
        for difference in chunk.differences:
            wrong[difference.kind] = wrong.get(difference.kind, 0) + 1
            if wrong[difference.kind] <= SHOWN:
                shown.append(difference)
    if skipped:
        unknown[f"{skipped:,} {_NO_BACKSLASH}"] = None
    return PeopleCheck(compared, wrong, kept, shown, "; ".join(unknown), earlier)


def person_differences(session: Session) -> Iterator[PersonDifference]:
    """Every difference that `check_people` found, while its session is open."""
    for chunk in Journal(session, "people.jsonl", _Chunk):
        yield from chunk.differences


def _sample(lines: Iterable[_Line]) -> list[_Line]:
    hashed = ((hash_id(line.sealed.uuid), line.row, line) for line in lines)
    return sorted((line for _, _, line in heapq.nsmallest(MOST_SAMPLED, hashed)), key=lambda line: line.row)


def _chunks(lines: Iterable[_Line]) -> Iterator[list[_Line]]:
    """Chunks of lines of one kind."""
    for _, of_kind in groupby(lines, key=lambda line: type(line.sealed)):
        yield from in_chunks(of_kind)


def _compare(target: _Target, chunk: Sequence[_Line]) -> _Chunk:
    found = _Chunk({}, [])
    first = chunk[0].sealed
    if isinstance(first, SealedLink):
        _compare_merges(target.client, chunk, found)
    elif isinstance(first, SealedGroup):
        _compare_groups(target, chunk, found)
    else:
        _compare_profiles(target, chunk, found)
    return found


def _compare_merges(client: ManagementClient, chunk: Sequence[_Line], found: _Chunk) -> None:
    links = [(line, line.sealed) for line in chunk if isinstance(line.sealed, SealedLink)]
    persons = persons_of(client, {one for _, link in links for one in (link.distinct_id, link.other)})
    query = "select id, is_identified, created_at from persons where id in ({})"
    rows = in_lists(client, query, sorted(set(persons.values())))
    stand = {str(id): (bool(flag), _instant(created)) for id, flag, created in rows}
    for line, link in links:
        if not can_ask(link.distinct_id, link.other):
            found.skipped += 1
            continue
        found.compared["merges"] = found.compared.get("merges", 0) + 1
        one, other = persons.get(link.distinct_id), persons.get(link.other)
        kind = None
        identified, created = stand.get(one or "", (False, 0))
        if one is None or one != other:
            kind = "merge_undone"
        elif not identified:
            kind = "not_identified"
        place = [link.distinct_id, link.other], line.part, line.row, link.uuid
        if kind is not None:
            found.differences.append(PersonDifference(kind, *place))
        elif _is_later(created, link.time):
            found.later.append((created, PersonDifference("created_later", *place, ["created_at"])))


def _compare_dates(target: _Target, journal: Iterable[_Chunk], directory: Directory) -> Iterator[_Chunk]:
    """Compare `created_at` of the persons of the merges: the first of a person's merges that arrived created it.

    All merges of a person name one id that stays, and arrive in any order. A person that existed before keeps its own
    date, which can be distinguished from a wrong one only if it is later than the beginning of the import.
    """
    hashes = np.unique(np.fromiter((hash_id(one.ids[0]) for some in journal for _, one in some.later), np.uint64))
    if not len(hashes):
        return
    last = np.zeros(len(hashes), np.int64)
    for links in in_chunks(read_lines(directory.identities, SealedLink)):
        own = np.array([hash_id(link.distinct_id) for link in links], np.uint64)
        at = np.minimum(np.searchsorted(hashes, own), len(hashes) - 1)
        here = hashes[at] == own
        np.maximum.at(last, at[here], np.array([link.time for link in links], np.int64)[here])
    for chunk in journal:
        found = _Chunk({}, [])
        for created, one in chunk.later:
            if _is_later(created, int(last[np.searchsorted(hashes, np.uint64(hash_id(one.ids[0])))])):
                if target.alone or created >= target.began:
                    found.differences.append(one)
                else:
                    found.earlier += 1
        if found.differences or found.earlier:
            yield found


def _is_later(created: int, sent: int) -> bool:
    return created // _SECOND > sent // _SECOND


def _instant(answered: object) -> int:
    """A `created_at` from an answer in µs UTC; the latest possible time for other strings."""
    try:
        return read_iso(str(answered), space=True).us
    except BadTime:
        return np.iinfo(np.int64).max


def _compare_profiles(target: _Target, chunk: Sequence[_Line], found: _Chunk) -> None:
    sealed = [(line, line.sealed) for line in chunk if isinstance(line.sealed, SealedPerson)]
    persons = persons_of(target.client, {person.distinct_id for _, person in sealed})
    query = "select id, properties, created_at from persons where id in ({})"
    rows = in_lists(target.client, query, sorted(set(persons.values())))
    profiles = {str(id): (landed_properties(properties), _instant(created)) for id, properties, created in rows}
    for line, person in sealed:
        if not can_ask(person.distinct_id):
            found.skipped += 1
            continue
        found.compared["profiles"] = found.compared.get("profiles", 0) + 1
        stands, created = profiles.get(persons.get(person.distinct_id, ""), (None, 0))
        set_, once = (
            landed_properties(bytes(person.set).decode()) or {},
            landed_properties(bytes(person.set_once).decode()),
        )
        absent, other, kept = _against(stands or {}, set_, once or {})
        found.kept += bool(kept)
        for kind, names in (("profile_missing", absent), ("profile_overwritten", other)):
            if names or (kind == "profile_missing" and stands is None):
                found.differences.append(
                    PersonDifference(kind, [person.distinct_id], line.part, line.row, person.uuid, names)
                )
        if created >= target.began and _is_later(created, person.time):
            place = [person.distinct_id], line.part, line.row, person.uuid
            found.differences.append(PersonDifference("created_later", *place, ["created_at"]))


def _compare_groups(target: _Target, chunk: Sequence[_Line], found: _Chunk) -> None:
    groups = ((line, line.sealed) for line in chunk if isinstance(line.sealed, SealedGroup))
    latest, numbers = target.latest, target.group_types
    if isinstance(numbers, str):
        found.unknown = numbers
        return
    sealed = [(line, one) for line, one in groups if latest is None or latest(one.type, one.key, one.uuid)]
    keys: dict[str, set[str]] = {}
    for _, group in sealed:
        if can_ask(group.key):
            keys.setdefault(group.type, set()).add(group.key)
    stand = {
        (type_, str(key)): landed_properties(properties)
        for type_, some in keys.items()
        if type_ in numbers
        for key, properties in in_lists(
            target.client,
            f"select key, properties from groups where index = {numbers[type_]} and key in ({{}})",
            sorted(some),
        )
    }
    for line, group in sealed:
        if not can_ask(group.key):
            found.skipped += 1
            continue
        found.compared["groups"] = found.compared.get("groups", 0) + 1
        properties = stand.get((group.type, group.key))
        absent, other, _ = _against(properties or {}, landed_properties(bytes(group.set).decode()) or {}, {})
        kind = "group_missing" if properties is None else "group_overwritten"
        if properties is None or absent or other:
            found.differences.append(
                PersonDifference(kind, [group.type, group.key], line.part, line.row, group.uuid, absent + other)
            )


def _against(
    stands: Mapping[str, Raw], set_: Mapping[str, Raw], once: Mapping[str, Raw]
) -> tuple[list[str], list[str], list[str]]:
    """The properties that are absent, those with another value than `$set` brought, and those with another value than
    `$set_once` brought, which fills only what is empty."""
    absent = sorted(name for name in set_.keys() | once.keys() if name not in stands)
    other = sorted(name for name, value in set_.items() if name in stands and not same_value(value, stands[name]))
    kept = sorted(
        name
        for name, value in once.items()
        if name not in set_ and name in stands and not same_value(value, stands[name])
    )
    return absent, other, kept
