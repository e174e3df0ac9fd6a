"""`backcast undo-list`: everything that was sent, for a service that must take it back."""

from __future__ import annotations

import click

from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.cli.progress import Verifying
from pipeline.options import UndoListOptions


@click.command("undo-list", epilog="Example: backcast undo-list plan/ -o what-was-sent/")
@common.directory
@takes(UndoListOptions)
@common.as_json
@common.quiet
def undo_list(directory: str, options: UndoListOptions, as_json: bool, quiet: bool) -> int:
    """Everything that was sent, as lists and queries, for a service that must take it back.

    The lists have the uuids, ids, merges, groups and profiles that were sent by the ledger, and those in doubt.
    README.txt beside them explains what the service can delete and what it cannot. Nothing is deleted or sent.
    """
    from pipeline import api
    from pipeline.report.terminal.proof_view import show_undo_list

    with Verifying(quiet=quiet) as progress:
        found = api.list_sent(directory, options, progress=progress.step, warn=common.warn)
    common.show(found, lambda console: show_undo_list(console, found), as_json=as_json, quiet=quiet)
    return 0
