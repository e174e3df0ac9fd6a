"""People of the plan who already exist at the target: profile values that would change, and merges that touch them.

What was written and merged cannot be taken back. A sample of both is looked up, or everything if there is little. Once
something of the plan was sent, its own persons cannot be distinguished from others, so nothing is looked up any
more.
"""

from __future__ import annotations

import contextlib
from collections import Counter

import msgspec

from pipeline.encoder.updates import SealedLink, SealedPerson
from pipeline.preflight.check import check
from pipeline.preflight.live_persons import (
    LivePerson,
    count_live_events,
    has_begun,
    most_frequent,
    read_persons,
    sampled,
    share_of,
)
from pipeline.preflight.target import Target
from pipeline.report.records import Check, ProfileBefore, write_profiles_before
from pipeline.text import are, pluralize

PROFILES = "live_profiles"
MERGES = "live_merges"
_MOST_NAMES = 50


@check(160, PROFILES, needs="events")
def check_live_profiles(target: Target) -> Check | None:
    """Would profile updates of the plan change values of persons who are already there?"""
    plan, directory = target.plan, target.directory
    if plan is None or directory is None or has_begun(target):
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
    if plan is None or directory is None or has_begun(target):
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
