"""A scheduled backfill as lines, JSON objects and a table: the windows of a run, and the history."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from pipeline.report.records import PausedFunction, named
from pipeline.report.terminal.tables import number, table, text
from pipeline.text import pluralize, printable

if TYPE_CHECKING:
    from pipeline.jobs import Attempt, WindowState
    from pipeline.jobs.hooks import WindowRun
    from pipeline.jobs.proof import Proof
    from pipeline.jobs.run import JobRun

_COLUMNS = (
    "#window", "when", "outcome", "proof", "#sent", "#refused", "#rejected", "#files", "#rows", "#sent before",
    "#skipped", "#took",
)  # fmt: skip
_LEFT_OUT = ("#took", "#files", "when", "#skipped", "#rows", "#sent before", "proof", "#refused", "#rejected")
"""The columns that a narrow terminal does without, in this order."""
_STYLES = {
    "done": "green",
    "stopped": "bold red",
    "waiting": "yellow",
    "sending": "bold yellow",
    "replaced": "yellow",
    "differs": "bold red",
}
_PROOFS = ("proved", "pending", "differs", "unknown", "not read")
_OUTCOMES = {"sending": "unfinished", "planning": "interrupted"}


def window_line(ended: WindowRun) -> str:
    """The outcome of a window, in one line for a log."""
    line = f"{ended.window} {ended.outcome}"
    if ended.attempt is not None and ended.outcome in ("done", "planned", "unfinished"):
        line += f": {_counted(ended.attempt, ended.outcome)}"
    if ended.detail:
        line += f": {ended.detail}"
    return printable(line, 2_000)


def proof_line(proof: Proof) -> str:
    """The result of reading a window back, in one line for a log."""
    return printable(f"{proof.attempt.window} {proof.outcome}: {proof.detail}", 2_000)


def _counted(attempt: Attempt, outcome: str) -> str:
    if outcome == "planned":
        events = f"{pluralize(attempt.events, 'event')} to send"
    else:
        events = f"{pluralize(attempt.sent, 'event')} sent"
    counts = {
        _sent_before(attempt): attempt.already,
        "refused": attempt.refused,
        "merges not sent": attempt.held,
        "rows skipped": attempt.skipped - attempt.already,
        "rows rejected": attempt.rejected,
    }
    texts = [events, *(f"{count:,} {name}" for name, count in counts.items() if count > 0)]
    rows = f"{pluralize(attempt.rows, 'row')} in {pluralize(attempt.parts, 'file')}"
    return f"{', '.join(texts)}, of {rows}, {attempt.seconds:.1f} s"


def _sent_before(attempt: Attempt) -> str:
    """The words after the number of events that earlier windows sent."""
    return "sent before" + (f", {attempt.changed:,} of them with other values now" if attempt.changed else "")


def _outcome(attempt: Attempt) -> str:
    return _OUTCOMES.get(attempt.state, attempt.state)


def run_object(run: JobRun) -> dict[str, object]:
    return {
        "format": "backcast.run/1",
        "job": run.job,
        "dry_run": run.dry_run,
        "exit_code": 0 if run.problem is None else run.problem.exit_code,
        "windows": [
            {name: getattr(window, name) for name in ("window", "outcome", "plan", "state", "detail")}
            | ({} if window.attempt is None else _counts(window.attempt))
            for window in run.windows
        ],
        "proofs": [
            {
                "window": proof.attempt.window,
                "number": proof.attempt.number,
                "outcome": proof.outcome,
                "plan": str(proof.directory),
                "detail": proof.detail,
            }
            for proof in run.proofs
        ],
    }


def history_object(
    job: str, windows: Sequence[WindowState], attempts: Sequence[Attempt], off: Sequence[PausedFunction]
) -> dict[str, object]:
    """The object of `run --history --json`."""
    return {
        "format": "backcast.history/1",
        "job": job,
        "windows": [
            {"window": window.label, "state": window.state, "stopped": window.stopped, "detail": window.detail}
            for window in windows
        ],
        "attempts": [
            {"window": attempt.window, "number": attempt.number, "outcome": _outcome(attempt)}
            | {name: getattr(attempt, name) for name in ("started", "ended", "detail", "proof")}
            | _counts(attempt)
            for attempt in attempts
        ],
        "paused_functions": [{"id": one.id, "name": one.name, "changed": one.changed} for one in off],
    }


def _counts(attempt: Attempt) -> dict[str, object]:
    return {
        "parts": attempt.parts,
        "rows": {"read": attempt.rows, "skipped": attempt.skipped, "rejected": attempt.rejected},
        "events": {
            "made": attempt.events,
            "accepted": attempt.sent,
            "refused": attempt.refused,
            "already_settled": attempt.already,
            "changed_since_settled": attempt.changed,
        },
        "held_merges": attempt.held,
        "seconds": round(attempt.seconds, 3),
    }


def _fitting(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The places of the columns that fit into this width."""
    widths = [max(len(name.lstrip("#")), *(len(row[place]) for row in rows)) + 2 for place, name in enumerate(_COLUMNS)]
    places = [*range(len(_COLUMNS))]
    for name in _LEFT_OUT:
        if sum(widths[place] for place in places) - 2 > width:
            places.remove(_COLUMNS.index(name))
    return places


