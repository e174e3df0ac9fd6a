"""The results of plan, rehearse, apply, verify and status on a terminal.

Each ends with the state of the plan, what was found in order of weight, where the report lies and the next command in
full, in at most `MOST_LINES` lines: the report has everything. Text of an export goes through `text`, never through
rich's markup: a name such as `[red]` stays a name, and an escape sequence is shown, not obeyed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pipeline.plan.in_bucket import file_here
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.canary import sentences
from pipeline.report.next_step import NextStep, step_after
from pipeline.report.paused import named
from pipeline.report.registry import terminal_sections
from pipeline.report.rejects import RefusalCause, group_refusals
from pipeline.report.results import ApplyResult, BatchCounts, CanaryResult, SentCounts, StatusResult, VerifyResult
from pipeline.report.state import PlanStatus
from pipeline.report.terminal.tables import number, table, text
from pipeline.report.terminal.verification_view import show_verification
from pipeline.report.verification_words import listed
from pipeline.report.wording import FOR_ANY, NO_TARGET, has_target, mapping_of, state_in_words, zone_proof
from pipeline.text import are, pluralize, printable

MOST_LINES = 40
"""Lines of a result, on the width of the terminal."""
MOST_CAUSES = 5
COMMAND_CHARACTERS = 4_000
_STATES = {
    "not-ready": "bold red",
    "differs": "bold red",
    "sending": "bold yellow",
    "stopped": "bold yellow",
    "sent-with-refusals": "bold yellow",
    "sent": "bold",
}
"""Every other state is green, where nothing was rejected and no check found anything."""

Show = Callable[[Console], None]


def show_plan(console: Console, plan: Plan, status: PlanStatus, directory: str) -> None:
    """A plan: its counted sentence, what was found, and what to do next. `directory` is for the commands."""

    def found(console: Console) -> None:
        console.print(Text(plan.sentence, style="bold"))
        span = f", {plan.first} to {plan.last}" if plan.first else ""
        target = f", for {printable(plan.target, 300)}" if plan.target else ""
        console.print(text(f"{mapping_of(plan)}{target}{span}, times in {plan.zone}, {zone_proof(plan)}", 600))
        if not has_target(plan):
            console.print(Text(f"{NO_TARGET[0].upper()}{NO_TARGET[1:]}: {FOR_ANY}", style="yellow"))
        for show_section in terminal_sections():
            show_section(console, plan, directory)

    _framed(console, plan, status, directory, found)


def show_results(
    console: Console,
    plan: Plan,
    status: PlanStatus,
    directory: str,
    *,
    applied: ApplyResult | None = None,
    verified: VerifyResult | None = None,
    refusals: Sequence[RefusalCause] = (),
    project: str | None = None,
) -> None:
    """The results of a command. `refusals` are those of its run; `project` is the target's, where it is known."""

    def found(console: Console) -> None:
        if applied is not None:
            show_apply(console, applied)
        if applied is not None and isinstance(applied.canary, CanaryResult):
            for line in sentences(applied.canary):
                console.print(text(line, 2_000))
            show_verification(console, applied.canary.verification, directory)
        if verified is not None:
            show_verification(console, verified, directory)
        show_refusals(console, refusals)

    to = applied.to if applied is not None and applied.dry_run else ""
    _framed(console, plan, status, directory, found, to=to, project=project)


def _framed(console: Console, plan: Plan, status: PlanStatus, directory: str, found: Show, **known: str | None) -> None:
    """The state, what was found, the report and the next step, in at most MOST_LINES lines.

    What was found gives way, from its end: it is in order of weight.
    """
    state, step = state_line(plan, status), step_after(plan, status, directory, **known)
    report = Text(f"Report: {printable(file_here(directory, 'report.html'), COMMAND_CHARACTERS)}")
    room = MOST_LINES - _height(console, state, report, Text(f"Next: {step.sentence}"), Text(f"  {step.command}"))
    console.print(state)
    with console.capture() as captured:
        found(console)
    lines = captured.get().removesuffix("\n").split("\n")
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1:,} more lines: see the report"]
    console.file.write("".join(f"{line.rstrip()}\n" for line in lines))
    console.print(report, soft_wrap=True)
    show_step(console, step)


