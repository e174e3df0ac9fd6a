"""The steps after a plan: apply, verify and discard. Commands, the library and jobs call these alike.

Each takes an open plan, asks nothing and prints nothing by itself, updates the report of the plan, and returns one
result, which the terminal, the report and `--json` show. Each of the other steps is one function of the library
(`pipeline.api`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from pipeline import config, out_of_memory
from pipeline.config import Secret
from pipeline.delivery.outcome import Outcome
from pipeline.delivery.phases import choose_phases
from pipeline.delivery.send import Hooks, capture_key, check_send, send_plan
from pipeline.delivery.target_lock import target_lock
from pipeline.errors import BackcastError, UnsafePlan, UsageError
from pipeline.ledger import lock_file, read_totals, unlock
from pipeline.models import Step
from pipeline.options import ApplyOptions, DiscardOptions, KeyOptions, PauseOptions, VerifyOptions
from pipeline.plan.in_bucket import publish_discarded, remove_objects
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.discarded import (
    Discarded,
    discarded_of,
    files_in,
    remove_people,
    with_people,
    write_discarded,
)
from pipeline.plan.sealed.manifest import Plan, read_plan
from pipeline.report.contents import NO_RESULTS, Project, Results, project_of, results_of
from pipeline.report.machine import update_report
from pipeline.report.results import ApplyResult, CanaryResult, apply_result, canary_result, repair_counts, verify_result
from pipeline.report.state import PlanStatus, State, check_required, read_status, step_after
from pipeline.targets import address_of, files_of, is_loopback
from pipeline.text import pluralize, quoted
from pipeline.timestamps import utc_now
from pipeline.verify.canary import canary_to_send, read_canary
from pipeline.verify.findings import Verification
from pipeline.verify.settle import settle_seconds

if TYPE_CHECKING:
    from pipeline.preflight.run import Preflight, PreflightRequest

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where the keys of a step come from: those given, else the files that options name, else the environment.
    Each is read when the step needs it."""

    project: Secret | None = None
    personal: Secret | None = None
    files: KeyOptions = field(default_factory=KeyOptions)

    def capture(self, to: str, warn: Warn, *, dry_run: bool = False) -> Secret:
        """The capture key for a target, as `pipeline.delivery.send.capture_key` finds it. Raises UsageError."""
        return capture_key(to, self.files.project_key_file, self.project, dry_run=dry_run, warn=warn)

    def reading(self, *, required: bool) -> Secret:
        """The personal key, or "" if it is not required. Raises UsageError."""
        read = config.required_personal_key if required else config.personal_key
        return self.personal or read(self.files.personal_key_file)


# -- apply -------------------------------------------------------------------------------------------


class ApplyHooks(msgspec.Struct, frozen=True):
    """What an apply calls: `warn` with a sentence for a person; `checked` with the preflight and whether a personal key
    was used; `confirm` with the events of each phase and the name of the project, which raises if they must not be
    sent; `sending` and `reading` for the progress of the two.

    `read_back` reads a canary instead of `pipeline.verify.canary.read_canary`. `target_known`: the target took other
    plans before.
    """

    warn: Warn = lambda line: None
    checked: Callable[[Preflight, bool], None] = lambda preflight, asked: None
    confirm: Callable[[Mapping[str, int], str], None] = lambda events, project: None
    sending: Callable[[int], AbstractContextManager[Hooks]] = lambda events: nullcontext(Hooks())
    reading: Callable[[], AbstractContextManager[Step]] = lambda: nullcontext(lambda name, done, total: None)
    read_back: Callable[[Step], Verification] | None = None
    target_known: bool = False


class Applied(msgspec.Struct, frozen=True):
    """A run of apply. `left_off`: hog functions that were turned off for it are still off."""

    outcome: Outcome
    result: ApplyResult
    status: PlanStatus
    canary: CanaryResult | None = None
    left_off: bool = False

    def ended(self) -> Outcome:
        """The outcome. Raises what stopped the run."""
        if self.outcome.problem is not None:
            raise self.outcome.problem
        return self.outcome


