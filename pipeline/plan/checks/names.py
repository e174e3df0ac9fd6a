"""Event names that differ only in spelling."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.plan.statistics.daily_counts import day_name
from pipeline.plan.statistics.history import Span
from pipeline.text import pluralize, printable

_SEPARATORS = re.compile(r"[\s_\-]+")
_HANDOVER = 28
"""One name begins as another ends if at most this many days lie between them."""
_BOTH = 7
"""Both names may appear on up to this many days, since old versions of an app are still in use."""


def spelling_key(name: str) -> str:
    """A key that is equal for names that differ only by case, spaces, `_`, `-`, or a plural."""
    key = _SEPARATORS.sub("", name.casefold())
    if len(key) > 4 and key.endswith("ies"):
        return key[:-3] + "y"
    return key[:-1] if len(key) > 4 and key.endswith("s") and not key.endswith(("ss", "us", "is")) else key


def _variants(facts: PlanFacts) -> list[list[tuple[str, Span]]]:
    """For each spelling key with several names, these names in the order in which they begin."""
    by_key: dict[str, list[str]] = defaultdict(list)
    for name in facts.history.spans:
        by_key[spelling_key(name)].append(name)
    groups = [[(name, facts.history.spans[name]) for name in names] for names in by_key.values() if len(names) > 1]
    for group in groups:
        group.sort(key=lambda one: (one[1].first, one[1].last, one[0]))
    return sorted(groups, key=lambda group: (-sum(span.events for _, span in group), group))


def _is_renamed(group: Sequence[tuple[str, Span]]) -> bool:
    """Whether each name begins when the one before it ends."""
    return all(
        begins.first > ends.first and -_BOTH <= begins.first - ends.last <= _HANDOVER and begins.last > ends.last
        for (_, ends), (_, begins) in pairwise(group)
    )


@check("renamed_event", "warning")
def renamed_events(facts: PlanFacts) -> Finding | None:
    """One name ends when a variant of it begins: a chart of either lacks half of the history."""
    found = [group for group in _variants(facts) if _is_renamed(group)]
    return finding_of(
        f"{pluralize(len(found), 'event name')} continued in another spelling",
        [
            "; then ".join(
                f"{printable(name, 60)} from {day_name(span.first)} until {day_name(span.last)} ({span.events:,})"
                for name, span in group
            )
            for group in found
        ],
    )


@check("similar_names", "notice")
def similar_names(facts: PlanFacts) -> Finding | None:
    """Names that are in use at the same time differ only by case, spaces, `_`, `-` or a plural."""
    found = [group for group in _variants(facts) if not _is_renamed(group)]
    names = sum(len(group) for group in found)
    return finding_of(
        f"{pluralize(names, 'event name')} that differ only by case, spaces, _, - or a plural",
        [", ".join(f"{printable(name, 60)} ({span.events:,})" for name, span in group) for group in found],
    )
