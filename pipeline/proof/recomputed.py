"""Computes each number and name of a receipt again, from the plan and ledger next to it, and compares them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from pipeline.errors import BackcastError
from pipeline.ledger import read_summary
from pipeline.plan.sealed.directory import Directory, digest_file
from pipeline.plan.sealed.discarded import discarded_of, files_left
from pipeline.plan.sealed.manifest import PartSeal, Plan, read_plan
from pipeline.proof.enclosed import is_plain, refuse_irregular
from pipeline.proof.receipt import Stated, input_of, planned_of, sending_of, unproved_of
from pipeline.report.contents import NO_RESULTS, Results, results_of
from pipeline.report.state import PlanStatus, state_of
from pipeline.text import pluralize, some_of
from pipeline.timestamps import is_later

MOST_NAMED = 5
_SHOWN = 60
_ABSENT = object()
BROKEN = (BackcastError, OSError, msgspec.MsgspecError, LookupError, TypeError, ValueError, ArithmeticError)
"""Exceptions from reading a plan or ledger that was made unreadable on purpose."""
Result = Literal["ok", "failed", "not checked"]
Ignore = Callable[[str, Any, Any], bool]


class Checked(msgspec.Struct, frozen=True):
    """One check of a receipt: what was checked, the result, and what was found."""

    name: str
    result: Result
    detail: str


def differing(stated: Any, found: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each value that differs between two values from JSON: its path, and both; `_ABSENT` for a missing one."""
    if isinstance(stated, Mapping) and isinstance(found, Mapping):
        for name in [*found, *(name for name in stated if name not in found)]:
            one = stated.get(name, _ABSENT), found.get(name, _ABSENT)
            yield from differing(*one, f"{path}.{name}" if path else name)
    elif isinstance(stated, list) and isinstance(found, list):
        for index in range(max(len(stated), len(found))):
            first, second = (values[index] if index < len(values) else _ABSENT for values in (stated, found))
            yield from differing(first, second, f"{path}[{index}]")
    elif type(stated) is not type(found) or stated != found:
        yield path, stated, found


def as_json(value: object) -> Any:
    """A value as it comes back after being written as JSON and read."""
    return msgspec.json.decode(msgspec.json.encode(value))


def compare(stated: object, found: object, path: str, ignore: Ignore = lambda path, stated, found: False) -> list[str]:
    """The differences between two values, in words, except those for which `ignore` returns True."""
    return [
        f"{one[0]}: {_shown(one[1])} in the receipt, {_shown(one[2])} in the folder"
        for one in differing(as_json(stated), as_json(found), path)
        if not ignore(*one)
    ]


def unknown_names(raw: Mapping[str, Any], known: object) -> list[str]:
    """The names in a receipt's file that do not belong to its format."""
    return [path for path, _, found in differing(raw, as_json(known)) if found is _ABSENT]


def _shown(value: Any) -> str:
    text = "nothing" if value is _ABSENT else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def outcome(name: str, wrong: list[str], right: str) -> Checked:
    """The result of a check: failed if anything is wrong."""
    if not wrong:
        return Checked(name, "ok", right)
    return Checked(name, "failed", some_of(wrong, MOST_NAMED, "; "))


class Folder(NamedTuple):
    """The checks of a plan's folder; what is unproved, and the state, by plan and ledger: None and "" if one of these
    cannot be read."""

    checks: list[Checked]
    unproved: list[str] | None = None
    state: str = ""


def check_folder(
    receipt: Stated, directory: Directory, root: Path, written: str,
    path_of: Callable[[PartSeal, str], str] = lambda part, stated: part.path, *, replaced: bool = False,
) -> Folder:  # fmt: skip
    """Check the plan, the ledger and the results in a directory below `root` against what a receipt states about them.

    `written` is when the receipt was written, `path_of` gives the path that a file must have there, and `replaced` is
    that of `unproved_of`. Only regular files are opened; the export is not read, and no code of the mapping runs.
    """
    own = Results(
        getattr(receipt, "rehearsal", None), getattr(receipt, "rehearsed", None), verification=receipt.verification
    )
    if not os.path.lexists(directory.plan):
        detail = "plan.json is not next to the receipt"
        return Folder([Checked(name, "not checked", detail) for name in ("plan", "ledger", "results")])
    try:
        refuse_irregular(directory, root)
        plan = read_plan(directory)
        sealed = _plan(receipt, plan, directory, path_of)
    except BROKEN as error:
        return Folder([
            Checked("plan", "failed", in_words(error)),
            *(Checked(name, "not checked", "the plan cannot be read") for name in ("ledger", "results")),
        ])  # fmt: skip
    unproved: list[str] | None = None
    state = ""
    if receipt.sending is not None and not directory.ledger.exists():
        ledger = Checked("ledger", "not checked", "ledger.sqlite is not next to the receipt")
    else:
        try:
            ledger = _ledger(receipt, plan, directory, written)
            summary = read_summary(directory.ledger)
            state = state_of(plan, summary, own, running=False)
            unproved = unproved_of(plan, PlanStatus(state, plan.events.made, summary, own), replaced=replaced)
        except BROKEN as error:
            ledger = Checked("ledger", "failed", f"the ledger cannot be read: {in_words(error)}")
    return Folder([sealed, ledger, _results(receipt, plan, directory, own, written)], unproved, state)


