"""People of the plan who already exist at the target: values that would change, and merges that touch them.

What was written and merged cannot be taken back. A sample is looked up, or everything if there is little. Once
something of the plan was sent, its own persons cannot be distinguished from others, so nothing is looked up any more.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pipeline.encoder.encoded import has_profile, read_event, read_properties
from pipeline.encoder.updates import SealedLink, SealedPerson
from pipeline.plan.requests.store import read_events, read_requests
from pipeline.plan.sealed.directory import EVENTS
from pipeline.preflight.check import check
from pipeline.preflight.matches import spread
from pipeline.preflight.target import Target
from pipeline.report.records import Check, ProfileBefore, write_profiles_before
from pipeline.text import are, pluralize, printable, some_of
from pipeline.verify.landed import in_lists, persons_of

if TYPE_CHECKING:
    from pipeline.preflight.questions import Questions

PROFILES = "live_profiles"
MERGES = "live_merges"
PROMOTED = "promoted_values"
MOST = 2_000
"""At most this many records of a plan are looked up, evenly spread if there are more."""
REQUESTS = 4
IDS = 500
"""IDS ids of events are looked up, from REQUESTS requests."""
_MOST_NAMES = 50
_SHOWN = 5
_NAME_CHARACTERS = 60
T = TypeVar("T")


@check(160, PROFILES, needs="events")
def check_live_profiles(target: Target) -> Check | None:
    """Would profile updates of the plan change values of persons who are already there?"""
    plan, directory = target.plan, target.directory
    if plan is None or directory is None or target.begun:
        return None
    planned = plan.events.phases.get("persons", 0)
    if not planned:
        return Check(PROFILES, "ok", "the plan writes no profiles")
    updates = list(sampled(directory.persons, planned, SealedPerson))
    persons = read_persons(target.questions, [update.distinct_id for update in updates])
    changed, filled, kept = Counter[str](), Counter[str](), Counter[str]()
    touched = 0
    earlier: list[ProfileBefore] = []
    for update in updates:
        person = persons.get(update.distinct_id)
        if person is None:
            continue
        earlier.append(_before(update, person))
        before = changed.total()
        written, once = msgspec.json.decode(update.set), msgspec.json.decode(update.set_once)
        changed.update(name for name, value in written.items() if person.properties.get(name) not in (None, value))
        filled.update(name for name in written | once if person.properties.get(name) is None)
        kept.update(name for name in once if person.properties.get(name) is not None)
        touched += changed.total() > before
    with contextlib.suppress(OSError):  # preflight.json warns of an unwritable directory
        write_profiles_before(directory, plan.digest, earlier)
    facts = {
        "policy": plan.options.profile_policy,
        "looked_up": len(updates),
        "live": len({person.id for person in persons.values()}),
        "persons_changed": touched,
        **{name: dict(counts.most_common(_MOST_NAMES)) for name, counts in
           (("changed", changed), ("filled", filled), ("kept", kept))},
    }  # fmt: skip
    who = f"{len(persons):,} of {share_of(len(updates), planned, 'profile')} {are(len(persons))} of live persons"
    policy = f"under {plan.options.profile_policy}"
    if not touched:
        gains = f"{pluralize(filled.total(), 'value')} would be added and none changed"
        return Check(PROFILES, "ok", f"{who}; {policy} {gains}" if persons else who, facts=facts)
    detail = f"{who}; {policy} {pluralize(touched, 'person')} would get other values: {most_frequent(changed)}"
    hint = "plan with --profile-policy fill-only, which changes none, or prefix=TEXT, which writes under other names"
    return Check(PROFILES, "warning", detail, hint, facts)


def _before(update: SealedPerson, person: LivePerson) -> ProfileBefore:
    """What a live person has in the properties that an update writes."""
    names = [*msgspec.json.decode(update.set), *msgspec.json.decode(update.set_once)]
    if isinstance(update.unset, msgspec.Raw):
        names += msgspec.json.decode(update.unset)
    properties = {name: person.properties[name] for name in names if name in person.properties}
    absent = [name for name in names if name not in properties]
    return ProfileBefore(update.distinct_id, person.id, properties, absent)


@check(170, MERGES, needs="events")
def check_live_merges(target: Target) -> Check | None:
    """Do merges of the plan touch identified persons who have events of their own?"""
    plan, directory = target.plan, target.directory
    if plan is None or directory is None or target.begun:
        return None
    planned = plan.events.phases.get("identities", 0)
    if not planned:
        return Check(MERGES, "ok", "the plan merges nobody")
    links = list(sampled(directory.identities, planned, SealedLink))
    questions = target.questions
    persons = read_persons(questions, [id for link in links for id in (link.distinct_id, link.other)])
    identified = {id for id, person in persons.items() if person.identified}
    events = count_live_events(questions, sorted(identified), target.own)
    refused, touched = list[SealedLink](), list[SealedLink]()
    for link in links:
        into, other = persons.get(link.distinct_id), persons.get(link.other)
        if into is not None and other is not None and into.id == other.id:
            continue  # they are already one person
        if other is not None and other.identified:
            refused.append(link)
        elif any(id in identified and events[id] for id in (link.distinct_id, link.other)):
            touched.append(link)
    facts = {
        "looked_up": len(links),
        "touched": len(touched),
        "refused": len(refused),
        "examples": [[link.distinct_id, link.other] for link in (refused + touched)[:_MOST_NAMES]],
    }
    of = share_of(len(links), planned, "merge")
    if not refused and not touched:
        return Check(MERGES, "ok", f"none of {of} touches an identified person with live events", facts=facts)
    parts = []
    if touched:
        parts.append(f"{len(touched):,} of {of} would add history to identified persons with live events, for good")
    if refused:
        parts.append(f"{len(refused):,} of {of} would be refused by the service, since the absorbed id is identified")
    hint = "look at the pairs in preflight --json (examples); leave out the wrong ones with --identities"
    return Check(MERGES, "warning", "; ".join(parts), hint, facts)


@check(165, PROMOTED, needs="events")
def check_promoted(target: Target) -> Check | None:
    """Would properties of imported events that the service copies to persons replace values of live persons?

    The service keeps whatever arrives last, whatever its time (docs/know/service.md#persons).
    """
    plan = target.plan
    if plan is None or target.directory is None or target.begun:
        return None
    names = set(plan.people.profiles.promoted)
    if not names:
        return Check(PROMOTED, "ok", "no event has a property that the service copies to its person")
    ids = _ids(target)
    persons = read_persons(target.questions, ids)
    held = [
        names & {name for name, value in person.properties.items() if value is not None} for person in persons.values()
    ]
    counts = Counter(name for found in held for name in found)
    touched = sum(map(bool, held))
    facts = {"looked_up": len(ids), "live": len(persons), "persons_changed": touched, "properties": dict(counts)}
    who = f"{len(persons):,} of {pluralize(len(ids), 'id')} of events that were looked up have a person at the target"
    if not touched:
        return Check(
            PROMOTED, "ok", f"{who}; none of them has a value that events of the plan would replace", facts=facts
        )
    detail = (
        f"{who}; on {touched:,} of them the service would replace values with those of imported events,"
        f" whatever their time: {most_frequent(counts)}"
    )
    hint = "leave these properties out in the mapping, rename them, or use a project without live persons"
    return Check(PROMOTED, "warning", detail, hint, facts)


def _ids(target: Target) -> list[str]:
    """Different ids of events that have a person, from some requests of the plan."""
    directory = target.directory
    assert directory is not None
    numbers = spread([request.number for request in read_requests(directory, EVENTS)], REQUESTS)
    ids: set[str] = set()
    for _, events in read_events(directory, EVENTS, numbers):
        found = {read_event(event).properties.distinct_id for event in events if has_profile(read_properties(event))}
        ids.update(spread(sorted(found), -(-IDS // len(numbers))))
    return sorted(ids)


class LivePerson(msgspec.Struct, frozen=True):
    """A person at the target."""

    id: str
    identified: bool
    properties: Mapping[str, Any]


def sampled(path: Path, lines: int, kind: type[T]) -> Iterator[T]:
    """At most MOST records of a sealed file, evenly spread."""
    decode = msgspec.json.Decoder(kind).decode
    step = max(1, -(-lines // MOST))
    with path.open("rb") as file:
        yield from map(decode, islice(file, 0, None, step))


def read_persons(questions: Questions, ids: Sequence[str]) -> dict[str, LivePerson]:
    """The persons of these ids, by id; ids without a person are absent."""
    person_of = persons_of(questions, ids)
    persons: dict[str, LivePerson] = {}
    query = "select id, properties, is_identified from persons where id in ({}) order by id"
    for id, properties, identified in in_lists(questions, query, person_of.values()):
        read = json.loads(properties) if isinstance(properties, str) else properties
        persons[str(id)] = LivePerson(str(id), bool(identified), read if isinstance(read, dict) else {})
    return {id: persons[person] for id, person in person_of.items() if person in persons}


def count_live_events(questions: Questions, ids: Sequence[str], own: str) -> Counter[str]:
    """How many live events each of these ids has."""
    live = own and f" and not ({own.replace('{', '{{').replace('}', '}}')})"
    query = "select distinct_id, count(*) from events where distinct_id in ({})" + live
    rows = in_lists(questions, f"{query} group by distinct_id order by distinct_id", ids)
    return Counter({str(id): int(count) for id, count in rows})


def share_of(looked: int, planned: int, what: str) -> str:
    """The number of items looked up, in words: `12 merges`, or how many of all."""
    return pluralize(planned, what) if looked == planned else f"{looked:,} of {pluralize(planned, what)} (a sample)"


def most_frequent(counts: Counter[str]) -> str:
    """The names with the greatest counts, in words."""
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    shown = [f"{printable(name, _NAME_CHARACTERS)} ({count:,})" for name, count in ranked]
    return some_of(shown, _SHOWN, what="property")
