"""The steps of a migration: what `import pipeline` offers, what the commands call, what a scheduled job repeats.

`survey_export` describes an export, `plan_export` reads all of it and seals a plan without sending anything,
`rehearse_plan` sends the plan to the embedded local service and compares what landed, `apply_plan` sends exactly the
plan to its target and can be repeated to resume, `verify_plan` compares what landed there. `run_job` does this for each
window of a job file. Each step takes its options as one object of `pipeline.options`, asks nothing and prints nothing.

Keys come from the environment unless they are given; a key is in no repr, plan, ledger or report. A script may call
these from its top level: worker processes do not run it again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import config
from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.files import private
from pipeline.option_types import FIRST_LIVE
from pipeline.options import (
    ApplyOptions,
    DiffOptions,
    PathText,
    PlanOptions,
    ReceiptOptions,
    RehearseOptions,
    RejectsOptions,
    RunOptions,
    SurveyOptions,
    UndoListOptions,
    VerifyOptions,
)

if TYPE_CHECKING:
    from pipeline.delivery.outcome import Outcome, RunCounts
    from pipeline.jobs.run import JobRun
    from pipeline.jobs.windows import JobHooks
    from pipeline.local_service.faults import FaultCounts
    from pipeline.models import Reject, Step
    from pipeline.plan.diff.result import Diff
    from pipeline.plan.directory import Directory
    from pipeline.plan.manifest import Plan
    from pipeline.proof.receipt import Receipt
    from pipeline.proof.undo_list import UndoList
    from pipeline.report.contents import Project
    from pipeline.report.state import PlanStatus
    from pipeline.survey import Survey
    from pipeline.verify import Verification


@private()
def survey_export(sources: PathText | Sequence[PathText], options: SurveyOptions = SurveyOptions()) -> Survey:
    """Describe an export before mapping it: its tool, fields, types, times and zone.

    Raises UsageError, UnreadableExport.
    """
    from pipeline.extractors import open_source
    from pipeline.extractors.file_rules import HEADER, ROWS, SHEET
    from pipeline.mapper.registry import file_rules
    from pipeline.survey import survey
    from pipeline.survey.recognition import opened_pages

    settings = dict(options.settings)
    if unknown := sorted(settings.keys() - {HEADER, ROWS, SHEET}):
        raise UsageError(f"a survey has no setting {unknown[0]!r}", hint=f"its settings are: {HEADER}, {ROWS}, {SHEET}")
    with tempfile.TemporaryDirectory() as spool:
        rules = file_rules(None, settings)
        source = open_source(_texts(sources), spool=Path(spool), rules=rules)
        source = opened_pages(source, _texts(sources), Path(spool), rules)
        return survey(source, rows=None if options.every else options.rows)


def plan_export(
    sources: PathText | Sequence[PathText],
    directory: PathText,
    options: PlanOptions = PlanOptions(),
    *,
    progress: Callable[[int, int], None] = lambda rows, length: None,
    notice: Callable[[str], None] = lambda line: None,
) -> Plan:
    """Read everything, send nothing, write the sealed plan and its report into `directory`, and `options.reports`.

    The plan may be not ready: check `plan.ready` and `plan.gates`. `progress` is called with the rows and
    bytes that were read, `notice` with a line on what the mapping's own code cost. Raises UsageError, MappingError,
    UnreadableExport, and Busy where the directory has the ledger of a plan that was applied.
    """
    from pipeline.plan.create import create_plan
    from pipeline.plan.directory import Directory
    from pipeline.report.check_files import prepare, write_check_files
    from pipeline.report.machine import write_report

    folder = Path(directory)
    prepare(options.reports, folder)
    if options.until == FIRST_LIVE:
        from pipeline.preflight.first_live import find_first_live

        first = find_first_live(options, folder, config.personal_key())
        notice(first.notice)
        options = replace(options, until=first.moment)
    plan = create_plan(_texts(sources), folder, options, progress=progress, notice=notice)
    write_report(Directory(folder), plan)
    write_check_files(options.reports, plan, Directory(folder))
    return plan


def load_plan(directory: PathText) -> Plan:
    """A plan, read back and checked to be as it was sealed. Raises UsageError, UnsafePlan."""
    from pipeline.plan.freshness import open_plan

    return open_plan(fspath(directory))[0]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A whole run against the local service: its outcome, what was read back, where it landed, what its faults did."""

    outcome: Outcome
    verification: Verification
    store: Path
    faults: Sequence[FaultCounts] = ()