def in_words(error: BaseException) -> str:
    """An error of `BROKEN` as text."""
    return error.message if isinstance(error, BackcastError) else f"{type(error).__name__}: {error}"


def _plan(receipt: Stated, plan: Plan, directory: Directory, path_of: Callable[[PartSeal, str], str]) -> Checked:
    """The plan has what the receipt states about it, and its sealed files are unchanged."""
    wrong = compare(receipt.plan, planned_of(plan), "plan")
    paths = [one.path for one in receipt.inputs] + [""] * len(plan.parts)
    inputs = [input_of(part, path_of(part, path)) for part, path in zip(plan.parts, paths, strict=False)]
    wrong += compare(receipt.inputs, inputs, "inputs")
    gone = discarded_of(plan, directory)
    left = files_left(plan, directory)
    for file, sealed in left.items():
        path = directory.path / file
        if not all(map(is_plain, file.split("/"))):
            wrong.append(f"{file} leads out of the plan's folder")
        elif not path.exists():
            wrong.append(f"{file} is missing")
        elif digest_file(path) != sealed:
            wrong.append(f"{file} was changed after it was sealed")
    if gone is not None and not wrong:
        files = f"{len(left):,} of {pluralize(len(plan.files), 'file')}"
        detail = (
            f"plan {plan.digest[:12]} and {files} match; its events were discarded at {gone.at}, with the other files"
        )
        return Checked("plan", "not checked", detail)
    return outcome("plan", wrong, f"plan {plan.digest[:12]} and {pluralize(len(plan.files), 'file')}")


def _ledger(receipt: Stated, plan: Plan, directory: Directory, written: str) -> Checked:
    """The ledger has what the receipt states about the sending, and every batch is in its state."""
    again = sending_of(plan, directory)
    if again is None or receipt.sending is None:
        return outcome("ledger", compare(receipt.sending, again, "sending"), "nothing was sent")
    if receipt.sending.digest != again.digest:
        return Checked("ledger", "failed", "the ledger was changed, or more was sent, since the receipt")
    # Any run since then had nothing to send, or the digest would differ.
    ran_again = again.runs > receipt.sending.runs and (again.ended is None or is_later(again.ended, written))

    gone = discarded_of(plan, directory) is not None

    def is_right(path: str, stated: object, found: object) -> bool:
        place = gone and found == "" and path.startswith("sending.refusals[")  # it was among the discarded files
        return place or (ran_again and path in ("sending.runs", "sending.ended"))

    wrong = compare(receipt.sending, again, "sending", is_right)
    return outcome("ledger", wrong, "every batch is in the receipt's state, and every count agrees with the ledger")


def _results(receipt: Stated, plan: Plan, directory: Directory, own: Results, written: str) -> Checked:
    """The rehearsal and verification results are those in report.json, which no seal protects."""
    if not directory.report_json.exists():
        return Checked("results", "not checked", "report.json is not next to the receipt")
    report = results_of(directory, plan, NO_RESULTS)
    names = [name for name in ("rehearsal", "rehearsed", "verification") if hasattr(receipt, name)]
    wrong, later = [], []
    for name in names:
        stated, found = getattr(own, name), getattr(report, name)
        when = getattr(found, "at", "") or getattr(found, "ended", "")
        if differences := compare(stated, found, name):
            later += [name] if is_later(when, written) else []
            wrong += [] if is_later(when, written) else differences
    if later and not wrong:
        return Checked("results", "not checked", f"report.json has a later {' and '.join(later)}")
    return outcome("results", wrong, f"{', '.join(names)} as report.json has them")
