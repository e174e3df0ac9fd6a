"""Checks a receipt: its signature, its sums, and everything that it names and that still exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from pipeline.errors import BackcastError, UsageError
from pipeline.extractors import digest_of
from pipeline.models import Dialect, Part, Step
from pipeline.option_types import PathText
from pipeline.plan.sealed.directory import Directory
from pipeline.proof.enclosed import inside
from pipeline.proof.receipt import ALGORITHM, FORMAT, Input, Receipt, Signature, Stated, as_file, signed_bytes, signing
from pipeline.proof.recomputed import Checked, Folder, check_folder, compare, outcome, unknown_names
from pipeline.report.verification_words import by_kind, depth, listed
from pipeline.text import pluralize
from pipeline.timestamps import is_later

_HINT = "name a receipt.json written by `backcast receipt write`"


class ReceiptCheck(msgspec.Struct, frozen=True):
    """All checks of a receipt. `ok`: none failed; a check that could not be made did not fail. `authenticated`: it is
    signed with the key that was given."""

    file: str
    ok: bool
    checks: list[Checked]
    authenticated: bool = False
    format: str = "backcast.receipt-check/1"


def check_receipt(
    file: Path,
    source_root: PathText | None = None,
    public_key: Path | None = None,
    progress: Step = lambda name, done, total: None,
) -> ReceiptCheck:
    """Check a receipt. The export is looked up in `source_root`; the plan and ledger in the receipt's own folder.

    Only `public_key`, the key that must have signed it, shows who wrote it: a receipt can name any key of its own.
    `progress` is called with the MB of the export read so far. Raises UsageError for a file that is not a receipt.
    """
    receipt: Receipt
    receipt, form, content = read_receipt(file, {FORMAT: Receipt})
    folder = check_folder(receipt, Directory(file.parent), file.parent, receipt.written)
    return result_of(file, [
        form,
        check_signature(content, receipt.signature, public_key),
        *check_sums(receipt),
        check_inputs(receipt, source_root, progress),
        *folder.checks,
        _check_state(receipt, folder),
    ])  # fmt: skip


def result_of(file: Path, checks: list[Checked]) -> ReceiptCheck:
    """The result of all checks of a receipt; `check_signature` must be one of them."""
    authenticated = any(check.name == "signature" and check.result == "ok" for check in checks)
    return ReceiptCheck(str(file), all(check.result != "failed" for check in checks), checks, authenticated)


def read_receipt(file: Path, kinds: Mapping[str, type]) -> tuple[Any, Checked, bytes]:
    """A receipt as the struct of its format, the check that its file is written correctly, and the file's bytes.

    Raises UsageError.
    """
    try:
        if file.exists() and not file.is_file():
            raise UsageError(f"{file} is not a regular file", hint=_HINT)
        content = file.read_bytes()
        raw = msgspec.json.decode(content, type=dict[str, Any])
        if (kind := kinds.get(str(raw.get("format")))) is None:
            raise UsageError(f"{file} is not a receipt of the format {' or '.join(kinds)}", hint=_HINT)
        receipt: Any = msgspec.json.decode(content, type=kind)
        wrong = [f"{name} does not belong in a receipt" for name in unknown_names(raw, receipt)]
        if as_file(raw) != content:
            wrong.append("its bytes are not as `backcast receipt write` writes them; a name may occur twice")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint=_HINT) from None
    except (msgspec.MsgspecError, RecursionError, OverflowError) as error:
        raise UsageError(f"{file} is not a receipt: {error}", hint=_HINT) from None
    return receipt, outcome("file", wrong, "each name once, written like `backcast receipt write` does"), content


def check_signature(content: bytes, signature: Signature | None, public_key: Path | None) -> Checked:
    """The signature of a receipt's bytes. Only a key from somebody else can show that the claimed person signed it."""
    name, expected = "signature", None if public_key is None else signing().read_public_key(public_key)
    if signature is None:
        if expected is None:
            return Checked(name, "not checked", "not authenticated: not signed, so anybody may have written it")
        return Checked(name, "failed", "the receipt is not signed, although a public key was given")
    if signature.algorithm != ALGORITHM:
        detail = f"{signature.algorithm!r} signatures are not accepted: write and sign the receipt again"
        return Checked(name, "failed", detail)
    if not signing().is_valid(signed_bytes(content), signature.public_key, signature.signature):
        return Checked(name, "failed", "the receipt was changed after signing, or signed with another key")
    if expected is None:
        return Checked(
            name, "not checked",
            f"not authenticated: the receipt itself names the key {signature.public_key}, which may be anybody's;"
            " pass the signer's own key with --public-key",
        )  # fmt: skip
    if signature.public_key != expected:
        return Checked(name, "failed", f"signed with another key: {signature.public_key}, not {expected}")
    return Checked(name, "ok", f"signed with the given key {signature.public_key}")


