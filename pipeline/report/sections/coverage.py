"""Where each field of the source goes, and what each event's name becomes."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pipeline.plan.sealed.facts import Coverage, EventCoverage, FieldCoverage
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page, on_terminal
from pipeline.text import pluralize, printable

MOST_ON_TERMINAL = 3
MOST_ON_PAGE = 50
MOST_CHARACTERS = 60


@on_terminal(60)
def show_coverage(console: Console, plan: Plan, directory: str) -> None:
    """How many fields and names the mapping does not name, and the first of them."""
    coverage = plan.coverage
    if not isinstance(coverage, Coverage) or not coverage.rows:
        return
    for title, every, total in (
        ("fields", coverage.fields, coverage.fields_total),
        ("event names", coverage.events, coverage.events_total),
    ):
        names = [_name(one) for one in every if one.unmapped][:MOST_ON_TERMINAL]
        if names:
            more = total.unmapped - len(names)
            others = f" and {more:,} more" if more else ""
            counts = f"{total.unmapped:,} of {total.met:,} {title}"
            console.print(Text(f"Not in the mapping: {counts}: {', '.join(names)}{others}", style="dim"))


def summary(coverage: Coverage) -> str:
    """The numbers of fields and of names, in words."""
    fields, events = coverage.fields_total, coverage.events_total
    return (
        f"{pluralize(fields.met, 'field')}, {fields.unmapped:,} unmapped;"
        f" {pluralize(events.met, 'event name')}, {events.unmapped:,} unmapped"
    )


def _name(one: FieldCoverage | EventCoverage) -> str:
    return printable(one.field if isinstance(one, FieldCoverage) else one.event, MOST_CHARACTERS)


@on_page(55, "coverage")
def coverage(report: Report) -> Values:
    """The most frequent fields and names, with what becomes of them."""
    found = report.plan.coverage
    if not isinstance(found, Coverage) or not found.rows:
        return None
    return {
        "coverage": found,
        "summary": summary(found),
        "fields": found.fields[:MOST_ON_PAGE],
        "more_fields": found.fields_total.met - min(MOST_ON_PAGE, len(found.fields)),
        "events": found.events[:MOST_ON_PAGE],
        "more_events": found.events_total.met - min(MOST_ON_PAGE, len(found.events)),
    }