def apply(
    plan: Plan,
    directory: Directory,
    to: str,
    keys: KeySource,
    options: ApplyOptions,
    *,
    checks: PauseOptions | None = None,
    reading: VerifyOptions = VerifyOptions(),
    hooks: ApplyHooks,
) -> Applied:
    """Send exactly the plan, or its canary, which is then read back as `reading` says; run again to resume.

    With `checks`, the target is checked first, and hog functions are turned off meanwhile if the checks ask for it.
    What stopped a run that began is the `problem` of its outcome. Raises what keeps it from beginning.
    """
    warn, address = hooks.warn, address_of(to)
    key = keys.capture(to, warn, dry_run=options.dry_run)
    check_send(plan, directory, to, key, options)
    check_required(plan, directory, to, options)
    with target_lock(to, key, options, warn):
        reads = options.canary and not options.dry_run
        asks = hooks.read_back is None and (reads or checks is not None)
        reader = keys.reading(required=reads) if asks else Secret("")
        sample = canary_to_send(plan, directory, to, options, reading if hooks.read_back is None else None)
        totals = read_totals(directory.ledger)
        ended = totals.settled + totals.refused
        of_phases = plan.events.phases if sample is None else sample.events
        events = {phase: of_phases.get(phase, 0) for phase in choose_phases(options.phases)}
        preflight, pausing, functions, settle = None, None, [], 0.0
        with ExitStack() as stack:
            if checks is not None and not options.dry_run and files_of(to) is None:
                from pipeline.preflight.pausing import pausing_for
                from pipeline.preflight.run import PreflightRequest

                _warn_of_silence(address, warn)
                checks = replace(checks, ca_file=options.ca_file, redirect_hosts=options.redirect_hosts, reach=False)
                request = PreflightRequest(to, key, reader, checks)
                settle = settle_seconds(to, checks.settle)
                pauses = checks.pause_functions and ended < plan.events.made
                pausing = stack.enter_context(pausing_for(request, directory, plan, warn, pauses=pauses))
                if sum(events.values()):
                    preflight = _preflight(request, plan, directory, hooks)
                    functions = [] if pausing is None else pausing.would_fire()
                    if pausing is not None and (notice := pausing.notice(functions)):
                        warn(notice)
                    hooks.confirm(events, preflight.project)
            run = stack.enter_context(hooks.sending(plan.events.made if sample is None else ended + sample.size))
            if pausing is not None:
                from pipeline.preflight.pausing import paused

                stack.enter_context(paused(pausing, functions, settle, run.step, warn))
                if pausing.recorded:
                    update_report(directory, plan, warn)  # if the run is killed from here on, the report names them
            outcome = send_plan(plan, directory, to, key, options, run, target_known=hooks.target_known)
        left_off = pausing is not None and any(not function.changed for function in pausing.recorded)
        canary = None
        if sample is not None and reads and outcome.problem is None:
            if hooks.read_back is None:
                reading = _of_project(plan, directory, to, reading, reader, keys)
            read_back = hooks.read_back or partial(_read_canary, plan, directory, to, reading, reader)
            with hooks.reading() as progress:
                found = read_back(progress)
            canary = canary_result(sample, outcome, verify_result(found, to=address))
    project = None if preflight is None else project_of(preflight.project, address)
    if not options.dry_run:
        update_report(directory, plan, warn, Results(project=project, canary=canary))
    status = read_status(plan, directory, Results(canary=canary))
    result = msgspec.structs.replace(apply_result(outcome, to=address), state=status.state)
    if preflight is not None:
        from pipeline.report.terminal.preflight_view import key_status

        result = msgspec.structs.replace(result, capture_key=key_status(preflight))
    if canary is not None:
        result = msgspec.structs.replace(result, canary=canary)
    return Applied(outcome, result, status, canary, left_off)


def _warn_of_silence(address: str, warn: Warn) -> None:
    """Warn that nothing listens at an address of this machine: otherwise later errors would seem to be about the
    key."""
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if is_loopback(address):
        try:
            socket.create_connection((parts.hostname, port), timeout=2).close()
        except OSError as error:
            warn(
                f"nothing answers at {address} ({error.strerror or error}): start the service there"
                f" (backcast service --port {port}), or name another target (--to us|eu|URL)"
            )


def _read_canary(
    plan: Plan, directory: Directory, to: str, reading: VerifyOptions, key: Secret, progress: Step
) -> Verification:
    return read_canary(plan, directory, to, reading, key, progress=progress)


