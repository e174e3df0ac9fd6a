"""The results of plan, rehearse, apply, verify and status on a terminal.

Each ends with the state of the plan, what was found in order of importance, where the report is and the next command in
full, in at most `MOST_LINES` lines: the report has everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pipeline.plan.in_bucket import file_here
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.records import named
from pipeline.report.registry import Brief, terminal_sections
from pipeline.report.registry import Show as Section
from pipeline.report.rejects import RefusalCause
from pipeline.report.results import ApplyResult, BatchCounts, CanaryResult, SentCounts, StatusResult
from pipeline.report.state import NextStep, PlanStatus, plan_again, step_after
from pipeline.report.terminal.tables import show_table, text
from pipeline.report.terminal.verification_view import show_verification
from pipeline.report.verification_words import canary_sentences, listed
from pipeline.report.wording import mapping_of, mood_of, state_in_words, to_check, zone_proof
from pipeline.text import are, pluralize, printable
from pipeline.verify.findings import Verification

MOST_LINES = 40
"""Lines of a result, on the width of the terminal."""
MOST_CAUSES = 5
COMMAND_CHARACTERS = 4_000
_STYLES = {"stop": "bold red", "care": "bold yellow", "plain": "bold", "good": "bold green"}

Show = Callable[[Console], None]


def show_plan(console: Console, plan: Plan, status: PlanStatus, directory: str, made: Sequence[str] = ()) -> None:
    """A plan: its counted sentence, what was found, and what to do next. `directory` is for the commands; `made` are
    the words of the command that made the plan, if it was this one."""

    def found(console: Console) -> None:
        console.print(Text(plan.sentence, style="bold"))
        span = f", {plan.first} to {plan.last}" if plan.first else ""
        target = f", for {printable(plan.target, 300)}" if plan.target else ""
        console.print(text(f"{mapping_of(plan)}{target}{span}, times in {plan.zone}, {zone_proof(plan)}", 600))
        _marks(console, plan)

    def section(show: Section) -> Show:
        return lambda console: show(console, plan, directory)

    sections = [(section(show), brief) for show, brief in terminal_sections()]
    _framed(console, plan, status, directory, found, sections, plan_again(plan, made))


def show_results(
    console: Console,
    plan: Plan,
    status: PlanStatus,
    directory: str,
    *,
    applied: ApplyResult | None = None,
    verified: Verification | None = None,
    refusals: Sequence[RefusalCause] = (),
    project: str | None = None,
) -> None:
    """The results of a command. `refusals` are those of its run; `project` is the target's, if it is known."""

    def found(console: Console) -> None:
        if applied is not None:
            show_apply(console, applied)
        if applied is not None and isinstance(applied.canary, CanaryResult):
            for line in canary_sentences(applied.canary):
                console.print(text(line, 2_000))
            show_verification(console, applied.canary.verification, directory)
        if verified is not None:
            show_verification(console, verified, directory)
        show_refusals(console, refusals)

    to = applied.to if applied is not None and applied.dry_run else ""
    _framed(console, plan, status, directory, found, to=to, project=project)


def _framed(
    console: Console, plan: Plan, status: PlanStatus, directory: str, found: Show,
    sections: Sequence[tuple[Show, Brief | None]] = (), again: NextStep | None = None, **known: str | None,
) -> None:  # fmt: skip
    """The state, what was found, the report and the next step, in at most MOST_LINES lines.

    What was found gives way, from its end: it is in order of weight. A section that has a brief form takes that first.
    """
    state, step = state_line(plan, status, known.get("to") or ""), again or step_after(plan, status, directory, **known)
    report = Text(f"Report: {printable(file_here(directory, 'report.html'), COMMAND_CHARACTERS)}")
    room = MOST_LINES - _height(console, state, report, Text(f"Next: {step.sentence}"), Text(f"  {step.command}"))
    console.print(state)
    blocks = [_lines(console, show) for show in (found, *(show for show, _ in sections))]
    for place, (_, brief) in reversed([*enumerate(sections, 1)]):
        if sum(map(len, blocks)) > room and brief is not None and (words := brief(plan)):
            shorter = [line.plain for line in Text(words).wrap(console, console.width)]
            blocks[place] = min(blocks[place], shorter, key=len)
    lines = [line for block in blocks for line in block]
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1:,} more lines: see the report"]
    console.file.write("".join(f"{line.rstrip()}\n" for line in lines))
    console.print(report, soft_wrap=True)
    show_step(console, step)


