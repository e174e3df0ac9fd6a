"""What the target answered before anything was sent: its checks, and the days and names that both sides have."""

from __future__ import annotations

from pipeline.report.contents import Report
from pipeline.report.preflight_record import LEVELS
from pipeline.report.registry import Values, on_page

MOST_ROWS = 40
_ORDER = tuple(LEVELS)
_TITLES = {
    "already_there": "Events of the plan that are there under their own uuids",
    "same_events": "Events of the plan that are there under other uuids",
}


@on_page(85, "preflight")
def preflight(report: Report) -> Values:
    """The last preflight of this plan; nothing without one."""
    found = report.preflight
    if found is None:
        return None
    facts = {check.name: check.facts for check in found.checks}
    there = [
        (title, cells[:MOST_ROWS]) for name, title in _TITLES.items() if (cells := facts.get(name, {}).get("cells"))
    ]
    return {
        "preflight": found,
        "checks": sorted(found.checks, key=lambda check: _ORDER.index(check.level)),
        "levels": LEVELS,
        "overlap": facts.get("cut_over", {}).get("names", [])[:MOST_ROWS],
        "there": there,
    }
