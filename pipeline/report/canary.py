"""The result of a canary, and its sentences, for the terminal and the page alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import UnsafePlan
from pipeline.report.results import CanaryResult, VerifyResult
from pipeline.targets import address_of
from pipeline.text import pluralize, printable, quoted

if TYPE_CHECKING:
    from pipeline.delivery.outcome import Outcome
    from pipeline.plan.canary import CanarySample
    from pipeline.plan.sealed.directory import Directory
    from pipeline.report.contents import Results

NAME_CHARACTERS = 60
MOST_NAMED = 5


def canary_result(sample: CanarySample, outcome: Outcome, verification: VerifyResult, to: str) -> CanaryResult:
    """The result of a sample that was sent and read back."""
    return CanaryResult(
        most=sample.most,
        events=dict(sample.events),
        persons=sample.persons,
        strata=sample.strata,
        shown=sample.shown,
        not_shown=sample.not_shown,
        more_strata=sample.more_strata,
        large=sample.large,
        refused=outcome.counts.refused,
        settled=outcome.counts.accepted + outcome.counts.already_settled,
        to=address_of(to),
        verification=verification,
    )


def check_canary(canary: CanaryResult | None, directory: Directory, to: str) -> None:
    """Raise UnsafePlan unless a canary of this very plan landed at this target as it was sent."""
    if canary is not None and canary.proved and canary.to == address_of(to):
        return
    if canary is None:
        reason = "sent no canary that was read back"
    elif canary.to != address_of(to):
        reason = f"sent its canary to {canary.to}"
    else:
        reason = "has a canary of which events were refused or differ"
    size = 1_000 if canary is None else canary.most
    raise UnsafePlan(
        f"{directory.name} {reason}; nothing was sent",
        hint=f"backcast apply {quoted(directory.name)} --to {quoted(to)} --canary {size}",
    )


def latest_canary(results: Results, settled: int) -> CanaryResult | None:
    """The canary of a plan of which so many events are settled, None where more was sent after it."""
    return results.canary if results.canary is not None and results.canary.settled == settled else None


def sentences(canary: CanaryResult) -> list[str]:
    """What a canary showed."""
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
