"""Checks a receipt: its signature, its sums, and the digests of everything that it names and that is still there."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from os import fspath
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from pipeline import storage
from pipeline.errors import BackcastError, UsageError
from pipeline.extractors import digest_of
from pipeline.ledger import state_digest
from pipeline.models import Dialect, Part, Step
from pipeline.options import PathText
from pipeline.plan.sealed.directory import Directory, digest_file
from pipeline.plan.sealed.manifest import load
from pipeline.proof.receipt import (
    FORMAT,
    Input,
    Receipt,
    Signature,
    Stated,
    signed_bytes,
    signing,
)
from pipeline.report.verification_words import by_kind, depth, listed
from pipeline.text import pluralize

T = TypeVar("T")
Result = Literal["ok", "failed", "not checked"]
_HINT = "name a receipt.json, as `backcast receipt write` writes it"
MOST_NAMED = 5


class Checked(msgspec.Struct, frozen=True):
    """One check of a receipt: what was checked, with which result, and what was found."""

    name: str
    result: Result
    detail: str


class ReceiptCheck(msgspec.Struct, frozen=True):
    """All checks of a receipt. `ok`: none failed; what could not be checked did not fail."""

    file: str
    ok: bool
    checks: list[Checked]
    format: str = "backcast.receipt-check/1"


def check_receipt(
    file: Path,
    source_root: PathText | None = None,
    public_key: Path | None = None,
    progress: Step = lambda name, done, total: None,
) -> ReceiptCheck:
    """Check a receipt. The export is looked for in `source_root`; plan and ledger in the receipt's own folder.

    A signature that names its own key proves that nothing was changed since; `public_key` is the key that it has to be.
    `progress` is called with the MB of the export that were read. Raises UsageError for a file that is no receipt.
    """
    raw, receipt = read_receipt(file, FORMAT, Receipt)
    checks = [
        check_signature(raw, receipt.signature, None if public_key is None else signing().read_public_key(public_key)),
        *check_sums(receipt),
        check_inputs(receipt, source_root, progress),
        check_plan(receipt, Directory(file.parent)),
        check_ledger(receipt, Directory(file.parent)),
    ]
    return ReceiptCheck(str(file), all(check.result != "failed" for check in checks), checks)


def read_receipt(file: Path, form: str, kind: type[T]) -> tuple[dict[str, Any], T]:
    """A receipt as it is written, and as the struct of its format. Raises UsageError."""
    try:
        raw, content = read_raw(file)
        if raw.get("format") != form:
            raise UsageError(f"{file} is no receipt of the format {form}", hint=_HINT)
        return raw, msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"{file} is no receipt: {error}", hint=_HINT) from None


def read_raw(file: Path) -> tuple[dict[str, Any], bytes]:
    """The object of a file, and its bytes. Raises UsageError where it cannot be read, and MsgspecError."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint=_HINT) from None
    return msgspec.json.decode(content, type=dict[str, Any]), content


def check_signature(raw: dict[str, Any], signature: Signature | None, expected: str | None) -> Checked:
    """The signature of a receipt, which has to be by the key `expected`, where there is one."""
    name = "signature"
    if signature is None:
        if expected is None:
            return Checked(name, "not checked", "the receipt is not signed")
        return Checked(name, "failed", "the receipt is not signed, and a public key was given")
    if not signing().is_valid(signed_bytes(raw), signature.public_key, signature.signature):
        return Checked(name, "failed", "the receipt was changed after it was signed, or signed with another key")
    if expected is None:
        return Checked(name, "ok", f"signed with the key {signature.public_key}; --public-key compares whose it is")
    if signature.public_key != expected:
        return Checked(name, "failed", f"signed with another key: {signature.public_key}, not {expected}")
    return Checked(name, "ok", f"signed with the given key {signature.public_key}")