def show_step(console: Console, step: NextStep) -> None:
    """What to do next. The command is one line, so that it can be copied."""
    console.print(Text(f"Next: {step.sentence}"))
    if step.command:
        console.print(Text(f"  {printable(step.command, COMMAND_CHARACTERS)}", style="bold"), soft_wrap=True)


def _height(console: Console, *lines: Text) -> int:
    """How many lines these texts take."""
    return sum(max(len(line.wrap(console, console.width)), -(-cell_len(line.plain) // console.width)) for line in lines)


def state_line(plan: Plan, status: PlanStatus) -> Text:
    """The state of a plan; green only where nothing is lost, refused or open."""
    results, totals = status.results, status.totals
    refused = results.rehearsal.events.refused if results.rehearsal is not None else 0
    style = _STATES.get(status.state, "bold green")
    open_ = status.state in ("ready", "rehearsed") and (plan.gates or refused)
    if style == "bold green" and (open_ or plan.rejects or plan.rows.rejected):
        style = "bold yellow"
    words = state_in_words(status.state, totals.refused, len(plan.gates), _sent_to(status))
    return Text(f"State: {words}", style=style)


def _sent_to(status: PlanStatus) -> str:
    return status.summary.history.to if status.summary.history is not None else ""


def show_apply(console: Console, result: ApplyResult) -> None:
    """One run of apply or of a rehearsal."""
    events = result.events
    if result.dry_run:
        requests = pluralize(result.batches.made, "request")
        if events.would_send:
            console.print(Text(f"Dry run: nothing was sent. Without --dry-run: {pluralize(events.would_send, 'event')}"
                               f" in {requests}."))  # fmt: skip
        else:
            console.print(Text("Dry run: nothing is left to send."))
        names = {"would_send": "would send", "already_settled": "already sent", "refused": "refused before"}
        _phases(console, events, result.phases, names | {"unsent": "not built"})
        return
    counts = {"sent": events.accepted, "refused": events.refused}
    others = {"sent before": events.already_settled, "in doubt": events.in_doubt, "not sent": events.unsent}
    words = [f"{count:,} {name}" for name, count in (counts | {n: c for n, c in others.items() if c}).items()]
    where = f" to {result.to}" if result.to else " to the local service"
    console.print(text(f"Events{where}: {', '.join(words)}.", 600))
    _requests(console, result.batches, result.seconds)
    _warnings(console, result.warnings)
    _phases(console, events, result.phases, _SENT)
    if reason := _unfinished(result):
        console.print(Text(reason))


_SENT = {
    "accepted": "sent", "refused": "refused", "already_settled": "sent before", "in_doubt": "in doubt",
    "unsent": "not sent",
}  # fmt: skip
"""The counts of a run and what they are called."""


def _unfinished(result: ApplyResult) -> str:
    """Why a run did not send everything; "" where it did."""
    events = result.events
    omitted = sum(result.phases[name].unsent for name in result.held)
    if result.balanced:
        return ""
    if isinstance(result.canary, CanaryResult):
        return f"Sent before the rest: a canary. {pluralize(events.unsent, 'event')} not sent yet."
    if omitted and omitted == events.unsent and not events.in_doubt:
        phases = f"{', '.join(result.held)}, {pluralize(omitted, 'event')}"
        return f"Left out by --phases: {phases}. Run again without --phases to send them."
    return f"Not finished: {pluralize(events.in_doubt, 'event')} in doubt, {events.unsent:,} not sent."


def _requests(console: Console, batches: BatchCounts, seconds: float | None = None) -> None:
    if batches.made:
        took = "" if seconds is None else f", in {seconds:,.1f} s"
        line = f"{pluralize(batches.sent, 'request')}, {batches.retried:,} retried, {batches.split:,} split{took}"
        console.print(Text(line, style="dim"))


def _warnings(console: Console, warnings: Mapping[str, int]) -> None:
    """The events that the service accepted with a warning, by its reason."""
    if warnings:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in warnings.items())
        console.print(text(f"Accepted with a warning of the service: {reasons}.", 400))


def _phases(console: Console, events: SentCounts, phases: Mapping[str, SentCounts], names: Mapping[str, str]) -> None:
    """The counts `names` (field: heading) of each phase that has events, where there are several such phases."""
    used = {name: counts for name, counts in phases.items() if counts.made or counts.unsent}
    if len(used) < 2:
        return
    always = ("accepted", "would_send", "refused")
    fields = [name for name in names if name in always or getattr(events, name)]
    shown = table("phase", *(f"#{names[name]}" for name in fields))
    for phase, counts in used.items():
        shown.add_row(phase, *(number(getattr(counts, name)) for name in fields))
    console.print(shown)


def show_status(console: Console, plan: Plan, status: PlanStatus, result: StatusResult, directory: str) -> None:
    """The state of a plan, what was sent, and what is in doubt or was refused."""

    def found(console: Console) -> None:
        _history(console, plan, result)
        if status.paused:
            console.print(text(f"Hog functions that are off for this plan: {named(status.paused)}.", 2_000))
        if result.course is not None:
            _requests(console, result.batches)
            _warnings(console, result.warnings)
        _phases(console, result.events, result.phases, _SENT)
        _doubts(console, result)
        groups = group_refusals(result.refusals)
        show_refusals(
            console, [RefusalCause(f"{one.status} {one.detail}", count, f"uuid {one.uuid}") for one, count in groups]
        )
        if result.failures:
            shown = table("#failed requests", "answer", "last")
            for failure in result.failures[:MOST_CAUSES]:
                shown.add_row(number(failure.tries), _answer(failure.status, failure.detail), text(failure.last, 30))
            console.print(shown)

    _framed(console, plan, status, directory, found)


def _history(console: Console, plan: Plan, result: StatusResult) -> None:
    """Where and when the plan was sent, rehearsed and verified."""
    events = result.events
    planned = events.made + events.unsent
    if (history := result.course) is not None:
        until = f", the last one ended {history.ended}" if history.ended else ""
        runs = pluralize(history.runs, "run")
        console.print(text(f"Applied to {history.to}: {runs}, the first started {history.began}{until}.", 400))
        counts = f"{events.accepted:,} of {pluralize(planned, 'event')} sent, {events.refused:,} refused"
        console.print(Text(f"{counts}, {events.in_doubt:,} in doubt, {events.unsent:,} not sent."))
    else:
        console.print(Text(f"{plan.to_send} to send; nothing was sent yet."))
    checked = (
        (result.rehearsed, "Rehearsed"), (result.canary, "Canary sent to"), (result.verified, "Verified against"),
    )  # fmt: skip
    for verified, action in checked:
        if verified is not None:
            counts = f"{verified.found:,} of {pluralize(verified.expected, 'event')} found"
            verdict = "every one once" if verified.proved else "with differences"
            verdict += f": {listed(verified.differences)}" if verified.differences else ""
            if verified is result.verified and verified.expected < events.accepted:
                verdict += ", before the last run: not compared since"
            target = f" {verified.to}" if verified.to else ""
            console.print(text(f"{action}{target} at {verified.at}: {counts}, {verdict}.", 400))
    if result.verified is None and events.accepted:
        console.print(Text("Not verified yet."))


def _doubts(console: Console, result: StatusResult) -> None:
    """What is in doubt, and what becomes of it."""
    if result.doubts:
        shown = table("in doubt", "#events", "#tries", "since", "last answer")
        for doubt in result.doubts[:MOST_CAUSES]:
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


def _answer(status: int | None, detail: str) -> Text:
    return text(f"{'' if status is None else status} {detail}".strip() or "no answer", 120)


def show_refusals(console: Console, causes: Sequence[RefusalCause]) -> None:
    """Why events were refused: each cause with its number of events and the place of the first."""
    if not causes:
        return
    shown = table("#refused", "cause", "first one")
    for cause in causes[:MOST_CAUSES]:
        shown.add_row(number(cause.events), text(cause.cause, 160), text(cause.place, 160))
    console.print(shown)
    if len(causes) > MOST_CAUSES:
        console.print(Text(f"and {pluralize(len(causes) - MOST_CAUSES, 'more cause')}", style="dim"))
