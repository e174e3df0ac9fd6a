"""What people and programs read of a scheduled backfill: a line for each window, and the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from pipeline.report.tables import number, table, text
from pipeline.text import printable

if TYPE_CHECKING:
    from pipeline.jobs import Attempt, WindowState
    from pipeline.jobs.proof import Proof
    from pipeline.jobs.run import JobRun
    from pipeline.jobs.windows import WindowRun

RUN_FORMAT = "backcast.run/1"
HISTORY_FORMAT = "backcast.history/1"
_STYLES = {
    "done": "green",
    "stopped": "bold red",
    "waiting": "yellow",
    "sending": "bold yellow",
    "replaced": "yellow",
    "differs": "bold red",
}
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
    events = f"{attempt.events:,} events to send" if outcome == "planned" else f"{attempt.sent:,} events sent"
    counts = {
        "already settled": attempt.already,
        "refused": attempt.refused,
        "merges held": attempt.held,
        "rows skipped": attempt.skipped - attempt.already,
        "rows rejected": attempt.rejected,
    }
    texts = [events, *(f"{count:,} {what}" for what, count in counts.items() if count > 0)]
    parts = "1 part" if attempt.parts == 1 else f"{attempt.parts:,} parts"
    return f"{', '.join(texts)}, of {attempt.rows:,} rows in {parts}, {attempt.seconds:.1f} s"


def run_object(run: JobRun) -> dict[str, object]:
    """The object of `run --json`."""
    return {
        "format": RUN_FORMAT,
        "job": run.job,
        "dry_run": run.dry_run,
        "exit_code": 0 if run.problem is None else run.problem.exit_code,
        "windows": [
            {
                "window": one.window,
                "outcome": one.outcome,
                "plan": one.plan,
                "state": one.state,
                "detail": one.detail,
                **({} if one.attempt is None else _counts(one.attempt)),
            }
            for one in run.windows
        ],
        "proofs": [
            {
                "window": one.attempt.window,
                "number": one.attempt.number,
                "outcome": one.outcome,
                "plan": str(one.directory),
                "detail": one.detail,
            }
            for one in run.proofs
        ],
    }


def history_object(job: str, windows: Sequence[WindowState], attempts: Sequence[Attempt]) -> dict[str, object]:
    """The object of `run --history --json`."""
    return {
        "format": HISTORY_FORMAT,
        "job": job,
        "windows": [{"window": one.label, "state": one.state, "detail": one.detail} for one in windows],
        "attempts": [
            {
                "window": one.window,
                "number": one.number,
                "outcome": _OUTCOMES.get(one.state, one.state),
                "started": one.started,
                "ended": one.ended,
                "detail": one.detail,
                "proof": one.proof,
                **_counts(one),
            }
            for one in attempts
        ],
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
        },
        "held_merges": attempt.held,
        "seconds": round(attempt.seconds, 3),
    }


def show_history(console: Console, job: str, windows: Sequence[WindowState], attempts: Sequence[Attempt]) -> None:
    """A row for each plan, and one for each window without a plan."""
    shown = table(
        "#window", "#parts", "#rows", "#sent", "#already", "#skipped", "#rejected", "#refused", "#when", "#took",
        "outcome",
    )  # fmt: skip
    rows: list[tuple[str, int, Sequence[str | Text], str]] = []
    for one in attempts:
        counts = (one.parts, one.rows, one.sent, one.already, one.skipped - one.already, one.rejected, one.refused)
        outcome = _OUTCOMES.get(one.state, one.state) + (f", {one.proof}" if one.proof else "")
        detail = text(f"{outcome}: {one.detail}" if one.detail else outcome, 240)
        cells: list[str | Text] = [one.window, *map(number, counts), one.started[:16], f"{one.seconds:,.1f} s", detail]
        rows.append((one.window, one.id, cells, _STYLES.get(one.proof, _STYLES.get(one.state, ""))))
    planned = {one.window for one in attempts}
    for window in windows:
        if window.label not in planned:
            detail = text(f"{window.state}: {window.detail}" if window.detail else window.state, 240)
            rows.append((window.label, 0, [window.label, *[""] * 9, detail], _STYLES.get(window.state, "")))
    for _, _, row, style in sorted(rows, key=lambda one: one[:2]):
        shown.add_row(*row, style=style)
    if rows:
        console.print(shown)
    states = [window.state for window in windows]
    counted = ", ".join(f"{states.count(state):,} {state}" for state in ("done", "waiting", "stopped", "open"))
    console.print(Text(f"Job {job}: {counted}." if windows else f"Job {job}: it never ran."))
