"""The steps of a migration as functions: what `import pipeline` offers.

Each does what the command of its name does, without asking and without printing: it takes a plan directory, returns
what was found, and raises what `pipeline.errors` draws. Keys come from the environment unless they are given; a key
given here never appears in a repr, a plan, a ledger or a report.

A script may call these from its top level: worker processes do not run it again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import api, config
from pipeline.api import Rehearsal
from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.files import private
from pipeline.models import Limits, Reject
from pipeline.options import SealedOptions
from pipeline.plan.manifest import Plan
from pipeline.plan.phases import PHASES

if TYPE_CHECKING:
    from pipeline.delivery.outcome import Outcome, RunCounts
    from pipeline.report.state import PlanStatus
    from pipeline.survey import Survey
    from pipeline.verify import Verification

PathText = str | PathLike[str]


@private()
def survey_export(sources: PathText | Sequence[PathText], *, rows: int | None = 200_000) -> Survey:
    """Look at an export before mapping it: its tool, fields, types, times and zone.

    `rows` is how many are looked at, None for all. Raises UsageError, UnreadableExport.
    """
    from pipeline.extractors import open_source
    from pipeline.survey import survey

    with tempfile.TemporaryDirectory() as spool:
        return survey(open_source(_texts(sources), spool=Path(spool)), rows=rows)


def plan_export(
    sources: PathText | Sequence[PathText],
    directory: PathText,
    *,
    mapping: PathText | None = None,
    target: str = "",
    dialect: str | None = None,
    timezone: str | Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    settings: Mapping[str, str] | None = None,
    exclude_ids: PathText | None = None,
    limit: int | None = None,
    max_rejects: str = "0",
    allow_recent: bool = False,
    collapse_identical: bool = False,
    allow_key_conflicts: bool = False,
    name: str = "",
    provenance: bool = True,
    max_batch_events: int = Limits().batch_events,
    max_batch_bytes: int = Limits().batch_bytes,
    person_properties: str | None = None,
    profile_policy: str | None = None,
    promoted_properties: str | None = None,
    persons: str = "all",
    max_ids_per_person: int = SealedOptions(0).max_ids_per_person,
    identities: PathText | None = None,
    group_types: Sequence[str] = (),
    earlier: Sequence[PathText] | None = None,
    as_of: datetime | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda rows, length: None,
) -> Plan:
    """Read everything, send nothing, write the sealed plan and its report into `directory`.

    `timezone` is the zone of a tool that writes local times, or several as `ZONE@2021-03-01` where it changed.
    `since` and `until` are half-open, event time, and need an offset. The plan may come back not ready: look at
    `plan.ready` and `plan.gates`. Raises UsageError, MappingError, UnreadableExport, and Busy where the directory
    holds the ledger of a plan that was applied.

    `person_properties` is final or none, `profile_policy` fill-only, overwrite or prefix=TEXT, `promoted_properties`
    leave or final; None leaves each to the mapping. `persons` is all or identified; `identities` a file of pairs of
    ids; `earlier` directories of plans whose merges are in, by default those beside this one that name the same target.
    """
    from pipeline.plan.directory import Directory
    from pipeline.report.machine import write_report
    from pipeline.timestamps import ZoneClock

    texts = (timezone,) if isinstance(timezone, str) else tuple(timezone)
    zones = tuple((zone, start) for zone, _, start in (text.partition("@") for text in texts))
    ZoneClock(zones)
    plan = api.plan_export(
        api.PlanRequest(
            sources=_texts(sources),
            directory=Path(directory),
            mapping=None if mapping is None else fspath(mapping),
            target=target,
            dialect=dialect,
            zones=zones,
            since=_micros(since, "since"),
            until=_micros(until, "until"),
            settings=dict(settings or {}),
            name=name,
            provenance=provenance,
            allow_recent=allow_recent,
            collapse_identical=collapse_identical,
            allow_key_conflicts=allow_key_conflicts,
            exclude_ids=None if exclude_ids is None else Path(exclude_ids),
            limit=limit,
            max_rejects=max_rejects,
            limits=Limits(batch_events=max_batch_events, batch_bytes=max_batch_bytes),
            workers=workers,
            as_of=_micros(as_of, "as_of"),
            person_properties=_one_of("person_properties", person_properties, (None, "final", "none")),
            profile_policy=profile_policy,
            promoted_properties=_one_of("promoted_properties", promoted_properties, (None, "leave", "final")),
            persons=_one_of("persons", persons, ("all", "identified")) or "all",
            max_ids_per_person=max_ids_per_person,
            identities=_path(identities),
            group_types=tuple(group_types),
            earlier=None if earlier is None else [Path(one) for one in earlier],
        ),
        progress,
    )
    write_report(Directory(Path(directory)), plan)
    return plan


def load_plan(directory: PathText) -> Plan:
    """A plan, read back and proved unchanged. Raises UsageError, UnsafePlan."""
    return api.load_plan(fspath(directory))[0]


def read_rejects(directory: PathText) -> Iterator[Reject]:
    """The rows that cannot be sent and the events that the service refused, each with place, code and text.

    Raises UsageError, UnsafePlan, BrokenLedger.
    """
    return api.rejected(*api.load_plan(fspath(directory)))


def rehearse_plan(
    directory: PathText,
    *,
    source_root: PathText | None = None,
    workers: int | None = None,
    faults: Sequence[str] = (),
    fault_seed: int = 0,
    progress: Callable[[RunCounts], None] = lambda counts: None,
    warn: Callable[[str], None] = lambda line: None,
) -> Rehearsal:
    """Apply a plan to the embedded local service, read everything back, and add the result to the report.

    Nothing leaves this machine. Look at `rehearsal.verification.proved`. With `faults`, as `mix:10%`, the service
    misbehaves on the way (`pipeline.local_service.faults` says how), the same for the same `fault_seed`;
    `rehearsal.faults` tells what came of them. Raises UsageError, UnsafePlan, StalePlan, UnreadableExport, Refused,
    Unfinished.
    """
    from pipeline.local_service.faults import BadFault, read_script
    from pipeline.report.machine import write_report
    from pipeline.report.results import apply_result, verify_result

    try:
        read_script(faults)
    except BadFault as error:
        raise UsageError(f"not a fault: {error}", hint=error.hint) from None
    plan, place = api.load_plan(fspath(directory))
    done = api.rehearse(
        plan, place, workers=workers, source_root=_path(source_root), faults=faults, fault_seed=fault_seed,
        progress=progress, warn=warn,
    )  # fmt: skip
    rehearsal, rehearsed = apply_result(done.outcome), verify_result(done.verification)
    write_report(place, plan, rehearsal=rehearsal, rehearsed=rehearsed)
    return done


def apply_plan(
    directory: PathText,
    to: str,
    *,
    project_key: str | Secret | None = None,
    dry_run: bool = False,
    phases: Sequence[str] = PHASES,
    approve_merges: int | None = None,
    rotated_key: bool = False,
    source_root: PathText | None = None,
    workers: int | None = None,
    rate: float | None = None,
    max_duration: float | None = None,
    max_concurrency: int = 8,
    max_retries: int | None = None,
    retry_for: float = 3600.0,
    max_refused: int = 100,
    timeout: float = 60.0,
    ca_file: PathText | None = None,
    redirect_hosts: Sequence[str] = (),
    progress: Callable[[RunCounts], None] = lambda counts: None,
    warn: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Send exactly the plan, or resume doing so. Naming the target here is the consent; nothing is asked.

    A dry run tells what is left to send, `outcome.counts.would_send`, and sends nothing.
    `to` is us, eu or a URL; `rate` is events a second; `retry_for`, `timeout` and `max_duration` are seconds. Merges
    cannot be undone, so `approve_merges` has to be their number, `plan.events.phases["identities"]`, unless the target
    is this machine. `rotated_key` says that another key than before is of the same project.

    The outcome is of a run that came to its end; look at `outcome.counts.refused` for events that the service refused,
    and at `outcome.held` where `phases` left some alone. Raises UsageError, Busy, UnsafePlan, StalePlan, BrokenLedger,
    UnreadableExport; Refused when the service refused us; Unfinished when a later call resumes.
    """
    from pipeline.delivery.outcome import SendLimits
    from pipeline.delivery.retry import RetryPolicy
    from pipeline.report.machine import add_applied

    plan, place = api.load_plan(fspath(directory))
    key = api.capture_key(to, given=_secret(project_key), dry_run=dry_run, warn=warn)
    outcome = api.apply_plan(
        plan,
        place,
        api.ApplyRequest(
            to,
            key,
            dry_run,
            _path(source_root),
            SendLimits(
                max_concurrency, RetryPolicy(seconds=retry_for, tries=max_retries), max_refused, rate, max_duration
            ),
            workers,
            timeout,
            None if ca_file is None else fspath(ca_file),
            tuple(redirect_hosts),
            rotated_key,
            api.choose_phases(phases),
            approve_merges,
        ),
        progress=progress,
        warn=warn,
    )
    if not dry_run:
        problem = add_applied(place, plan)
        if problem:
            warn(problem)
    if outcome.problem is not None:
        raise outcome.problem
    return outcome


