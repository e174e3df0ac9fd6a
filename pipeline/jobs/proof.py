"""Read back what a job sent, window by window: a service that answers 200 has not said that it kept anything.

What was sent a moment ago may still be on its way, so a window that only lacks events is asked for again by the next
run for an hour before that counts as a difference. A window is done all the same: nothing is ever sent again for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pipeline.config import Secret
from pipeline.errors import Differences, StalePlan, UnreadableExport, UnsafePlan, UsageError
from pipeline.jobs import Attempt, Job, State, plan_directory
from pipeline.options import PreflightOptions
from pipeline.plan.freshness import open_plan, transform_config_for, workers_for
from pipeline.preflight.run import PreflightRequest, check_target
from pipeline.targets import address_of
from pipeline.timestamps import HOUR

LANDING = HOUR
"""So long, in µs, events may be on their way."""
_NO_MORE = "its events cannot be made again to compare"


@dataclass(frozen=True, slots=True)
class Proof:
    """What reading a window back said: `outcome` is pending, proved, differs or unknown."""

    attempt: Attempt
    directory: Path
    outcome: str
    detail: str


def check_ready(job: Job, project_key: Secret, personal_key: Secret, *, allow_firing: bool) -> list[str]:
    """Ask whether the target is ready; the warnings. Raises UnsafePlan where something would harm."""
    options = PreflightOptions(reach=False, allow_firing=allow_firing)
    found = check_target(PreflightRequest(job.to, project_key, personal_key, options))
    if found.stops:
        first, *others = found.stops
        more = f", and {len(others)} more" if others else ""
        raise UnsafePlan(f"the target is not ready: {first.detail}{more}; nothing was planned", hint=first.hint)
    return [f"{check.name}: {check.detail}" for check in found.checks if check.level == "warning"]


def prove(
    job: Job, state: State, attempt: Attempt, now: int, project_key: Secret, personal_key: Secret, workers: int | None
) -> Proof:
    """Compare one window that was sent with what landed, and note the result. `now` is µs UTC.

    Raises Refused and Unfinished for a service that cannot be asked; the window is asked for again then.
    """
    from pipeline.management import ManagementClient
    from pipeline.preflight.project import find_project
    from pipeline.report.machine import write_report
    from pipeline.report.results import verify_result
    from pipeline.verify import verify

    place = plan_directory(job.state, attempt.window, attempt.number)

    def told(outcome: str, detail: str) -> Proof:
        state.note(attempt.id, proof=outcome, detail=detail)
        return Proof(state.attempt(attempt.id), place.path, outcome, detail)

    try:
        plan, _ = open_plan(place.path)
        config = transform_config_for(plan, place)
    except (UsageError, UnsafePlan, UnreadableExport) as error:
        return told("unknown", f"{_NO_MORE}: {error.message}")
    with ManagementClient(job.to, personal_key) as client:
        project = find_project(client, project_key)
        if not project.known:
            return told("pending", project.check.detail)
        try:
            found = verify(plan, place, config, client, workers=workers_for(workers, config.parts), among_others=True)
        except (StalePlan, UnreadableExport) as error:
            return told("unknown", f"{_NO_MORE}: {error.message}")
    counts = found.events

    def known(outcome: str, detail: str) -> Proof:
        write_report(place, plan, verification=verify_result(found, to=address_of(job.to)))
        return told(outcome, detail)

    if found.proved:
        return known("proved", f"{counts['found']:,} events are there")
    lost = f"{counts['missing']:,} of {counts['expected']:,} events are not there"
    if counts["missing"] and not counts["different"] and not counts["extra"] and _age(attempt, now) < LANDING:
        return told("pending", f"{lost} yet; the next run looks again")
    return known("differs", f"{lost}, {counts['different']:,} are different, {counts['extra']:,} are there twice")


def difference(job: Job, proofs: list[Proof]) -> Differences | None:
    """What a person has to know of windows that differ."""
    wrong = [proof for proof in proofs if proof.outcome == "differs"]
    if not wrong:
        return None
    more = f", and {len(wrong) - 1} more windows" if len(wrong) > 1 else ""
    return Differences(
        f"window {wrong[0].attempt.window} is not at the service as it was sent: {wrong[0].detail}{more}",
        hint=f"see each event: backcast verify {wrong[0].directory} --to {job.to}; the next run looks again",
    )


def _age(attempt: Attempt, now: int) -> int:
    """µs since the window was recorded."""
    ended = datetime.fromisoformat(attempt.ended or attempt.started)
    return now - int(ended.timestamp()) * 1_000_000
