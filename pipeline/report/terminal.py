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
from pipeline.report.state import PlanStatus
from pipeline.report.tables import heading, number, table, text
from pipeline.report.wording import COLLAPSE, VERDICTS, mapping_of, state_in_words
from pipeline.text import are, pluralize, were
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


def show_plan(console: Console, plan: Plan, *, directory: str) -> None:
    """A plan: its sections, then the verdict, and its sentence last.

    `directory` is the plan's, for the commands that the text names.
    """
    target = f", for {plan.target}" if plan.target else ""
    heading(console, "Plan", f"{mapping_of(plan)}, times in {plan.zone}{target}")
    if plan.first:
        console.print(Text(f"{plan.first} to {plan.last}"))
    for show_section in terminal_sections():
        show_section(console, plan, directory)
    console.print(Text(VERDICTS.get(plan.verdict, plan.verdict), style=_VERDICTS.get(plan.verdict, "")))
    console.print(Text(plan.sentence, style="bold"))


def show_state(console: Console, state: str, refused: int) -> None:
    """The state of a plan in one line; `refused` is the number of refused events."""
    console.print(Text(f"State: {state_in_words(state, refused)}", style=_STATES.get(state, "bold green")))


def show_results(
    console: Console, status: PlanStatus, *, applied: ApplyResult | None = None, verified: VerifyResult | None = None
) -> None:
    """The results of a command, and the state of the plan after it."""
    if applied is not None:
        show_apply(console, applied)
    if verified is not None:
        show_verification(console, verified)
    show_state(console, status.state, status.totals.refused)


def show_apply(console: Console, result: ApplyResult) -> None:
    """One run of apply or of a rehearsal."""
    heading(console, "Dry run" if result.dry_run else "Run", f"{result.seconds:.1f} s")
    if result.dry_run:
        rows = {"would_send": "would send", "already_settled": "already settled", "refused": "refused before"}
        _counts(console, result.events, result.phases, rows | {"unsent": "not packed"})
        console.print(Text(f"{pluralize(result.batches.made, 'batch')} packed, 0 sent", style="dim"))
    else:
        _sent(console, result.events, result.batches, result.phases)
    finished = result.balanced and not (result.events.refused and not result.dry_run)
    console.print(Text(_conclusion(result), style="bold green" if finished else "bold yellow"))


def _conclusion(result: ApplyResult) -> str:
    """Whether a run sent everything, and what to do where it did not."""
    events = result.events
    omitted = sum(result.phases[name].unsent for name in result.held)
    if result.balanced and result.dry_run:
        if not events.would_send:
            return "Nothing is left to send."
        packed = f"{pluralize(events.would_send, 'event')} in {pluralize(result.batches.made, 'batch')}"
        return f"Nothing was sent. The same command without --dry-run would send {packed}."
    if result.balanced and events.refused:
        refused = f"{pluralize(events.refused, 'event')} {were(events.refused)} refused and did not land"
        return f"Every planned event is accounted for, but {refused}."
    if result.balanced:
        return "Balanced: every planned event is accounted for."
    if omitted and omitted == events.unsent and not events.in_doubt:
        phases = f"{', '.join(result.held)}, {pluralize(omitted, 'event')} unsent"
        return f"Left out by --phases: {phases}. Run again without --phases to send them."
    counts = f"{pluralize(events.in_doubt, 'event')} in doubt, {events.unsent:,} unsent"
    return f"Not finished: {counts}. Run the same command again to resume."


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
    sent = f"{batches.sent:,} sent, {batches.retried:,} retried, {batches.split:,} split"
    console.print(Text(f"{pluralize(batches.made, 'batch')} made, {sent}", style="dim"))


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
        cell_count, event_count = ("" if count is None else number(count) for count in (cells, events))
        shown.add_row(name, cell_count, event_count, style="red" if bad else "")
    console.print(shown)
    _differences(console, result.differences)
    _extras(console, result)
    if counts.copies:
        copies = f"{pluralize(counts.copies, 'more copy')} {were(counts.copies)} accepted"
        console.print(Text(f"{copies}, {COLLAPSE}."))
    verdict = "Not proved: the service has other events than were settled."
    if result.proved:
        verdict = "Proved: every event that was settled was found once."
    elif counts.missing:
        verdict = f"Not proved: {pluralize(counts.missing, 'event')} {are(counts.missing)} missing."
    console.print(Text(verdict, style="bold green" if result.proved else "bold red"))


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
        row = f", row {reject.row:,}{item}, byte {reject.offset:,}" if reject.row else ""
        shown.add_row(
            text(reject.code, 80), text(reject.part + row, 240), text(reject.detail, 240), text(reject.record, 200)
        )
    if count:
        console.print(shown)
    more = sum(1 for _ in iterator)
    if more:
        console.print(Text(f"{pluralize(more, 'more row')}; all of them in full: --format jsonl", style="dim"))
    if not count:
        console.print(Text("No row was rejected, and no event was refused."))
    return count + more
