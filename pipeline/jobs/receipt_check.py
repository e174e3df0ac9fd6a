"""Checks the receipt of a job: the checks of a plan's receipt for each of its plans, their sums, and its uuids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from pipeline.errors import BackcastError, UsageError
from pipeline.jobs.job import plan_directory, state_file
from pipeline.jobs.receipt import FORMAT, JobReceipt, sums_of
from pipeline.jobs.state import read_whole_history
from pipeline.models import Step
from pipeline.options import PathText
from pipeline.proof.check import (
    Checked,
    ReceiptCheck,
    check_inputs,
    check_ledger,
    check_plan,
    check_receipt,
    check_signature,
    check_sums,
    outcome,
    read_raw,
    read_receipt,
)
from pipeline.proof.receipt import signing
from pipeline.text import pluralize

_NAMED = 5
_RIGHT = {
    "rows": "{rows:,} rows of {files:,} files add up in each of {plans:,} plans",
    "events": "{settled:,} events settled, {refused:,} refused; every phase of every plan adds up",
    "verification": "every event that was settled was found at the target, plan by plan",
    "inputs": "{files:,} files of the export as they were read",
    "plan": "{plans:,} plans and their files",
    "ledger": "every batch of {plans:,} plans is in the state of the receipt",
}


def check_any_receipt(
    file: Path, source_root: PathText | None = None, public_key: Path | None = None,
    progress: Step = lambda name, done, total: None,
) -> ReceiptCheck:  # fmt: skip
    """Check the receipt of a plan or of a job, as `pipeline.proof.check.check_receipt` does. Raises UsageError."""
    try:
        of_job = read_raw(file)[0].get("format") == FORMAT
    except (msgspec.MsgspecError, RecursionError):
        of_job = False
    if not of_job:
        return check_receipt(file, source_root, public_key, progress)
    raw, receipt = read_receipt(file, FORMAT, JobReceipt)
    expected = None if public_key is None else signing().read_public_key(public_key)
    checks = [
        check_signature(raw, receipt.signature, expected),
        *_plans(receipt, file.parent, source_root, progress),
        _sums(receipt),
        _uuids(receipt, file.parent),
    ]
    return ReceiptCheck(str(file), all(check.result != "failed" for check in checks), checks)


def _plans(receipt: JobReceipt, state: Path, source_root: PathText | None, progress: Step) -> Iterator[Checked]:
    """Each check of a plan's receipt, over all plans of the job."""
    found: dict[str, list[tuple[str, Checked]]] = {}
    for done, one in enumerate(receipt.plans):
        directory = plan_directory(state, one.window, one.number)
        checks: Iterable[Checked] = (
            *check_sums(one),
            check_inputs(one, source_root, lambda name, done, total: None),
            check_plan(one, directory),
            check_ledger(one, directory),
        )
        for check in checks:
            found.setdefault(check.name, []).append((one.window, check))
        progress("plans of the job", done + 1, len(receipt.plans))
    for name, checks_of in found.items():
        for result in ("failed", "not checked"):
            some = [f"window {window}: {check.detail}" for window, check in checks_of if check.result == result]
            if some:
                more = f"; and {len(some) - _NAMED:,} more" if len(some) > _NAMED else ""
                yield Checked(name, result, "; ".join(some[:_NAMED]) + more)
                break
        else:
            yield Checked(name, "ok", _RIGHT[name].format(**msgspec.to_builtins(receipt.sums)))


def _sums(receipt: JobReceipt) -> Checked:
    """The sums are those of the plans, and no two plans settled the same event."""
    wrong: list[str] = []
    sums = receipt.sums
    stated, counted = msgspec.to_builtins(sums), msgspec.to_builtins(sums_of(receipt.plans))
    for name, count in stated.items():
        if count != counted[name]:
            wrong.append(f"{name} is {count:,}, and {counted[name]:,} in the plans")
    # What an unfinished plan settled comes into the state when it ends.
    ended = sums_of([one for one in receipt.plans if one.outcome != "sending"]).settled
    if receipt.uuids != ended:
        wrong.append(f"{ended:,} events were settled, under {receipt.uuids:,} uuids")
    return outcome("sums", wrong, f"{pluralize(sums.settled, 'event')} settled, each with a uuid of its own")


def _uuids(receipt: JobReceipt, state: Path) -> Checked:
    """The uuids in the job's state are those of the receipt."""
    name = "uuids"
    if not state_file(state).exists():
        return Checked(name, "not checked", "state.sqlite is not beside the receipt")
    try:
        history = read_whole_history(state_file(state))
    except (BackcastError, UsageError) as error:
        return Checked(name, "failed", error.message)
    same = (history.uuids, history.digest) == (receipt.uuids, receipt.uuids_sha256)
    wrong = [] if same else ["the state has other uuids: it was changed, or more was sent, since the receipt"]
    return outcome(name, wrong, f"{receipt.uuids:,} uuids of the state as they were")
