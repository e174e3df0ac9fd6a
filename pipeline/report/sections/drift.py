"""What the properties of events are over time, the most notable first."""

from __future__ import annotations

from pipeline.plan.drift import Drift
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page

MOST_ON_PAGE = 50
"""Properties in the table; ten years with all of them would be most of the page."""
NAME_CHARACTERS = 60


@on_page(57, "drift")
def drift(report: Report) -> Values:
    """The properties whose types or empty values change, then those with most events."""
    found = report.plan.drift
    if not isinstance(found, Drift) or not found.properties:
        return None
    shown = found.properties[:MOST_ON_PAGE]
    return {
        "drift": found,
        "properties": shown,
        "listed": len(found.properties),
        "more": found.examined - len(shown),
        "characters": NAME_CHARACTERS,
    }