def _lines(console: Console, show: Show) -> list[str]:
    """What `show` prints, line by line."""
    with console.capture() as captured:
        show(console)
    return captured.get().splitlines()


def show_step(console: Console, step: NextStep) -> None:
    """What to do next. The command is one line, so that it can be copied."""
    console.print(Text(f"Next: {step.sentence}"))
    if step.command:
        console.print(Text(f"  {printable(step.command, COMMAND_CHARACTERS)}", style="bold"), soft_wrap=True)


def _height(console: Console, *lines: Text) -> int:
    """How many lines these texts take."""
    return sum(max(len(line.wrap(console, console.width)), -(-cell_len(line.plain) // console.width)) for line in lines)


def state_line(plan: Plan, status: PlanStatus, to: str = "") -> Text:
    """The state of a plan; green only if nothing is lost, refused or open. `to` is the address to send to, if known."""
    results, totals = status.results, status.totals
    refused = results.rehearsal.events.refused if results.rehearsal is not None else 0
    begun = status.summary.history
    checks = len(to_check(plan, to, begun=begun is not None))
    words = state_in_words(status.state, totals.refused, checks, begun.to if begun is not None else "")
    return Text(f"State: {words}", style=_STYLES[mood_of(plan, status.state, refused, checks)])


def show_apply(console: Console, result: ApplyResult) -> None:
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
    """Why a run did not send everything; "" if it did."""
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
    """The counts `names` (field: heading) of each phase that has events, if there are several such phases."""
    used = {name: counts for name, counts in phases.items() if counts.made or counts.unsent}
    if len(used) < 2:
        return
    always = ("accepted", "would_send", "refused")
    fields = [name for name in names if name in always or getattr(events, name)]
    columns = {"phase": 80} | {f"#{names[name]}": 0 for name in fields}
    show_table(console, columns, [
        (phase, *(getattr(counts, name) for name in fields)) for phase, counts in used.items()
    ])  # fmt: skip


def show_status(
    console: Console, plan: Plan, status: PlanStatus, result: StatusResult, directory: str,
    refusals: Sequence[RefusalCause] = (),
) -> None:  # fmt: skip
    def found(console: Console) -> None:
        _history(console, plan, result)
        _marks(console, plan)
        if status.discarded:
            console.print(Text(f"Its events were discarded at {status.discarded}."))
        if status.paused:
            console.print(text(f"Hog functions that are off for this plan: {named(status.paused)}.", 2_000))
        if result.course is not None:
            _requests(console, result.batches)
            _warnings(console, result.warnings)
        _phases(console, result.events, result.phases, _SENT)
        _doubts(console, result)
        show_refusals(console, refusals)
        show_table(console, {"#failed requests": 0, "answer": 120, "last": 30}, [
            (one.tries, _answer(one.status, one.detail), one.last) for one in result.failures[:MOST_CAUSES]
        ])  # fmt: skip

    _framed(console, plan, status, directory, found)


def _marks(console: Console, plan: Plan) -> None:
    if plan.marked:
        console.print(Text(f"Every event carries {plan.marked}."))


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
    show_table(console, {"in doubt": 80, "#events": 0, "#tries": 0, "since": 30, "last answer": 120}, [
        (
            f"{one.phase}, request {one.request}, events {one.first} to {one.last}", one.events, one.tries, one.begun,
            _answer(one.status, one.detail),
        )
        for one in result.doubts[:MOST_CAUSES]
    ])  # fmt: skip
    if in_doubt := result.events.in_doubt:
        if result.state == "sending":
            consequence = "in flight or in doubt: this run settles them, or the next one does."
        else:
            consequence = "in doubt: apply sends them again with the same uuids."
        console.print(Text(f"{pluralize(in_doubt, 'event')} {are(in_doubt)} {consequence}"))


def _answer(status: int | None, detail: str) -> str:
    return f"{'' if status is None else status} {detail}".strip() or "no answer"


def show_refusals(console: Console, causes: Sequence[RefusalCause]) -> None:
    """Why events were refused: each cause with its number of events and the place of the first."""
    rows = [(cause.events, cause.cause, cause.place) for cause in causes[:MOST_CAUSES]]
    show_table(console, {"#refused": 0, "cause": 160, "first one": 160}, rows)
    if len(causes) > MOST_CAUSES:
        console.print(Text(f"and {pluralize(len(causes) - MOST_CAUSES, 'more cause')}", style="dim"))