def _check_state(receipt: Receipt, folder: Folder) -> Checked:
    """The state of the plan and what is unproved agree with the plan, the ledger and the verification."""
    if folder.unproved is None:
        return Checked("state", "not checked", "the plan and ledger are not next to the receipt, or cannot be read")
    wrong = compare(receipt.state, folder.state, "state")
    if receipt.version == version("backcast"):  # another version may use other words
        wrong += compare(receipt.unproved, folder.unproved, "unproved")
    if receipt.verification is not None and is_later(receipt.verification.at, receipt.written):
        wrong.append("it was written before the verification that it states")
    return outcome(
        "state", wrong, f"{receipt.state}, with {pluralize(len(receipt.unproved), 'sentence')} about what is unproved"
    )


def check_sums(receipt: Stated) -> Iterator[Checked]:
    """Rows and events add up, in total and by file and phase."""
    plan = receipt.plan
    rows = Counter(plan.rows)
    wrong = []
    if rows["read"] != rows["mapped"] + rows["skipped"] + rows["rejected"]:
        wrong.append("rows read differ from mapped + skipped + rejected")
    for name, of_input in (("read", "rows"), ("mapped", "mapped"), ("skipped", "skipped"), ("rejected", "rejected")):
        if rows[name] != sum(getattr(one, of_input) for one in receipt.inputs):
            wrong.append(f"the files' rows {name} do not add up to {rows[name]:,}")
    if sum(plan.rejects.values()) < rows["rejected"]:
        wrong.append("there are more rejected rows than their codes count")
    files = pluralize(len(receipt.inputs), "file")
    yield outcome("rows", wrong, f"{pluralize(rows['read'], 'row')} of {files} add up")
    wrong = []
    phases = {} if receipt.sending is None else receipt.sending.phases
    if not phases and any(plan.phases.values()):
        wrong.append("the plan has events, but none was sent")
    for name, phase in phases.items():
        if phase.planned != phase.settled + phase.refused + phase.in_doubt + phase.unsent:
            wrong.append(f"{name}: planned differs from settled + refused + in doubt + unsent")
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
        yield Checked("verification", "ok", "nothing was sent, so nothing should be found")
        return
    if verification is None:
        yield Checked("verification", "not checked", "what landed was not compared with the ledger")
        return
    found = verification.events
    wrong = []
    if verification.to != receipt.sending.target:
        wrong.append(f"compared at {verification.to or '?'}, but sent to {receipt.sending.target}")
    if verification.proved and (verification.differs or found.found < found.expected or verification.uuids != "all"):
        wrong.append("it says proved but has differences")
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
    """The files of the export are the ones that were read."""
    name = "inputs"
    if source_root is None:
        return Checked(name, "not checked", "give the folder of the export with --source-root")
    total, done = sum(one.bytes for one in receipt.inputs), 0
    wrong = []
    for one in receipt.inputs:
        try:
            digest = digest_of(_part(one, source_root))
            if digest != one.sha256:
                wrong.append(f"{one.path} is a different file: its sha256 is {digest[:12]}, not {one.sha256[:12]}")
        except (OSError, BackcastError, LookupError, ValueError) as error:
            wrong.append(f"{one.path} cannot be read: {error}")
        done += one.bytes
        progress("MB of the export", done // 1_000_000, total // 1_000_000)
    return outcome(name, wrong, f"{pluralize(len(receipt.inputs), 'file')} of the export as they were read")


def _part(one: Input, source_root: PathText) -> Part:
    file = inside(one.path.split("!", 1)[0], source_root)
    return Part(0, one.path, file, one.member, one.codecs, "", Dialect(), one.bytes, 0, one.sha256)
