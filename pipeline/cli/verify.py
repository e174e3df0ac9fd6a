"""`backcast verify`: compare what landed with the ledger."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.cli.progress import Verifying
from pipeline.options import KeyOptions, VerifyOptions


@click.command(epilog="Example: BACKCAST_PERSONAL_KEY=… backcast verify plan/ --to eu --project 12345")
@common.directory
@common.target
@takes(VerifyOptions)
@takes(KeyOptions, "keys", without=("project_key_file",))
@common.as_json
@common.quiet
def verify(directory: Path, to: str, options: VerifyOptions, keys: KeyOptions, as_json: bool, quiet: bool) -> int:
    """Compare what landed with the ledger, event by event.

    Two sets of (uuid, event, distinct_id, timestamp) are compared exactly. Exit 7 when they differ.
    """
    import msgspec

    from pipeline import api, config
    from pipeline.plan.freshness import open_plan
    from pipeline.report import terminal
    from pipeline.report.contents import Results
    from pipeline.report.machine import update_report
    from pipeline.report.results import verify_result
    from pipeline.report.state import read_status
    from pipeline.targets import address_of

    plan, folder = open_plan(directory)
    key = config.required_personal_key(keys.personal_key_file)
    with Verifying(quiet=quiet) as progress:
        verification = api.compare(plan, folder, to, options, key, progress=progress.step)
    result = verify_result(verification, to=address_of(to))
    status = read_status(plan, folder, Results(verification=result))
    common.show(
        msgspec.structs.replace(result, state=status.state),
        lambda console: terminal.show_results(
            console, plan, status, str(directory), verified=result, project=options.project
        ),
        as_json=as_json,
        quiet=quiet and result.proved,
    )
    project = api.project_of_target(to, options, key)
    update_report(folder, plan, common.warn, Results(verification=result, project=project))
    return 0 if result.proved else 7
