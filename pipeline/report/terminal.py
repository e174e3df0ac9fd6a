"""What people read on a terminal: rich tables on a Console that the command made.

Text of an export goes through `_text`, never through rich's markup: a name such as `[red]` stays a name, and an
escape sequence is shown, not obeyed. Tables fold on a narrow terminal and lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.text import Text

from pipeline.models import Finding, Reject
from pipeline.plan.directory import Directory
from pipeline.plan.manifest import Example, Plan
from pipeline.report.contents import first_rejects, phases_of
from pipeline.report.people_view import show_people
from pipeline.report.results import ApplyResult, BatchCounts, SentCounts, StatusResult, VerifyResult
from pipeline.report.tables import heading, number, show_counts, show_notices, table, text
from pipeline.report.wording import COLLAPSE, VERDICTS, advice, mapping_of, phase_meaning, state_in_words
from pipeline.text import are, pluralize, printable
from pipeline.validator.codes import meaning
from pipeline.verify.reconcile import Difference

MOST_PARTS = 20
MOST_EVENTS = 20
MOST_REJECTS = 50
MOST_DIFFERENCES = 20
MOST_DOUBTS = 10
_LEVELS = {"stop": "bold red", "warning": "yellow"}
_VERDICTS = {"ready": "bold green", "warnings": "bold yellow", "not-ready": "bold red"}
_STATES = {
    "not-ready": "bold red",
    "differs": "bold red",
    "sending": "bold yellow",
    "stopped": "bold yellow",
    "sent-with-refusals": "bold yellow",
}


def show_plan(console: Console, plan: Plan, *, directory: str = "") -> None:
    """A plan: counts, codes with one example each, gates with what to do, and its one counted line last.

    `directory` is where the plan lies, for the commands that follow.
    """
    heading(
        console, "Plan", f"{mapping_of(plan)}, times in {plan.zone}" + (f", for {plan.target}" if plan.target else "")
    )
    if plan.first:
        console.print(Text(f"{plan.first} to {plan.last}"))
    _parts(console, plan)
    phases = table("phase", "#events", "")
    for name, count in phases_of(plan).items():
        phases.add_row(name, number(count), Text(phase_meaning(name, plan), style="dim"))
    console.print(phases)
    show_counts(console, "event", "events", plan.names, MOST_EVENTS)
    show_people(console, plan, directory=directory)
    _codes(console, "Skipped", plan.skips, {})
    _codes(console, "Rejected", plan.rejects, first_rejects(Directory(Path(directory)), plan) if directory else {})
    if plan.rejects:
        console.print(Text(f"The rows: backcast rejects {directory or 'DIR'}", style="dim"))
    _codes(console, "Warnings", plan.warnings, plan.examples)
    show_notices(console, plan.notices)
    _gates(console, plan.gates)
    console.print(Text(VERDICTS.get(plan.verdict, plan.verdict), style=_VERDICTS.get(plan.verdict, "")))
    console.print(Text(plan.sentence, style="bold"))


def _parts(console: Console, plan: Plan) -> None:
    tables = any(part.table for part in plan.parts)
    made = table("part", *(["table"] if tables else []), "#rows", "#mapped", "#skipped", "#rejected")
    for part in plan.parts[:MOST_PARTS]:
        counts = map(number, (part.rows, part.mapped, part.skipped, part.rejected))
        made.add_row(text(part.path, 200), *([text(part.table, 60)] if tables else []), *counts)
    if len(plan.parts) > MOST_PARTS:
        rest = plan.parts[MOST_PARTS:]
        more = (sum(getattr(part, name) for part in rest) for name in ("rows", "mapped", "skipped", "rejected"))
        made.add_row(
            Text(pluralize(len(rest), "more part"), style="dim"), *([""] if tables else []), *map(number, more)
        )
    rows = plan.rows
    sums = map(number, (rows.read, rows.mapped, rows.skipped, rows.rejected))
    made.add_row("all", *([""] if tables else []), *sums, style="bold")
    console.print(made)


def _codes(
    console: Console, title: str, counts: Mapping[str, int], examples: Mapping[str, Example] | Mapping[str, Reject]
) -> None:
    """Codes with their counts, and the places where they first arose if any is known."""
    if not counts:
        return
    made = table(title, "#count", "what it means", *(["example"] if examples else []))
    for code, count in counts.items():
        example = examples.get(code)
        place = text(f"{example.part}, row {example.row:,}: {example.detail}", 240) if example is not None else Text("")
        made.add_row(text(code, 80), number(count), Text(meaning(code), style="dim"), *([place] if examples else []))
    console.print(made)


def _gates(console: Console, gates: Sequence[Finding]) -> None:
    for gate in gates:
        console.print(
            Text.assemble(
                (f"{gate.level.upper()} {printable(gate.name, 80)}: ", _LEVELS.get(gate.level, "")),
                printable(gate.detail, 1_000),
            )
        )
        if advice(gate.name):
            console.print(Text(f"  What to do: {advice(gate.name)}.", style="dim"))


def show_state(console: Console, state: str, refused: int) -> None:
    """The one line that says where a plan stands; `refused` is the number of refused events."""
    console.print(Text(f"State: {state_in_words(state, refused)}", style=_STATES.get(state, "bold green")))


def show_apply(console: Console, result: ApplyResult) -> None:
    """One run of apply or of a rehearsal."""
    heading(console, "Dry run" if result.dry_run else "Run", f"{result.seconds:.1f} s")
    if result.dry_run:
        _would_send(console, result)
    else:
        _sent(console, result.events, result.batches, result.phases)
    held = sum(result.phases[name].unsent for name in result.held)
    if result.balanced and result.dry_run:
        left = result.events.would_send
        what = f"would send {pluralize(left, 'event')} in {pluralize(result.batches.made, 'batch')}" if left else ""
        told = f"The same command without --dry-run {what}." if left else "Nothing is left to send."
        console.print(Text(f"Nothing was sent. {told}" if left else told, style="bold green"))
    elif result.balanced and result.events.refused:
        refused = result.events.refused
        what = f"{pluralize(refused, 'event')} {'was' if refused == 1 else 'were'} refused and did not land"
        console.print(Text(f"Every planned event is accounted for, but {what}.", style="bold yellow"))
    elif result.balanced:
        console.print(Text("Balanced: every planned event is accounted for.", style="bold green"))
    elif held and held == result.events.unsent and not result.events.in_doubt:
        what = f"Held by --phases: {', '.join(result.held)}, {pluralize(held, 'event')} unsent."
        console.print(Text(f"{what} Run again without --phases to send the rest.", style="bold yellow"))
    else:
        what = f"Not finished: {pluralize(result.events.in_doubt, 'event')} in doubt, {result.events.unsent:,} unsent."
        console.print(Text(f"{what} Run the same command again to resume.", style="bold yellow"))


def show_status(console: Console, result: StatusResult) -> None:
    """Where a plan stands."""
    show_state(console, result.state, result.events.refused)
    if result.course is not None:
        course = result.course
        until = f", the last one ended {course.ended}" if course.ended else ""
        runs = pluralize(course.runs, "run")
        console.print(text(f"Applied to {course.to}: {runs}, the first begun {course.began}{until}", 400))
    for one, what in ((result.rehearsed, "Rehearsed"), (result.verified, "Verified against")):
        if one is not None:
            said = "proved" if one.proved else "not proved"
            counts = f"{one.found:,} of {pluralize(one.expected, 'event')} found"
            console.print(text(f"{' '.join(filter(None, (what, one.to)))} at {one.at}: {said}, {counts}", 400))
    if result.verified is None and result.events.accepted:
        console.print(Text("Not verified yet: backcast verify", style="dim"))
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
        if result.state == "sending":
            what = "in flight or in doubt: the run settles them, or the next one does."
        else:
            what = "in doubt: apply sends them again with the same uuids."
        in_doubt = result.events.in_doubt
        console.print(Text(f"{pluralize(in_doubt, 'event')} {are(in_doubt)} {what}"))
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
        what = "More of them: --json, or the table batches of ledger.sqlite; refused events: backcast rejects"
        console.print(Text(what, style="dim"))


def _answer(status: int | None, detail: str) -> Text:
    return text(f"{'' if status is None else status} {detail}".strip() or "no answer", 120)


def _would_send(console: Console, result: ApplyResult) -> None:
    """What a dry run packed, and what is left alone."""
    rows = {"would_send": "would send", "already_settled": "already settled", "refused": "refused before"}
    _counts(console, result.events, result.phases, rows | {"unsent": "left alone"})
    console.print(Text(f"{pluralize(result.batches.made, 'batch')} packed, 0 sent", style="dim"))


def _counts(console: Console, events: SentCounts, phases: Mapping[str, SentCounts], rows: Mapping[str, str]) -> None:
    """The counts by name and words, with a column for each phase that has any where there are several."""
    some = {name: one for name, one in phases.items() if one.made or one.unsent}
    columns = [events, *(some.values() if len(some) > 1 else [])]
    made = table("events", "#count", *(f"#{name}" for name in list(some)[: len(columns) - 1]))
    for name, words in rows.items():
        count = getattr(events, name)
        style = "red" if count and name == "refused" else "yellow" if count and name == "in_doubt" else ""
        made.add_row(words, *(number(getattr(one, name)) for one in columns), style=style)
    console.print(made)


def _sent(console: Console, events: SentCounts, batches: BatchCounts, phases: Mapping[str, SentCounts]) -> None:
    names = ("made", "accepted", "already_settled", "refused", "in_doubt", "unsent")
    _counts(console, events, phases, {name: name.replace("_", " ") for name in names})
    console.print(
        Text(
            f"{pluralize(batches.made, 'batch')} made, {batches.sent:,} sent,"
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
        ("extra", result.cells.extra, found.extra - found.duplicated),
        ("duplicated", result.cells.duplicated, found.duplicated),
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
    if found.copies:
        what = f"{pluralize(found.copies, 'more copy')} {'was' if found.copies == 1 else 'were'} accepted"
        console.print(Text(f"{what}, {COLLAPSE}."))
    if result.proved:
        console.print(Text("Proved: every event that was settled was found once.", style="bold green"))
    elif found.missing:
        console.print(
            Text(f"Not proved: {pluralize(found.missing, 'event')} {are(found.missing)} missing.", style="bold red")
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
    """What is there and not of the plan: its names and days, whose it may be, and what was looked at."""
    if not result.extras:
        return
    made = table("not of this plan", "UTC day", "#count")
    for one in result.extras:
        made.add_row(text(one.event, 120), text(one.day, 20), number(one.count))
    console.print(made)
    others = result.events.others
    if not others:
        console.print(Text("Nobody else sends here, so they are differences."))
        return
    told = f"{pluralize(others, 'event')} {are(others)} there that this plan did not send, which is no difference."
    if result.scope:
        marks = " and ".join(f"{name} {value!r}" for name, value in result.scope.items())
        told += (
            f" They carry the mark of this import, {marks}: another import of the same tool, or an earlier plan of the"
            " same export, whose events then are there twice. `plan --name` tells imports apart."
        )
    else:
        told += " All of the project was looked at, also what others sent to it."
    console.print(text(told, 600))


def show_rejects(console: Console, rejects: Iterable[Reject], *, most: int = MOST_REJECTS) -> int:
    """Rows that cannot be sent and refused events, as they stand in the export, and a line on those beyond `most`.

    Gives their number.
    """
    made = table("code", "place", "why", "row")
    count = 0
    iterator = iter(rejects)
    for reject in islice(iterator, most):
        count += 1
        place = text(f"{reject.part}, row {reject.row:,}, byte {reject.offset:,}" if reject.row else reject.part, 240)
        made.add_row(text(reject.code, 80), place, text(reject.detail, 240), text(reject.record, 200))
    if count:
        console.print(made)
    more = sum(1 for _ in iterator)
    if more:
        console.print(Text(f"{pluralize(more, 'more row')}; all of them in full: --format jsonl", style="dim"))
    if not count:
        console.print(Text("No row was rejected, and no event was refused."))
    return count + more