def show_history(
    console: Console,
    job: str,
    windows: Sequence[WindowState],
    attempts: Sequence[Attempt],
    off: Sequence[PausedFunction],
) -> None:
    """A row for each plan, and one for each window without a plan, with the counts that fit; then a line for each of
    them that needs words."""
    rows: list[tuple[str, int, list[str], str, str]] = []
    for attempt in attempts:
        counts = attempt.sent, attempt.refused, attempt.rejected, attempt.parts, attempt.rows, attempt.already
        cells = [
            attempt.window,
            attempt.started[:16],
            _outcome(attempt),
            attempt.proof or ("" if attempt.state != "done" else "not read" if attempt.sent else "nothing sent"),
            *map(number, (*counts, attempt.skipped - attempt.already)),
            f"{attempt.seconds:,.1f} s",
        ]
        style = _STYLES.get(attempt.proof, _STYLES.get(attempt.state, ""))
        if style == "green" and (attempt.refused or attempt.rejected):
            style = "yellow"
        detail = "" if attempt.proof == "proved" else attempt.detail
        if attempt.changed and attempt.state == "done":
            detail = "; ".join(filter(None, (f"{attempt.already:,} {_sent_before(attempt)}", detail)))
        rows.append((attempt.window, attempt.id, cells, style, detail))
    before = {attempt.window: attempt.detail for attempt in attempts}
    for window in windows:
        changed = window.exported_again
        if window.label not in before or (changed and window.detail != before[window.label]):
            state = "changed" if changed else window.state
            style = "yellow" if changed else _STYLES.get(window.state, "")
            after = attempts[-1].id if changed and attempts else 0
            cells = [window.label, "", state, *[""] * (len(_COLUMNS) - 3)]
            rows.append((window.label, after, cells, style, window.detail))
    rows.sort(key=itemgetter(0, 1))
    if rows:
        places = _fitting([cells for _, _, cells, _, _ in rows], console.width)
        shown = table(*(_COLUMNS[place] for place in places))
        for _, _, cells, style, _ in rows:
            shown.add_row(*(cells[place] for place in places), style=style)
        console.print(shown)
    outcome = _COLUMNS.index("outcome")
    lines = {f"{label} {cells[outcome]}: {detail}": style for label, _, cells, style, detail in rows if detail}
    lines |= {
        f"{one.label} done: {one.detail}": "yellow"
        for one in windows
        if one.label in before and one.state == "done" and one.detail and not one.exported_again
    }
    if lines:
        console.print()
    for line, style in lines.items():  # a window that every run stops says so once
        console.print(text(line, 2_000), style=style, soft_wrap=True)
    if lines:
        console.print()
    states = ["stopped" if window.stopped else window.state for window in windows]
    counted = ", ".join(f"{states.count(state):,} {state}" for state in ("done", "waiting", "stopped", "open"))
    sent = [attempt for attempt in attempts if attempt.sent and attempt.state == "done"]
    if sent:
        proofs = [attempt.proof or "not read" for attempt in sent]
        kinds = ", ".join(f"{proofs.count(kind):,} {kind}" for kind in _PROOFS if kind in proofs)
        console.print(Text(f"Proof of {pluralize(len(sent), 'plan')} that sent events: {kinds}."))
    if off:
        console.print(text(f"Hog functions that are off: {named(off)}.", 2_000), soft_wrap=True)
    console.print(Text(f"Job {job}: {counted}." if windows else f"Job {job}: it never ran."))
