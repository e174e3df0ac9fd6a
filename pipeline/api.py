"""The steps of a migration: what `import pipeline` offers, what the commands call, what a scheduled job repeats.

`survey_export` describes an export. `plan_export` reads all of it and seals a plan without sending anything.
`rehearse_plan` sends the plan to the embedded local service and compares what landed. `apply_plan` sends exactly the
plan to its target and can be repeated to resume. `verify_plan` compares what landed there. `run_job` does this for each
window of a job file. Each step takes its options as one object of `pipeline.options`, asks nothing and prints nothing.

Keys come from the environment unless they are given; a key is in no repr, plan, ledger or report. A script may call
these from its top level: worker processes do not run it again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import config, out_of_memory
from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.files import private
from pipeline.option_types import FIRST_LIVE, PathText
from pipeline.options import (
    ApplyOptions,
    DiffOptions,
    DiscardOptions,
    ExplainOptions,
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
    from pipeline.jobs.hooks import JobHooks
    from pipeline.jobs.receipt import JobReceipt
    from pipeline.jobs.run import JobRun
    from pipeline.models import Reject, Step
    from pipeline.plan.diff.result import Diff
    from pipeline.plan.sealed.directory import Directory
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.proof.receipt import Receipt
    from pipeline.proof.undo_list import UndoList
    from pipeline.rehearsal import Rehearsal
    from pipeline.report.explain.result import Explanation
    from pipeline.report.state import PlanStatus
    from pipeline.steps import Discarding
    from pipeline.survey import Survey
    from pipeline.verify import Verification


@private()
def survey_export(
    sources: PathText | Sequence[PathText],
    options: SurveyOptions = SurveyOptions(),
    *,
    step: Step = lambda name, done, of: None,
) -> Survey:
    """Describe an export before mapping it: its tool, fields, types, times and zone; with `scope`, also write the table
    of its event names.

    `step` is called while its files are found and recognised. Raises UsageError, UnreadableExport.
    """
    from pipeline.extractors import open_source
    from pipeline.extractors.file_rules import refuse_unknown, refuse_unused
    from pipeline.mapper.registry import file_rules
    from pipeline.survey import survey
    from pipeline.survey.recognition import opened_pages

    if options.scope is None and (options.mapping or options.definitions):
        raise UsageError("--mapping and --definitions are for the table of --scope", hint="add --scope FILE")
    settings = dict(options.settings)
    if options.mapping is None:
        refuse_unknown(settings)
    if options.scope is not None:
        from pipeline.definitions.scope_table import write_scope

        write_scope(_texts(sources), options)
    with tempfile.TemporaryDirectory() as spool:
        rules = file_rules(None, settings)
        source = open_source(_texts(sources), spool=Path(spool), rules=rules, step=step)
        refuse_unused(settings, source.parts)
        source = opened_pages(source, _texts(sources), Path(spool), rules)
        return survey(source, rows=None if options.every else options.rows)


def plan_export(
    sources: PathText | Sequence[PathText],
    directory: PathText,
    options: PlanOptions = PlanOptions(),
    *,
    progress: Callable[[int, int], None] = lambda rows, length: None,
    notice: Callable[[str], None] = lambda line: None,
    step: Step = lambda name, done, of: None,
) -> Plan:
    """Read everything, send nothing, write the sealed plan and its report into `directory`, and `options.report`.

    The plan may not be ready: check `plan.ready` and `plan.gates`. `progress` is called with the numbers of rows and
    bytes read so far; `notice` with a line about the cost of the mapping's own code; `step` before and after the rows
    are read, with what is being done, such as the digests of files, and how far it is. Raises UsageError, MappingError,
    UnreadableExport, and Busy if the directory has the ledger of a plan that was applied; for a URL also Unfinished.
    """
    from pipeline.plan.create import create_plan
    from pipeline.plan.in_bucket import published_plan
    from pipeline.report.machine import write_report

    out_of_memory.require_for_database("a plan")
    with published_plan(directory) as folder:
        if options.report is not None:
            from pipeline.report.junit import prepare

            prepare(options.report, folder.path)
        if options.until == FIRST_LIVE:
            from pipeline.preflight.first_live import find_first_live

            first = find_first_live(options, folder.path, config.personal_key())
            notice(first.notice)
            options = replace(options, until=first.moment)
        plan = create_plan(_texts(sources), folder.path, options, progress=progress, notice=notice, step=step)
        write_report(folder, plan)
        if options.report is not None:
            from pipeline.report.junit import write_junit

            write_junit(options.report, plan, folder)
    return plan


def load_plan(directory: PathText) -> Plan:
    """A plan, read back and checked to be unchanged since it was sealed. Raises UsageError, UnsafePlan."""

    return _opened(directory, discarded=True)[0]


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
    from pipeline.delivery.send import Hooks
    from pipeline.rehearsal import rehearse

    return rehearse(*_opened(directory), options, Hooks(progress, warn))


@private()
def apply_plan(
    directory: PathText,
    to: str,
    options: ApplyOptions = ApplyOptions(),
    *,
    project_key: str | Secret | None = None,
    personal_key: str | Secret | None = None,
    reading: VerifyOptions = VerifyOptions(),
    progress: Callable[[RunCounts], None] = lambda counts: None,
    warn: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Send exactly the plan, or resume doing so. Naming the target (us, eu or a URL) is the consent; nothing is asked.

    A dry run counts what is left to send in `outcome.counts.would_send`, and sends nothing. Merges cannot be undone, so
    `options.approve_merges` must be their number, `plan.events.phases["identities"]`, unless the target is this
    machine. An outcome is returned only if the run reached its end: then `outcome.counts.refused` events were refused
    by the service, and `outcome.omitted_phases` are the phases that `options.phases` left out.

    With `options.canary`, the plan's canary is sent and then read back with the personal key, as `reading` says; check
    `plan_status(directory).results.canary`.

    Raises UsageError, Busy, UnsafePlan, StalePlan, BrokenLedger, UnreadableExport; Refused if the service refused us;
    Unfinished if a later call resumes.
    """
    from pipeline import steps
    from pipeline.delivery.send import Hooks

    hooks = steps.ApplyHooks(warn, sending=lambda events: nullcontext(Hooks(progress, warn)))
    keys = steps.KeySource(_secret(project_key), _secret(personal_key))
    return steps.apply(*_opened(directory), to, keys, options, reading=reading, hooks=hooks).ended()


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

    `options.project` is 1 on this machine, and must be named elsewhere. Check `verification.proved`, and
    `verification.differs` if not all uuids were compared. With `options.repair`, the missing events are sent again
    with the capture key; the result is the verification after that. `warn` is called if the report cannot be written,
    `progress` with the name of a step and how many of its events are done. After an interruption, the next call
    continues. Raises UsageError, Busy, UnsafePlan, StalePlan, UnreadableExport, Refused, Unfinished.
    """
    from pipeline import steps
    from pipeline.delivery.send import Hooks

    keys = steps.KeySource(_secret(project_key), _secret(personal_key))
    hooks = Hooks(warn=warn, step=progress)
    done = steps.verify(*_opened(directory), to, keys, options, hooks=hooks)
    for fault in done.faults:
        warn(fault)
    if done.problem is not None:
        raise done.problem
    return done.result


def plan_status(directory: PathText) -> PlanStatus:
    """The state of a plan according to its ledger and report, even while it is being sent.

    Raises UsageError, UnsafePlan, BrokenLedger.
    """
    from pipeline.report.state import read_status

    return read_status(*_opened(directory, discarded=True))


def read_rejects(directory: PathText, options: RejectsOptions = RejectsOptions()) -> Iterator[Reject]:
    """The rows that cannot be sent and the events that the service refused, each with location, code and text.

    `options.code` may also be the code of events that are left out for another one, such as `superseded`.
    Raises UsageError, UnsafePlan, BrokenLedger.
    """
    from pipeline.report.rejects import count_refused, rejected, rejects_with

    plan, folder = _opened(directory)
    count_refused(folder)  # an unreadable ledger is an error before the first line is written
    rejects = rejected(plan, folder) if options.code is None else rejects_with(plan, folder, options.code)
    return iter(rejects)


@private()
def explain_plan(
    directory: PathText, asked: str | None = None, options: ExplainOptions = ExplainOptions()
) -> Explanation:
    """What became of a row (`FILE:ROW`), of the event with a uuid or with a key of the export, or of a distinct_id;
    without one, of the rows that the plan has as a sample. Raises UsageError, UnsafePlan, StalePlan, BrokenLedger."""
    from pipeline.report.explain import explain

    return explain(*_opened(directory), asked, options)


@private()
def discard_plan(
    directory: PathText, options: DiscardOptions = DiscardOptions(), *, warn: Callable[[str], None] = lambda line: None
) -> Discarding:
    """Remove the events of a plan once all of them are sent and verified; its report, ledger and receipt stay.

    Raises UsageError, Busy, BrokenLedger, and UnsafePlan for a plan whose events are still needed.
    """
    from pipeline import steps

    return steps.discard(*_opened(directory, discarded=True), options, warn=warn)


def list_sent(
    directory: PathText,
    options: UndoListOptions = UndoListOptions(),
    *,
    progress: Step = lambda name, done, of: None,
    warn: Callable[[str], None] = lambda line: None,
) -> UndoList:
    """Write what was sent as lists and queries. Raises UsageError, UnsafePlan, BrokenLedger."""
    from pipeline.plan.in_bucket import copy_results
    from pipeline.proof.undo_list import write_undo_list

    plan, folder = _opened(directory)
    written = write_undo_list(plan, folder, options, progress=progress)
    copy_results(folder, warn)
    return written


def write_receipt(
    directory: PathText, options: ReceiptOptions = ReceiptOptions(), *, warn: Callable[[str], None] = lambda line: None
) -> Receipt:
    """Write the receipt of a plan that was applied, and name it in the report.

    Raises UsageError, UnsafePlan, BrokenLedger.
    """
    from pipeline.proof import receipt
    from pipeline.report.machine import update_report

    plan, folder = _opened(directory, discarded=True)
    written = receipt.write_receipt(plan, folder, options)
    update_report(folder, plan, warn)
    return written


def write_job_receipt(state: PathText, options: ReceiptOptions = ReceiptOptions()) -> JobReceipt:
    """Write the receipt of a job, over all its windows. Raises UsageError, UnsafePlan, BrokenLedger.

    `state` is the folder that the job file names, or `state/JOB` next to it.
    """
    from pipeline.jobs import receipt

    return receipt.write_job_receipt(Path(state), options)


@private()
def diff_plans(
    plan_a: PathText,
    plan_b: PathText,
    options: DiffOptions = DiffOptions(),
    *,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Diff:
    """Compare two sealed plans event by event: what a changed mapping or export changes.

    No export is read. `progress` is called with what is being done, how much of it is done, and how much there is.
    Raises UsageError, UnsafePlan.
    """
    from pipeline.plan.diff import compare_plans
    from pipeline.plan.diff.tables import Opened

    a, b = (Opened(*_opened(path), fspath(path)) for path in (plan_a, plan_b))
    return compare_plans(
        a, b,
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

    Naming the target in the job file is the consent. With a personal key, the target is checked first, and what was
    sent is read back. `run.problem` is the most urgent error, which a person must see. Raises UsageError, JobError,
    MappingError, Busy, BrokenLedger.
    """
    from pipeline.delivery.send import capture_key
    from pipeline.jobs import load_job
    from pipeline.jobs.hooks import JobHooks
    from pipeline.jobs.run import run_due_windows

    hooks = hooks or JobHooks()
    job = load_job(fspath(file))
    key = capture_key(job.to, key=_secret(project_key), dry_run=options.dry_run, warn=hooks.warn)
    personal = _secret(personal_key)
    return run_due_windows(job, key, config.personal_key() if personal is None else personal, options, hooks)


def _opened(directory: PathText, *, discarded: bool = False) -> tuple[Plan, Directory]:
    from pipeline.plan.sealed.freshness import open_plan

    return open_plan(directory, discarded=discarded)


def _texts(sources: PathText | Sequence[PathText]) -> list[str]:
    return [fspath(sources)] if isinstance(sources, str | PathLike) else [fspath(source) for source in sources]


def _secret(key: str | Secret | None) -> Secret | None:
    return Secret(key) if isinstance(key, str) else key
