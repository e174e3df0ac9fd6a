"""`backcast verify`: compare what landed with the ledger."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import options
from pipeline.cli.options import console
from pipeline.errors import UsageError


@click.command(epilog="Example: BACKCAST_PERSONAL_KEY=… backcast verify plan/ --to eu --project 12345")
@options.directory
@options.target
@click.option("--project", metavar="ID", help="The project's id.  [default: 1 on this machine]")
@click.option("--personal-key-file", metavar="FILE", help="The personal key, instead of BACKCAST_PERSONAL_KEY.")
@options.source_root
@options.workers
@options.as_json
@options.quiet
def verify(
    directory: Path, to: str, project: str | None, personal_key_file: str | None, source_root: Path | None,
    workers: int | None, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Compare what landed with the ledger, event by event.

    Two sets of (uuid, event, distinct_id, timestamp) are compared exactly. Exit 7 when they differ.
    """
    import msgspec

    from pipeline import api, config
    from pipeline.report import machine, terminal
    from pipeline.report.results import verify_result
    from pipeline.report.state import plan_status
    from pipeline.targets import address_of

    plan, place = api.load_plan(directory)
    key = config.personal_key(personal_key_file)
    if not key:
        raise UsageError(
            "there is no personal key to read with",
            hint="set BACKCAST_PERSONAL_KEY, or give --personal-key-file FILE; it begins with phx_",
        )
    found = api.verify_plan(
        plan, place, to=to, personal_key=key, project_id=project, workers=workers, source_root=source_root
    )
    result = verify_result(found, to=address_of(to))
    status = plan_status(plan, place, machine.results_with(place, plan, verification=result))
    with options.output():
        if as_json:
            options.emit(msgspec.structs.replace(result, state=status.state))
        else:
            terminal.show_verification(console(), result)
            terminal.show_state(console(), status.state, status.totals.refused)
    machine.write_report(place, plan, verification=result)
    return 0 if found.proved else 7
