"""What the properties of events are over time, the most notable first."""

from __future__ import annotations

from pipeline.plan.sealed.facts import Drift, PropertySummary
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page

MOST_ON_PAGE = 50
"""Properties in the table; ten years with all of them would be most of the page."""
MOST_BYTES = 24_000
"""About as many bytes of the page are the table; the first property is always there."""
_MARKUP = 110
"""Bytes of markup of a row of the table, about."""
NAME_CHARACTERS = 60


@on_page(57, "drift")
def drift(report: Report) -> Values:
    """The properties whose types or empty values change, then those with most events."""
    found = report.plan.drift
    if not isinstance(found, Drift) or not found.properties:
        return None
    shown: list[PropertySummary] = []
    left = MOST_BYTES
    for one in found.properties[:MOST_ON_PAGE]:
        left -= 2 * NAME_CHARACTERS + 200 + sum(_MARKUP + len(", ".join(period.types)) for period in one.periods)
        if left < 0 and shown:
            break
        shown.append(one)
    return {
        "drift": found,
        "properties": shown,
        "listed": len(found.properties),
        "more": found.examined - len(shown),
        "characters": NAME_CHARACTERS,
    }