def check_sums(receipt: Stated) -> Iterator[Checked]:
    """Rows and events add up, in all and by file and phase."""
    plan = receipt.plan
    rows = Counter(plan.rows)
    wrong = []
    if rows["read"] != rows["mapped"] + rows["skipped"] + rows["rejected"]:
        wrong.append("rows read are not mapped + skipped + rejected")
    for name, of_input in (("read", "rows"), ("mapped", "mapped"), ("skipped", "skipped"), ("rejected", "rejected")):
        if rows[name] != sum(getattr(one, of_input) for one in receipt.inputs):
            wrong.append(f"rows {name} of the files are not {rows[name]:,}")
    if sum(plan.rejects.values()) < rows["rejected"]:
        wrong.append("rejected rows are more than their codes count")
    files = pluralize(len(receipt.inputs), "file")
    yield outcome("rows", wrong, f"{pluralize(rows['read'], 'row')} of {files} add up")
    wrong = []
    phases = {} if receipt.sending is None else receipt.sending.phases
    if not phases and any(plan.phases.values()):
        wrong.append("the plan has events, and none was sent")
    for name, phase in phases.items():
        if phase.planned != phase.settled + phase.refused + phase.in_doubt + phase.unsent:
            wrong.append(f"{name}: planned is not settled + refused + in doubt + unsent")
        if phase.planned != plan.phases.get(name):
            wrong.append(f"{name}: the plan has {plan.phases.get(name, 0):,} events")
        if min(phase.settled, phase.refused, phase.in_doubt, phase.unsent) < 0:
            wrong.append(f"{name}: a count is negative")
    settled = sum(phase.settled for phase in phases.values())
    refused = sum(phase.refused for phase in phases.values())
    also = f", {refused:,} refused by the target" if refused else ""
    yield outcome("events", wrong, f"{pluralize(settled, 'event')} settled{also}; every phase adds up")
    verification = receipt.verification
    if receipt.sending is None:
        yield Checked("verification", "ok", "nothing was sent, so nothing was to be found")
        return
    if verification is None:
        yield Checked("verification", "not checked", "what landed was not compared with the ledger")
        return
    found = verification.events
    wrong = []
    if verification.to != receipt.sending.target:
        wrong.append(f"what was compared is at {verification.to or '?'}, what was sent at {receipt.sending.target}")
    if verification.proved and verification.differs:
        wrong.append("it says proved, and has differences")
    if not verification.proved:
        kinds = listed(by_kind(verification))
        part = "days with equal counts were not compared event by event"
        wrong.append(f"differences at the target: {kinds}" if kinds else part)
    if found.expected < settled:
        wrong.append(f"only {found.expected:,} of {settled:,} settled events were compared")
    yield outcome(
        "verification", wrong, f"{found.found:,} events found at the target, each once; {depth(verification)}"
    )


def check_inputs(receipt: Stated, source_root: PathText | None, progress: Step) -> Checked:
    """The files of the export are those that were read."""
    name = "inputs"
    if source_root is None:
        return Checked(name, "not checked", "--source-root names the folder of the export")
    total, done = sum(one.bytes for one in receipt.inputs), 0
    wrong = []
    for one in receipt.inputs:
        try:
            digest = digest_of(_part(one, source_root))
            if digest != one.sha256:
                wrong.append(f"{one.path} is another file: sha256 {digest[:12]}, not {one.sha256[:12]}")
        except (OSError, BackcastError) as error:
            wrong.append(f"{one.path} cannot be read: {error}")
        done += one.bytes
        progress("MB of the export", done // 1_000_000, total // 1_000_000)
    return outcome(name, wrong, f"{pluralize(len(receipt.inputs), 'file')} of the export as they were read")


def _part(one: Input, source_root: PathText) -> Part:
    outer = one.path.split("!", 1)[0]
    parts, root = outer.split("/"), fspath(source_root)
    candidates = [os.path.join(root, *names) for names in (parts, parts[1:] or parts, parts[-1:])]
    file = next((path for path in candidates if storage.is_file(path)), candidates[0])
    return Part(0, one.path, file, one.member, one.codecs, "", Dialect(), one.bytes, 0, one.sha256)


def check_plan(receipt: Stated, directory: Directory) -> Checked:
    """The plan and its sealed files are those of the receipt."""
    name = "plan"
    if not directory.plan.exists():
        return Checked(name, "not checked", "plan.json is not beside the receipt")
    wrong = []
    try:
        plan = load(directory)
        if plan.digest != receipt.plan.digest:
            wrong.append(f"plan.json beside it is another plan: {plan.digest[:12]}, not {receipt.plan.digest[:12]}")
    except BackcastError as error:
        wrong.append(error.message)
    for file, sealed in receipt.plan.files.items():
        path = directory.path / file
        if not path.exists():
            wrong.append(f"{file} is missing")
        elif digest_file(path) != sealed:
            wrong.append(f"{file} was changed after it was sealed")
    return outcome(name, wrong, f"plan {receipt.plan.digest[:12]} and {pluralize(len(receipt.plan.files), 'file')}")


def check_ledger(receipt: Stated, directory: Directory) -> Checked:
    """The ledger has every batch in the state of the receipt."""
    name = "ledger"
    if receipt.sending is None:
        return Checked(name, "ok", "nothing was sent")
    if not directory.ledger.exists():
        return Checked(name, "not checked", "ledger.sqlite is not beside the receipt")
    try:
        digest = state_digest(directory.ledger)
    except BackcastError as error:
        return Checked(name, "failed", error.message)
    wrong = [] if digest == receipt.sending.digest else ["the ledger was changed, or more was sent, since the receipt"]
    return outcome(name, wrong, "every batch is in the state of the receipt")


def outcome(name: str, wrong: list[str], right: str) -> Checked:
    """The result of a check: failed where anything is wrong."""
    if not wrong:
        return Checked(name, "ok", right)
    more = f"; and {len(wrong) - MOST_NAMED:,} more" if len(wrong) > MOST_NAMED else ""
    return Checked(name, "failed", "; ".join(wrong[:MOST_NAMED]) + more)
