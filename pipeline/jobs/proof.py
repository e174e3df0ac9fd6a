"""Reads back what a job sent, window by window: an answer of 200 does not prove that an event was stored.

Events that were just sent may not be visible yet. So for an hour, a window that only lacks events is pending, and the
next run reads it again; after that it is a difference. The window is done all the same: nothing is sent again for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pipeline.config import Secret
from pipeline.errors import Differences, StalePlan, UnreadableExport, UnsafePlan, UsageError
from pipeline.jobs.job import Job, plan_directory
from pipeline.jobs.state import Attempt, State
from pipeline.plan.sealed.contents import check_tables
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import open_plan
from pipeline.preflight.run import PreflightRequest, check_target
from pipeline.report.contents import NO_RESULTS, Results, project_of, results_of
from pipeline.report.machine import write_report
from pipeline.report.results import verify_result
from pipeline.report.verification_words import by_kind, listed
from pipeline.steps import refuse_stops
from pipeline.targets import address_of
from pipeline.text import are, pluralize
from pipeline.timestamps import HOUR, SECOND
from pipeline.verify import Depth, Verification

if TYPE_CHECKING:
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.preflight.project import ProjectResult

LANDING = HOUR
"""How long, in µs, events may take to become visible."""


class Proof(msgspec.Struct, frozen=True):
    """The result of reading a window back: `outcome` is pending, proved, differs or unknown."""

    attempt: Attempt
    directory: Path
    outcome: str
    detail: str


def check_ready(request: PreflightRequest) -> list[str]:
    """The warnings of preflight about the target. Raises UnsafePlan if a check would stop an import."""
    preflight = check_target(request)
    refuse_stops(preflight, "planned")
    return [f"{check.name}: {check.detail}" for check in preflight.checks if check.level == "warning"]


def already_there(
    request: PreflightRequest, plan: Plan, directory: Directory, *, alone: bool, warn: Callable[[str], None]
) -> Iterator[str]:
    """Why a plan that was never sent must not be sent, because the target already has its events. Other versions of
    them, and what could not be asked, are warnings. `alone`: nothing of its window was sent, so events that differ only
    in their uuid count too."""
    from pipeline.preflight.check import registered_checks
    from pipeline.preflight.checks.already_there import ALREADY_THERE, OTHER_VERSIONS
    from pipeline.preflight.target import Target

    asked = msgspec.structs.replace(request, options=replace(request.options, events=True))
    with Target(asked, plan, directory) as target:
        checks = (one for one in registered_checks() if one.name in (ALREADY_THERE, OTHER_VERSIONS))
        for found in chain.from_iterable(check.results(target) for check in checks):
            if found.level == "stop" and (alone or found.name == ALREADY_THERE):
                way = "name the plan that sent them: `earlier: [DIR]`"
                if found.name != ALREADY_THERE:
                    way = "begin after the import that sent them: `from`"
                yield f"{found.detail}; {way}; or accept them: `gates: {{max_already_there: 100%}}`"
            elif found.name == OTHER_VERSIONS and found.level != "ok":
                warn(f"{found.name} of {directory.name}: {found.detail}")
            elif found.level == "unknown":
                warn(f"whether the target already has events of {directory.name}: {found.detail}")
        target.forget_answers()


def read_window(
    job: Job, plan: Plan, directory: Directory, keys: tuple[Secret, Secret], depth: Depth
) -> tuple[ProjectResult, Verification | None]:
    """Compare what was sent of a plan with the project of its keys, the capture key and the personal key; None if
    the project is not known. Other windows have events there too."""
    from pipeline.management import ManagementClient
    from pipeline.management.client import management_address
    from pipeline.preflight.project import find_project
    from pipeline.verify import verify

    check_tables(plan, directory)
    with ManagementClient(management_address(job.to, job.checks.api), keys[1], job.checks.project) as client:
        project = find_project(client, keys[0])
        if not project.known:
            return project, None
        return project, verify(plan, directory, client, depth=depth._replace(among_others=True))


def prove(job: Job, state: State, attempt: Attempt, now: int, project_key: Secret, personal_key: Secret) -> Proof:
    """Compare one window that was sent with what landed, and record the result. `now` is in µs UTC.

    Raises Refused and Unfinished for a service that does not answer; the next run tries again.
    """
    directory = plan_directory(job.state, attempt.window, attempt.number)
    age = now - int(datetime.fromisoformat(attempt.ended or attempt.started).timestamp()) * SECOND
    try:
        plan, _ = open_plan(directory.path)
        earlier = results_of(directory, plan, NO_RESULTS).verification
        depth = Depth(fields=job.verify.fields, latest=state.groups.is_latest, earlier=earlier)  # type: ignore[arg-type]
        project, found = read_window(job, plan, directory, (project_key, personal_key), depth)
        if found is None:
            outcome, detail = "pending", project.check.detail
        else:
            result = verify_result(found, to=address_of(job.to))
            outcome, detail = _judge(result, recent=age < LANDING)
        if found is not None and outcome != "pending":
            named = project_of(str((project.record or {}).get("name") or ""), job.to)
            write_report(directory, plan, Results(verification=result, project=named))
    except (UsageError, UnsafePlan, StalePlan, UnreadableExport) as error:
        outcome, detail = "unknown", f"cannot read its events again to compare: {error.message}"
    return Proof(state.update(attempt, proof=outcome, detail=detail), directory.path, outcome, detail)


def _judge(result: Verification, *, recent: bool) -> tuple[str, str]:
    """(outcome, detail) of a window that was read back."""
    counts = result.events
    if result.proved:
        values = f", {result.values.compared:,} with every property" if result.values.compared else ""
        return "proved", f"{pluralize(counts.found, 'event')} {are(counts.found)} there{values}"
    if recent and counts.missing and not (counts.different or counts.extra or counts.altered):
        detail = f"{counts.missing:,} of {counts.expected:,} events are not there yet; the next run reads it again"
        return "pending", detail
    return "differs", f"of {counts.expected:,} events: {listed(by_kind(result))}"


def difference(job: Job, proofs: list[Proof]) -> Differences | None:
    """The error for the windows that differ, or None."""
    differing = [proof for proof in proofs if proof.outcome == "differs"]
    if not differing:
        return None
    first = differing[0]
    more = f", and {len(differing) - 1} more windows" if len(differing) > 1 else ""
    return Differences(
        f"window {first.attempt.window} differs at the service from what was sent: {first.detail}{more}",
        hint=f"see each event: backcast verify {first.directory} --to {job.to}; the next run reads it again",
    )
