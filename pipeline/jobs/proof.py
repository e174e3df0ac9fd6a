"""Read back what a job sent, window by window: an answer of 200 does not prove that an event was stored.

Events that were just sent may not be visible yet, so for an hour a window that only lacks events is pending and the
next run reads it again; after that it is a difference. The window is done all the same: nothing is sent again for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pipeline.config import Secret
from pipeline.errors import Differences, StalePlan, UnreadableExport, UnsafePlan, UsageError
from pipeline.jobs.job import Job, plan_directory
from pipeline.jobs.state import Attempt, State
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import open_plan, transform_config_for, workers_for
from pipeline.preflight.run import PreflightRequest, check_target
from pipeline.targets import address_of
from pipeline.text import are, pluralize
from pipeline.timestamps import HOUR, SECOND

if TYPE_CHECKING:
    from pipeline.management import ManagementClient
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.report.contents import Project

LANDING = HOUR
"""How long, in µs, events may take to become visible."""


class Proof(msgspec.Struct, frozen=True):
    """The result of reading a window back: `outcome` is pending, proved, differs or unknown."""

    attempt: Attempt
    directory: Path
    outcome: str
    detail: str


def check_ready(request: PreflightRequest) -> list[str]:
    """The warnings of preflight about the target. Raises UnsafePlan where a check would stop an import."""
    preflight = check_target(request)
    if preflight.stops:
        first, *others = preflight.stops
        more = f", and {len(others)} more" if others else ""
        raise UnsafePlan(f"the target is not ready: {first.detail}{more}; nothing was planned", hint=first.hint)
    return [f"{check.name}: {check.detail}" for check in preflight.checks if check.level == "warning"]


def already_there(
    request: PreflightRequest, plan: Plan, directory: Directory, *, alone: bool, warn: Callable[[str], None]
) -> Iterator[str]:
    """Why a plan that was never sent must not be, because the target has its events already; what could not be asked is
    a warning. `alone`: nothing of its window was sent, so events that are the same but for the uuid count, too."""
    from pipeline.preflight.check import registered_checks
    from pipeline.preflight.checks.already_there import ALREADY_THERE
    from pipeline.preflight.target import Target

    asked = msgspec.structs.replace(request, options=replace(request.options, events=True))
    with Target(asked, plan, directory) as target:
        check = next(one for one in registered_checks() if one.name == ALREADY_THERE)
        for found in check.results(target):
            if found.level == "stop" and (alone or found.name == ALREADY_THERE):
                way = "name the plan that sent them: `earlier: [DIR]`"
                if found.name != ALREADY_THERE:
                    way = "begin after the import that sent them: `from`"
                yield f"{found.detail}; {way}; or accept them: `gates: {{max_already_there: 100%}}`"
            elif found.level == "unknown":
                warn(f"whether the target has events of {directory.name} already: {found.detail}")
        target.forget_answers()


def prove(
    job: Job, state: State, attempt: Attempt, now: int, project_key: Secret, personal_key: Secret, workers: int | None
) -> Proof:
    """Compare one window that was sent with what landed, and record the result. `now` is µs UTC.

    Raises Refused and Unfinished for a service that does not answer; the next run tries again.
    """
    from pipeline.management import ManagementClient
    from pipeline.management.client import management_address
    from pipeline.preflight.project import find_project
    from pipeline.report.contents import project_of

    directory = plan_directory(job.state, attempt.window, attempt.number)
    age = now - int(datetime.fromisoformat(attempt.ended or attempt.started).timestamp()) * SECOND
    try:
        plan, _ = open_plan(directory.path)
        address = management_address(job.to, job.checks.api)
        with ManagementClient(address, personal_key, job.checks.project) as client:
            project = find_project(client, project_key)
            if project.known:
                named = project_of(str((project.record or {}).get("name") or ""), job.to)
                recent = age < LANDING
                outcome, detail = _compare(job, state, plan, directory, client, workers, named, recent=recent)
            else:
                outcome, detail = "pending", project.check.detail
    except (UsageError, UnsafePlan, StalePlan, UnreadableExport) as error:
        outcome, detail = "unknown", f"its events cannot be read again to compare: {error.message}"
    return Proof(state.update(attempt, proof=outcome, detail=detail), directory.path, outcome, detail)


def _compare(
    job: Job, state: State, plan: Plan, directory: Directory, client: ManagementClient, workers: int | None,
    project: Project | None, *, recent: bool,
) -> tuple[str, str]:  # fmt: skip
    """(outcome, detail) of a window; a final outcome is written to its report, too."""
    from pipeline.report.contents import Results, earlier_verification
    from pipeline.report.machine import write_report
    from pipeline.report.results import verify_result
    from pipeline.report.verification_words import by_kind, listed
    from pipeline.verify import Depth, verify

    config = transform_config_for(plan, directory)
    workers = workers_for(workers, config.parts)
    earlier = earlier_verification(directory, plan)
    depth = Depth(fields=job.verify.fields, among_others=True, latest=state.groups.is_latest, earlier=earlier)  # type: ignore[arg-type]
    verification = verify(plan, directory, config, client, workers=workers, depth=depth)
    result = verify_result(verification, to=address_of(job.to))
    counts, wrong = result.events, by_kind(result)
    if verification.proved:
        values = f", {result.values.compared:,} with every property" if result.values.compared else ""
        outcome, detail = "proved", f"{pluralize(counts.found, 'event')} {are(counts.found)} there{values}"
    elif recent and counts.missing and not (counts.different or counts.extra or counts.altered):
        detail = f"{counts.missing:,} of {counts.expected:,} events are not there yet; the next run reads it again"
        return "pending", detail
    else:
        outcome, detail = "differs", f"of {counts.expected:,} events: {listed(wrong)}"
    write_report(directory, plan, Results(verification=result, project=project))
    return outcome, detail


def difference(job: Job, proofs: list[Proof]) -> Differences | None:
    """The error for the windows that differ, None without any."""
    differing = [proof for proof in proofs if proof.outcome == "differs"]
    if not differing:
        return None
    first = differing[0]
    more = f", and {len(differing) - 1} more windows" if len(differing) > 1 else ""
    return Differences(
        f"window {first.attempt.window} is not at the service as it was sent: {first.detail}{more}",
        hint=f"see each event: backcast verify {first.directory} --to {job.to}; the next run reads it again",
    )
