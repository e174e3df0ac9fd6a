"""Merges, profiles and groups against the target: what the settled lines of the plan say, and what stands there.

Events of these phases are compared like all others; here it is what the service made of them. Of each kind up to
MOST_SAMPLED are compared, those with the smallest hashes of their uuids, or all of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import xxhash
from msgspec import Raw

from pipeline.encoder.updates import SealedGroup, SealedLink, SealedPerson
from pipeline.errors import Refused
from pipeline.models import Step
from pipeline.plan.sealed.directory import Directory, sealed_file
from pipeline.plan.sealed.phases import SealedRecord, line_blocks, line_decoder
from pipeline.verify.expected import Ranges
from pipeline.verify.findings import PeopleCheck, PersonDifference
from pipeline.verify.landed import ASKED, quoted
from pipeline.verify.session import Journal, Session
from pipeline.verify.values import landed_properties, same_value

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

MOST_SAMPLED = 10_000
"""Merges, and profiles, and groups that a sample compares."""
SHOWN = 20
"""Differences of each kind that a result lists."""
Latest = Callable[[str, str, str], bool]
_PHASES = ("identities", "groups", "persons")
_NO_BACKSLASH = "ids with a backslash, which a query cannot ask for"


class _Line(NamedTuple):
    """A settled line of a sealed file, counted from 1."""

    part: str
    row: int
    sealed: SealedRecord


class _Chunk(msgspec.Struct, array_like=True):
    """The result of some lines: how many were compared by kind, what differs, and how much could not be compared."""

    compared: dict[str, int] = {}
    differences: list[PersonDifference] = []
    kept: int = 0
    skipped: int = 0


def check_people(
    client: ManagementClient,
    session: Session,
    directory: Directory,
    settled: Mapping[tuple[str, int], Ranges],
    *,
    every: bool,
    progress: Step,
    latest: Latest | None = None,
) -> PeopleCheck:
    """Compare merges in effect, identified persons, profile values and groups with the settled lines of a plan.

    `latest` says of a group's type, key and uuid whether no other plan updated the group after that.
    """
    journal = Journal(session, "people.jsonl", _Chunk)
    unknown = ""
    number = 0
    for phase in _PHASES:
        lines: Iterable[_Line] = _settled_lines(phase, directory, settled)
        if not every:
            lines = _sample(lines)
        for chunk in _chunks(lines):
            if number >= journal.done:
                try:
                    journal.add(_compare(client, chunk, latest))
                except Refused as error:
                    if error.status != 400:
                        raise
                    unknown = f"the target has no tables of {_what(chunk)} for queries"
                    journal.add(_Chunk())
            number += 1
            progress("merges, profiles and groups", number * ASKED, 0)
    return _summary(journal, unknown)


def _summary(journal: Iterable[_Chunk], unknown: str) -> PeopleCheck:
    compared: dict[str, int] = {}
    wrong: dict[str, int] = {}
    shown: list[PersonDifference] = []
    kept = skipped = 0
    for chunk in journal:
        kept += chunk.kept
        skipped += chunk.skipped
        for kind, count in chunk.compared.items():
            compared[kind] = compared.get(kind, 0) + count
        for difference in chunk.differences:
            wrong[difference.kind] = wrong.get(difference.kind, 0) + 1
            if wrong[difference.kind] <= SHOWN:
                shown.append(difference)
    if skipped and not unknown:
        unknown = f"{skipped:,} {_NO_BACKSLASH}"
    return PeopleCheck(compared, wrong, kept, shown, unknown)


def person_differences(session: Session) -> Iterator[PersonDifference]:
    """Every difference that `check_people` found, while its session is open."""
    for chunk in Journal(session, "people.jsonl", _Chunk):
        yield from chunk.differences


def _what(chunk: Sequence[_Line]) -> str:
    return "groups" if isinstance(chunk[0].sealed, SealedGroup) else "persons"


def _settled_lines(phase: str, directory: Directory, settled: Mapping[tuple[str, int], Ranges]) -> Iterator[_Line]:
    """The lines of a phase whose events are settled."""
    if not any(name == phase for name, _ in settled):
        return
    decode = line_decoder(phase)
    file = sealed_file(phase, directory)
    row = 0
    for block, lines in enumerate(line_blocks(file)):
        ranges = settled.get((phase, block), Ranges()).settled
        for first, last in ranges:
            for index in range(first, last + 1):
                yield _Line(file.name, row + index + 1, decode(lines[index]))
        row += len(lines)


def _sample(lines: Iterable[_Line]) -> list[_Line]:
    hashed = ((xxhash.xxh3_64_intdigest(line.sealed.uuid.encode()), line.row, line) for line in lines)
    return sorted((line for _, _, line in heapq.nsmallest(MOST_SAMPLED, hashed)), key=lambda line: line.row)


def _chunks(lines: Iterable[_Line]) -> Iterator[list[_Line]]:
    """Some lines of one kind at a time."""
    chunk: list[_Line] = []
    for line in lines:
        if len(chunk) == ASKED or (chunk and type(chunk[0].sealed) is not type(line.sealed)):
            yield chunk
            chunk = []
        chunk.append(line)
    if chunk:
        yield chunk


def _compare(client: ManagementClient, chunk: Sequence[_Line], latest: Latest | None) -> _Chunk:
    found = _Chunk({}, [])
    first = chunk[0].sealed
    if isinstance(first, SealedLink):
        _compare_merges(client, chunk, found)
    elif isinstance(first, SealedGroup):
        _compare_groups(client, chunk, found, latest)
    else:
        _compare_profiles(client, chunk, found)
    return found


def _compare_merges(client: ManagementClient, chunk: Sequence[_Line], found: _Chunk) -> None:
    links = [(line, line.sealed) for line in chunk if isinstance(line.sealed, SealedLink)]
    persons = _persons_of(client, {one for _, link in links for one in (link.distinct_id, link.other)})
    identified = {
        str(id): bool(flag)
        for id, flag in _in_lists(
            client, "select id, is_identified from persons where id in ({})", sorted(set(persons.values()))
        )
    }
    for line, link in links:
        if not _can_ask(link.distinct_id, link.other):
            found.skipped += 1
            continue
        found.compared["merges"] = found.compared.get("merges", 0) + 1
        one, other = persons.get(link.distinct_id), persons.get(link.other)
        kind = None
        if one is None or one != other:
            kind = "merge_undone"
        elif not identified.get(one, False):
            kind = "not_identified"
        if kind is not None:
            found.differences.append(
                PersonDifference(kind, [link.distinct_id, link.other], line.part, line.row, link.uuid)
            )


def _compare_profiles(client: ManagementClient, chunk: Sequence[_Line], found: _Chunk) -> None:
    sealed = [(line, line.sealed) for line in chunk if isinstance(line.sealed, SealedPerson)]
    persons = _persons_of(client, {person.distinct_id for _, person in sealed})
    profiles = {
        str(id): landed_properties(properties)
        for id, properties in _in_lists(
            client, "select id, properties from persons where id in ({})", sorted(set(persons.values()))
        )
    }
    for line, person in sealed:
        if not _can_ask(person.distinct_id):
            found.skipped += 1
            continue
        found.compared["profiles"] = found.compared.get("profiles", 0) + 1
        stands = profiles.get(persons.get(person.distinct_id, ""))
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


def _compare_groups(client: ManagementClient, chunk: Sequence[_Line], found: _Chunk, latest: Latest | None) -> None:
    groups = ((line, line.sealed) for line in chunk if isinstance(line.sealed, SealedGroup))
    sealed = [(line, one) for line, one in groups if latest is None or latest(one.type, one.key, one.uuid)]
    keys = sorted({group.key for _, group in sealed if _can_ask(group.key)})
    stand = {
        (str(type_), str(key)): landed_properties(properties)
        for type_, key, properties in _in_lists(
            client, "select type, key, properties from groups where key in ({})", keys
        )
    }
    for line, group in sealed:
        if not _can_ask(group.key):
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


def _persons_of(client: ManagementClient, ids: Iterable[str]) -> dict[str, str]:
    """The person of each id that has one."""
    asked = sorted(one for one in ids if _can_ask(one))
    query = "select distinct_id, person_id from person_distinct_ids where distinct_id in ({})"
    return {str(id): str(person) for id, person in _in_lists(client, query, asked)}


def _in_lists(client: ManagementClient, query: str, texts: Sequence[str]) -> Iterator[list[Any]]:
    for start in range(0, len(texts), ASKED):
        some = texts[start : start + ASKED]
        # A key may be of several group types, and of a person the service may answer an older row, too.
        yield from client.query(f"{query.format(quoted(some))} limit {len(some) * 10}").results


def _can_ask(*texts: str) -> bool:
    return not any("\\" in text for text in texts)
