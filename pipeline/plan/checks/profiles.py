"""Users who share a device or become one person, events of nobody known, group types, and people who never return."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.identity.settings import MAX_TYPES
from pipeline.identity.summary import SeveralUsers
from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of, stated
from pipeline.text import pluralize, printable, some_of

_LEAST_DAYS, _LEAST_PEOPLE = 28, 50
_SHOWN, _ID_CHARACTERS = 3, 80


@check("joined_users", "stop")
def users_who_become_one_person(facts: PlanFacts) -> Finding | None:
    """Records of the tool make one person of several users, and it is not decided whether they are."""
    identities = facts.people.identities
    return None if facts.options.joined_users != "stop" else _undecided(
        f"{pluralize(identities.joined_users, 'person')} would be made of several users, because records of the tool"
        " join them",
        identities.joined_users, identities.largest_joined, "--joined-users",
        "--joined-users first or latest merges them for good, and none keeps them apart",
    )  # fmt: skip


@check("shared_devices", "stop")
def devices_of_several_users(facts: PlanFacts) -> Finding | None:
    """Devices have several users, and --shared-devices stops at them."""
    identities = facts.people.identities
    return None if facts.options.shared_devices != "stop" else _undecided(
        f"{pluralize(identities.shared_devices, 'device')} of several users",
        identities.shared_devices, identities.largest_shared, "--shared-devices",
        "--shared-devices first or latest merges each with one of its users for good, and none keeps it apart",
    )  # fmt: skip


def _undecided(sentence: str, count: int, largest: Sequence[SeveralUsers], option: str, choices: str) -> Finding | None:
    """A finding about ids of several users, with the largest, their users, and the option that decides."""
    found = []
    for one in largest:
        users = [printable(user, _ID_CHARACTERS) for user in one.some]
        some = some_of(users, len(users), count=one.users)
        found.append(f"{printable(one.id, _ID_CHARACTERS)} has {pluralize(one.users, 'user')} ({some})")
    some = some_of(found, _SHOWN, "; ", count=count)
    return stated(f"{sentence}: {some}. {choices}", count, found, options=[option, "first"])


@check("resolved_share", "warning")
def too_few_resolved(facts: PlanFacts) -> Finding | None:
    """Fewer events than --resolved asks for belong to people with a user's id, once ids are merged."""
    profiles, least = facts.people.profiles, facts.thresholds.resolved
    events = profiles.anonymous_events + profiles.identified_events
    unknown = events - profiles.resolved_events
    if profiles.resolved_events * 100 >= least * events:
        return None
    return stated(
        f"{profiles.resolved_events:,} of {pluralize(events, 'row')} ({profiles.resolved_events / events:.1%}) belong"
        f" to people with a user's id, once ids are merged; --resolved asks for {least:g}%. {unknown:,} belong to"
        " people who are known by devices only",
        unknown,
    )


@check("group_types", "stop")
def too_many_group_types(facts: PlanFacts) -> Finding | None:
    """There are more group types than the service keeps, and --group-types does not choose among them."""
    sent = [one for one in facts.people.groups.types if one.sent]
    if len(sent) <= MAX_TYPES:
        return None
    types = [f"{one.type} ({pluralize(one.rows, 'row')})" for one in sent]
    return stated(
        f"there are {len(sent)} group types, and the service keeps {MAX_TYPES}: {', '.join(types)}."
        " Choose which, and in which order, with --group-types",
        len(types),
        types,
        options=["--group-types", ",".join(one.type for one in sorted(sent, key=lambda one: -one.rows)[:MAX_TYPES])],
    )


@check("one_day_ids", "notice")
def people_of_one_day(facts: PlanFacts) -> Finding | None:
    """Most events belong to people who never return, counting all merged ids as one person.

    A history of less than four weeks or of few people, and a job's window, do not show who returns.
    """
    profiles = facts.people.profiles
    events = profiles.anonymous_events + profiles.identified_events
    if facts.in_series or facts.options.persons == "identified" or len(facts.history.total.counts) < _LEAST_DAYS:
        return None
    if profiles.people < _LEAST_PEOPLE:
        return None
    if profiles.one_day_people_events * 100 <= facts.thresholds.one_day * events:
        return None
    return finding_of(
        f"{profiles.one_day_people_events:,} of {pluralize(events, 'row')}"
        f" ({profiles.one_day_people_events / events:.0%}) belong to people who are seen on one day only;"
        f" {profiles.one_day_events:,} of them belong to anonymous ids, each of which becomes a person",
        [
            f"{pluralize(profiles.one_day_people, 'person')} of {profiles.people:,},"
            f" among them {pluralize(profiles.one_day_ids, 'anonymous id')}"
        ],
        profiles.one_day_people_events,
    )


@check("anonymous_groups", "warning")
def groups_of_anonymous_events(facts: PlanFacts) -> Finding | None:
    """With --persons identified, events of anonymous ids lose their groups, because they have no person."""
    events, types = facts.people.profiles.anonymous_events, facts.people.groups.types
    rows = sum(one.rows for one in types if one.sent)
    if facts.options.persons != "identified" or not events or not rows:
        return None
    return finding_of(
        f"{pluralize(events, 'event')} of anonymous ids are sent without a person, and the service attaches no groups"
        f" to such events; {pluralize(rows, 'row')} of the export name a group. Plan with --persons all to keep them",
        [f"{one.type}: {pluralize(one.rows, 'row')}" for one in types if one.sent],
        min(events, rows),
    )
