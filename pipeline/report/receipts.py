"""The receipt of a plan as its report shows it. `pipeline.proof.receipt` writes receipts."""

from __future__ import annotations

import hashlib

import msgspec

from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan


class _Planned(msgspec.Struct):
    digest: str = ""


class _Signature(msgspec.Struct):
    public_key: str = ""


class _Receipt(msgspec.Struct):
    written: str
    state: str
    plan: _Planned
    signature: _Signature | None = None


class WrittenReceipt(msgspec.Struct, frozen=True):
    """A receipt beside the plan: when it was written, the plan's state then, the sha256 of its file, and the public key
    that it is signed with, "" where it is not signed."""

    written: str
    state: str
    sha256: str
    public_key: str


def written_receipt(plan: Plan, directory: Directory) -> WrittenReceipt | None:
    """The receipt of this very plan in its directory, where there is one that can be read."""
    try:
        content = directory.receipt.read_bytes()
        receipt = msgspec.json.decode(content, type=_Receipt)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None
    if receipt.plan.digest != plan.digest:
        return None
    key = "" if receipt.signature is None else receipt.signature.public_key
    return WrittenReceipt(receipt.written, receipt.state, hashlib.sha256(content).hexdigest(), key)
