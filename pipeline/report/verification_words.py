"""The sentences about a verification and a canary, for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline.text import are, pluralize, printable, were
from pipeline.verify.findings import Continuity, PeopleCheck, PlanCounts, RepairCounts, Verification

if TYPE_CHECKING:
    from pipeline.report.results import CanaryResult

NAME_CHARACTERS = 60
MOST_NAMED = 5
PEOPLE = {
    "merge_undone": ("merge", "not in effect"),
    "not_identified": ("person", "not identified"),
    "created_later": ("merge or profile update", "of a person with a later created_at than was sent"),
    "profile_missing": ("profile", "without what was sent"),
    "profile_overwritten": ("profile", "with another value than was sent"),
    "group_missing": ("group", "not there"),
    "group_overwritten": ("group", "with another value than was sent"),
}
"""Each kind of difference of people: what differs, and how."""


def by_kind(result: Verification) -> dict[str, int]:
    """The number of differences of each kind that there is, in words, the worst first."""
    counts = result.events
    kinds = {
        "missing": counts.missing,
        "different": counts.different,
        "altered": counts.altered,
        "duplicated": counts.duplicated,
        "extra": counts.extra - counts.duplicated,
    }
    people = {f"{PEOPLE[kind][0]} {PEOPLE[kind][1]}": count for kind, count in result.people.wrong.items()}
    return {kind: count for kind, count in (kinds | people).items() if count}


def listed(kinds: Mapping[str, int]) -> str:
    """Kinds of differences with their numbers: `2 missing, 1 altered`."""
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())


def depth(result: Verification) -> str:
    """Of how many events the values were compared, to continue a sentence about those that were found."""
    values = result.values
    if not values.compared:
        return "no values were compared"
    if values.compared >= result.events.found:
        return f"every property of {pluralize(values.compared, 'event')} compared, of all events"
    each = ", up to 25 of each event name and year" if values.fields == "sample" else ""
    return f"every property of {pluralize(values.compared, 'event')} compared, a sample{each}"


def verdict(result: Verification) -> str:
    counts = result.events
    if result.proved:
        return "Proved: every event that was settled was found once."
    if not result.differs:
        return (
            "No difference: of each event name the same number is there on each UTC day. Days with equal counts were"
            " not compared event by event, which --uuids all does."
        )
    if len(kinds := by_kind(result)) > 1:
        return f"Not proved: {listed(kinds)}."
    if counts.missing:
        return f"Not proved: {pluralize(counts.missing, 'event')} {are(counts.missing)} missing."
    if counts.extra or counts.different:
        return "Not proved: the service has other events than were settled."
    if counts.altered:
        return f"Not proved: {pluralize(counts.altered, 'event')} {are(counts.altered)} there with other values."
    return "Not proved: merges, profiles or groups are not as they were sent."


def sent_again(repair: RepairCounts) -> str:
    """What a repair sent, in one sentence."""
    if not repair.sent:
        return "Nothing was missing, so nothing was sent again."
    rest = "".join(
        f", {count:,} {word}" for count, word in ((repair.refused, "refused"), (repair.in_doubt, "in doubt")) if count
    )
    return (
        f"{pluralize(repair.sent, 'missing event')} sent again with the same uuids: {repair.accepted:,} accepted{rest}."
    )


def copies(result: Verification) -> str:
    """The accepted copies of events, in one or two sentences, or "".

    A cause is named only if the ledger shows it: another plan can have sent the same events, too.
    """
    count, events = result.events.copies, result.resolved_doubts.get("events", 0)
    if not count:
        return ""
    line = (
        f"{pluralize(count, 'more copy')} {were(count)} accepted, equal to another in uuid, name, person and UTC day;"
        " the service collapses the duplicates."
    )
    if not events:
        return line
    requests = pluralize(result.resolved_doubts["batches"], "request")
    return (
        f"{line} This plan sent {requests} ({pluralize(events, 'event')}) again after no answer came, which can make"
        " such copies."
    )


def replayed(result: Verification) -> str:
    """The events of the plan that this one replays, in one sentence, or ""."""
    count = result.events.replayed
    words = f"{pluralize(count, 'event')} of the plan that this one replays {are(count)} there, as expected."
    return words if count else ""


def by_plan(result: Verification) -> str:
    """What the marks of plans say about the events at the target, in one sentence, or ""."""
    found = result.by_plan
    if not isinstance(found, PlanCounts):
        return ""
    plans = [(plan, count) for plan, count in found.others.items() if plan]
    words = [f"{count:,} of plan {printable(plan, 20)}" for plan, count in plans[:MOST_NAMED]]
    if more := sum(count for _, count in plans[MOST_NAMED:]):
        words.append(f"{more:,} of {pluralize(len(plans) - MOST_NAMED, 'more plan')}")
    if "" in found.others:
        words.append(f"{found.others['']:,} without one")
    own = f"{pluralize(found.events, 'event')} of this plan ({found.import_plan})"
    return f"By import_plan: {', '.join([own, *words])}."


def counted_people(people: PeopleCheck) -> str:
    """What was compared of people, to continue a sentence; "" if nothing was."""
    parts = [pluralize(count, kind.removesuffix("s")) for kind, count in people.compared.items() if count]
    kept = f", of which {pluralize(people.kept, 'profile')} kept values that were there before" if people.kept else ""
    if people.there_before:
        kept += (
            f"; {pluralize(people.there_before, 'merge')} came to a person that existed before, with a later created_at"
        )
    unknown = f"; not compared: {people.unknown}" if people.unknown else ""
    return (f"; {', '.join(parts)}{kept}" if parts else "") + unknown


def done_about(result: Verification) -> list[str]:
    """What can be done about differences that no repair corrects, a sentence each."""
    counts, lines = result.events, []
    wrong = result.people.wrong
    people = [f"{pluralize(count, PEOPLE[kind][0])} {PEOPLE[kind][1]}" for kind, count in wrong.items() if count]
    if people:
        lines.append(f"People: {', '.join(people)}.")
    if counts.different or counts.altered:
        lines.append(
            "Events that are there with other values are never sent over: the service would keep both, or either. Find"
            " out what changed them (a transformation, another import), and correct analyses by their uuids."
        )
    if counts.extra:
        lines.append(
            "Extra events cannot be deleted singly: leave them out of analyses by their uuids or properties, or ask the"
            " service to delete their persons."
        )
    if any(wrong.values()):
        lines.append(
            "Merges, profiles and groups are not sent again while their events are there: see the ingestion warnings,"
            " and plan what is still wanted as an import of its own."
        )
    return lines


def canary_sentences(canary: CanaryResult) -> list[str]:
    kinds = "names of events in a year, rules, merges and profile updates"
    more = " and more" if canary.more_strata else ""
    lines = [
        f"Canary of at most {pluralize(canary.most, 'event')}: {pluralize(canary.size, 'event')} of"
        f" {pluralize(canary.persons, 'person')}, with {canary.shown:,} of {canary.strata:,}{more} different {kinds}."
    ]
    if canary.not_shown:
        named = ", ".join(canary.not_shown[:MOST_NAMED])
        rest = canary.strata - canary.shown - len(canary.not_shown[:MOST_NAMED])
        lines.append(f"Not shown, for want of room: {named}{f', and {rest:,} more' if rest > 0 else ''}.")
    if canary.large:
        some = ", ".join(
            f"{printable(one.id, NAME_CHARACTERS)} ({pluralize(one.events, 'event')}, for {one.stratum})"
            for one in canary.large[:MOST_NAMED]
        )
        lines.append(f"Persons with many events, where no smaller one was found: {some}.")
    if canary.refused:
        lines.append(f"{pluralize(canary.refused, 'event')} of it refused by the service.")
    return lines


def continuity(found: Continuity) -> list[str]:
    """Whether people seen live are those of the history, in sentences."""
    if not found.looked_up:
        return [f"Nobody is seen live since {found.cut_over or 'the cut-over: there is no live event'}."]
    sample = f" (a sample of {found.people:,})" if found.looked_up < found.people else ""
    share = f"{100 * found.same / found.looked_up:.1f} %" + (f" ± {found.margin:g}" if sample else "")
    lines = [
        f"People seen live since {found.cut_over}: {found.looked_up:,}{sample}. The same as in the history:"
        f" {found.same:,} ({share}), {found.by_id:,} by id and {found.by_merge:,} by merges. Split in two:"
        f" {found.split:,}. Ambiguous, since more than two people share the e-mail or device, or no person has it:"
        f" {found.ambiguous:,}. New: {found.new:,}.",
        f"People of the history with events in the 30 days before: {found.active:,}. Not seen again:"
        f" {found.not_seen_again:,}{' (an estimate)' if sample else ''}.",
    ]
    if refused := found.split - found.joinable:
        lines.append(f"Cannot be joined: {refused:,}, since both persons are identified or an id has another pair.")
    if found.joinable:
        lines.append(
            f"{pluralize(found.joinable, 'pair')} would join the others, for plan --identities: {found.merges}"
        )
    return lines
