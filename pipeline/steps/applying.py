"""Sends a plan, or its canary, and reads the canary back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from pipeline.config import Secret
from pipeline.delivery.outcome import Outcome
from pipeline.delivery.phases import choose_phases
from pipeline.delivery.send import Hooks, check_send, send_plan
from pipeline.delivery.target_lock import target_lock
from pipeline.ledger import read_totals
from pipeline.models import Step
from pipeline.options import ApplyOptions, PauseOptions, VerifyOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import Results, project_of
from pipeline.report.machine import update_report
from pipeline.report.results import ApplyResult, CanaryResult, apply_result, canary_result, verify_result
from pipeline.report.state import PlanStatus, check_ready, check_required, read_status
from pipeline.steps.keys import KeySource, Warn
from pipeline.steps.target import check_before_sending, project_to_read, warn_of_silence
from pipeline.targets import address_of, files_of
from pipeline.verify.canary import canary_to_send, read_canary
from pipeline.verify.findings import Verification
from pipeline.verify.settle import settle_seconds

if TYPE_CHECKING:
    from pipeline.preflight.run import Preflight


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
    check_ready(plan, directory)
    check_send(plan, directory, to, key, options)
    check_required(plan, directory, to, options)
    with target_lock(str(directory.path.absolute()), to, key, options, warn):
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

                warn_of_silence(address, warn)
                checks = replace(checks, ca_file=options.ca_file, redirect_hosts=options.redirect_hosts, reach=False)
                request = PreflightRequest(to, key, reader, checks)
                settle = settle_seconds(to, checks.settle)
                pauses = checks.pause_functions and ended < plan.events.made
                pausing = stack.enter_context(pausing_for(request, directory, plan, warn, pauses=pauses))
                if sum(events.values()):
                    preflight = check_before_sending(request, plan, directory, options, hooks.checked, warn)
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
            project = "" if preflight is None else preflight.sure_project(checks)
            outcome = send_plan(
                plan, directory, to, key, options, run, target_known=hooks.target_known, project=project
            )
        left_off = pausing is not None and any(not function.changed for function in pausing.recorded)
        canary = None
        if sample is not None and reads and outcome.problem is None:
            read_back = hooks.read_back
            if read_back is None:
                reading, _ = project_to_read(directory, to, reading, reader, keys)
                read_back = partial(read_canary, plan, directory, to, reading, reader)
            with hooks.reading() as progress:
                found = read_back(progress)
            canary = canary_result(sample, outcome, verify_result(found, to=address))
    if not options.dry_run:
        named = None if preflight is None else project_of(preflight.project, address)
        update_report(directory, plan, warn, Results(project=named, canary=canary))
    status = read_status(plan, directory, Results(canary=canary))
    result = msgspec.structs.replace(apply_result(outcome, to=address), state=status.state)
    if preflight is not None:
        from pipeline.report.terminal.preflight_view import key_status

        result = msgspec.structs.replace(result, capture_key=key_status(preflight))
    if canary is not None:
        result = msgspec.structs.replace(result, canary=canary)
    return Applied(outcome, result, status, canary, left_off)
