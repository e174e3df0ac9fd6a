"""Opens a sealed plan and checks that its files are complete and unchanged, and that it fits its target."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import msgspec

from pipeline.errors import StalePlan, UnsafePlan
from pipeline.ledger import state_digest
from pipeline.plan.in_bucket import directory_at
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.discarded import refuse_discarded
from pipeline.plan.sealed.manifest import Plan, load
from pipeline.text import pluralize


def read_ids(path: Path) -> frozenset[str]:
    """The ids in a file, one per line. Only a line feed ends a line, since an id may contain other line separators."""
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    return frozenset(line.removesuffix("\r") for line in lines) - {""}


def open_plan(path: str | PathLike[str], *, discarded: bool = False) -> tuple[Plan, Directory]:
    """A plan and its directory; for a URL, its working copy on this machine.

    Raises UsageError, also if its events were discarded and `discarded` does not allow that; UnsafePlan; for a URL also
    Unfinished, if the store does not answer.
    """
    directory = directory_at(path)
    plan = load(directory)
    if not discarded:
        refuse_discarded(plan, directory)
    return plan, directory


def check_replayed(plan: Plan) -> None:
    """Raise StalePlan if the plan that this one replays is gone, was planned again or was sent further."""
    if stale := replay_differences(plan):
        raise StalePlan(f"the plan is stale: {'; '.join(stale)}", differences=stale, hint="plan again with --replay")


def replay_differences(plan: Plan) -> list[str]:
    """What has changed in the earlier plan whose settled events this one leaves out."""
    replayed = plan.replays
    if replayed is msgspec.UNSET:
        return []
    earlier = directory_at(replayed.directory)
    if not earlier.plan.exists():
        return [f"the plan {earlier.name} that it replays is gone"]
    if load(earlier).digest != replayed.digest:
        return [f"{earlier.name} contains another plan than the one that it replays"]
    if state_digest(earlier.ledger) != replayed.ledger:
        return [f"the plan {earlier.name} that it replays has sent more since"]
    return []


_TAKES = {"contract": "a service that follows the written contract", "posthog": "PostHog itself"}
"""Who accepts events in a dialect."""


def dialect_of(target: str) -> str:
    """`posthog` for the service's own regions, by name or URL, and for files that its own importer sends, else
    `contract` (docs/know/service.md#two-spellings). Raises UsageError."""
    if not target:
        return "contract"
    from pipeline.targets import files_of, region_of

    return "posthog" if files_of(target) or region_of(target) else "contract"


def check_applicable(plan: Plan, target: str) -> None:
    """Raise UnsafePlan unless the plan is ready and in the dialect of this target."""
    if not plan.ready:
        raise not_ready(plan, "fix that and plan again; the report says how. You can still rehearse this plan")
    check_dialect(plan, target)


def not_ready(plan: Plan, hint: str) -> UnsafePlan:
    """The error for a plan that checks stop, with a line for each."""
    stops = [f"STOP {gate.name}: {gate.detail}" for gate in plan.gates if gate.level == "stop"]
    message = f"the plan is not ready: {pluralize(len(stops), 'check')} {'stops' if len(stops) == 1 else 'stop'} it"
    return UnsafePlan(message, details=stops, hint=hint)


def check_dialect(plan: Plan, target: str) -> None:
    """Raise UnsafePlan unless the plan is in the dialect of this target."""
    needed, planned = dialect_of(target), plan.options.dialect
    if planned != needed and not _chosen(plan, target, planned):
        raise UnsafePlan(
            f"the plan was made for {_TAKES[planned]} (dialect {planned!r}), but {target} needs {needed!r}",
            hint=f"plan again with --for {target}, or rehearse this one",
        )


def _chosen(plan: Plan, target: str, dialect: str) -> bool:
    """Whether a person chose the plan's dialect for this target, or chose it without a target."""
    from pipeline.targets import address_of

    if plan.target:
        return address_of(plan.target) == address_of(target)
    return dialect != "contract"  # the default without a target
