"""A rehearsal: a whole run of a plan against the embedded local service, and the comparison of what landed there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pipeline.config import Secret
from pipeline.delivery.send import Hooks, send_unchecked
from pipeline.errors import UsageError
from pipeline.ledger import lock_file, read_totals, unlock
from pipeline.local_service.faults import BadFault, read_script
from pipeline.local_service.settings import Settings
from pipeline.options import ApplyOptions, RehearseOptions, VerifyOptions
from pipeline.plan.sealed.directory import EXCLUDED, Directory
from pipeline.report.contents import Results
from pipeline.report.machine import update_report
from pipeline.report.results import apply_result, verify_result
from pipeline.verify.steps import compare

if TYPE_CHECKING:
    from pipeline.delivery.outcome import Outcome, RunCounts
    from pipeline.local_service.faults import FaultCounts
    from pipeline.models import Step
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.verify import Verification


class Rehearsal(msgspec.Struct, frozen=True):
    """A whole run against the local service: its outcome, what was read back, where it landed, what its faults did."""

    outcome: Outcome
    verification: Verification
    store: Path
    faults: Sequence[FaultCounts] = ()


def rehearse(
    plan: Plan,
    directory: Directory,
    options: RehearseOptions,
    *,
    progress: Callable[[RunCounts], None],
    warn: Callable[[str], None],
    step: Step = lambda name, done, total: None,
) -> Rehearsal:
    """Apply a plan to a fresh local service and compare what landed, as `rehearse_plan` does; writes no report."""
    from pipeline.local_service import LocalService  # with duckdb, after all else: see `gc` in `pipeline.cli.rehearse`

    try:
        read_script(options.faults)
    except BadFault as error:
        raise UsageError(f"not a fault: {error}", hint=error.hint) from None
    sending = ApplyOptions(workers=options.workers, engine=options.engine)
    with _rehearsal_directory(plan, directory) as inner:
        store = inner.path / "store.duckdb"
        # A target of this dialect is likely to have it: the rehearsal sends as `apply` would.
        settings = Settings(per_event="on" if plan.options.dialect == "posthog" else "off")
        with LocalService(store, settings=settings, faults=options.faults, fault_seed=options.fault_seed) as service:
            key, hooks = Secret(service.capture_key), Hooks(progress, warn, step=step)
            outcome = send_unchecked(plan, inner, service.url, key, sending, hooks)
            if outcome.problem is not None:
                raise outcome.problem
            reading = VerifyOptions(project=str(service.project_id), workers=options.workers, whole=True)
            verification = compare(plan, inner, service.url, reading, Secret(service.personal_key), progress=step)
    return Rehearsal(outcome, verification, store, service.faults)


def report_rehearsal(plan: Plan, directory: Directory, rehearsal: Rehearsal, warn: Callable[[str], None]) -> None:
    """Add the result of a rehearsal to the plan's report."""
    results = Results(apply_result(rehearsal.outcome), verify_result(rehearsal.verification))
    update_report(directory, plan, warn, results)


@contextmanager
def _rehearsal_directory(plan: Plan, directory: Directory) -> Iterator[Directory]:
    """An empty directory inside the plan's with links to its files, for a ledger of its own. Raises Busy."""
    read_totals(directory.ledger)  # a ledger that cannot be read is an error before an hour of rehearsing
    path = directory.rehearsal
    lock = lock_file(path, "the rehearsal of this plan")
    try:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        names = [*plan.files, *([EXCLUDED] if plan.options.excluded_ids else [])]
        for name in [*names, *(["stdin"] if directory.stdin.exists() else [])]:
            (path / name).symlink_to(Path("..") / name)
        yield Directory(path)
    finally:
        unlock(lock)
