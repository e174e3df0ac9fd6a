"""What people read on a terminal: rich tables on a Console that the command made.

Text of an export goes through `_text`, never through rich's markup: a name such as `[red]` stays a name, and an
escape sequence is shown, not obeyed. Tables fold on a narrow terminal and lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from rich.console import Console
from rich.text import Text

from pipeline.counted import are, counted
from pipeline.plan.sealed import Gate, Plan
from pipeline.printable import printable
from pipeline.report.contents import phases_of
from pipeline.report.people_view import show_people
from pipeline.report.results import ApplyResult, BatchCounts, SentCounts, StatusResult, VerifyResult
from pipeline.report.tables import heading, number, show_counts, show_notices, table, text
from pipeline.report.wording import PHASES, VERDICTS, advice, meaning
from pipeline.schema import Reject
from pipeline.verify.reconcile import Difference

MOST_PARTS = 20
MOST_EVENTS = 20
MOST_REJECTS = 50
MOST_DIFFERENCES = 20
MOST_DOUBTS = 10
_LEVELS = {"stop": "bold red", "warning": "yellow"}
_VERDICTS = {"ready": "bold green", "warnings": "bold yellow", "not-ready": "bold red"}
_STATES = {"done": "bold green", "stopped": "bold yellow"}


def show_plan(console: Console, plan: Plan, *, directory: str = "") -> None:
    """A plan: counts, codes with one example each, gates with what to do, and its one counted line last.

    `directory` is where the plan lies, for the commands that follow.
    """
    heading(console, "Plan", f"{plan.tool}, times in {plan.zone}" + (f", for {plan.target}" if plan.target else ""))
    if plan.first:
        console.print(Text(f"{plan.first} to {plan.last}"))
    _parts(console, plan)
    phases = table("phase", "#events", "")
    for name, count in phases_of(plan).items():
        phases.add_row(name, number(count), Text(PHASES[name], style="dim"))
    console.print(phases)
    show_counts(console, "event", "events", plan.names, MOST_EVENTS)
    show_people(console, plan, directory=directory)
    _codes(console, "Skipped", plan.skips, plan)
    _codes(console, "Rejected", plan.rejects, plan)
    if plan.rejects:
        console.print(Text(f"The rows: backcast rejects {directory or 'DIR'}", style="dim"))
    _codes(console, "Warnings", plan.warnings, plan)
    show_notices(console, plan.notices)
    _gates(console, plan.gates)
    console.print(Text(VERDICTS.get(plan.verdict, plan.verdict), style=_VERDICTS.get(plan.verdict, "")))
    console.print(Text(plan.sentence, style="bold"))


def _parts(console: Console, plan: Plan) -> None:
    made = table("part", "#rows", "#mapped", "#skipped", "#rejected")
    for part in plan.parts[:MOST_PARTS]:
        made.add_row(
            text(part.path, 200), number(part.rows), number(part.mapped), number(part.skipped), number(part.rejected)
        )
    if len(plan.parts) > MOST_PARTS:
        rest = plan.parts[MOST_PARTS:]
        sums = (sum(getattr(part, name) for part in rest) for name in ("rows", "mapped", "skipped", "rejected"))
        made.add_row(Text(counted(len(rest), "more part"), style="dim"), *map(number, sums))
    rows = plan.rows
    made.add_row(
        "all", number(rows.read), number(rows.mapped), number(rows.skipped), number(rows.rejected), style="bold"
    )
    console.print(made)


def _codes(console: Console, title: str, counts: Mapping[str, int], plan: Plan) -> None:
    if not counts:
        return
    made = table(title, "#count", "what it means", "example")
    for code, count in counts.items():
        example = plan.examples.get(code)
        place = Text("")
        if example is not None:
            place = text(f"{example.part}, row {example.row:,}: {example.detail}", 240)
        made.add_row(text(code, 80), number(count), Text(meaning(code), style="dim"), place)
    console.print(made)


def _gates(console: Console, gates: Sequence[Gate]) -> None:
    for gate in gates:
        console.print(
            Text.assemble(
                (f"{gate.level.upper()} {printable(gate.name, 80)}: ", _LEVELS.get(gate.level, "")),
                printable(gate.detail, 1_000),
            )
        )
        if advice(gate.name):
            console.print(Text(f"  What to do: {advice(gate.name)}.", style="dim"))


def show_apply(console: Console, result: ApplyResult) -> None:
    """One run of apply or of a rehearsal."""
    heading(console, "Dry run" if result.dry_run else "Run", f"{result.seconds:.1f} s")
    _sent(console, result.events, result.batches, result.phases)
    held = sum(result.phases[name].unsent for name in result.held)
    if result.balanced:
        console.print(Text("Balanced: every planned event is accounted for.", style="bold green"))
    elif held and held == result.events.unsent and not result.events.in_doubt:
        what = f"Held by --phases: {', '.join(result.held)}, {counted(held, 'event')} unsent."
        console.print(Text(f"{what} Run again without --phases to send the rest.", style="bold yellow"))
    else:
        what = f"Not finished: {counted(result.events.in_doubt, 'event')} in doubt, {result.events.unsent:,} unsent."
        console.print(Text(f"{what} Run the same command again to resume.", style="bold yellow"))


def show_status(console: Console, result: StatusResult) -> None:
    """Where a plan stands."""
    console.print(Text(f"State: {result.state}", style=_STATES.get(result.state, "bold")))
    _sent(console, result.events, result.batches, result.phases)
    if result.doubts:
        made = table("in doubt", "#events", "#tries", "since", "last answer")
        for doubt in result.doubts[:MOST_DOUBTS]:
            place = f"{doubt.phase}, block {doubt.block}, events {doubt.first} to {doubt.last}"
            made.add_row(
                text(place, 80), number(doubt.events), number(doubt.tries), text(doubt.begun, 30),
                _answer(doubt.status, doubt.detail),
            )  # fmt: skip
        console.print(made)
    if result.events.in_doubt:
        if result.state == "running":
            what = "in flight or in doubt: the run settles them, or the next one does."
        else:
            what = "in doubt: apply sends them again with the same uuids."
        in_doubt = result.events.in_doubt
        console.print(Text(f"{counted(in_doubt, 'event')} {are(in_doubt)} {what}"))
    if result.refusals:
        made = table("refused event", "answer")
        for refusal in result.refusals[:MOST_DOUBTS]:
            made.add_row(text(refusal.uuid, 40), _answer(refusal.status, refusal.detail))
        console.print(made)
    if result.failures:
        made = table("requests that settled nothing", "#count", "last")
        for failure in result.failures:
            made.add_row(_answer(failure.status, failure.detail), number(failure.tries), text(failure.last, 30))
        console.print(made)
    if max(len(result.doubts), len(result.refusals)) > MOST_DOUBTS:
        console.print(Text("More of them: --json, or tables batches and refused_events of ledger.sqlite", style="dim"))


def _answer(status: int | None, detail: str) -> Text:
    return text(f"{'no answer' if status is None else status} {detail}".strip(), 120)


def _sent(console: Console, events: SentCounts, batches: BatchCounts, phases: Mapping[str, SentCounts]) -> None:
    """The counts, with a column for each phase that has any where there are several."""
    some = {name: one for name, one in phases.items() if one.made or one.unsent}
    columns = [events, *(some.values() if len(some) > 1 else [])]
    made = table("events", "#count", *(f"#{name}" for name in list(some)[: len(columns) - 1]))
    for name in ("made", "accepted", "already_settled", "refused", "in_doubt", "unsent"):
        count = getattr(events, name)
        style = "red" if count and name == "refused" else "yellow" if count and name == "in_doubt" else ""
        made.add_row(name.replace("_", " "), *(number(getattr(one, name)) for one in columns), style=style)
    console.print(made)
    console.print(
        Text(
            f"{counted(batches.made, 'batch')} made, {batches.sent:,} sent,"
            f" {batches.retried:,} retried, {batches.split:,} split",
            style="dim",
        )
    )


def show_verification(console: Console, result: VerifyResult) -> None:
    """What landed against what was settled."""
    made = table("", "#cells", "#events")
    found = result.events
    rows = (
        ("expected", None, found.expected),
        ("found", None, found.found),
        ("match", result.cells.match, None),
        ("missing", result.cells.missing, found.missing),
        ("extra", result.cells.extra, found.extra),
        ("duplicated", result.cells.duplicated, found.copies),
        ("different", result.cells.different, found.different),
    )
    for name, cells, events in rows:
        bad = name in ("missing", "extra", "duplicated", "different") and bool(cells or events)
        made.add_row(
            name,
            "" if cells is None else number(cells),
            "" if events is None else number(events),
            style="red" if bad else "",
        )
    console.print(made)
    _differences(console, result.differences)
    _extras(console, result)
    if result.proved:
        console.print(Text("Proved: every event that was settled was found once.", style="bold green"))
    elif found.missing:
        console.print(
            Text(f"Not proved: {counted(found.missing, 'event')} {are(found.missing)} missing.", style="bold red")
        )
    else:
        console.print(Text("Not proved: what landed is not what was settled.", style="bold red"))


def _differences(console: Console, differences: Sequence[Difference]) -> None:
    if not differences:
        return
    made = table("difference", "uuid", "landed as (event, person, time)")
    for one in differences[:MOST_DIFFERENCES]:
        landed = "; ".join(", ".join(copy) for copy in one.landed)
        made.add_row(text(one.kind, 40), text(one.uuid, 40), text(landed, 240))
    console.print(made)
    if len(differences) > MOST_DIFFERENCES:
        console.print(Text(f"{len(differences) - MOST_DIFFERENCES:,} more; all of them: --json", style="dim"))


def _extras(console: Console, result: VerifyResult) -> None:
    """Whose the extra events may be: their names and days, and what was looked at."""
    if not result.extras:
        return
    made = table("extra events", "UTC day", "#count")
    for one in result.extras:
        made.add_row(text(one.event, 120), text(one.day, 20), number(one.count))
    console.print(made)
    if result.scope:
        marks = " and ".join(f"{name} {value!r}" for name, value in result.scope.items())
        told = f"They carry the mark of this import, {marks}: another plan of the same tool can have sent them."
    else:
        told = "All of the project was looked at, also what others sent to it."
    console.print(text(told, 400))


def show_rejects(console: Console, rejects: Iterable[Reject], *, most: int = MOST_REJECTS) -> int:
    """Rows that cannot be sent, as they stand in the export, and a line on those beyond `most`. Gives their number."""
    made = table("code", "place", "why", "row")
    count = 0
    iterator = iter(rejects)
    for reject in islice(iterator, most):
        count += 1
        place = text(f"{reject.part}, row {reject.row:,}, byte {reject.offset:,}", 240)
        made.add_row(text(reject.code, 80), place, text(reject.detail, 240), text(reject.record, 200))
    if count:
        console.print(made)
    more = sum(1 for _ in iterator)
    if more:
        console.print(Text(f"{counted(more, 'more row')}; all of them in full: --format jsonl", style="dim"))
    if not count:
        console.print(Text("No row was rejected."))
    return count + more