def _preflight(request: PreflightRequest, plan: Plan, directory: Directory, hooks: ApplyHooks) -> Preflight:
    """Check the target before anything is sent; without a personal key, as far as that is possible. Raises UnsafePlan
    if sending would do harm."""
    from pipeline.preflight.run import check_target
    from pipeline.report.records import read_preflight

    if request.personal_key:
        found = check_target(request, plan, directory, read_preflight(directory))
        if not found.reused:
            record_preflight(request, plan, directory, found, hooks.warn)
    else:
        found = check_target(request)
    hooks.checked(found, bool(request.personal_key))
    refuse_stops(found, "sent", ", which `backcast preflight` lists")
    return found


def record_preflight(request: PreflightRequest, plan: Plan, directory: Directory, found: Preflight, warn: Warn) -> None:
    """Write what the target answered next to the plan. A directory that cannot be written only causes a warning."""
    from pipeline.report.records import write_preflight

    try:
        write_preflight(directory, plan.digest, address_of(request.to), request.options.max_already_there, found)
    except OSError as error:
        warn(f"could not write the result to {directory.preflight}: {error.strerror}")


def refuse_stops(found: Preflight, done: str, listed: str = "") -> None:
    """Raise UnsafePlan for a target that is not ready; then nothing was `done`. `listed` says where all stops are
    listed."""
    if found.stops:
        first, *others = found.stops
        more = f", and {len(others)} more{listed}" if others else ""
        raise UnsafePlan(f"the target is not ready: {first.detail}{more}; nothing was {done}", hint=first.hint)


# -- verify ------------------------------------------------------------------------------------------


class Verified(msgspec.Struct, frozen=True):
    """What was read back, and what `--repair` sent again before that."""

    result: Verification
    status: PlanStatus
    outcome: Outcome | None = None
    faults: Sequence[str] = ()

    @property
    def problem(self) -> BackcastError | None:
        """What stopped a repair."""
        return None if self.outcome is None else self.outcome.problem


def verify(
    plan: Plan,
    directory: Directory,
    to: str,
    keys: KeySource,
    options: VerifyOptions,
    *,
    confirm: Callable[[int], None] = lambda count: None,
    hooks: Hooks,
) -> Verified:
    """Compare what landed with the ledger, or written files with what an import makes of them.

    `confirm` is called with the number of missing events before a repair sends them, and raises if they must not be
    sent.
    """
    from pipeline.verify.steps import Keys, compare, repair

    earlier, warn = results_of(directory, plan, NO_RESULTS).verification, hooks.warn
    outcome, project = None, None
    faults: Sequence[str] = ()
    if files_of(to) is not None:
        out_of_memory.require_for_service()
        from pipeline.imported import compare_files

        found, faults = compare_files(plan, directory, to, options, progress=hooks.step)
    else:
        key = keys.reading(required=True)
        options = _of_project(plan, directory, to, options, key, keys)
        if options.repair:
            both = Keys(key, keys.capture(to, warn))
            outcome, found = repair(plan, directory, to, options, both, earlier=earlier, confirm=confirm, hooks=hooks)
        else:
            found = compare(plan, directory, to, options, key, earlier=earlier, progress=hooks.step)
        project = _project(to, options, key)
    result = verify_result(found, to=address_of(to), repair=repair_counts(outcome, asked=options.repair))
    new = Results(verification=result, project=project)
    update_report(directory, plan, warn, new)
    status = read_status(plan, directory, new)
    return Verified(msgspec.structs.replace(result, state=status.state), status, outcome, faults)


def _of_project(
    plan: Plan, directory: Directory, to: str, options: VerifyOptions, key: Secret, keys: KeySource
) -> VerifyOptions:
    """The options with the project to read: the named one, the one to which `apply` sent, or that of the keys. A wrong
    one would make `--repair` send everything again. Raises UsageError if none is known."""
    from pipeline.management import ManagementClient
    from pipeline.preflight.project import find_project
    from pipeline.report.records import read_preflight

    if options.project is not None:
        return options
    recorded = read_preflight(directory)
    if recorded is not None and recorded.project and (recorded.digest, recorded.to) == (plan.digest, address_of(to)):
        return replace(options, project=recorded.project)
    with ManagementClient(options.api or to, key, timeout=10.0) as client:
        found = find_project(client, keys.project or config.given_project_key(keys.files.project_key_file))
        if found.known and client.project_id is not None:
            return replace(options, project=client.project_id)
    if is_loopback(address_of(to)):
        return replace(options, project="1")  # the only one of a local service, unless its --keys has more
    raise UsageError(f"which project of {to}? {found.check.detail}", hint="name it with --project ID; its URL shows it")


