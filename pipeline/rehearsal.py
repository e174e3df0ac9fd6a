"""A rehearsal: a whole run of a plan against the embedded local service, and the comparison of what landed there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pipeline import out_of_memory
from pipeline.config import Secret
from pipeline.delivery.send import Hooks, send_plan
from pipeline.ledger import lock_file, read_totals, unlock
from pipeline.local_service.faults import read_script
from pipeline.local_service.settings import Settings
from pipeline.options import ApplyOptions, RehearseOptions, VerifyOptions
from pipeline.plan.sealed.directory import EXCLUDED, Directory
from pipeline.report.contents import Results
from pipeline.report.machine import update_report
from pipeline.report.results import apply_result, verify_result

if TYPE_CHECKING:
    from pipeline.delivery.outcome import Outcome
    from pipeline.local_service.faults import FaultCounts
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.verify import Verification


class Rehearsal(msgspec.Struct, frozen=True):
    """A whole run against the local service: its outcome, the `results` for the report, where it landed, and what its
    faults did."""

    outcome: Outcome
    results: Results
    store: Path
    faults: Sequence[FaultCounts]

    @property
    def verification(self) -> Verification:
        """What was read back."""
        assert self.results.rehearsed is not None
        return self.results.rehearsed


def rehearse(plan: Plan, directory: Directory, options: RehearseOptions, hooks: Hooks) -> Rehearsal:
    """Apply a plan to a fresh local service, compare what landed, and add the result to the report.

    Raises UsageError, Busy, StalePlan, Refused, Unfinished.
    """
    out_of_memory.require_for_service()
    from pipeline.local_service import LocalService
    from pipeline.verify.steps import compare

    read_script(options.faults)
    with _rehearsal_directory(plan, directory) as inner:
        store = inner.path / "store.duckdb"
        # A target of this dialect probably has that endpoint, so the rehearsal sends as `apply` would.
        settings = Settings(per_event="on" if plan.options.dialect == "posthog" else "off")
        with LocalService(store, settings=settings, faults=options.faults, fault_seed=options.fault_seed) as service:
            outcome = send_plan(plan, inner, service.url, Secret(service.capture_key), ApplyOptions(), hooks)
            if outcome.problem is not None:
                raise outcome.problem
            reading = VerifyOptions(project=str(service.project_id), whole=True)
            found = compare(plan, inner, service.url, reading, Secret(service.personal_key), progress=hooks.step)
    done = Rehearsal(outcome, Results(apply_result(outcome), verify_result(found)), store, service.faults)
    update_report(directory, plan, hooks.warn, done.results)
    return done


@contextmanager
def _rehearsal_directory(plan: Plan, directory: Directory) -> Iterator[Directory]:
    """An empty directory inside the plan's with links to its files, for a separate ledger. Raises Busy."""
    read_totals(directory.ledger)  # an unreadable ledger is an error before an hour of rehearsing
    path = directory.rehearsal
    lock = lock_file(path, "the rehearsal of this plan")
    try:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        names = dict.fromkeys(name.partition("/")[0] for name in plan.files)  # a folder is linked as a whole
        names |= dict.fromkeys([EXCLUDED] * bool(plan.options.excluded_ids) + ["stdin"] * directory.stdin.exists())
        for name in names:
            (path / name).symlink_to(Path("..") / name)
        yield Directory(path)
    finally:
        unlock(lock)
