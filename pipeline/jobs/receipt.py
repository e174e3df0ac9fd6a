"""The receipt of a job: what each plan of its windows states (`pipeline.proof.receipt`), and the sums over all plans.

No two plans of a job send the same event, so the number of events that all ledgers settled equals the number of uuids
in the job's state. The receipt has both numbers and the digest of the uuids. Checking it repeats the checks of a plan's
receipt for each of its plans, then those of their sums and of the uuids.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from pipeline.files import private
from pipeline.jobs.arrivals import name_of
from pipeline.jobs.job import plan_directory, state_file
from pipeline.jobs.state import Attempt, History, WindowState, read_whole_history
from pipeline.models import Step
from pipeline.option_types import PathText
from pipeline.options import ReceiptOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import PartSeal
from pipeline.proof.check import (
    ReceiptCheck,
    check_inputs,
    check_receipt,
    check_signature,
    check_sums,
    read_receipt,
    result_of,
)
from pipeline.proof.enclosed import is_plain, refuse_irregular
from pipeline.proof.receipt import FORMAT as PLAN_FORMAT
from pipeline.proof.receipt import (
    Input,
    Planned,
    Receipt,
    Sending,
    Signature,
    Stated,
    input_of,
    planned_of,
    sending_of,
    unproved_of,
    write_signed,
)
from pipeline.proof.recomputed import BROKEN, Checked, check_folder, compare, in_words, outcome
from pipeline.report.state import read_status
from pipeline.text import pluralize, some_of
from pipeline.timestamps import format_utc, is_later, utc_now
from pipeline.verify.findings import Verification

FORMAT = "backcast.job-receipt/1"
STATED = ("done", "replaced", "sending")
"""States of an attempt in which something may have been sent."""
_NAMED = 3


class WindowReceipt(msgspec.Struct, frozen=True):
    """What one plan of a window states. `outcome` and `proof` come from the job's history; `sending` is null if the
    plan had nothing to send."""

    window: str
    number: int
    outcome: str
    started: str
    ended: str | None
    proof: str
    detail: str
    plan: Planned
    inputs: list[Input]
    sending: Sending | None
    verification: Verification | None


class JobSums(msgspec.Struct, frozen=True):
    """The sums over all plans. `planned` counts events of plans that were not replaced; the rest of a replaced plan is
    planned again in the next one. `resolved_doubts` counts events, `proved` counts plans."""

    files: int = 0
    rows: int = 0
    mapped: int = 0
    skipped: int = 0
    rejected: int = 0
    planned: int = 0
    settled: int = 0
    refused: int = 0
    in_doubt: int = 0
    resolved_doubts: int = 0
    plans: int = 0
    proved: int = 0


class JobReceipt(msgspec.Struct, frozen=True):
    """The receipt of a job. `windows` has the state of each window, `plans` every plan of which something may have been
    sent. `coverage` has the target's project, its first live event up to which the job fills, and when the target was
    last asked for it, each null if it is not known. `uuids` is how many were settled, and `uuids_sha256` the digest
    over their 16 bytes each, in order."""

    written: str
    version: str
    job: str
    target: str
    calendar: dict[str, str]
    windows: list[WindowState]
    plans: list[WindowReceipt]
    sums: JobSums
    coverage: dict[str, str | None]
    uuids: int
    uuids_sha256: str
    unproved: list[str]
    format: str = FORMAT
    signature: Signature | None = None


@private()
def write_job_receipt(state: Path, options: ReceiptOptions) -> JobReceipt:
    """Write the receipt of the job whose state folder this is. Raises UsageError, UnsafePlan, BrokenLedger."""
    history = read_whole_history(state_file(state))
    stated: list[WindowReceipt] = []
    sentences: dict[str, list[str]] = {}
    folder = Path(os.path.normpath(state / history.belongs.get("folder", ".")))
    for attempt in history.attempts:
        if attempt.state in STATED:
            one, unproved = _state(attempt, plan_directory(state, attempt.window, attempt.number), folder)
            stated.append(one)
            for sentence in unproved:
                sentences.setdefault(sentence, []).append(attempt.window)
    receipt = JobReceipt(
        written=utc_now(),
        version=version("backcast"),
        plans=stated,
        sums=sums_of(stated),
        uuids=history.uuids,
        uuids_sha256=history.digest,
        **of_history(history, sentences, len(stated)),
    )
    return write_signed(receipt, Directory(state).receipt, options)


def _state(attempt: Attempt, directory: Directory, folder: Path) -> tuple[WindowReceipt, list[str]]:
    """What a plan states, and which parts of it are unproved."""
    plan, _ = open_plan(directory.path, discarded=True)
    status = read_status(plan, directory)
    sending = sending_of(plan, directory)
    return WindowReceipt(
        attempt.window,
        attempt.number,
        attempt.state,
        attempt.started,
        attempt.ended,
        attempt.proof,
        attempt.detail,
        planned_of(plan),
        [input_of(part, name_of(part.file, part.member, folder)) for part in plan.parts],
        sending,
        status.results.verification,
    ), [] if sending is None else unproved_of(plan, status, replaced=attempt.state == "replaced")


def sums_of(stated: Sequence[WindowReceipt]) -> JobSums:
    """The sums over plans."""
    rows = {
        name: sum(one.plan.rows.get(name, 0) for one in stated) for name in ("read", "mapped", "skipped", "rejected")
    }
    phases = [phase for one in stated if one.sending is not None for phase in one.sending.phases.values()]
    return JobSums(
        files=sum(len(one.inputs) for one in stated),
        rows=rows["read"],
        mapped=rows["mapped"],
        skipped=rows["skipped"],
        rejected=rows["rejected"],
        planned=sum(sum(one.plan.phases.values()) for one in stated if one.outcome != "replaced"),
        settled=sum(phase.settled for phase in phases),
        refused=sum(phase.refused for phase in phases),
        in_doubt=sum(phase.in_doubt for phase in phases),
        resolved_doubts=sum(one.sending.resolved_doubts.get("events", 0) for one in stated if one.sending is not None),
        plans=len(stated),
        proved=sum(is_proved(one) for one in stated),
    )


def is_proved(one: Stated) -> bool:
    """Whether everything that a plan sent was found at the target."""
    return one.sending is None or (one.verification is not None and one.verification.proved)


def _open_windows(history: History) -> Iterator[str]:
    """Sentences that say which windows are not done."""
    for state, meaning in (
        ("waiting", "That anything of them was exported: they have no files"),
        ("stopped", "That all of them was sent: they are stopped"),
        ("open", "That all of them was sent: they are being sent"),
    ):
        labels = [window.label for window in history.windows if window.state == state]
        if labels:
            yield f"{meaning}. {_windows(labels)}."
    again = [window.label for window in history.windows if window.exported_again]
    if again:
        yield f"That what is in their files now was sent: they were exported again. {_windows(again)}."
    if "live_asked" not in history.belongs:
        yield "That the target had no live events in these windows: it was not asked, since there was no personal key."


def of_history(history: History, sentences: Mapping[str, Sequence[str]], plans: int) -> dict[str, Any]:
    """The fields of a receipt that come only from the job's history, and the sentences on what is unproved.

    `sentences` are those of its `plans`, each with the windows that it is about.
    """
    facts = history.belongs
    first = facts.get("first_live")
    return {
        "job": facts["job"],
        "target": facts["target"],
        "calendar": {name: facts[name] for name in ("window", "window_timezone")},
        "windows": history.windows,
        "coverage": {
            "project": facts.get("project"),
            "first_live": None if first is None else format_utc(int(first)),
            "asked": facts.get("live_asked"),
        },
        "unproved": [*_open_windows(history), *_with_windows(sentences, plans)],
    }


def _with_windows(sentences: Mapping[str, Sequence[str]], plans: int) -> Iterator[str]:
    """Each sentence with the windows that it is about, unless it is about all."""
    for sentence, labels in sentences.items():
        yield sentence if len(labels) == plans else f"{sentence} {_windows(labels)}."


def _windows(labels: Sequence[str]) -> str:
    return f"{pluralize(len(labels), 'window')}: {some_of(labels, _NAMED)}"


# -- checking ------------------------------------------------------------------------------------------

_MOST_FOUND = 5
_OPEN = ("pending", "differs", "unknown")
"""Results of reading a window back that a later run replaces."""
_RIGHT = {
    "rows": "{rows:,} rows of {files:,} files add up in each of {plans:,} plans",
    "events": "{settled:,} events settled, {refused:,} refused; every phase of every plan adds up",
    "verification": "every event that was settled was found at the target, plan by plan",
    "inputs": "{files:,} files of the export as they were read",
    "plan": "{plans:,} plans and their files",
    "ledger": "every batch of {plans:,} plans is in the state of the receipt",
    "results": "the verification of {plans:,} plans, as in their reports",
}


def check_any_receipt(
    file: Path, source_root: PathText | None = None, public_key: Path | None = None,
    progress: Step = lambda name, done, total: None,
) -> ReceiptCheck:  # fmt: skip
    """Check the receipt of a plan or of a job, as `pipeline.proof.check.check_receipt` does. Raises UsageError."""
    receipt: JobReceipt | Receipt
    receipt, form, content = read_receipt(file, {FORMAT: JobReceipt, PLAN_FORMAT: Receipt})
    if isinstance(receipt, Receipt):
        return check_receipt(file, source_root, public_key, progress)
    sentences: dict[str, list[str]] = {}
    return result_of(file, [
        form,
        check_signature(content, receipt.signature, public_key),
        *_check_plans(receipt, file.parent, source_root, progress, sentences),
        _check_sums(receipt),
        *_check_state(receipt, file.parent, sentences),
    ])  # fmt: skip


def _check_plans(
    receipt: JobReceipt, state: Path, source_root: PathText | None, progress: Step, sentences: dict[str, list[str]]
) -> Iterator[Checked]:
    """Each check of a plan's receipt, over all plans of the job. `sentences` collects what they do not prove."""
    found: dict[str, list[tuple[str, Checked]]] = {}
    for done, one in enumerate(receipt.plans):
        if not is_plain(one.window):
            yield Checked("plan", "failed", f"the window {one.window!r} leads outside the job's folder")
            return
        folder = check_folder(
            one, plan_directory(state, one.window, one.number), state, receipt.written, _path_of,
            replaced=one.outcome == "replaced",
        )  # fmt: skip
        for sentence in folder.unproved or [] if one.sending is not None else []:
            sentences.setdefault(sentence, []).append(one.window)
        for check in (*check_sums(one), check_inputs(one, source_root, lambda name, done, total: None), *folder.checks):
            found.setdefault(check.name, []).append((one.window, check))
        progress("plans of the job", done + 1, len(receipt.plans))
    for name, checks_of in found.items():
        for result in ("failed", "not checked"):
            some = [f"window {window}: {check.detail}" for window, check in checks_of if check.result == result]
            if some:
                yield Checked(name, result, some_of(some, _MOST_FOUND, "; "))
                break
        else:
            yield Checked(name, "ok", _RIGHT[name].format(**msgspec.to_builtins(receipt.sums)))