def _project(to: str, options: VerifyOptions, key: Secret) -> Project | None:
    """The project that was compared, for the title of the report; None if the key may not read its name."""
    from pipeline.delivery.retry import RetryPolicy
    from pipeline.management import ManagementClient
    from pipeline.preflight.project import project_name

    with ManagementClient(options.api or to, key, options.project, timeout=10.0, retry=RetryPolicy(tries=1)) as client:
        return project_of(project_name(client), to)


# -- discard -----------------------------------------------------------------------------------------


class Discarding(msgspec.Struct, frozen=True):
    """What was removed from a plan: `files` with `bytes`, at `at` (for a run that was stopped, when it began)."""

    digest: str
    state: str
    at: str
    files: int
    bytes: int
    merges_kept: bool
    format: str = "backcast.discard/1"


def discard(
    plan: Plan,
    directory: Directory,
    options: DiscardOptions,
    *,
    confirm: Callable[[], None] = lambda: None,
    warn: Warn = lambda line: None,
) -> Discarding:
    """Remove the events of a plan, and the ids and values of people in it; the report and the ledger stay.

    `confirm` raises if they must not be removed. The next call finishes one that was stopped. Raises UnsafePlan
    for a plan that is not completely sent and verified, unless `options` allow it; Busy, UsageError, BrokenLedger.
    """
    new = discarded_of(plan, directory) is None
    if new:
        _refuse_open(plan, directory, options)
        confirm()
    with ExitStack() as stack:
        for path, name in (
            (directory.path / "plan", str(directory.path)), (directory.rehearsal, "the rehearsal of this plan"),
            (directory.verification, "the verification of this plan"),
        ):  # fmt: skip
            stack.callback(unlock, lock_file(path, name))
        if new:  # again, since the answer may have taken long
            _refuse_open(plan, directory, options)
        stack.callback(unlock, lock_file(directory.ledger, "this plan"))
        marker = discarded_of(plan, directory) or Discarded(plan.digest, utc_now(), options.keep_merges)
        gone = with_people(plan, directory, merges_kept=marker.merges_kept)
        sizes = [file.stat().st_size for file in files_in(gone)]
        publish_discarded(directory, marker, {path.name for path in gone})
        write_discarded(directory, marker)
        remove_people(plan, directory, marker)
        remove_objects(directory)
    update_report(directory, plan, warn)
    state = read_status(plan, directory).state
    return Discarding(plan.digest, state, marker.at, len(sizes), sum(sizes), marker.merges_kept)


def _refuse_open(plan: Plan, directory: Directory, options: DiscardOptions) -> None:
    """Raise UnsafePlan for a plan of which something must still be sent or verified, or was refused, unless `options`
    allow that, and for a plan that another one replaced; Busy while it is being sent."""
    if read_plan(directory).digest != plan.digest:
        raise UnsafePlan(
            f"{directory.name} contains another plan by now; nothing was discarded",
            hint=f"look at it: backcast status {quoted(directory.name)}; then run the same command again",
        )
    unlock(lock_file(directory.ledger, "this plan"))
    if options.unsent:
        return
    status = read_status(plan, directory)
    if status.state in (State.VERIFIED, State.SENDING) or not plan.events.made:
        return
    events, name = pluralize(plan.events.made, "event"), quoted(directory.name)
    missing = {
        State.STOPPED: f"{status.unsent:,} of its {events} are not sent, and {status.totals.in_doubt:,} are in doubt",
        State.DIFFERS: "what landed differs from what was sent",
        State.SENT: "what was sent was not verified",
        State.SENT_WITH_REFUSALS: f"{pluralize(status.totals.refused, 'event')} refused, which --replay can plan again",
    }.get(status.state)
    command = step_after(plan, status, directory.name).command
    if missing is None:
        missing, command = f"{events} not sent", f"backcast apply {name} --to {quoted(plan.target or 'URL')}"
    raise UnsafePlan(
        f"the events of {directory.name} are still needed: {missing}; nothing was discarded",
        hint=f"{command}; or, if nobody needs them: backcast discard {name} --unsent",
    )
