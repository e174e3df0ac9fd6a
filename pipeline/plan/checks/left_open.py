"""What a plan leaves open: what nothing in the data confirms, and what a person still has to choose or approve.

The level `open` changes no verdict, and `--stop-on all` leaves it out: most plans leave something open, and it says
nothing against the data. By name, `--stop-on` and `--accept` treat these checks like the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.models import Finding
from pipeline.plan.checks import CHECKS, PlanFacts, check, stated
from pipeline.targets import is_loopback
from pipeline.text import are, pluralize


@check("zone_not_confirmed", "open")
def zone_not_confirmed(facts: PlanFacts) -> str | None:
    """A person named the zone, and the data neither prove nor contradict it."""
    if not facts.options.zones or (facts.zone is not None and facts.zone.months):
        return None
    zones = ", ".join(f"{zone}@{since}" if since else zone for zone, since in facts.options.zones)
    return f"no receive times confirm the time zone {zones}; a wrong zone moves all events by hours"


@check("merge_approval", "open")
def merges_to_approve(facts: PlanFacts) -> Finding | None:
    """Merges cannot be undone, so `apply` to a service asks for their number."""
    merges = 0 if is_loopback(facts.thresholds.target) else facts.phases.get("identities", 0)
    words = (
        f"{pluralize(merges, 'merge')} to approve by number: they cannot be undone (apply --approve-merges {merges})"
    )
    return stated(words, merges)


@check("no_target", "open")
def no_target(facts: PlanFacts) -> str | None:
    """No target was chosen for the plan, not even by the dialect."""
    if facts.thresholds.target or facts.options.dialect == "posthog":
        return None
    return (
        "no target chosen (--for us, eu or a URL): the plan is for a service that follows the written contract;"
        " PostHog needs --for us or --for eu"
    )


@check("limit", "open")
def limited(facts: PlanFacts) -> str | None:
    """The plan is a trial of the first rows."""
    limit = facts.options.limit
    return None if limit is None else f"only the first {pluralize(limit, 'row')} are planned (--limit)"


@check("ambiguous_time", "warning")
def ambiguous_times(facts: PlanFacts) -> Finding | None:
    """Times in the hour that the clock repeats, which another hour cannot be told from."""
    return _times(
        facts, "ambiguous_time",
        "ambiguous (repeated hour at the end of DST); taken as the first of the two unless received well after both",
    )  # fmt: skip


@check("nonexistent_time", "warning")
def nonexistent_times(facts: PlanFacts) -> Finding | None:
    """Times in the hour that the clock skips."""
    words = "nonexistent (skipped hour at the start of DST); read on the clock from before the change"
    return _times(facts, "nonexistent_time", words)


def _times(facts: PlanFacts, code: str, words: str) -> Finding | None:
    count, first = facts.warnings.get(code, 0), facts.examples.get(code)
    where = "" if first is None else f"; the first in row {first.row:,} of {first.part}: {first.detail}"
    return stated(f"{pluralize(count, 'time')} {are(count)} {words}{where}", count)


@check("warnings", "open")
def other_warnings(facts: PlanFacts) -> Finding | None:
    """Warnings about events that are sent, but for those that another check reports, and those that a person decided
    about by name."""
    rules = facts.thresholds.checks
    assert isinstance(rules, Mapping)  # `plan.check_rules.with_rules` has read the file
    reported = {one.name for one in CHECKS if facts.warnings.get(one.name) and one.find(facts) is not None} | {*rules}
    counts = {code: count for code, count in facts.warnings.items() if count and code not in reported}
    listed = [f"{code} ({count:,})" for code, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))]
    kinds = pluralize(len(counts), "kind")
    return stated(f"{kinds} of warnings about events that are sent: {', '.join(listed)}", len(counts), listed)


@check("sampled", "open")
def examined_in_a_sample(facts: PlanFacts) -> str | None:
    """Too many events to look at every value."""
    sample, _, margin = facts.drift.in_sample.strip(" ()").partition("; ")
    words = (
        f"values of properties are examined {sample}: what only a few events have can be missing from it, and {margin}"
    )
    return words if sample else None
