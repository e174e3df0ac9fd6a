"""What is known about an export before it is planned, on a terminal: an estimate, and how a mapping fits it."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pipeline.plan.against import Against, ChoiceCount
from pipeline.plan.estimate import Estimate
from pipeline.plan.sealed.facts import EventCoverage, FieldCoverage
from pipeline.report.sections.effort import IMPORTERS_RATE
from pipeline.report.sections.fields import summary
from pipeline.report.terminal.tables import number, show_more, show_table, text
from pipeline.text import pluralize, printable, some_of

MOST_FIELDS, MOST_EVENTS, MOST_NAMES, MOST_CHOICES = 100, 50, 40, 100


def show_estimate(console: Console, found: Estimate) -> None:
    """The totals, the hours, the limit that binds first, and what the estimate rests on.

    Without --rate nothing is known of how fast the service takes events, so the time is that at a named rate.
    """
    hours, limits = found.apply_hours, [f"{_time(one.hours)} by {one.detail}" for one in found.limits]
    about = f"About {found.events:,} events in {pluralize(found.files, 'file')}"
    binds = f"Binds first: {found.limits[0].detail}."
    if found.rate is None:
        hours = max(hours, found.events / IMPORTERS_RATE / 3_600)
        limits.insert(0, f"{_time(hours)} at {IMPORTERS_RATE:,} events a second, as the service's own importer")
        binds = "How fast the service takes events is not known; --rate EVENTS gives the time at another rate."
    at = "" if found.rate is not None else f" at {IMPORTERS_RATE:,} events a second"
    size = f"{_size(found.json_bytes)} in {pluralize(found.requests, 'request')}"
    console.print(Text(f"{about}, {size}: {_time(hours)} to send{at}.", style="bold"))
    show_table(console, {"estimate": 20, "of the whole export": 400}, (
        ("stored", _size(found.bytes)),
        ("rows", f"{found.rows:,}"),
        ("events", f"{found.events:,}, before duplicates are left out; merges and profiles come on top"),
        ("requests", f"{found.requests:,}, {_size(found.json_bytes)} of JSON, {_size(found.sent_bytes)} gzipped"),
        (
            "plan",
            f"{_time(found.plan_hours)} with {pluralize(found.workers, 'worker')}, {found.plan_cpu:,.0f} s of CPU",
        ),
        ("apply", "; ".join(limits)),
        ("network", f"{_size(found.sent_bytes / max(hours * 3_600, 1e-9))} a second at that pace"),
    ))  # fmt: skip
    console.print(Text(binds))
    console.print(
        text(
            f"From {pluralize(found.sampled.rows, 'row')} of {pluralize(found.sampled.files, 'file')}"
            f" ({_size(found.sampled.bytes)}), read in {found.sampled.seconds:,.0f} s. The sampled files differ by"
            f" {found.spread:.0%} in events for each byte. The answer time of the service is not known.",
            600,
        )
    )


def _time(hours: float) -> str:
    if hours * 3_600 < 90:
        return f"{hours * 3_600:,.1f} s"
    if hours < 1.5:
        return f"{hours * 60:,.0f} minutes"
    return f"{hours:,.1f} hours" if hours < 72 else f"{hours / 24:,.1f} days"


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1_000 or unit == "TB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1_000
    raise AssertionError


def show_against(console: Console, found: Against) -> None:
    """The coverage, what is unused, and the patch last, so that it can be copied."""
    read = f"the first {found.rows:,} rows; --all reads every row" if found.sampled else f"all {found.rows:,} rows"
    console.print(text(f"Mapping {found.mapping} against {read}", 400))
    console.print(Text(f"Coverage: {summary(found.coverage)}"))
    _fields(console, found)
    _events(console, found)
    if found.coverage.skipped_items:
        items = ", ".join(f"{count:,} {code}" for code, count in found.coverage.skipped_items.items())
        console.print(text(f"Left out of rows of which something is sent: {items}", 1_000))
    _names(console, "References that no row has", found.coverage.never_met)
    _names(console, "Event rules that no row has", found.coverage.never_met_events)
    _names(console, "Columns that no rule uses", [one.field for one in found.coverage.fields if one.unmapped])
    if found.unnamed_rows:
        rows = pluralize(found.unnamed_rows, found.coverage.unit.removesuffix("s"))
        console.print(Text(f"Rows that no rule for events takes: {rows}, sent by the name that they have"))
    for code, count in found.rejects.items():
        console.print(text(f"Rejected: {count:,} {code}", 200))
    for hint in found.times:
        console.print(text(f"Times: {hint}", 1_000))
    for check in found.keys:
        console.print(text(f"Keys: {check.detail}", 1_000))
    _choices(console, found.choices)
    show_table(console, {"without effect here": 120, "#line": 20, "#rows": 0, "why": 2_000}, [
        (idle.what, _line(idle.line), idle.rows, Text(idle.why)) for idle in found.idle[:MOST_CHOICES]
    ])  # fmt: skip
    if found.patch:
        console.print(
            Text("What the mapping does not name. Map or drop what needs it; what may stay goes into the mapping,")
        )
        console.print(Text("in place of its section `known`:"))
        console.print()
        for line in found.patch.splitlines():
            console.print(Text(line), soft_wrap=True)


def _fields(console: Console, found: Against) -> None:
    names = f"#{found.coverage.unit}", "#share", "#mapped", "#kept", "#dropped"
    show_table(console, {"field": 80} | dict.fromkeys(names, 20) | {"to, or dropped by": 200}, [
        (one.field, one.rows, f"{one.share:.1%}", one.mapped, one.kept, one.dropped, _where(one))
        for one in found.coverage.fields[:MOST_FIELDS]
    ])  # fmt: skip
    if (more := found.coverage.fields_total.met - min(MOST_FIELDS, len(found.coverage.fields))) > 0:
        show_more(console, more, "field")


def _where(one: FieldCoverage) -> str:
    dropped = ", ".join(f"{rule} ({count:,})" for rule, count in one.by.items())
    return "; ".join(part for part in (", ".join(one.to), dropped) if part)


def _events(console: Console, found: Against) -> None:
    rows = [(one.event, one.rows, _becomes(one)) for one in found.coverage.events[:MOST_EVENTS]]
    show_table(console, {"event": 80, f"#{found.coverage.unit}": 0, "becomes": 200}, rows)
    if (more := found.coverage.events_total.met - min(MOST_EVENTS, len(found.coverage.events))) > 0:
        show_more(console, more, "name")


def _becomes(one: EventCoverage) -> str:
    count = one.become_events
    parts = [f"{one.to if one.to != one.event else 'the same'} ({count:,})"] if count else []
    parts += [f"merges and updates ({one.updates:,})"] if one.updates else []
    return "; ".join((*parts, *(f"{code} ({count:,})" for code, count in one.left_out.items())))


def _names(console: Console, title: str, names: list[str]) -> None:
    if names:
        console.print(Text(f"{title}: {some_of([printable(name, 80) for name in names], MOST_NAMES)}"))


def _choices(console: Console, choices: list[ChoiceCount]) -> None:
    show_table(console, {"candidates": 60, "#line": 20, "#rows": 0, "taken": 120}, [
        ("" if place else choice.what, "" if place else _line(choice.line), way.rows, way.what)
        for choice in choices[:MOST_CHOICES]
        for place, way in enumerate(choice.ways)
    ])  # fmt: skip


def _line(line: int) -> str:
    return number(line) if line else ""
