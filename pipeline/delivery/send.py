"""Sends a plan: checks all that can be checked before a byte leaves, then runs `pipeline.delivery.apply`."""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pipeline import config as keys
from pipeline.config import Secret
from pipeline.delivery.phases import check_merges, check_phases, choose_phases
from pipeline.errors import UsageError
from pipeline.files import private
from pipeline.identity.event_ids import EVENTS_PER_MINUTE
from pipeline.ledger import Ledger, is_locked, lock_file, read_totals, unlock
from pipeline.models import Step
from pipeline.options import ApplyOptions
from pipeline.options.pace import read_hours, read_limits
from pipeline.plan.in_bucket import claim
from pipeline.plan.sealed.contents import check_tables
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import check_applicable, check_replayed
from pipeline.plan.sealed.manifest import Plan
from pipeline.storage import is_remote
from pipeline.targets import address_of, files_of, is_loopback, region_of

if TYPE_CHECKING:
    from pipeline.delivery.outcome import Outcome, RunCounts

DRY_RUN_KEY = Secret("phc_dry_run")
FILES_KEY = Secret("phc_files")
"""Takes the place of the key if files are written: they contain none."""


class Hooks(msgspec.Struct, frozen=True):
    """What a run calls as it proceeds: `progress` with its counts, `warn` with a sentence for a person, `step` while it
    reads files again before sending.

    Setting `interrupted` requests an orderly end: nothing new is begun, what is in flight is settled.
    """

    progress: Callable[[RunCounts], None] = lambda counts: None
    warn: Callable[[str], None] = lambda line: None
    interrupted: threading.Event = msgspec.field(default_factory=threading.Event)
    step: Step = lambda name, done, total: None


def capture_key(
    to: str,
    file: str | None = None,
    key: Secret | None = None,
    *,
    dry_run: bool = False,
    warn: Callable[[str], None] = lambda line: None,
) -> Secret:
    """The capture key for a target, its format checked: `key`, else the one in the file or the environment.

    A dry run needs none, but a given key is checked all the same, and a named file must contain one. Writing files
    takes none. Raises UsageError.
    """
    if files_of(to) is not None:
        return FILES_KEY
    if not key:
        key = keys.given_project_key(file)
    if dry_run and not key and file is None:
        return DRY_RUN_KEY
    return keys.checked_project_key(key or Secret(""), cloud=bool(region_of(to)), warn=warn)


def check_send(plan: Plan, directory: Directory, to: str, key: Secret, options: ApplyOptions) -> None:
    """Check all that can be checked without the network or the export.

    Raises UsageError for the key or a phase, Busy if another run is sending the plan, UnsafePlan, BrokenLedger.
    """
    phases = choose_phases(options.phases)
    keys.checked_project_key(key, cloud=bool(region_of(to)))
    check_applicable(plan, to)
    if not options.dry_run and is_locked(directory.ledger):  # before asking the target anything
        unlock(lock_file(directory.ledger, "this plan"))
    read_totals(directory.ledger)  # notices a lost ledger before anyone is asked anything
    check_phases(plan, directory, phases)
    if files_of(to) is not None:
        _check_files(options)
    local = options.dry_run or is_loopback(address_of(to))
    check_merges(plan, directory, phases, options.approve_merges, loopback=local)


def _is_ordered(plan: Plan, options: ApplyOptions) -> bool:
    """Whether the requests of a lane go one after the other; in a plan without lanes, all requests do."""
    return options.order == "person" or (options.order == "auto" and plan.order_decides)


def _check_files(options: ApplyOptions) -> None:
    """Raise UsageError for options that need a service, if files are written."""
    for name, given in (("--canary", options.canary), ("--require-canary", options.require_canary)):
        if given:
            raise UsageError(
                f"{name} reads events back from a service, but files are written here",
                hint=f"leave {name} out; to check the files, import them into a test project first",
            )
    if options.transport != "auto":
        raise UsageError(
            f"--transport {options.transport} applies only when sending to a service",
            hint="leave it out to write files",
        )


