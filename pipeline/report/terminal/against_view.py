"""What an export says of a mapping, on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pipeline.plan.against import Against, ChoiceCount
from pipeline.plan.sealed.facts import EventCoverage, FieldCoverage
from pipeline.report.sections.coverage import summary
from pipeline.report.terminal.tables import number, table, text
from pipeline.text import pluralize, printable

MOST_FIELDS, MOST_EVENTS, MOST_NAMES, MOST_CHOICES = 100, 50, 40, 100


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
    if found.idle:
        shown = table("without effect here", "#line", "#rows", "why")
        for idle in found.idle[:MOST_CHOICES]:
            shown.add_row(text(idle.what, 120), _line(idle.line), number(idle.rows), Text(idle.why))
        console.print(shown)
    if found.patch:
        console.print(
            Text("What the mapping does not name. Map or drop what needs it; what may stay goes into the mapping,")
        )
        console.print(Text("in place of its section `known`:"))
        console.print()
        for line in found.patch.splitlines():
            console.print(Text(line), soft_wrap=True)


def _fields(console: Console, found: Against) -> None:
    shown = table("field", f"#{found.coverage.unit}", "#share", "#mapped", "#kept", "#dropped", "to, or dropped by")
    for one in found.coverage.fields[:MOST_FIELDS]:
        counts = map(number, (one.mapped, one.kept, one.dropped))
        shown.add_row(text(one.field, 80), number(one.rows), f"{one.share:.1%}", *counts, text(_where(one), 200))
    console.print(shown)
    if (more := found.coverage.fields_total.met - min(MOST_FIELDS, len(found.coverage.fields))) > 0:
        console.print(Text(pluralize(more, "more field"), style="dim"))


def _where(one: FieldCoverage) -> str:
    dropped = ", ".join(f"{rule} ({count:,})" for rule, count in one.by.items())
    return "; ".join(part for part in (", ".join(one.to), dropped) if part)


def _events(console: Console, found: Against) -> None:
    shown = table("event", f"#{found.coverage.unit}", "becomes")
    for one in found.coverage.events[:MOST_EVENTS]:
        shown.add_row(text(one.event, 80), number(one.rows), text(_becomes(one), 200))
    console.print(shown)
    if (more := found.coverage.events_total.met - min(MOST_EVENTS, len(found.coverage.events))) > 0:
        console.print(Text(pluralize(more, "more name"), style="dim"))


def _becomes(one: EventCoverage) -> str:
    count = one.become_events
    parts = [f"{one.to if one.to != one.event else 'the same'} ({count:,})"] if count else []
    parts += [f"merges and updates ({one.updates:,})"] if one.updates else []
    return "; ".join((*parts, *(f"{code} ({count:,})" for code, count in one.left_out.items())))


def _names(console: Console, title: str, names: list[str]) -> None:
    if names:
        more = f", and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
        shown = ", ".join(printable(name, 80) for name in names[:MOST_NAMES])
        console.print(Text(f"{title}: {shown}{more}"))


def _choices(console: Console, choices: list[ChoiceCount]) -> None:
    if not choices:
        return
    shown = table("candidates", "#line", "#rows", "taken")
    for choice in choices[:MOST_CHOICES]:
        for number_of, way in enumerate(choice.ways):
            first = number_of == 0
            what = text(choice.what, 60) if first else Text("")
            shown.add_row(what, _line(choice.line) if first else "", number(way.rows), text(way.what, 120))
    console.print(shown)


def _line(line: int) -> str:
    return number(line) if line else ""
