"""`backcast verify`: compare what landed with the ledger, and send again what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

from pipeline import out_of_memory
from pipeline.cli import common, log
from pipeline.cli.flags import takes
from pipeline.cli.progress import Verifying
from pipeline.options import KeyOptions, VerifyOptions


@click.command(epilog="Example: BACKCAST_PERSONAL_KEY=… backcast verify plan/ --to eu --project 12345")
@common.directory
@common.target
@takes(VerifyOptions)
@click.option("--yes", is_flag=True, help="Do not ask before --repair sends.")
@takes(KeyOptions, "keys")
@common.as_json
@log.option
@common.quiet
def verify(
    directory: str, to: str, options: VerifyOptions, yes: bool, keys: KeyOptions, as_json: bool, quiet: bool
) -> int:
    """Compare what landed with the ledger: events, their values, and people.

    Every event is compared by (uuid, event, distinct_id, timestamp), and of some or all every property; each difference
    is named with its row, all of them in DIR/differences.jsonl. Exit 7 when anything differs. Interrupted (exit 130),
    the next run continues. --repair needs the capture key too; altered and extra events are never sent over. Files
    (--to file:DIR or s3://…) are compared by their digests, and by what an import into the local service makes of them.
    """
    import msgspec

    from pipeline import config
    from pipeline.api import project_of_target
    from pipeline.delivery.send import Hooks, capture_key
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.report.contents import Results, earlier_verification
    from pipeline.report.machine import update_report
    from pipeline.report.rejects import refusal
    from pipeline.report.results import repair_counts, verify_result
    from pipeline.report.state import read_status
    from pipeline.report.terminal import steps
    from pipeline.targets import address_of, files_of, is_loopback
    from pipeline.verify.steps import Keys, Repair, compare, repair

    plan, folder = open_plan(directory)
    files = files_of(to) is not None
    key = config.Secret("") if files else config.required_personal_key(keys.personal_key_file)
    faults: Sequence[str] = ()
    address, earlier = address_of(to), earlier_verification(folder, plan)
    with Verifying(quiet=quiet) as progress:
        if files:
            out_of_memory.require_for_service()
            from pipeline.imported import compare_files

            found, faults = compare_files(plan, folder, to, options, progress=progress.step)
            done = Repair(None, found)
        elif options.repair:
            sending = capture_key(to, keys.project_key_file, warn=common.warn)
            asks = not (yes or is_loopback(address))
            confirm = partial(_confirm, progress, address) if asks else lambda count: None
            hooks = Hooks(warn=common.warn, step=progress.step)
            done = repair(plan, folder, to, options, Keys(key, sending), earlier=earlier, confirm=confirm, hooks=hooks)
        else:
            done = Repair(None, compare(plan, folder, to, options, key, earlier=earlier, progress=progress.step))
    for fault in faults:
        common.warn(fault)
    counts = repair_counts(done.outcome, asked=options.repair)
    result = verify_result(done.verification, to=address, repair=counts)
    status = read_status(plan, folder, Results(verification=result))
    common.show(
        msgspec.structs.replace(result, state=status.state),
        lambda console: steps.show_results(console, plan, status, directory, verified=result, project=options.project),
        as_json=as_json,
        quiet=quiet and not result.differs,
    )
    project = None if files else project_of_target(to, options, key)
    update_report(folder, plan, common.warn, Results(verification=result, project=project))
    if done.outcome is not None and done.outcome.problem is not None:
        raise done.outcome.problem
    if result.differs:
        return 7
    if done.outcome is not None and done.outcome.counts.refused:
        raise refusal(folder)
    return 0


def _confirm(progress: Verifying, address: str, events: int) -> None:
    """Ask for the number of events that are sent again. Raises UsageError where the answer is another."""
    progress.pause()
    click.echo(f"To: {address}. {events:,} missing events would be sent again, with the same uuids.", err=True)
    common.ask_number(events, "send them again")
