"""What a verification found, on a terminal: the verdict, counts, differences with their rows, and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from pipeline.plan.in_bucket import file_here
from pipeline.report.metrics_words import Table, metric_sentences, metric_tables
from pipeline.report.source_words import source_sentences, source_tables
from pipeline.report.terminal.tables import show_table, text
from pipeline.report.verification_words import (
    by_plan,
    continuity,
    copies,
    counted_people,
    depth,
    done_about,
    replayed,
    sent_again,
    verdict,
)
from pipeline.text import are, pluralize, printable
from pipeline.verify.findings import Continuity, Difference, RepairCounts, Verification
from pipeline.verify.number_findings import Metrics
from pipeline.verify.source_findings import SourceCheck

MOST_DIFFERENCES = 8


def show_verification(console: Console, result: Verification, directory: str) -> None:
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
    rows = [(name, "" if cells is None else cells, events) for name, cells, events in kinds if cells or events]
    show_table(console, {"difference": 40, "#daily counts": 1, "#events": 0}, rows)
    if result.kept:
        kept = ", ".join(result.kept).replace("_", " ")
        console.print(text(f"Found by a deeper verification, and kept until one as deep finds none: {kept}.", 300))
    _differences(console, result.differences)
    columns = {"merge, profile or group": 40, "line": 80, "ids": 160, "properties": 160}
    show_table(console, columns, [
        (one.kind.replace("_", " "), f"{one.part}:{one.row}", ", ".join(one.ids), ", ".join(one.properties))
        for one in result.people.differences[:MOST_DIFFERENCES]
    ])  # fmt: skip
    for line in done_about(result):
        console.print(text(line, 600))
    if result.differs:
        file = printable(file_here(directory, "differences.jsonl"), 4_000)
        console.print(Text(f"Every difference with its row: {file}"), soft_wrap=True)
    if isinstance(result.metrics, Metrics):
        _numbers(console, metric_sentences(result.metrics), metric_tables(result.metrics, every=False))
    if isinstance(result.source, SourceCheck):
        _numbers(console, source_sentences(result.source), source_tables(result.source))
    _depth(console, result)
    _extras(console, result)
    for line in filter(None, (by_plan(result), replayed(result), copies(result))):
        console.print(text(line, 300))
    show_table(console, {"ingestion warning": 80, "#events": 0, "#dropped": 0, "first": 160}, [
        (one.type, one.events, one.dropped, ", ".join(place_of(example) for example in one.examples[:2]))
        for one in result.warnings.types[:MOST_DIFFERENCES]
    ])  # fmt: skip
    if result.warnings.unknown:
        console.print(text(f"Ingestion warnings: {result.warnings.unknown}.", 300))
    if isinstance(result.continuity, Continuity):
        for line in continuity(result.continuity):
            console.print(text(line, 4_000))
        columns = {"seen live": 80, "in the history": 80, "both have one": 20, "since": 20, "a pair joins them": 20}
        show_table(console, columns, [
            (one.live, one.history, one.by, one.first_live[:10], "yes" if one.joins else "no")
            for one in result.continuity.splits[:MOST_DIFFERENCES]
        ])  # fmt: skip


def _numbers(console: Console, sentences: Iterable[str], tables: Iterable[Table]) -> None:
    for line in sentences:
        console.print(text(line, 600))
    for table in tables:
        show_table(console, table.columns, table.rows, MOST_DIFFERENCES)


def _differences(console: Console, differences: Sequence[Difference]) -> None:
    # If each has a row, the rows are shown; the uuids are in the file of all differences.
    placed = all(one.row for one in differences[:MOST_DIFFERENCES])
    columns = {"event": 40, "row": 120, "differs in, or landed as": 240}
    rows: list[tuple[str, str | Text, str]] = []
    for one in differences:
        landed = "; ".join(", ".join(copy) for copy in one.landed)
        what = ", ".join(one.changed) + (f" ({landed})" if landed and one.changed else landed)
        rows.append((one.kind, place_of(one) if placed else Text(printable(one.uuid, 120), no_wrap=True), what))
    show_table(console, columns if placed else {"event": 40, "uuid": 0, "landed as": 240}, rows, MOST_DIFFERENCES)


def place_of(one: Difference) -> str:
    """Where an event that differs comes from, "" if it is not in the plan."""
    return f"{one.part}:{one.row}" if one.row else one.part


def _depth(console: Console, result: Verification) -> None:
    """How much was compared, and what the service itself is known to have changed."""
    values = result.values
    if values.fields == "none" and not values.compared:
        return
    compared = depth(result)
    console.print(Text(f"{compared[0].upper()}{compared[1:]}{counted_people(result.people)}."))
    rows = [(one.meaning, one.events, ", ".join(one.properties)) for one in values.known[:MOST_DIFFERENCES]]
    show_table(console, {"changed by the service itself": 160, "#events": 0, "properties": 160}, rows)


def _extras(console: Console, result: Verification) -> None:
    """Events that are not in the plan by name and day, where they may come from, and what was compared."""
    if not result.extras:
        return
    rows = [(extra.event, extra.day, extra.count) for extra in result.extras[:MOST_DIFFERENCES]]
    show_table(console, {"not of this plan": 120, "UTC day": 20, "#events": 0}, rows)
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
