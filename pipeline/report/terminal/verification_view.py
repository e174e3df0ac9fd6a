"""What a verification found, on a terminal: the verdict, counts, differences with their rows, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from pipeline.plan.in_bucket import file_here
from pipeline.report.results import RepairCounts, VerifyResult
from pipeline.report.terminal.tables import number, table, text
from pipeline.report.verification_words import copies, counted_people, depth, done_about, sent_again, verdict
from pipeline.text import are, pluralize, printable
from pipeline.verify.findings import Difference

MOST_DIFFERENCES = 8


def show_verification(console: Console, result: VerifyResult, directory: str | None = None) -> None:
    """What landed, compared with what was sent. `directory` is the plan's; its file with every difference is named."""
    counts = result.events
    console.print(Text(verdict(result)))
    if isinstance(result.repair, RepairCounts):
        console.print(Text(sent_again(result.repair)))
    late = f", {counts.late:,} of them late" if counts.late else ""
    console.print(Text(f"{counts.found:,} of {pluralize(counts.expected, 'event')} found{late}."))
    kinds = (
        ("missing", result.cells.missing, counts.missing),
        ("extra", result.cells.extra, counts.extra - counts.duplicated),
        ("duplicated", result.cells.duplicated, counts.duplicated),
        ("different", result.cells.different, counts.different),
        ("altered", None, counts.altered),
    )
    if any(cells or events for _, cells, events in kinds):
        shown = table("difference", "#daily counts", "#events")
        for name, cells, events in kinds:
            if cells or events:
                shown.add_row(name, text("", 1) if cells is None else number(cells), number(events))
        console.print(shown)
    if result.kept:
        kept = ", ".join(result.kept).replace("_", " ")
        console.print(text(f"Found by a deeper verification, and kept until one as deep finds none: {kept}.", 300))
    _differences(console, result.differences)
    _people(console, result)
    for line in done_about(result):
        console.print(text(line, 600))
    if result.differs and directory is not None:
        file = printable(file_here(directory, "differences.jsonl"), 4_000)
        console.print(Text(f"Every difference with its row: {file}"), soft_wrap=True)
    _depth(console, result)
    _extras(console, result)
    if line := copies(result):
        console.print(text(line, 300))
    _warnings(console, result)


def _differences(console: Console, differences: Sequence[Difference]) -> None:
    if not differences:
        return
    listed = differences[:MOST_DIFFERENCES]
    placed = all(one.row for one in listed)  # then the uuids are in the file of all differences
    shown = table("event", "row", "differs in, or landed as") if placed else table("event", "uuid", "landed as")
    for one in listed:
        landed = "; ".join(", ".join(copy) for copy in one.landed)
        what = ", ".join(one.changed) + (f" ({landed})" if landed and one.changed else landed)
        shown.add_row(text(one.kind, 40), text(place_of(one) if placed else one.uuid, 120), text(what, 240))
    shown.columns[1].no_wrap = not placed
    console.print(shown)
    if len(differences) > MOST_DIFFERENCES:
        console.print(Text(f"{len(differences) - MOST_DIFFERENCES:,} more", style="dim"))


def place_of(one: Difference) -> str:
    """Where an event that differs comes from, "" where it is not of the plan."""
    return f"{one.part}:{one.row}" if one.row else one.part


def _people(console: Console, result: VerifyResult) -> None:
    if not result.people.differences:
        return
    shown = table("merge, profile or group", "line", "ids", "properties")
    for one in result.people.differences[:MOST_DIFFERENCES]:
        shown.add_row(
            text(one.kind.replace("_", " "), 40), text(f"{one.part}:{one.row}", 80), text(", ".join(one.ids), 160),
            text(", ".join(one.properties), 160),
        )  # fmt: skip
    console.print(shown)


def _depth(console: Console, result: VerifyResult) -> None:
    """How much was compared, and what the service itself is known to have changed."""
    values = result.values
    if values.fields == "none" and not values.compared:
        return
    compared = depth(result)
    console.print(Text(f"{compared[0].upper()}{compared[1:]}{counted_people(result.people)}."))
    if values.known:
        shown = table("changed by the service itself", "#events", "properties")
        for known in values.known[:MOST_DIFFERENCES]:
            shown.add_row(text(known.meaning, 160), number(known.events), text(", ".join(known.properties), 160))
        console.print(shown)


def _warnings(console: Console, result: VerifyResult) -> None:
    if result.warnings.types:
        shown = table("ingestion warning", "#events", "#dropped", "first")
        for one in result.warnings.types[:MOST_DIFFERENCES]:
            first = ", ".join(place_of(example) for example in one.examples[:2])
            shown.add_row(text(one.type, 80), number(one.events), number(one.dropped), text(first, 160))
        console.print(shown)
    if result.warnings.unknown:
        console.print(text(f"Ingestion warnings: {result.warnings.unknown}.", 300))


def _extras(console: Console, result: VerifyResult) -> None:
    """Events that are not of the plan by name and day, where they may come from, and what was compared."""
    if not result.extras:
        return
    shown = table("not of this plan", "UTC day", "#events")
    for extra in result.extras[:MOST_DIFFERENCES]:
        shown.add_row(text(extra.event, 120), text(extra.day, 20), number(extra.count))
    console.print(shown)
    others = result.events.others
    rest = (others or result.events.extra) - sum(extra.count for extra in result.extras[:MOST_DIFFERENCES])
    if rest > 0:
        console.print(Text(f"{pluralize(rest, 'more event')} of other names and days", style="dim"))
    if not others:
        console.print(Text("These events are unexpected, so they count as differences."))
        return
    sentence = f"{pluralize(others, 'event')} {are(others)} there that this plan did not send, which is no difference."
    if result.scope:
        marks = " and ".join(f"{name} {value!r}" for name, value in result.scope.items())
        if "import_name" in result.scope:
            of = "They carry the name of this import"
            whose = "an earlier plan of the same import, whose events then may be there twice."
        else:
            of = "They carry the mark that every import of this tool has"
            whose = (
                "another import of it, with a name or without, or an earlier plan of the same export, whose events then"
                " are there twice. A plan with `--name` is compared with the events of its own name alone."
            )
        sentence += f" {of}, {marks}: {whose}"
    else:
        sentence += " The whole project was compared, with what others sent to it."
    console.print(text(sentence, 600))
