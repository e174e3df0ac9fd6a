"""Where each field of the source goes and what each event's name becomes, some rows next to the events that they
become, and what the properties of events are over time."""

from __future__ import annotations

from collections import Counter

import msgspec
from rich.console import Console
from rich.text import Text

from pipeline.plan.samples.source_pairs import SourcePair, SourcePairs
from pipeline.plan.sealed.facts import Coverage, Drift, EventCoverage, FieldCoverage, PropertySummary, TrackingSeal
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page, on_terminal
from pipeline.text import pluralize, printable, some_of

MOST_ON_TERMINAL = 3
MOST_ON_PAGE = 50
"""Rows of a table; ten years with all properties would be most of the page."""
MOST_CHARACTERS = 60
MOST_BYTES = 24_000
"""About as many bytes of the page are pairs, and as many the table of properties; the first one is always there."""
_PAIR_MARKUP, _PROPERTY_MARKUP = 70, 110
"""Bytes of markup of a row of these tables, about."""
MOST_NAMES_OF_FIELDS = 6
MOST_ROWS = 30
"""Fields and properties of a pair on the page."""


@on_terminal(60)
def show_coverage(console: Console, plan: Plan, directory: str) -> None:
    """How many fields and names the mapping does not name, so that they are sent as they are, and the first of them."""
    coverage = plan.coverage
    if not isinstance(coverage, Coverage) or not coverage.rows:
        return
    for title, every, total in (
        ("fields", coverage.fields, coverage.fields_total),
        ("event names", coverage.events, coverage.events_total),
    ):
        names = [_name(one) for one in every if one.unmapped]
        if names:
            some = some_of(names, MOST_ON_TERMINAL, count=total.unmapped)
            counts = f"{total.unmapped:,} of {total.met:,} {title}"
            console.print(Text(f"Sent as they are: {counts}: {some}", style="dim"))


def summary(coverage: Coverage) -> str:
    fields, events = coverage.fields_total, coverage.events_total
    return (
        f"{pluralize(fields.met, 'field')}, {fields.unmapped:,} unmapped;"
        f" {pluralize(events.met, 'event name')}, {events.unmapped:,} unmapped"
    )


def _name(one: FieldCoverage | EventCoverage) -> str:
    return printable(one.field if isinstance(one, FieldCoverage) else one.event, MOST_CHARACTERS)


@on_page(75, "coverage")
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


@on_page(80, "source_pairs")
def source_pairs(report: Report) -> Values:
    """As many pairs as fit: one of each name and entry of `events`, the most frequent names first, then other years."""
    found = report.plan.source_pairs
    pairs = [_shortened(pair) for pair in report.source_pairs]
    if not isinstance(found, SourcePairs) or not pairs:
        return None
    years: Counter[tuple[str, str]] = Counter()
    turns = []
    for number, pair in enumerate(pairs):
        turns.append((years[pair.event, pair.event_rule], number))
        years[pair.event, pair.event_rule] += 1
    chosen: list[int] = []
    left = MOST_BYTES
    for _, number in sorted(turns):
        size = _bytes(pairs[number])
        if size <= left or not chosen:
            chosen.append(number)
            left -= size
    return {
        "found": found,
        "shown": [pairs[number] for number in sorted(chosen)],
        "more": len(pairs) - len(chosen),
        "most": MOST_NAMES_OF_FIELDS,
    }


def _shortened(pair: SourcePair) -> SourcePair:
    fields, properties = pair.fields[MOST_ROWS:], pair.properties[MOST_ROWS:]
    return msgspec.structs.replace(
        pair,
        fields=pair.fields[:MOST_ROWS],
        more_fields=pair.more_fields + len(fields),
        properties=pair.properties[:MOST_ROWS],
        more_properties=pair.more_properties + len(properties),
    )


def _bytes(pair: SourcePair) -> int:
    """About what a pair takes on the page."""
    texts = [pair.event, pair.file, pair.event_rule]
    for field in pair.fields:
        texts += [field.field, field.value, field.by, *field.to[:MOST_NAMES_OF_FIELDS]]
    for one in (*pair.members, *pair.properties):
        texts += [one.name, one.value, one.rule, *one.fields[:MOST_NAMES_OF_FIELDS]]
    rows = len(pair.fields) + len(pair.members) + len(pair.properties)
    return sum(len(text.encode()) + 11 for text in texts) + rows * _PAIR_MARKUP + 600


@on_page(85, "drift")
def drift(report: Report) -> Values:
    """The properties whose types or empty values change, then those with most events."""
    found = report.plan.drift
    if not isinstance(found, Drift) or not found.properties:
        return None
    shown: list[PropertySummary] = []
    left = MOST_BYTES
    for one in found.properties[:MOST_ON_PAGE]:
        left -= (
            2 * MOST_CHARACTERS + 200 + sum(_PROPERTY_MARKUP + len(", ".join(period.types)) for period in one.periods)
        )
        if left < 0 and shown:
            break
        shown.append(one)
    return {
        "drift": found,
        "sample": found.sample or None,
        "properties": shown,
        "listed": len(found.properties),
        "more": found.examined - len(shown),
        "characters": MOST_CHARACTERS,
    }


@on_page(87, "tracking_plan")
def tracking_plan(report: Report) -> Values:
    """What breaks the tracking plan, the most frequent first, and what of it is not checked or does not occur."""
    found = report.plan.tracking_plan
    if not isinstance(found, TrackingSeal):
        return None
    shown = found.violations[:MOST_ON_PAGE]
    return {"found": found, "shown": shown, "more": found.found - len(shown), "characters": MOST_CHARACTERS}
