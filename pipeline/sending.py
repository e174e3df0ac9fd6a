"""Apply a plan, rehearse it, verify it, say where it stands."""

from __future__ import annotations

import importlib.metadata
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import config
from pipeline.config import Secret
from pipeline.delivery.phases import check_merges, check_phases
from pipeline.errors import UsageError
from pipeline.files import private
from pipeline.ledger import Ledger, lock_file, read_totals, unlock
from pipeline.plan.directory import Directory
from pipeline.plan.freshness import EXCLUDED, check_applicable, check_fresh, transform_config_for, workers_for
from pipeline.plan.manifest import Plan
from pipeline.plan.phases import PHASES

if TYPE_CHECKING:
    from pipeline.delivery.outcome import Outcome, RunCounts, SendLimits
    from pipeline.local_service.faults import FaultCounts
    from pipeline.report.state import PlanStatus
    from pipeline.transform.workers import Workers
    from pipeline.verify import Verification


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """What `backcast apply` is asked. `rotated_key`: another key than before is of the same project all the same.

    `phases` are those to send, `approve_merges` the number of merges that a person looked at and approved.
    `target_known`: the target took other plans before, so an outage there is waited for from the first request on.
    """

    to: str
    project_key: Secret
    dry_run: bool = False
    source_root: Path | None = None
    send_limits: SendLimits | None = None
    workers: int | None = None
    timeout: float = 60.0
    ca_file: str | None = None
    redirect_hosts: tuple[str, ...] = ()
    rotated_key: bool = False
    phases: tuple[str, ...] = PHASES
    approve_merges: int | None = None
    target_known: bool = False


@private()
def apply_plan(
    plan: Plan,
    directory: Directory,
    request: ApplyRequest,
    *,
    interrupted: threading.Event | None = None,
    progress: Callable[[RunCounts], None] = lambda counts: None,
    warn: Callable[[str], None] = lambda line: None,
    workers: Workers | None = None,
) -> Outcome:
    """Send exactly the plan, or resume doing so. `workers` were started before, for this plan, and not briefed.

    What stops a run that has begun is its outcome's `problem`, beside the counts. Raises what keeps it from beginning:
    UnsafePlan, StalePlan, UnreadableExport, Busy, BrokenLedger, UsageError.
    """
    check_request(plan, directory, request)
    return _run(plan, directory, request, interrupted, progress, warn, workers)


def capture_key(
    to: str,
    file: str | None = None,
    given: Secret | None = None,
    *,
    dry_run: bool = False,
    warn: Callable[[str], None] = lambda line: None,
) -> Secret:
    """The capture key for a target: the one that is `given`, else that of the file or the environment, looked at.

    A dry run needs none, but one that is there is looked at all the same. Raises UsageError.
    """
    from pipeline.targets import region_of

    cloud = bool(region_of(to))
    if given:
        return config.checked_project_key(given, cloud=cloud, warn=warn)
    if dry_run and file is None and not config.given_project_key():
        return Secret("phc_dry_run")
    return config.project_key(file, cloud=cloud, warn=warn)


def check_request(plan: Plan, directory: Directory, request: ApplyRequest) -> None:
    """All that can be said of a request without the network or the export.

    Raises UsageError for its key, UnsafePlan, BrokenLedger.
    """
    from pipeline.targets import address_of, is_loopback, region_of

    config.checked_project_key(request.project_key, cloud=bool(region_of(request.to)))
    check_applicable(plan, request.to)
    read_totals(directory.ledger)  # a ledger that was lost is noticed before anybody is asked anything
    check_phases(plan, directory, request.phases)
    at_home = request.dry_run or is_loopback(address_of(request.to))
    check_merges(plan, directory, request.phases, request.approve_merges, loopback=at_home)


