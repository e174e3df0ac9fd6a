"""The receipt of a job: what each plan of its windows states (`pipeline.proof.receipt`), and the sums over all plans.

No two plans of a job send the same event, so the number of events that all ledgers settled equals the number of uuids
in the job's state. The receipt has both numbers and the digest of the uuids.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from pipeline.files import private
from pipeline.jobs.arrivals import name_of
from pipeline.jobs.job import plan_directory, state_file
from pipeline.jobs.state import Attempt, History, WindowState, read_whole_history
from pipeline.options import ReceiptOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import open_plan
from pipeline.proof.receipt import (
    Input,
    Planned,
    Sending,
    Signature,
    Stated,
    input_of,
    planned_of,
    sending_of,
    unproved_of,
    write_signed,
)
from pipeline.report.state import read_status
from pipeline.text import pluralize
from pipeline.timestamps import format_utc, utc_now
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
    more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
    return f"{pluralize(len(labels), 'window')}: {', '.join(labels[:_NAMED])}{more}"