def _check_sums(receipt: JobReceipt) -> Checked:
    """Check that the sums are those of the plans, and that no two plans settled the same event."""
    wrong: list[str] = []
    sums = receipt.sums
    stated, counted = msgspec.to_builtins(sums), msgspec.to_builtins(sums_of(receipt.plans))
    for name, count in stated.items():
        if count != counted[name]:
            wrong.append(f"{name} is {count:,}, but {counted[name]:,} in the plans")
    # What an unfinished plan settled enters the state when it ends.
    ended = sums_of([one for one in receipt.plans if one.outcome != "sending"]).settled
    if receipt.uuids != ended:
        wrong.append(f"{ended:,} events were settled, under {receipt.uuids:,} uuids")
    return outcome("sums", wrong, f"{pluralize(sums.settled, 'event')} settled, each with its own uuid")


def _path_of(part: PartSeal, stated: str) -> str:
    """The path that a receipt must state for a file: its path from the job's folder, wherever that folder is now."""
    tail = re.sub(r"^(\.\./)+", "", stated)
    whole = name_of(part.file, part.member, Path("/"))
    return stated if tail and f"/{whole}".endswith(f"/{tail}") else whole


def _check_state(receipt: JobReceipt, state: Path, sentences: dict[str, list[str]]) -> Iterator[Checked]:
    """Check that the job, its windows, its plans and its uuids are those of the job's state."""
    if not state_file(state).exists():
        for name in ("job", "uuids"):
            yield Checked(name, "not checked", "state.sqlite is not next to the receipt")
        return
    try:
        refuse_irregular(Directory(state), state)
        history = read_whole_history(state_file(state))
        yield _check_job(receipt, history, sentences)
    except BROKEN as error:
        for name in ("job", "uuids"):
            yield Checked(name, "failed", f"cannot read the state: {in_words(error)}")
        return
    same = (history.uuids, history.digest) == (receipt.uuids, receipt.uuids_sha256)
    wrong = [] if same else ["the state has other uuids: it was changed, or more was sent, after the receipt"]
    yield outcome("uuids", wrong, f"{receipt.uuids:,} uuids in the state, unchanged")