def _run(
    plan: Plan,
    directory: Directory,
    request: ApplyRequest,
    interrupted: threading.Event | None,
    progress: Callable[[RunCounts], None],
    warn: Callable[[str], None],
    workers: Workers | None = None,
) -> Outcome:
    from pipeline.delivery.apply import Apply, Delivery, SendLimits
    from pipeline.delivery.capture import CaptureDestination
    from pipeline.delivery.destination import Destination, DryRunDestination
    from pipeline.targets import address_of
    from pipeline.transform.workers import Workers

    address = address_of(request.to)
    transform_config = transform_config_for(plan, directory, request.source_root)
    for line in check_fresh(plan, transform_config):
        warn(line)
    destination: Destination
    if request.dry_run:
        destination = DryRunDestination()
    else:
        destination = CaptureDestination(
            request.to,
            key=request.project_key,
            dialect=plan.options.dialect,
            timeout=request.timeout,
            ca_file=request.ca_file,
            redirect_hosts=request.redirect_hosts,
        )
    ledger = Ledger(None, like=directory.ledger) if request.dry_run else Ledger(directory.ledger)
    try:
        ledger.open(
            plan.digest, importlib.metadata.version("backcast"), address,
            None if request.dry_run else request.project_key, rotated=request.rotated_key,
        )  # fmt: skip
        delivery = Delivery(
            plan, directory, transform_config, request.project_key.reveal(), request.phases,
            request.send_limits or SendLimits(), request.dry_run, request.target_known,
        )  # fmt: skip
        workers = workers or Workers(workers_for(request.workers, transform_config.parts))
        run = Apply(delivery, destination, ledger, workers, interrupted=interrupted, progress=progress)
        try:
            return run.run()
        finally:
            ledger.close()
    finally:
        destination.close()


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A whole run against the local service, and what was read back there; `faults`: what its script of faults did."""

    outcome: Outcome
    verification: Verification
    store: Path
    faults: Sequence[FaultCounts] = ()


@private()
def rehearse(
    plan: Plan,
    directory: Directory,
    *,
    workers: int | None = None,
    source_root: Path | None = None,
    faults: Sequence[str] = (),
    fault_seed: int = 0,
    progress: Callable[[RunCounts], None] = lambda counts: None,
    warn: Callable[[str], None] = lambda line: None,
) -> Rehearsal:
    """Apply the plan to a fresh local service, read everything back, compare. A plan that is not ready can be, too.

    What landed stays in `rehearsal/store.duckdb` in the plan directory; `backcast service --store` shows it. With
    `faults` the service misbehaves on the way (see `pipeline.local_service.faults`).
    """
    from pipeline.local_service import LocalService

    read_totals(directory.ledger)  # the report says where the plan stands: known before an hour of rehearsing
    place = directory.rehearsal
    lock = lock_file(place, "the rehearsal of this plan")
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name in [*plan.files, *([EXCLUDED] if plan.options.excluded_ids else [])]:
            (place / name).symlink_to(Path("..") / name)
        if directory.stdin.exists():
            (place / "stdin").symlink_to(Path("..") / "stdin")
        inner = Directory(place)
        with LocalService(place / "store.duckdb", faults=faults, fault_seed=fault_seed) as service:
            request = ApplyRequest(service.url, Secret(service.capture_key), source_root=source_root, workers=workers)
            outcome = _run(plan, inner, request, None, progress, warn)
            if outcome.problem is not None:
                raise outcome.problem
            verification = verify_plan(
                plan, inner, to=service.url, personal_key=Secret(service.personal_key),
                project_id=str(service.project_id), workers=workers, source_root=source_root, whole=True,
            )  # fmt: skip
    finally:
        unlock(lock)
    return Rehearsal(outcome, verification, place / "store.duckdb", service.faults)


@private()
def verify_plan(
    plan: Plan,
    directory: Directory,
    *,
    to: str,
    personal_key: Secret,
    project_id: str | None = None,
    workers: int | None = None,
    source_root: Path | None = None,
    whole: bool = False,
) -> Verification:
    """Compare what landed with the ledger. `project_id` is 1 on this machine, and has to be named elsewhere.

    Looked at are the events with the plan's provenance; with `whole` those of others too, which are extra.
    Raises UsageError, Refused, Unfinished, UnreadableExport, StalePlan.
    """
    from pipeline.management import ManagementClient
    from pipeline.targets import address_of, is_loopback
    from pipeline.verify import verify

    if project_id is None:
        if not is_loopback(address_of(to)):
            raise UsageError(f"which project of {to}?", hint="name it with --project ID; its URL shows the number")
        project_id = "1"
    transform_config = transform_config_for(plan, directory, source_root)
    with ManagementClient(to, personal_key, project_id) as client:
        return verify(
            plan, directory, transform_config, client, workers=workers_for(workers, transform_config.parts), whole=whole
        )


def status(plan: Plan, directory: Directory) -> PlanStatus:
    """Where a plan stands, by its ledger and its report, also while a run is writing. Raises BrokenLedger."""
    from pipeline.report.state import plan_status

    return plan_status(plan, directory)
