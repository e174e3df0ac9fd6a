"""The receipt of a plan: what was read, planned, sent and found again, with digests, in one checkable file.

It states what the plan, its ledger and its results say, and what none of them proves. `pipeline.proof.check` checks a
receipt without trusting the program that wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

import msgspec

from pipeline.errors import UsageError
from pipeline.files import may_replace, private, write_atomically
from pipeline.ledger import FailureCount, read_doubts, read_summary, state_digest
from pipeline.options import ReceiptOptions
from pipeline.plan.sealed.contents import check_tables
from pipeline.plan.sealed.directory import PHASES, Directory
from pipeline.plan.sealed.discarded import files_left
from pipeline.plan.sealed.manifest import PartSeal, Plan
from pipeline.report.rejects import RefusalCause, refusal_causes
from pipeline.report.results import ApplyResult, BatchCounts
from pipeline.report.state import PlanStatus, read_status
from pipeline.report.wording import unproved
from pipeline.text import pluralize
from pipeline.timestamps import utc_now
from pipeline.verify.findings import Verification

R = TypeVar("R", bound=msgspec.Struct)

FORMAT = "backcast.receipt/1"
ALGORITHM = "ed25519-file"
"""Ed25519 over the bytes of the file. An older version signed the values read from them, as `ed25519`."""
_SIGNATURE = re.compile(rb'^ "signature": \{[^{}]*\}', re.MULTILINE)


class Signature(msgspec.Struct, frozen=True):
    """An Ed25519 signature of `signed_bytes` (64 bytes in base64), and the public key (32) that it belongs to."""

    public_key: str
    signature: str
    algorithm: str = ALGORITHM


class Input(msgspec.Struct, frozen=True):
    """One file of the export. `sha256` is over its stored bytes; for an archive's member, the bytes stored there.

    `member` is "" for a file that is not in an archive; `codecs` are the containers that were taken off, outermost
    first; `rows` is the sum of the next three fields.
    """

    path: str
    member: str
    codecs: tuple[str, ...]
    bytes: int
    sha256: str
    rows: int
    mapped: int
    skipped: int
    rejected: int


class Planned(msgspec.Struct, frozen=True):
    """What the plan sealed. `accepted` are the findings that a person accepted, with the reason. `files` are the sha256
    of its files, `mapping` the name and digest of the mapping."""

    digest: str
    version: str
    tool: str
    mapping: dict[str, str]
    zone: str
    first: str | None
    last: str | None
    dialect: str
    import_name: str
    options: Any
    rows: dict[str, int]
    skips: Mapping[str, int]
    rejects: Mapping[str, int]
    warnings: Mapping[str, int]
    phases: dict[str, int]
    files: Mapping[str, str]
    accepted: Mapping[str, str] | msgspec.UnsetType = msgspec.UNSET
    import_plan: str | msgspec.UnsetType = msgspec.UNSET


class Phase(msgspec.Struct, frozen=True):
    """Events of one phase; `planned` is the sum of the other fields."""

    planned: int
    settled: int
    refused: int
    in_doubt: int
    unsent: int


class Sending(msgspec.Struct, frozen=True):
    """What the ledger says about the sending. `digest` is over its batches and their states (`ledger.state_digest`).

    `resolved_doubts` are batches whose response was lost and that were resent with the same uuids until one came.
    """

    target: str
    runs: int
    began: str
    ended: str | None
    phases: dict[str, Phase]
    batches: BatchCounts
    failures: list[FailureCount]
    refusals: list[RefusalCause]
    resolved_doubts: dict[str, int]
    digest: str


class Stated(Protocol):
    """What a receipt states about one plan; `sending` is None if the plan had nothing to send."""

    @property
    def plan(self) -> Planned: ...
    @property
    def inputs(self) -> Sequence[Input]: ...
    @property
    def sending(self) -> Sending | None: ...
    @property
    def verification(self) -> Verification | None: ...


class Receipt(msgspec.Struct, frozen=True, omit_defaults=False):
    """A receipt. `written` is ISO 8601 in UTC; `state` is the plan's state then. `rehearsal`, `rehearsed` and
    `verification` are null for a step that was not done; `unproved` are sentences."""

    written: str
    version: str
    state: str
    plan: Planned
    inputs: list[Input]
    sending: Sending
    rehearsal: ApplyResult | None
    rehearsed: Verification | None
    verification: Verification | None
    unproved: list[str]
    format: str = FORMAT
    signature: Signature | None = None


@private()
def write_receipt(plan: Plan, directory: Directory, options: ReceiptOptions) -> Receipt:
    """Write the receipt of a plan that was applied, signed if the options name a key.

    Raises UsageError if nothing was sent, or because of the key; BrokenLedger; StalePlan if a file of the plan was
    changed since it was sealed, since the receipt would state digests that cannot be reproduced.
    """
    check_tables(plan, directory, files_left(plan, directory))
    return write_signed(build_receipt(plan, directory), directory.receipt, options)


def write_signed(receipt: R, default: Path, options: ReceiptOptions) -> R:
    """Write a receipt to the options' file, else to `default`, signed if they name a key. Raises UsageError."""
    if options.sign is not None:
        content = as_file(receipt)
        receipt = msgspec.structs.replace(receipt, signature=Signature(*signing().sign(content, Path(options.sign))))
    to = default if options.out is None else Path(options.out)
    if options.out is not None:
        _check_place(to)
    write_atomically(to, as_file(receipt))
    return receipt


