"""`backcast verify`: compare what landed with the ledger."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import common
from pipeline.cli.common import console
from pipeline.cli.flags import takes
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
    from pipeline.report import terminal
    from pipeline.report.results import verify_result
    from pipeline.targets import address_of

    api.load_plan(directory)  # what is wrong with it comes before what is wrong with the key
    found = api.verify_plan(directory, to, options, personal_key=config.required_personal_key(keys.personal_key_file))
    result, status = verify_result(found, to=address_of(to)), api.plan_status(directory)
    with common.output():
        if as_json:
            common.emit(msgspec.structs.replace(result, state=status.state))
        else:
            terminal.show_verification(console(), result)
            terminal.show_state(console(), status.state, status.totals.refused)
    return 0 if found.proved else 7
