"""`backcast rehearse`: the whole run against the local service."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import faults as misbehaviour
from pipeline.cli import options
from pipeline.cli.options import console
from pipeline.cli.progress import Sending


@click.command(cls=misbehaviour.WithFaults, epilog="Example: backcast rehearse plan/ --fault mix:10%")
@options.directory
@options.source_root
@options.workers
@misbehaviour.script
@misbehaviour.seed
@options.as_json
@options.quiet
def rehearse(
    directory: Path, source_root: Path | None, workers: int | None, faults: tuple[str, ...], fault_seed: int,
    as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Apply a plan to the embedded local service and verify it there.

    Nothing leaves this machine. A plan that is not ready can be rehearsed too. What landed stays in
    DIR/rehearsal/store.duckdb, and the result goes into the report. Exit 7 when what landed is not what was planned.
    With --fault the service misbehaves on the way.
    """
    from pipeline import api
    from pipeline.report import machine, terminal
    from pipeline.report.results import apply_result, verify_result

    misbehaviour.check(faults)
    plan, place = api.load_plan(directory)
    with Sending(plan.events.made, quiet=quiet, title="Rehearsing") as progress:
        done = api.rehearse(
            plan, place, workers=workers, source_root=source_root, faults=faults, fault_seed=fault_seed,
            progress=progress,
            warn=options.warn,
        )  # fmt: skip
    for line in misbehaviour.told(done.faults):
        click.echo(line, err=True)
    applied, verified = apply_result(done.outcome), verify_result(done.verification)
    machine.write_report(place, plan, rehearsal=applied, rehearsed=verified)
    status = api.status(plan, place)
    with options.output():
        if as_json:
            options.emit({"format": "backcast.rehearse/1", "state": status.state, "apply": applied, "verify": verified})
        else:
            terminal.show_apply(console(), applied)
            terminal.show_verification(console(), verified)
            terminal.show_state(console(), status.state, status.totals.refused)
    if not done.verification.proved:
        return 7
    if not done.outcome.balanced:
        return 6
    if done.outcome.counts.refused:
        raise api.refusal(place, rehearsed=True)
    return 0