def _check_job(receipt: JobReceipt, history: History, sentences: Mapping[str, list[str]]) -> Checked:
    """Check that the job, its plans and its windows are those of its state, unless a later run changed them."""
    wrong: list[str] = []
    written = receipt.written
    attempts = {(one.window, one.number): one for one in history.attempts if one.state in STATED}
    later = is_later(history.belongs.get("live_asked", ""), written)
    for one in receipt.plans:
        attempt = attempts.pop((one.window, one.number), None)
        name = f"plan {one.number} of the window {one.window}"
        if attempt is None:
            wrong.append(f"{name} is not in the state")
        elif is_later(attempt.ended or "", written) or (attempt.proof != one.proof and one.proof in _OPEN):
            later = True  # it was sent completely, or read back again
        else:
            now = [attempt.state, attempt.started, attempt.ended, attempt.proof, attempt.detail]
            wrong += compare([one.outcome, one.started, one.ended, one.proof, one.detail], now, name)
    later |= any(is_later(one.started, written) for one in attempts.values())
    unstated = [window for (window, _), one in attempts.items() if not is_later(one.started, written)]
    wrong += [f"{window} was sent but is not stated" for window in unstated]
    labels = {one.label for one in receipt.windows}
    wrong += [f"the window {one.window} has a plan but no state" for one in receipt.plans if one.window not in labels]
    later |= labels < {one.label for one in history.windows}
    for name, found in of_history(history, sentences, len(receipt.plans)).items():
        other_words = name == "unproved" and receipt.version != version("backcast")
        if not other_words and (name in ("job", "target", "calendar") or not later):
            wrong += compare(getattr(receipt, name), found, name)
    if later and not wrong:
        return Checked("job", "not checked", "the job ran again since, so its windows may have changed")
    return outcome("job", wrong, f"{pluralize(len(receipt.windows), 'window')} and their plans, as in the state")
