"""Results on a terminal, as rich tables on the Console of the command.

Text of an export goes through `text`, never through rich's markup: a name such as `[red]` stays a name, and an
escape sequence is shown, not obeyed. Tables fold on a narrow terminal and lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from rich.console import Console
from rich.text import Text

from pipeline.models import Reject
from pipeline.plan.manifest import Plan
from pipeline.report.registry import terminal_sections
from pipeline.report.results import ApplyResult, BatchCounts, SentCounts, StatusResult, VerifyResult
from pipeline.report.tables import heading, number, table, text
from pipeline.report.wording import COLLAPSE, VERDICTS, mapping_of, state_in_words
from pipeline.text import are, pluralize
from pipeline.verify.reconcile import Difference

MOST_REJECTS = 50
MOST_DIFFERENCES = 20
MOST_DOUBTS = 10
_VERDICTS = {"ready": "bold green", "warnings": "bold yellow", "not-ready": "bold red"}
_STATES = {
    "not-ready": "bold red",
    "differs": "bold red",
    "sending": "bold yellow",
    "stopped": "bold yellow",
    "sent-with-refusals": "bold yellow",
}


def show_plan(console: Console, plan: Plan, *, directory: str = "") -> None:
    """A plan: its sections, then the verdict, and its sentence last.

    `directory` is the plan's, for the commands that the text names.
    """
    target = f", for {plan.target}" if plan.target else ""
    heading(console, "Plan", f"{mapping_of(plan)}, times in {plan.zone}{target}")
    if plan.first:
        console.print(Text(f"{plan.first} to {plan.last}"))
    for section in terminal_sections():
        section.show(console, plan, directory)
    console.print(Text(VERDICTS.get(plan.verdict, plan.verdict), style=_VERDICTS.get(plan.verdict, "")))
    console.print(Text(plan.sentence, style="bold"))


def show_state(console: Console, state: str, refused: int) -> None:
    """The state of a plan in one line; `refused` is the number of refused events."""
    console.print(Text(f"State: {state_in_words(state, refused)}", style=_STATES.get(state, "bold green")))


def show_apply(console: Console, result: ApplyResult) -> None:
    """One run of apply or of a rehearsal."""
    heading(console, "Dry run" if result.dry_run else "Run", f"{result.seconds:.1f} s")
    if result.dry_run:
        _would_send(console, result)
    else:
        _sent(console, result.events, result.batches, result.phases)
    omitted = sum(result.phases[name].unsent for name in result.held)
    if result.balanced and result.dry_run:
        events = result.events.would_send
        detail = (
            f"would send {pluralize(events, 'event')} in {pluralize(result.batches.made, 'batch')}" if events else ""
        )
        sentence = f"The same command without --dry-run {detail}." if events else "Nothing is left to send."
        console.print(Text(f"Nothing was sent. {sentence}" if events else sentence, style="bold green"))
    elif result.balanced and result.events.refused:
        refused = result.events.refused
        detail = f"{pluralize(refused, 'event')} {'was' if refused == 1 else 'were'} refused and did not land"
        console.print(Text(f"Every planned event is accounted for, but {detail}.", style="bold yellow"))
    elif result.balanced:
        console.print(Text("Balanced: every planned event is accounted for.", style="bold green"))
    elif omitted and omitted == result.events.unsent and not result.events.in_doubt:
        detail = f"Left out by --phases: {', '.join(result.held)}, {pluralize(omitted, 'event')} unsent."
        console.print(Text(f"{detail} Run again without --phases to send them.", style="bold yellow"))
    else:
        detail = (
            f"Not finished: {pluralize(result.events.in_doubt, 'event')} in doubt, {result.events.unsent:,} unsent."
        )
        console.print(Text(f"{detail} Run the same command again to resume.", style="bold yellow"))


def show_status(console: Console, result: StatusResult) -> None:
    """The state of a plan, what was sent, and what is in doubt or was refused."""
    show_state(console, result.state, result.events.refused)
    if (history := result.course) is not None:
        until = f", the last one ended {history.ended}" if history.ended else ""
        runs = pluralize(history.runs, "run")
        console.print(text(f"Applied to {history.to}: {runs}, the first started {history.began}{until}", 400))
    for verified, action in ((result.rehearsed, "Rehearsed"), (result.verified, "Verified against")):
        if verified is not None:
            verdict = "proved" if verified.proved else "not proved"
            counts = f"{verified.found:,} of {pluralize(verified.expected, 'event')} found"
            target = f" {verified.to}" if verified.to else ""
            console.print(text(f"{action}{target} at {verified.at}: {verdict}, {counts}", 400))
    if result.verified is None and result.events.accepted:
        console.print(Text("Not verified yet: backcast verify", style="dim"))
    _sent(console, result.events, result.batches, result.phases)
    if result.doubts:
        shown = table("in doubt", "#events", "#tries", "since", "last answer")
        for doubt in result.doubts[:MOST_DOUBTS]:
            location = f"{doubt.phase}, block {doubt.block}, events {doubt.first} to {doubt.last}"
            shown.add_row(
                text(location, 80), number(doubt.events), number(doubt.tries), text(doubt.begun, 30),
                _answer(doubt.status, doubt.detail),
            )  # fmt: skip
        console.print(shown)
    if in_doubt := result.events.in_doubt:
        if result.state == "sending":
            consequence = "in flight or in doubt: this run settles them, or the next one does."
        else:
            consequence = "in doubt: apply sends them again with the same uuids."
        console.print(Text(f"{pluralize(in_doubt, 'event')} {are(in_doubt)} {consequence}"))
    if result.refusals:
        shown = table("refused event", "answer")
        for refusal in result.refusals[:MOST_DOUBTS]:
            shown.add_row(text(refusal.uuid, 40), _answer(refusal.status, refusal.detail))
        console.print(shown)
    if result.failures:
        shown = table("failed requests", "#count", "last")
        for failure in result.failures:
            shown.add_row(_answer(failure.status, failure.detail), number(failure.tries), text(failure.last, 30))
        console.print(shown)
    if max(len(result.doubts), len(result.refusals)) > MOST_DOUBTS:
        more = "More of them: --json, or the table batches of ledger.sqlite; refused events: backcast rejects"
        console.print(Text(more, style="dim"))


def _answer(status: int | None, detail: str) -> Text:
    return text(f"{'' if status is None else status} {detail}".strip() or "no answer", 120)


def _would_send(console: Console, result: ApplyResult) -> None:
    """What a dry run packed, and what apply would not send."""
    rows = {"would_send": "would send", "already_settled": "already settled", "refused": "refused before"}
    _counts(console, result.events, result.phases, rows | {"unsent": "not packed"})
    console.print(Text(f"{pluralize(result.batches.made, 'batch')} packed, 0 sent", style="dim"))


def _counts(console: Console, events: SentCounts, phases: Mapping[str, SentCounts], rows: Mapping[str, str]) -> None:
    """The counts of `rows` (field: label), with a column for each phase that has events, unless there is only one."""
    used = {name: counts for name, counts in phases.items() if counts.made or counts.unsent}
    columns = {"count": events} | (used if len(used) > 1 else {})
    shown = table("events", *(f"#{name}" for name in columns))
    for name, label in rows.items():
        count = getattr(events, name)
        style = "red" if count and name == "refused" else "yellow" if count and name == "in_doubt" else ""
        shown.add_row(label, *(number(getattr(counts, name)) for counts in columns.values()), style=style)
    console.print(shown)


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
    """What landed, compared with what was settled."""
    shown = table("", "#cells", "#events")
    counts = result.events
    rows = (
        ("expected", None, counts.expected),
        ("found", None, counts.found),
        ("match", result.cells.match, None),
        ("missing", result.cells.missing, counts.missing),
        ("extra", result.cells.extra, counts.extra - counts.duplicated),
        ("duplicated", result.cells.duplicated, counts.duplicated),
        ("different", result.cells.different, counts.different),
    )
    for name, cells, events in rows:
        bad = name in ("missing", "extra", "duplicated", "different") and bool(cells or events)
        shown.add_row(
            name,
            "" if cells is None else number(cells),
            "" if events is None else number(events),
            style="red" if bad else "",
        )
    console.print(shown)
    _differences(console, result.differences)
    _extras(console, result)
    if counts.copies:
        copies = f"{pluralize(counts.copies, 'more copy')} {'was' if counts.copies == 1 else 'were'} accepted"
        console.print(Text(f"{copies}, {COLLAPSE}."))
    if result.proved:
        console.print(Text("Proved: every event that was settled was found once.", style="bold green"))
    elif counts.missing:
        console.print(
            Text(f"Not proved: {pluralize(counts.missing, 'event')} {are(counts.missing)} missing.", style="bold red")
        )
    else:
        console.print(Text("Not proved: the service has other events than were settled.", style="bold red"))


def _differences(console: Console, differences: Sequence[Difference]) -> None:
    if not differences:
        return
    shown = table("difference", "uuid", "landed as (event, person, time)")
    for difference in differences[:MOST_DIFFERENCES]:
        landed = "; ".join(", ".join(copy) for copy in difference.landed)
        shown.add_row(text(difference.kind, 40), text(difference.uuid, 40), text(landed, 240))
    console.print(shown)
    if len(differences) > MOST_DIFFERENCES:
        console.print(Text(f"{len(differences) - MOST_DIFFERENCES:,} more; all of them: --json", style="dim"))


def _extras(console: Console, result: VerifyResult) -> None:
    """Events that are not of the plan by name and day, where they may come from, and what was compared."""
    if not result.extras:
        return
    shown = table("not of this plan", "UTC day", "#count")
    for extra in result.extras:
        shown.add_row(text(extra.event, 120), text(extra.day, 20), number(extra.count))
    console.print(shown)
    others = result.events.others
    if not others:
        console.print(Text("These events are unexpected, so they count as differences."))
        return
    sentence = f"{pluralize(others, 'event')} {are(others)} there that this plan did not send, which is no difference."
    if result.scope:
        marks = " and ".join(f"{name} {value!r}" for name, value in result.scope.items())
        sentence += (
            f" They carry the mark of this import, {marks}: another import of the same tool, or an earlier plan of the"
            " same export, whose events then are there twice. `plan --name` tells imports apart."
        )
    else:
        sentence += " The whole project was compared, with what others sent to it."
    console.print(text(sentence, 600))


def show_rejects(console: Console, rejects: Iterable[Reject], *, most: int = MOST_REJECTS) -> int:
    """Rejected rows and refused events as they are in the export, and a line on those beyond `most`.

    Returns their number.
    """
    shown = table("code", "location", "why", "row")
    count = 0
    iterator = iter(rejects)
    for reject in islice(iterator, most):
        count += 1
        item = f", item {reject.item:,}" if reject.item else ""
        location = text(
            f"{reject.part}, row {reject.row:,}{item}, byte {reject.offset:,}" if reject.row else reject.part,
            240,
        )
        shown.add_row(text(reject.code, 80), location, text(reject.detail, 240), text(reject.record, 200))
    if count:
        console.print(shown)
    more = sum(1 for _ in iterator)
    if more:
        console.print(Text(f"{pluralize(more, 'more row')}; all of them in full: --format jsonl", style="dim"))
    if not count:
        console.print(Text("No row was rejected, and no event was refused."))
    return count + more
