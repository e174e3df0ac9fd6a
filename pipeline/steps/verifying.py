"""Reads back what was sent, and sends again what is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pipeline import out_of_memory
from pipeline.config import Secret
from pipeline.delivery.outcome import Outcome
from pipeline.delivery.send import Hooks
from pipeline.errors import BackcastError, UsageError
from pipeline.option_types import micros
from pipeline.options import VerifyOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import NO_RESULTS, Results, project_of, results_of
from pipeline.report.machine import update_report
from pipeline.report.results import repair_counts, verify_result
from pipeline.report.state import PlanStatus, read_status
from pipeline.steps.keys import KeySource
from pipeline.steps.target import project_to_read
from pipeline.targets import address_of, files_of, is_loopback
from pipeline.verify.findings import Verification
from pipeline.verify.source_findings import SourceCheck


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
    from pipeline.verify.steps import Keys, check_comparable, compare, repair

    earlier, warn = results_of(directory, plan, NO_RESULTS).verification, hooks.warn
    outcome, project = None, None
    asks_people = options.continuity or options.cut_over is not None
    plans = _plans_of_move(plan, directory, to, options)
    faults: Sequence[str] = ()
    if files_of(to) is not None:
        if asks_people:
            raise UsageError("--continuity: files have no live people", hint="compare with the project: --to us|eu|URL")
        out_of_memory.require_for_service()
        from pipeline.imported import compare_files

        found, faults = compare_files(plan, directory, to, options, progress=hooks.step)
    else:
        key = keys.reading(required=True)
        check_comparable(plan, directory, to)
        options, name = project_to_read(directory, to, options, key, keys)
        if options.repair:
            both = Keys(key, keys.capture(to, warn))
            outcome, found = repair(plan, directory, to, options, both, earlier=earlier, confirm=confirm, hooks=hooks)
        else:
            found = compare(plan, directory, to, options, key, earlier=earlier, progress=hooks.step)
        project = project_of(name, to)
        if plans:
            found = msgspec.structs.replace(found, source=_compare_source(plans, to, key, options, hooks))
        if asks_people:
            from pipeline.management import ManagementClient
            from pipeline.preflight.questions import Questions
            from pipeline.verify.continuity import check_continuity

            with ManagementClient(options.api or to, key, options.project) as client:
                questions, cut_over = Questions(client, None, ""), micros(options.cut_over, "cut_over")
                people = check_continuity(questions, plan, directory, cut_over)
            found = msgspec.structs.replace(found, continuity=people)
    result = verify_result(found, to=address_of(to), repair=repair_counts(outcome, asked=options.repair))
    # A report is kept after the events are discarded, so it has no ids of people.
    kept = msgspec.structs.replace(result, continuity=msgspec.UNSET)
    if isinstance(kept.source, SourceCheck):
        persons = msgspec.structs.replace(kept.source.persons, examples=[])
        kept = msgspec.structs.replace(kept, source=msgspec.structs.replace(kept.source, persons=persons))
    new = Results(verification=kept, project=project)
    update_report(directory, plan, warn, new)
    status = read_status(plan, directory, new)
    return Verified(msgspec.structs.replace(result, state=status.state), status, outcome, faults)


def _plans_of_move(plan: Plan, directory: Directory, to: str, options: VerifyOptions) -> list[tuple[Plan, Directory]]:
    """With --source, the earlier plans of a move, and the plan itself at last. Raises UsageError, also if there is no
    key."""
    if options.source is None:
        if options.source_project or options.earlier:
            name = "--source-project" if options.source_project else "--earlier"
            raise UsageError(f"{name} without --source has no effect", hint="add --source us|eu|URL")
        return []
    from pipeline.fetch.tool import tools
    from pipeline.plan.earlier import plans_beside
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.verify.source import check_moved
    from pipeline.verify.steps import check_comparable

    if files_of(to) is not None or files_of(options.source) is not None:
        raise UsageError("--source: files have no persons", hint="give --source and --to us, eu or a URL")
    if options.source_project is None and not is_loopback(address_of(options.source)):
        raise UsageError("--source needs the id of its project", hint="add --source-project ID; its URL shows it")
    tools()["posthog"].secrets()
    beside = [str(one.path) for one in plans_beside(directory, plan.target)]
    earlier = beside if options.earlier is None else [str(path) for path in options.earlier]
    opened = [*(open_plan(one, discarded=True) for one in earlier), (plan, directory)]
    plans = list({one.digest: (one, place) for one, place in opened}.values())
    for one, place in plans:
        check_moved(one, place)
        check_comparable(one, place, to)
    return plans


def _compare_source(
    plans: list[tuple[Plan, Directory]], to: str, key: Secret, options: VerifyOptions, hooks: Hooks
) -> SourceCheck:
    from pipeline.fetch.tool import tools
    from pipeline.management import ManagementClient
    from pipeline.verify.source import compare_source

    [source_key] = tools()["posthog"].secrets()
    with (
        ManagementClient(options.source or "", source_key, options.source_project or "1") as source,
        ManagementClient(options.api or to, key, options.project) as target,
    ):
        return compare_source(source, target, plans, hooks.step)