def as_file(receipt: object) -> bytes:
    """The bytes of a receipt's file: names sorted, one per line."""
    return msgspec.json.format(msgspec.json.encode(receipt, order="sorted"), indent=1) + b"\n"


def _check_place(to: Path) -> None:
    """Raise UsageError if the place has a file that is not a receipt, such as a plan, or has no folder."""
    may_replace(to, (b"{",), "--out")
    if not to.exists():
        return
    try:
        found = msgspec.json.decode(to.read_bytes(), type=_Formatted).format
    except msgspec.MsgspecError:
        found = ""
    if not found.startswith(("backcast.receipt/", "backcast.job-receipt/")):
        raise UsageError(f"--out: {to} exists and is not a receipt", hint="give a path that does not exist yet")


class _Formatted(msgspec.Struct):
    """How each of the tool's JSON files begins."""

    format: str


def build_receipt(plan: Plan, directory: Directory) -> Receipt:
    """The receipt of a plan as it stands now, without a signature. Raises UsageError, BrokenLedger."""
    status = read_status(plan, directory)
    sending = sending_of(plan, directory)
    if sending is None:
        raise UsageError(
            f"nothing of {directory.name} was sent, so there is no receipt to write",
            hint=f"send it first: backcast apply {directory.name} --to us|eu|URL",
        )
    return Receipt(
        utc_now(),
        version("backcast"),
        status.state,
        planned_of(plan),
        [input_of(part) for part in plan.parts],
        sending,
        status.results.rehearsal,
        status.results.rehearsed,
        status.results.verification,
        unproved_of(plan, status),
    )


def signing() -> ModuleType:
    """The module that signs. Raises UsageError if its library is not installed."""
    try:
        from pipeline.proof import signature
    except ImportError:
        hint = "install it: pip install 'backcast[sign]'"
        raise UsageError("signatures need the Python package cryptography", hint=hint) from None
    return signature


def signed_bytes(content: bytes) -> bytes:
    """The bytes that the signature in a file signs: the file with null for the signature, as if it were unsigned.

    Nothing is parsed, so a name that occurs twice cannot hide. b"" for a file that does not have exactly one signature
    where `as_file` writes it.
    """
    bare, count = _SIGNATURE.subn(b' "signature": null', content)
    return bare if count == 1 else b""


def input_of(part: PartSeal, path: str = "") -> Input:
    """What a receipt states about a file; `path` is its name there, if not the one in the plan."""
    return Input(
        path or part.path, part.member, part.codecs, part.bytes, part.digest,
        part.rows, part.mapped, part.skipped, part.rejected,
    )  # fmt: skip


def planned_of(plan: Plan) -> Planned:
    """What a receipt states about a plan."""
    rows, options = plan.rows, plan.options
    return Planned(
        plan.digest,
        plan.version,
        plan.tool,
        {"name": plan.mapping.name, "sha256": plan.mapping.digest},
        plan.zone,
        plan.first or None,
        plan.last or None,
        options.dialect,
        options.name,
        msgspec.to_builtins(options),
        {"read": rows.read, "mapped": rows.mapped, "skipped": rows.skipped, "rejected": rows.rejected},
        plan.skips,
        plan.rejects,
        plan.warnings,
        {phase: plan.events.phases.get(phase, 0) for phase in PHASES},
        plan.files,
        plan.accepted or msgspec.UNSET,
        plan.import_plan,
    )


def sending_of(plan: Plan, directory: Directory) -> Sending | None:
    """What a receipt states about the sending; None if the plan was never applied. Raises BrokenLedger."""
    summary = read_summary(directory.ledger, most=0)
    if (history := summary.history) is None:
        return None
    totals = summary.totals
    phases = {}
    for name in PHASES:
        planned, of = plan.events.phases.get(name, 0), totals.of(name)
        phases[name] = Phase(planned, *of, planned - sum(of))
    batches, events = read_doubts(directory.ledger)
    return Sending(
        history.to,
        history.runs,
        history.began,
        history.ended,
        phases,
        BatchCounts(totals.batches_made, totals.batches_sent, totals.batches_retried, totals.batches_split),
        summary.failures,
        refusal_causes(plan, directory) if totals.refused else [],
        {"batches": batches, "events": events},
        state_digest(directory.ledger),
    )


def unproved_of(plan: Plan, status: PlanStatus, *, replaced: bool = False) -> list[str]:
    """What a receipt cannot prove, each as a sentence. `replaced`: another plan sends the rest of this one."""
    sentences = unproved(plan)
    verification, totals = status.results.verification, status.totals
    if totals.in_doubt and replaced:
        sentences.append(
            f"Whether {pluralize(totals.in_doubt, 'event')} in doubt arrived, unless a later plan sends them again."
        )
    elif totals.in_doubt:
        sentences.append(
            f"Whether {pluralize(totals.in_doubt, 'event')} in doubt arrived: no response came, and they have not been"
            " resent yet."
        )
    if verification is None:
        sentences.append("That anything landed: the target was not compared with the ledger.")
    elif verification.events.expected < totals.settled:
        sentences.append("That what was sent after the last verification landed.")
    return sentences