@private()
def rehearse_plan(
    directory: PathText,
    options: RehearseOptions = RehearseOptions(),
    *,
    progress: Callable[[RunCounts], None] = lambda counts: None,
    warn: Callable[[str], None] = lambda line: None,
) -> Rehearsal:
    """Apply a plan to a fresh local service, read everything back, compare, and add the result to the report.

    Nothing leaves this machine, and a plan that is not ready can be rehearsed too. Check
    `rehearsal.verification.proved`. What landed stays in `rehearsal/store.duckdb` in the plan's directory;
    `backcast service --store` shows it.

    Raises UsageError, UnsafePlan, StalePlan, UnreadableExport, Refused, Unfinished.
    """
    from pipeline.plan.freshness import open_plan
    from pipeline.report.contents import Results
    from pipeline.report.machine import update_report
    from pipeline.report.results import apply_result, verify_result

    plan, folder = open_plan(fspath(directory))
    rehearsal = rehearse(plan, folder, options, progress=progress, warn=warn)
    update_report(folder, plan, warn, Results(apply_result(rehearsal.outcome), verify_result(rehearsal.verification)))
    return rehearsal


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
    from pipeline.delivery.send import Hooks, send_unchecked
    from pipeline.local_service import LocalService
    from pipeline.local_service.faults import BadFault, read_script
    from pipeline.local_service.settings import Settings
    from pipeline.verify.steps import compare

    try:
        read_script(options.faults)
    except BadFault as error:
        raise UsageError(f"not a fault: {error}", hint=error.hint) from None
    sending = ApplyOptions(workers=options.workers, source_root=options.source_root)
    with _rehearsal_directory(plan, directory) as inner:
        store = inner.path / "store.duckdb"
        # A target of this dialect is likely to have it: the rehearsal sends as `apply` would.
        settings = Settings(per_event="on" if plan.options.dialect == "posthog" else "off")
        with LocalService(store, settings=settings, faults=options.faults, fault_seed=options.fault_seed) as service:
            key, hooks = Secret(service.capture_key), Hooks(progress, warn, step=step)
            outcome = send_unchecked(plan, inner, service.url, key, sending, hooks)
            if outcome.problem is not None:
                raise outcome.problem
            reading = VerifyOptions(
                project=str(service.project_id), workers=options.workers, source_root=options.source_root, whole=True
            )
            verification = compare(plan, inner, service.url, reading, Secret(service.personal_key), progress=step)
    return Rehearsal(outcome, verification, store, service.faults)


