"""What is read of a plan on a terminal: its rejected rows and refused events, the undo list, and receipts.

Rows that are piped are one line each, which is neither folded nor, with --all, cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from pipeline.models import Reject
from pipeline.plan.sealed.manifest import Example
from pipeline.report.rejects import LEFT_OUT, REFUSED, place_of, same_cause
from pipeline.report.terminal.tables import show_table, text
from pipeline.report.wording import state_in_words
from pipeline.text import ELLIPSIS, pluralize, printable, quoted
from pipeline.validator.codes import meaning

if TYPE_CHECKING:
    from pipeline.jobs.receipt import JobReceipt
    from pipeline.proof.check import ReceiptCheck
    from pipeline.proof.receipt import Receipt, Signature
    from pipeline.proof.undo_list import UndoList

_WIDE = 2_000
_STYLES = {"ok": "green", "failed": "bold red", "not checked": "cyan"}
NONE = "No row was rejected, and no event was refused."
_EVERY = "rejected rows and refused events"
DETAIL_CHARACTERS = 400
RECORD_CHARACTERS = 200
PIPED_CHARACTERS = 10_000
"""Characters of the example row of a code; --all shows the whole row, which may be 64 MiB long."""


def show_groups(
    console: Console, rejects: Iterable[Reject], command: str, superseded: tuple[int, Example] | None = None
) -> None:
    """Each code with its count, its meaning and the first row, the most frequent first; refused events by cause.

    `command` lists all of them. `superseded` are the duplicates that differ from the event that is sent, and the first.
    """
    groups: dict[tuple[str, str], tuple[Reject, int]] = {}
    for reject in rejects:
        group = reject.code, same_cause(reject.detail) if reject.code == REFUSED else ""
        first, count = groups.get(group, (reject, 0))
        groups[group] = first, count + 1
    if not groups:
        console.print(Text(NONE))
    for first, count in sorted(groups.values(), key=lambda group: -group[1]):
        refused = first.code == REFUSED
        words = f": {meaning(first.code)}" if not refused and meaning(first.code) else ""
        if first.stage == LEFT_OUT:
            title = f"{pluralize(count, 'row')} left out"
        else:
            title = pluralize(count, "refused event" if refused else "rejected row")
        _title(console, title, f"{first.code}{words}")
        _show(console, first, PIPED_CHARACTERS, "for example ")
    if superseded is not None:
        count, example = superseded
        _title(console, pluralize(count, "duplicate"), f"superseded: {meaning('superseded')}")
        place = f"{example.part}, row {example.row:,}"
        _indented(console, f"for example {place}: {example.detail}", DETAIL_CHARACTERS, PIPED_CHARACTERS)
    if groups:
        kinds = {"rows left out" if first.stage == LEFT_OUT else _EVERY for first, _ in groups.values()}
        console.print(Text(f"List all {' and '.join(kinds)} (or --format jsonl, csv):"), soft_wrap=True)
        console.print(Text(f"  {command} --all", style="bold"), soft_wrap=True)


def show_each(console: Console, rejects: Iterable[Reject]) -> None:
    empty = True
    for reject in rejects:
        empty = False
        console.print(text(reject.code, 80))
        _show(console, reject, None)
    if empty:
        console.print(Text(NONE))


def _title(console: Console, title: str, words: str) -> None:
    console.print(Text.assemble((title, "bold"), f", {words}"), soft_wrap=not console.is_terminal)


def _show(console: Console, reject: Reject, piped: int | None, before: str = "") -> None:
    """The place of a reject, why, and its row as it is in the export; into a pipe, at most `piped` characters of it."""
    _indented(console, f"{before}{place_of(reject)}: {reject.detail}", DETAIL_CHARACTERS, None)
    if reject.record:
        _indented(console, reject.record, RECORD_CHARACTERS, piped)


def _indented(console: Console, line: str, limit: int, piped: int | None) -> None:
    """A string whose folded lines are indented below its first; into a pipe, one line. What is cut is counted."""
    most = limit if console.is_terminal else piped
    missing = max(0, len(line) - most) if most is not None else 0
    shown = printable(line[: len(line) - missing], 8 * len(line) + 1)
    if missing:
        shown += f"{ELLIPSIS} (+{missing:,} characters)"
    if console.is_terminal:
        console.print(Padding(Text(shown, overflow="fold"), (0, 0, 0, 2), expand=False))
    else:
        console.print(Text(f"  {shown}"), soft_wrap=True)


def show_undo_list(console: Console, found: UndoList) -> None:
    console.print(
        text(
            f"{pluralize(found.events, 'event')} of {pluralize(found.ids, 'id')} sent to {found.target}:"
            f" {pluralize(found.merges, 'merge')}, {pluralize(found.groups, 'group update')},"
            f" {pluralize(found.profiles, 'profile update')} among them.",
            _WIDE,
        )
    )
    if found.in_doubt:
        line = f"{pluralize(found.in_doubt, 'event')} in doubt: the service may or may not have them."
        console.print(Text(line, style="yellow"))
    console.print(text(f"Lists and queries: {found.directory}", _WIDE), soft_wrap=True)
    console.print(Text("Nothing was deleted. README.txt there says what the service can take back."))


def show_receipt(console: Console, receipt: Receipt, path: str) -> None:
    """What a receipt states, and how it is checked."""
    sent = receipt.sending
    settled = sum(phase.settled for phase in sent.phases.values())
    planned = sum(phase.planned for phase in sent.phases.values())
    state = state_in_words(receipt.state, sum(phase.refused for phase in sent.phases.values()))
    console.print(
        text(
            f"{pluralize(len(receipt.inputs), 'file')}, {pluralize(receipt.plan.rows['read'], 'row')}: {settled:,} of"
            f" {pluralize(planned, 'planned event')} settled at {sent.target}. State: {state}.",
            _WIDE,
        )
    )
    if receipt.verification is None:
        line = "What landed was not verified; a receipt after `backcast verify` proves more."
        console.print(Text(line, style="yellow"))
    _show_place(console, receipt.signature, path)


def show_job_receipt(console: Console, receipt: JobReceipt, path: str) -> None:
    """What the receipt of a job states, and how it is checked."""
    sums = receipt.sums
    console.print(
        text(
            f"{pluralize(len(receipt.windows), 'window')}, {pluralize(sums.plans, 'plan')},"
            f" {pluralize(sums.rows, 'row')}: {sums.settled:,} of {pluralize(sums.planned, 'planned event')} settled at"
            f" {receipt.target}, {sums.refused:,} refused, {sums.in_doubt:,} in doubt. Proved: {sums.proved:,} of"
            f" {pluralize(sums.plans, 'plan')}.",
            _WIDE,
        )
    )
    _show_place(console, receipt.signature, path)


def _show_place(console: Console, signature: Signature | None, path: str) -> None:
    signed = "not signed" if signature is None else f"signed with the key {signature.public_key}"
    console.print(text(f"Receipt: {path}, {signed}", _WIDE), soft_wrap=True)
    console.print(Text("Next: check it, also on another machine:"))
    console.print(Text(f"  backcast receipt check {quoted(path)}", style="bold"), soft_wrap=True)


def show_receipt_check(console: Console, found: ReceiptCheck) -> None:
    """A row for each check, then the verdict."""
    show_table(console, {"check": 80, "": 20, " ": _WIDE}, [
        (check.name, Text(check.result, style=_STYLES[check.result]), check.detail) for check in found.checks
    ])  # fmt: skip
    failed = sum(check.result == "failed" for check in found.checks)
    open_ = sum(check.result == "not checked" for check in found.checks)
    unchecked = f", {open_} could not be checked" if open_ else ""
    unchecked += "" if found.authenticated else "; not authenticated"
    verdict = f"{pluralize(failed, 'check')} failed{unchecked}." if failed else f"No check failed{unchecked}."
    console.print(Text(verdict, style="bold red" if failed else "bold green" if not open_ else "bold"))