def verify_plan(
    directory: PathText,
    to: str,
    *,
    personal_key: str | Secret | None = None,
    project: str | None = None,
    source_root: PathText | None = None,
    workers: int | None = None,
) -> Verification:
    """Compare what landed with the ledger, event by event, and add the result to the report.

    `project` is 1 on this machine, and has to be named elsewhere. Look at `verification.proved`. Raises UsageError,
    UnsafePlan, StalePlan, UnreadableExport, Refused, Unfinished.
    """
    from pipeline.report.machine import write_report
    from pipeline.report.results import verify_result
    from pipeline.targets import address_of

    plan, place = api.load_plan(fspath(directory))
    key = _secret(personal_key) or config.personal_key()
    if not key:
        raise UsageError("there is no personal key to read with", hint=f"give one, or set {config.PERSONAL_KEY}")
    found = api.verify_plan(
        plan, place, to=to, personal_key=key, project_id=project, workers=workers, source_root=_path(source_root)
    )
    write_report(place, plan, verification=verify_result(found, to=address_of(to)))
    return found


def plan_status(directory: PathText) -> PlanStatus:
    """Where a plan stands, also while a run is going. Raises UsageError, UnsafePlan, BrokenLedger."""
    return api.status(*api.load_plan(fspath(directory)))


def _one_of(name: str, value: str | None, words: tuple[str | None, ...]) -> str | None:
    if value not in words:
        raise UsageError(f"{name} is {value!r}", hint=f"it may be {' or '.join(word for word in words if word)}")
    return value


def _texts(sources: PathText | Sequence[PathText]) -> list[str]:
    return [fspath(sources)] if isinstance(sources, str | PathLike) else [fspath(source) for source in sources]


def _path(path: PathText | None) -> Path | None:
    return None if path is None else Path(path)


def _secret(key: str | Secret | None) -> Secret | None:
    return Secret(key) if isinstance(key, str) else key


def _micros(moment: datetime | None, name: str) -> int | None:
    """Microseconds since 1970 in UTC."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise UsageError(f"{name} has no offset: {moment.isoformat()}", hint="give a datetime with a tzinfo")
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
