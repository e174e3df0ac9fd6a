"""Hours of day, on the clock of the source and in UTC: a wrong zone shows at once."""

from __future__ import annotations

from pipeline.charts.hours import hour_chart
from pipeline.plan.sealed.facts import HoursSeal
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_first_screen


@on_first_screen(50, "hours")
def hours(report: Report) -> Values:
    """A picture for each clock, and what the changes of the clock show."""
    plan = report.plan
    if not isinstance(plan.hours, HoursSeal):
        return None
    chart = hour_chart([(plan.zone, plan.hours.source), ("UTC", plan.hours.utc)])
    return None if chart is None else {"chart": chart, "note": plan.hours.clock}
