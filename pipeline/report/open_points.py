"""What a person has to check before a plan is sent: what its checks found, and what the plan itself leaves open.

The page lists them on its first screen; every other place has their number.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.models import Finding
from pipeline.plan.sealed.facts import Drift, SampleSize
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.wording import FOR_ANY, NO_TARGET, has_target
from pipeline.targets import is_loopback
from pipeline.text import are, pluralize

_LEVELS = {"stop": 0, "warning": 1, "notice": 2}
_OWN_LINE = {
    "ambiguous_time": "ambiguous (repeated hour at the end of DST); taken as the first of the two unless received well"
    " after both",
    "nonexistent_time": "nonexistent (skipped hour at the start of DST); read on the clock from before the change",
}
"""Warnings about the time of an event, which cannot be corrected later; the others share one line."""


def open_points(plan: Plan, to: str = "", *, begun: bool = False) -> list[Finding]:
    """The worst first, and within each level what concerns the whole plan first; what was accepted is not among them.

    `to` is the address to send to, if it is known. Once sending has `begun`, the target is chosen and the merges are
    approved.
    """
    checks = (gate for gate in plan.gates if gate.level != "accepted")
    found = [*_of_times(plan), *([] if begun else _of_approval(plan, to)), *checks, *_of_details(plan)]
    return sorted(found, key=lambda point: _LEVELS.get(point.level, 1))


def _of_times(plan: Plan) -> Iterator[Finding]:
    if plan.options.zones and not plan.zone_evidence:
        yield Finding(
            "zone_not_confirmed",
            "warning",
            f"No receive times confirm the time zone {plan.zone}; a wrong zone moves all events by hours",
        )
    for code, words in _OWN_LINE.items():
        if count := plan.warnings.get(code, 0):
            yield Finding(code, "warning", f"{pluralize(count, 'time')} {are(count)} {words}")


def _of_approval(plan: Plan, to: str) -> Iterator[Finding]:
    merges = plan.events.phases.get("identities", 0)
    if merges and not is_loopback(to or plan.target):
        yield Finding(
            "merge_approval",
            "warning",
            f"{pluralize(merges, 'merge')}, which cannot be undone, to approve by number (--approve-merges {merges})",
        )
    if not to and not has_target(plan):
        yield Finding("no_target", "warning", f"{NO_TARGET.capitalize()} (--for us, eu or a URL); {FOR_ANY}")


def _of_details(plan: Plan) -> Iterator[Finding]:
    if plan.options.limit is not None:
        yield Finding(
            "limit", "warning", f"Only the first {pluralize(plan.options.limit, 'row')} are planned (--limit)"
        )
    checked = {*_OWN_LINE, *(check.name for check in plan.gates)}
    others = {code: count for code, count in plan.warnings.items() if code not in checked and count}
    if others:
        listed = ", ".join(f"{code} ({count:,})" for code, count in sorted(others.items(), key=lambda one: -one[1]))
        yield Finding(
            "warnings",
            "notice",
            f"{pluralize(len(others), 'kind')} of warnings about events that are sent: {listed}",
        )
    if isinstance(plan.drift, Drift) and isinstance(plan.drift.sample, SampleSize):
        examined = plan.drift.sample.events
        yield Finding(
            "sampled",
            "notice",
            f"Values of properties are examined in a sample of {examined:,} of {pluralize(plan.drift.events, 'event')},"
            " duplicates included; what only a few events have can be missing from it",
        )
