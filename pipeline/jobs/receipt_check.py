"""Checks the receipt of a job: the checks of a plan's receipt for each of its plans, their sums, and its uuids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import msgspec

from pipeline.jobs.arrivals import name_of
from pipeline.jobs.job import plan_directory, state_file
from pipeline.jobs.receipt import FORMAT, STATED, JobReceipt, of_history, sums_of
from pipeline.jobs.state import History, read_whole_history
from pipeline.models import Step
from pipeline.option_types import PathText
from pipeline.plan.sealed.directory import Directory
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
from pipeline.proof.receipt import Receipt
from pipeline.proof.recomputed import BROKEN, Checked, check_folder, compare, in_words, outcome
from pipeline.text import pluralize
from pipeline.timestamps import is_later

_NAMED = 5
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
        *_plans(receipt, file.parent, source_root, progress, sentences),
        _sums(receipt),
        *_state(receipt, file.parent, sentences),
    ])  # fmt: skip


def _plans(
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
                more = f"; and {len(some) - _NAMED:,} more" if len(some) > _NAMED else ""
                yield Checked(name, result, "; ".join(some[:_NAMED]) + more)
                break
        else:
            yield Checked(name, "ok", _RIGHT[name].format(**msgspec.to_builtins(receipt.sums)))


def _sums(receipt: JobReceipt) -> Checked:
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


def _state(receipt: JobReceipt, state: Path, sentences: dict[str, list[str]]) -> Iterator[Checked]:
    """Check that the job, its windows, its plans and its uuids are those of the job's state."""
    if not state_file(state).exists():
        for name in ("job", "uuids"):
            yield Checked(name, "not checked", "state.sqlite is not next to the receipt")
        return
    try:
        refuse_irregular(Directory(state), state)
        history = read_whole_history(state_file(state))
        yield _job(receipt, history, sentences)
    except BROKEN as error:
        for name in ("job", "uuids"):
            yield Checked(name, "failed", f"cannot read the state: {in_words(error)}")
        return
    same = (history.uuids, history.digest) == (receipt.uuids, receipt.uuids_sha256)
    wrong = [] if same else ["the state has other uuids: it was changed, or more was sent, after the receipt"]
    yield outcome("uuids", wrong, f"{receipt.uuids:,} uuids in the state, unchanged")


def _job(receipt: JobReceipt, history: History, sentences: Mapping[str, list[str]]) -> Checked:
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