@private()
def send_plan(
    plan: Plan,
    directory: Directory,
    to: str,
    key: Secret,
    options: ApplyOptions = ApplyOptions(),
    hooks: Hooks | None = None,
    *,
    target_known: bool = False,
    project: str = "",
) -> Outcome:
    """Send exactly the plan, or resume doing so. `check_send` must have checked it; only a rehearsal may send a plan
    that is not ready.

    `target_known`: the target took other plans before, so the run waits out an outage from the first request on.
    `project` is the id of the key's project, for the ledger; "" if it is not known.
    If something stops a run that has begun, it is the `problem` of its outcome, which also has the counts.
    Raises what keeps it from beginning: UnsafePlan, StalePlan, UnreadableExport, Busy, BrokenLedger, UsageError.
    """
    from pipeline.delivery.apply import Apply, Delivery, SendLimits
    from pipeline.delivery.capture import CaptureDestination
    from pipeline.delivery.capture_v1 import PerEventDestination
    from pipeline.delivery.choice import BATCH, V1, Choice, EndpointQuestion, choose_transport
    from pipeline.delivery.destination import Destination, DryRunDestination
    from pipeline.delivery.file_destination import FileDestination
    from pipeline.delivery.retry import RetryPolicy

    hooks = hooks or Hooks()
    check_tables(
        plan, directory, plan.files
    )  # all files first: later, sending part of a damaged plan would go unnoticed
    check_replayed(plan)
    place = files_of(to)
    limits = SendLimits(
        options.max_concurrency if place is None else 1,
        RetryPolicy(options.retry_for, options.max_retries, options.first_pause, options.longest_pause),
        options.max_refused,
        () if options.rate is None else read_limits(options.rate),
        () if options.quiet_hours is None else read_hours(options.quiet_hours),
        options.hours_timezone or "",
        options.max_duration,
        place is None and _is_ordered(plan, options),
        _per_id(plan, to, options),
    )
    phases = choose_phases(options.phases)
    ca_file = None if options.ca_file is None else str(options.ca_file)
    dialect = plan.options.dialect
    batch: CaptureDestination | None = None
    per_event: PerEventDestination | None = None
    files: FileDestination | None = None
    with ExitStack() as stack:
        if place is None:
            batch = CaptureDestination(
                to, key=key, dialect=dialect, timeout=options.timeout, ca_file=ca_file,
                redirect_hosts=tuple(options.redirect_hosts),
            )  # fmt: skip
            stack.callback(batch.close)
            per_event = PerEventDestination(to, key=key, timeout=options.timeout, ca_file=ca_file)
            stack.callback(per_event.close)
        ledger = Ledger(None, like=directory.ledger) if options.dry_run else Ledger(directory.ledger)
        stack.callback(ledger.close)
        ledger.open(
            plan.digest, importlib.metadata.version("backcast"), address_of(to),
            None if options.dry_run or place is not None else key, rotated=options.rotated_key, project=project,
        )  # fmt: skip
        if not options.dry_run:
            claim(directory)
        if place is not None and not options.dry_run:
            bucket = place if is_remote(place) else ""
            folder = directory.files_for(bucket) if bucket else Path(place)
            files = FileDestination(folder, plan.digest, plan.tool, bucket=bucket)
            stack.callback(files.close)
            files.check(read_totals(directory.ledger))
        choice = Choice(BATCH)
        if per_event is not None:
            question = None
            if not options.dry_run:
                question = EndpointQuestion(
                    per_event, limits.retry, hooks.interrupted, target_known or ledger.was_answered()
                )
            choice = choose_transport(options.transport, dialect, ledger, question)
        delivery = Delivery(
            plan, directory, key.reveal(), phases, limits, options.dry_run, target_known,
            choice.transport == V1, options.canary,
        )  # fmt: skip
        destination: Destination = files or (per_event if delivery.per_event else batch) or DryRunDestination()
        if options.dry_run:
            destination = DryRunDestination()
        with _progress(plan, options, hooks) as progress:
            run = Apply(delivery, destination, ledger, interrupted=hooks.interrupted, progress=progress)
            if choice.problem is not None:
                run.stop_with(choice.problem)
            outcome = run.run()
        if files is not None and outcome.balanced:
            files.finish()
        return outcome


def _per_id(plan: Plan, to: str, options: ApplyOptions) -> int | None:
    """The most events of one id in a minute; by default no limit if no id has that many, or on this machine."""
    if options.per_id is not None or files_of(to) is not None:
        return options.per_id
    slow = options.dry_run or is_loopback(address_of(to)) or not plan.warnings.get("hot_distinct_id")
    return None if slow else EVENTS_PER_MINUTE


@contextmanager
def _progress(plan: Plan, options: ApplyOptions, hooks: Hooks) -> Iterator[Callable[[RunCounts], None]]:
    """The hook for the counts of a run, which also keeps metrics if the options ask for them. Raises UsageError."""
    if options.metrics is None and options.metrics_port is None:
        yield hooks.progress
        return
    try:
        from pipeline.delivery.metrics import measured
    except ImportError:
        hint = "install it: pip install 'backcast[metrics]'"
        raise UsageError("metrics need the library prometheus_client", hint=hint) from None
    file = None if options.metrics is None else Path(options.metrics)
    with measured(plan, file, options.metrics_port, hooks.progress, hooks.warn) as progress:
        yield progress