@private()
def apply_plan(
    directory: PathText,
    to: str,
    options: ApplyOptions = ApplyOptions(),
    *,
    project_key: str | Secret | None = None,
    progress: Callable[[RunCounts], None] = lambda counts: None,
    warn: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Send exactly the plan, or resume doing so. Naming the target (us, eu or a URL) is the consent; nothing is asked.

    A dry run counts what is left to send in `outcome.counts.would_send`, and sends nothing. Merges cannot be undone, so
    `options.approve_merges` has to be their number, `plan.events.phases["identities"]`, unless the target is this
    machine. The outcome is of a run that came to its end: `outcome.counts.refused` events were refused by the
    service, and `outcome.omitted_phases` are the phases that `options.phases` left out.

    Raises UsageError, Busy, UnsafePlan, StalePlan, BrokenLedger, UnreadableExport; Refused when the service refused us;
    Unfinished when a later call resumes.
    """
    from pipeline.delivery.send import Hooks, capture_key, send_plan
    from pipeline.plan.freshness import open_plan
    from pipeline.report.machine import update_report
    from pipeline.report.state import check_rehearsed

    plan, folder = open_plan(fspath(directory))
    key = capture_key(to, key=_secret(project_key), dry_run=options.dry_run, warn=warn)
    if options.require_rehearsal:
        check_rehearsed(plan, folder)
    outcome = send_plan(plan, folder, to, key, options, Hooks(progress, warn))
    if not options.dry_run:
        update_report(folder, plan, warn)
    if outcome.problem is not None:
        raise outcome.problem
    return outcome


@private()
def verify_plan(
    directory: PathText,
    to: str,
    options: VerifyOptions = VerifyOptions(),
    *,
    personal_key: str | Secret | None = None,
    project_key: str | Secret | None = None,
    progress: Step = lambda name, done, total: None,
    warn: Callable[[str], None] = lambda line: None,
) -> Verification:
    """Compare what landed with the ledger, events, their values and people, and add the result to the report.

    `options.project` is 1 on this machine, and has to be named elsewhere. Check `verification.proved`, and
    `verification.differs` where not all uuids were compared. With `options.repair` the missing events are sent again,
    with the capture key; the verification is the one after it. `warn` is called where the report cannot be written,
    `progress` with the name of a step, and how many of its events are done. A call that was interrupted continues in
    the next one. Raises UsageError, Busy, UnsafePlan, StalePlan, UnreadableExport, Refused, Unfinished.
    """
    from pipeline.delivery.send import Hooks, capture_key
    from pipeline.plan.freshness import open_plan
    from pipeline.report.contents import Results, earlier_verification
    from pipeline.report.machine import update_report
    from pipeline.report.results import repair_counts, verify_result
    from pipeline.targets import address_of
    from pipeline.verify.steps import Keys, Repair, compare, repair

    plan, folder = open_plan(fspath(directory))
    key = _secret(personal_key) or config.required_personal_key()
    earlier = earlier_verification(folder, plan)
    if options.repair:
        sending = capture_key(to, key=_secret(project_key), warn=warn)
        done = repair(
            plan, folder, to, options, Keys(key, sending), earlier=earlier, hooks=Hooks(warn=warn, step=progress)
        )
    else:
        done = Repair(None, compare(plan, folder, to, options, key, earlier=earlier, progress=progress))
    counts = repair_counts(done.outcome, asked=options.repair)
    result = verify_result(done.verification, to=address_of(to), repair=counts)
    update_report(folder, plan, warn, Results(verification=result, project=project_of_target(to, options, key)))
    if done.outcome is not None and done.outcome.problem is not None:
        raise done.outcome.problem
    return done.verification


def plan_status(directory: PathText) -> PlanStatus:
    """The state of a plan, by its ledger and report, also while it is being sent.

    Raises UsageError, UnsafePlan, BrokenLedger.
    """
    from pipeline.plan.freshness import open_plan
    from pipeline.report.state import read_status

    return read_status(*open_plan(fspath(directory)))


def read_rejects(
    directory: PathText, options: RejectsOptions = RejectsOptions(), *, warn: Callable[[str], None] = lambda line: None
) -> Iterator[Reject]:
    """The rows that cannot be sent and the events that the service refused, each with location, code and text.

    Raises UsageError, UnsafePlan, BrokenLedger.
    """
    from pipeline.plan.freshness import open_plan
    from pipeline.report.rejects import check_code, count_refused, rejected

    plan, folder = open_plan(fspath(directory))
    count_refused(folder)  # a ledger that cannot be read is an error before the first line is written
    if options.code is not None:
        check_code(plan, folder, options.code)
    rejects = rejected(plan, folder, None if options.source_root is None else Path(options.source_root), warn=warn)
    return (reject for reject in rejects if options.code in (None, reject.code))


def list_sent(
    directory: PathText, options: UndoListOptions = UndoListOptions(), *, progress: Step = lambda name, done, of: None
) -> UndoList:
    """Write what was sent as lists and queries. Raises UsageError, StalePlan, UnreadableExport, BrokenLedger."""
    from pipeline.plan.freshness import open_plan
    from pipeline.proof.undo_list import write_undo_list

    return write_undo_list(*open_plan(fspath(directory)), options, progress=progress)


def write_receipt(directory: PathText, options: ReceiptOptions = ReceiptOptions()) -> Receipt:
    """Write the receipt of a plan that was applied. Raises UsageError, UnsafePlan, BrokenLedger."""
    from pipeline.plan.freshness import open_plan
    from pipeline.proof import receipt

    return receipt.write_receipt(*open_plan(fspath(directory)), options)


@private()
def diff_plans(
    plan_a: PathText,
    plan_b: PathText,
    options: DiffOptions = DiffOptions(),
    *,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Diff:
    """Compare two sealed plans event by event: what a changed mapping or export changes.

    Both exports are read again, those blocks of them of which the plans sealed different events. `progress` is called
    with what is being done, how much of it is done, and how much there is. Raises UsageError, UnsafePlan, StalePlan,
    UnreadableExport.
    """
    from pipeline.plan.diff import compare_plans
    from pipeline.plan.diff.walk import Opened
    from pipeline.plan.freshness import open_plan

    a, b = (Opened(*open_plan(fspath(path)), fspath(path)) for path in (plan_a, plan_b))
    return compare_plans(
        a, b,
        workers=options.workers,
        source_root=None if options.source_root is None else Path(options.source_root),
        counts_only=options.counts,
        values=options.show_values,
        ids=options.show_ids,
        progress=progress,
    )  # fmt: skip


@private()
def run_job(
    file: PathText,
    options: RunOptions = RunOptions(),
    *,
    project_key: str | Secret | None = None,
    personal_key: str | Secret | None = None,
    hooks: JobHooks | None = None,
) -> JobRun:
    """Plan, check and send every window of a job file that is due, oldest first; the next call continues.

    Naming the target in the job file is the consent. With a personal key the target is checked first, and what was sent
    is read back. `run.problem` is the first error that a person has to see. Raises UsageError, JobError,
    MappingError, Busy, BrokenLedger.
    """
    from pipeline.delivery.send import capture_key
    from pipeline.jobs import load_job
    from pipeline.jobs.run import run_due_windows
    from pipeline.jobs.windows import JobHooks

    hooks = hooks or JobHooks()
    job = load_job(fspath(file))
    key = capture_key(job.to, key=_secret(project_key), dry_run=options.dry_run, warn=hooks.warn)
    personal = _secret(personal_key)
    return run_due_windows(job, key, config.personal_key() if personal is None else personal, options, hooks)


@contextmanager
def _rehearsal_directory(plan: Plan, directory: Directory) -> Iterator[Directory]:
    """An empty directory inside the plan's with links to its files, for a ledger of its own. Raises Busy."""
    from pipeline.ledger import lock_file, read_totals, unlock
    from pipeline.plan.directory import EXCLUDED, Directory

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


def project_of_target(to: str, options: VerifyOptions, key: Secret) -> Project | None:
    """The project that was compared, for the title of the report; None where the key may not read its name."""
    from pipeline.delivery.retry import RetryPolicy
    from pipeline.management import ManagementClient
    from pipeline.preflight.project import project_name
    from pipeline.report.contents import project_of

    project = "1" if options.project is None else options.project
    with ManagementClient(options.api or to, key, project, timeout=10.0, retry=RetryPolicy(tries=1)) as client:
        return project_of(project_name(client), to)


def _texts(sources: PathText | Sequence[PathText]) -> list[str]:
    return [fspath(sources)] if isinstance(sources, str | PathLike) else [fspath(source) for source in sources]


def _secret(key: str | Secret | None) -> Secret | None:
    return Secret(key) if isinstance(key, str) else key
