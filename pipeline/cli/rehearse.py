"""`backcast rehearse`: the whole run against the local service."""

from __future__ import annotations

import gc

import click

from pipeline import out_of_memory
from pipeline.cli import common, faults, log
from pipeline.cli.flags import takes
from pipeline.cli.progress import Sending
from pipeline.options import RehearseOptions


@click.command(cls=faults.WithFaults, epilog="Example: backcast rehearse plan/ --fault mix:10%")
@common.directory
@takes(RehearseOptions)
@common.as_json
@log.option
@common.quiet
def rehearse(directory: str, options: RehearseOptions, as_json: bool, quiet: bool) -> int:
    """Apply a plan to the embedded local service and verify it there.

    Nothing leaves this machine. A plan that is not ready can be rehearsed too. What landed stays in
    DIR/rehearsal/store.duckdb, and the result goes into the report. Exit 7 when what landed is not what was planned.
    With --fault the service fails on the way, as real ones do.
    """
    out_of_memory.require_for_service()
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.rehearsal import rehearse as rehearse_plan
    from pipeline.report.contents import Results
    from pipeline.report.machine import update_report
    from pipeline.report.rejects import refusal, refusal_causes
    from pipeline.report.results import apply_result, verify_result
    from pipeline.report.state import read_status
    from pipeline.report.terminal import steps

    gc.freeze()  # as `pipeline.cli.main` does, which cannot once duckdb is loaded
    faults.check(options.faults)
    plan, folder = open_plan(directory)
    with Sending(plan.events.made, quiet=quiet, title="Rehearsing") as progress:
        done = rehearse_plan(plan, folder, options, progress=progress, warn=common.warn, step=progress.step)
    for line in faults.report(done.faults):
        click.echo(line, err=True)
    applied, verified = apply_result(done.outcome), verify_result(done.verification)
    results = Results(applied, verified)
    status = read_status(plan, folder, results)
    common.show(
        {"format": "backcast.rehearse/1", "state": status.state, "apply": applied, "verify": verified},
        lambda console: steps.show_results(
            console,
            plan,
            status,
            directory,
            applied=applied,
            verified=verified,
            refusals=refusal_causes(plan, folder, rehearsed=True),
        ),
        as_json=as_json,
        quiet=quiet and done.verification.proved and done.outcome.balanced and not done.outcome.counts.refused,
    )
    update_report(folder, plan, common.warn, results)
    if not done.verification.proved:
        return 7
    if not done.outcome.balanced:
        return 6
    if done.outcome.counts.refused:
        raise refusal(folder, rehearsed=True)
    return 0
