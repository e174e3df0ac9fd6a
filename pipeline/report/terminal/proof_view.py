"""The undo list and the receipt on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from pipeline.report.terminal.tables import table, text
from pipeline.report.wording import state_in_words
from pipeline.text import pluralize, quoted

if TYPE_CHECKING:
    from pipeline.jobs.receipt import JobReceipt
    from pipeline.proof.check import ReceiptCheck
    from pipeline.proof.receipt import Receipt, Signature
    from pipeline.proof.undo_list import UndoList

_WIDE = 2_000
_STYLES = {"ok": "green", "failed": "bold red", "not checked": "cyan"}


def show_undo_list(console: Console, found: UndoList) -> None:
    """What the lists have, and where they are."""
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
    shown = table("check", "", "")
    for check in found.checks:
        shown.add_row(check.name, Text(check.result, style=_STYLES[check.result]), text(check.detail, _WIDE))
    console.print(shown)
    failed = sum(check.result == "failed" for check in found.checks)
    open_ = sum(check.result == "not checked" for check in found.checks)
    unchecked = f", {open_} could not be checked" if open_ else ""
    unchecked += "" if found.authenticated else "; not authenticated"
    verdict = f"{pluralize(failed, 'check')} failed{unchecked}." if failed else f"No check failed{unchecked}."
    console.print(Text(verdict, style="bold red" if failed else "bold green" if not open_ else "bold"))
