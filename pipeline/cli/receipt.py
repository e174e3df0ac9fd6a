"""`backcast receipt`: write the receipt of a plan that was sent, and check one."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.cli.progress import Verifying
from pipeline.options import ReceiptCheckOptions, ReceiptOptions


@click.group(epilog="Example: backcast receipt write plan/ --sign receipt.key")
def receipt() -> None:
    """A receipt: what was read, planned, sent and found again, with digests, in one file that anybody can check."""


@receipt.command("write", epilog="Example: backcast receipt write plan/ --sign receipt.key")
@common.directory
@takes(ReceiptOptions)
@common.as_json
@common.quiet
def write(directory: str, options: ReceiptOptions, as_json: bool, quiet: bool) -> int:
    """Write the receipt of a plan that was sent, best after `backcast verify`; or of a job, by its state directory.

    It has the digests of the export and of the plan, the counts of every phase, refused events with their causes, the
    result of the verification, and what none of this proves. A key for --sign: openssl genpkey -algorithm ed25519.
    """
    from pipeline import api
    from pipeline.jobs import state_file
    from pipeline.plan.in_bucket import directory_at
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.report.machine import update_report
    from pipeline.report.terminal.proof_view import show_job_receipt, show_receipt

    path = str(options.out or directory_at(directory).receipt)
    if state_file(Path(directory)).exists():
        of_job = api.write_job_receipt(directory, options)
        common.show(of_job, lambda console: show_job_receipt(console, of_job, path), as_json=as_json, quiet=quiet)
        return 0
    written = api.write_receipt(directory, options)
    plan, folder = open_plan(directory)
    update_report(folder, plan, common.warn)
    common.show(written, lambda console: show_receipt(console, written, path), as_json=as_json, quiet=quiet)
    return 0


@receipt.command("check", epilog="Example: backcast receipt check receipt.json --source-root exports/")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@takes(ReceiptCheckOptions)
@common.as_json
@common.quiet
def check(file: Path, options: ReceiptCheckOptions, as_json: bool, quiet: bool) -> int:
    """Check a receipt: its signature, its sums, and each number and name in it.

    They are computed again from the plan and the ledger if these lie next to the receipt. The files of the export are
    compared if --source-root names their folder. Only --public-key shows who wrote the receipt. For a job, every plan
    is checked, and that no event was settled twice. Only regular files in these folders are opened.
    Exit 7 when a check failed; what could not be checked is listed and does not fail.
    """
    from pipeline.jobs.receipt_check import check_any_receipt
    from pipeline.report.terminal.proof_view import show_receipt_check

    with Verifying(quiet=quiet) as progress:
        found = check_any_receipt(
            file,
            options.source_root,
            None if options.public_key is None else Path(options.public_key),
            progress.step,
        )
    common.show(found, lambda console: show_receipt_check(console, found), as_json=as_json, quiet=quiet and found.ok)
    return 0 if found.ok else 7
