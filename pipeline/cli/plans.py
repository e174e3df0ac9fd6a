"""The commands that read a plan: status, rejects, explain, diff, undo-list, receipt and discard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.cli.help import WholeHelp, example
from pipeline.cli.progress import Line
from pipeline.options import (
    DiffOptions,
    DiscardOptions,
    ExplainOptions,
    ReceiptCheckOptions,
    ReceiptOptions,
    RejectsOptions,
    UndoListOptions,
)

if TYPE_CHECKING:
    from rich.console import Console


@click.command(epilog=example("backcast status plan/"))
@common.directory
@common.as_json
def status(directory: str, as_json: bool) -> int:
    """The state of a plan, and what is in doubt. Reads the ledger, also during a run."""
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.report.rejects import refusal_causes
    from pipeline.report.results import status_result
    from pipeline.report.state import read_status

    plan, folder = open_plan(directory, discarded=True)
    found = read_status(plan, folder)
    result = status_result(plan, found)

    def shown(console: Console) -> None:
        from pipeline.report.terminal import steps

        refusals = refusal_causes(plan, folder, uuids=True) if result.refusals else []
        steps.show_status(console, plan, found, result, directory, refusals)

    common.show(result, shown, as_json=as_json)
    return 0


@click.command(epilog=example("backcast rejects plan/ --code bad_json --format jsonl > rejected.jsonl"))
@common.directory
@takes(RejectsOptions)
@click.option("--all", "every", is_flag=True, help="List each of them, not only one example of each code.")
@click.option(
    "--format", "form", type=click.Choice(["table", "jsonl", "csv"]), default="table", show_default=True,
    help="Text for people, or each of them as JSON lines or CSV.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The same as --format jsonl.")
def rejects(directory: str, options: RejectsOptions, every: bool, form: str, as_json: bool) -> int:
    """The rows that could not be sent, and the events that the service refused (code refused_event).

    They are grouped by code, each with its count and one example; --all lists them. Duplicates that differ from the
    event that is sent in their place (superseded) are counted, too, with the first of them and what differs; its values
    are masked unless the plan was made with --show-values. --code superseded, duplicate_event or already_settled lists
    the rows that are left out for another one.

    Each has file, row, byte offset, code and text. `row` counts records from 1, and is 0 if the export cannot be read;
    `offset` is in bytes of the decompressed file, and in a workbook the row that the `sheet` shows. In CSV, a value
    that a spreadsheet would run as a formula has an apostrophe in front, and so has one that starts with an apostrophe.
    """
    import msgspec

    from pipeline import api
    from pipeline.report.rejects import RefusedEvent, superseded_in
    from pipeline.spreadsheets import write_csv

    rows = api.read_rejects(directory, options)
    with common.output():
        if as_json or form == "jsonl":
            sys.stdout.flush()
            for row in rows:
                sys.stdout.buffer.write(msgspec.json.encode(row) + b"\n")
            sys.stdout.buffer.flush()
        elif form == "csv":
            last = ("item", "sheet")
            names = [*(name for name in RefusedEvent.__struct_fields__ if name not in last), *last]
            own = ([*(getattr(row, name, "") for name in names[:-2]), row.item or "", row.sheet] for row in rows)
            write_csv(sys.stdout, names, own)
        else:
            from pipeline.report.terminal import plan_views
            from pipeline.text import quoted

            if every:
                plan_views.show_each(common.console(), rows)
                return 0
            code = "" if options.code is None else f" --code {quoted(options.code)}"
            command = f"backcast rejects {quoted(directory)}{code}"
            superseded = superseded_in(api.load_plan(directory)) if options.code is None else None
            plan_views.show_groups(common.console(), rows, command, superseded)
    return 0


@click.command(epilog=example("backcast explain plan/ events.jsonl:17"))
@common.directory
@click.argument("asked", metavar="[FILE:ROW|UUID|KEY|ID]", required=False)
@takes(ExplainOptions)
@click.option(
    "--report", metavar="FILE", type=click.Path(path_type=Path),
    help="Write a page with the rows of the plan's sample side by side with their events.  [default: none]",
)  # fmt: skip
@common.as_json
def explain(directory: str, asked: str | None, options: ExplainOptions, report: Path | None, as_json: bool) -> int:
    """What became of a row, an event or a person, and why.

    A row is named by its file in the export (the end of its path is enough) and its number, as `rejects` shows them;
    an event by its uuid, or by the id that its row has in the export, if the mapping's key is one value; a person by a
    distinct_id. Shown are the events of the row as they are sent, the request of each and its state, its duplicates,
    why the row is left out or rejected, and the ids that are merged. No export is read, except to find a row of a
    workbook in its sheet. A plan has the text of rejected rows and of the rows of its sample (`plan --pairs N`), with
    the rule and the line of the mapping for each property.
    """
    from pipeline import api
    from pipeline.errors import UsageError
    from pipeline.files import may_replace, write_atomically
    from pipeline.report.explain.view import render_sample, show_explanation

    if (asked is None) == (report is None):
        raise UsageError(
            "explain needs one of: FILE:ROW, a uuid, a row's own id, a distinct_id, --report FILE",
            hint="for example: backcast explain plan/ events.jsonl:17",
        )
    if report is not None:
        may_replace(report, (b"<!doctype html>",), "--report")
    found, plan = api.explain_plan(directory, asked, options), api.load_plan(directory)
    if report is not None:
        write_atomically(report, render_sample(found, plan).encode("utf-8", "backslashreplace"))
    common.show(found, lambda console: show_explanation(console, found, plan, directory, report), as_json=as_json)
    return 0


@click.command(epilog=example("backcast diff plan-before/ plan-after/ --html diff.html"))
@click.argument("plan_a", metavar="PLAN_A", type=common.PlanDirectory())
@click.argument("plan_b", metavar="PLAN_B", type=common.PlanDirectory())
@takes(DiffOptions)
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path), help="Also write a page with all of it.  [default: none]"
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 also where the plans differ.")
@common.printing
def diff(
    plan_a: str, plan_b: str, options: DiffOptions, html: Path | None, exit_zero: bool, as_json: bool, quiet: bool
) -> int:
    """What a changed mapping or export changes: two plans compared event by event.

    Events are matched by uuid; merges, groups and profiles by their ids. No export is read, and nothing is sent. Exit 0
    when the plans send the same, 7 when they differ.
    """
    from pipeline import api
    from pipeline.files import may_replace, write_atomically
    from pipeline.report.diff_view import render_diff, show_diff

    if html is not None:
        may_replace(html, (b"<!doctype html>",), "--html")
    with Line("Plans", quiet=quiet) as progress:
        found = api.diff_plans(
            plan_a, plan_b, options, progress=lambda what, done, total: progress.step(what.lower(), done, total)
        )
    if html is not None:
        write_atomically(html, render_diff(found).encode("utf-8", "backslashreplace"))
    common.show(found, lambda console: show_diff(console, found), as_json=as_json, quiet=quiet and found.equal)
    return 0 if found.equal or exit_zero else 7


@click.command("undo-list", epilog=example("backcast undo-list plan/ -o what-was-sent/"))
@common.directory
@takes(UndoListOptions)
@common.printing
def undo_list(directory: str, options: UndoListOptions, as_json: bool, quiet: bool) -> int:
    """Everything that was sent, as lists and queries, for a service that must take it back.

    The lists have the uuids, ids, merges, groups and profiles that were sent by the ledger, and those in doubt.
    The README.txt next to them explains what the service can delete and what it cannot. Nothing is deleted or sent.
    """
    from pipeline import api
    from pipeline.report.terminal.plan_views import show_undo_list

    with Line("Verifying:", quiet=quiet) as progress:
        found = api.list_sent(directory, options, progress=progress.step, warn=common.warn)
    common.show(found, lambda console: show_undo_list(console, found), as_json=as_json, quiet=quiet)
    return 0


@click.group(cls=WholeHelp, epilog=example("backcast receipt write plan/ --sign receipt.key"))
def receipt() -> None:
    """A receipt: what was read, planned, sent and found again, with digests, in one file that anybody can check."""


@receipt.command("write", epilog=example("backcast receipt write plan/ --sign receipt.key"))
@common.directory
@takes(ReceiptOptions)
@common.printing
def write(directory: str, options: ReceiptOptions, as_json: bool, quiet: bool) -> int:
    """Write the receipt of a plan that was sent, best after `backcast verify`; or of a job, by its state directory.

    It has the digests of the export and of the plan, the counts of every phase, refused events with their causes, the
    result of the verification, and what this does not prove. A key for --sign: openssl genpkey -algorithm ed25519.
    """
    from pipeline import api
    from pipeline.jobs import state_file
    from pipeline.plan.in_bucket import directory_at
    from pipeline.report.terminal.plan_views import show_job_receipt, show_receipt

    path = str(options.out or directory_at(directory).receipt)
    if state_file(Path(directory)).exists():
        of_job = api.write_job_receipt(directory, options)
        common.show(of_job, lambda console: show_job_receipt(console, of_job, path), as_json=as_json, quiet=quiet)
        return 0
    written = api.write_receipt(directory, options, warn=common.warn)
    common.show(written, lambda console: show_receipt(console, written, path), as_json=as_json, quiet=quiet)
    return 0


@receipt.command("check", epilog=example("backcast receipt check receipt.json --source-root exports/"))
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@takes(ReceiptCheckOptions)
@common.printing
def check(file: Path, options: ReceiptCheckOptions, as_json: bool, quiet: bool) -> int:
    """Check a receipt: its signature, its sums, and each number and name in it.

    They are computed again from the plan and the ledger if these lie next to the receipt. The files of the export are
    compared if --source-root names their folder. Only --public-key shows who wrote the receipt. For a job, every plan
    is checked, and that no event was settled twice. Only regular files in these folders are opened.
    Exit 7 when a check failed; what could not be checked is listed and does not fail.
    """
    from pipeline.jobs.receipt import check_any_receipt
    from pipeline.report.terminal.plan_views import show_receipt_check

    with Line("Verifying:", quiet=quiet) as progress:
        found = check_any_receipt(
            file,
            options.source_root,
            None if options.public_key is None else Path(options.public_key),
            progress.step,
        )
    common.show(found, lambda console: show_receipt_check(console, found), as_json=as_json, quiet=quiet and found.ok)
    return 0 if found.ok else 7


@click.command(epilog=example("backcast discard plan/"))
@common.directory
@takes(DiscardOptions)
@click.option("--yes", is_flag=True, help="Do not ask.")
@common.printing
def discard(directory: str, options: DiscardOptions, yes: bool, as_json: bool, quiet: bool) -> int:
    """Remove the events of a plan, once all of them are sent and verified.

    Requests, facts, rejected rows and every other file with ids or values of people go; plan.json, the report, the
    ledger, the receipt and counts stay, so `status` and `receipt` still work. Write the undo list before, if you may
    need it. Nothing changes at the target. Exit 4 if events are still to be sent or verified.
    """
    from pipeline import steps
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.text import pluralize

    plan, folder = open_plan(directory, discarded=True)
    question = f"Discard the {pluralize(plan.events.made, 'event')} of {directory}? They cannot be brought back."
    done = steps.discard(plan, folder, options, confirm=lambda: common.confirm(question, yes), warn=common.warn)
    words = f"Removed {pluralize(done.files, 'file')} of {directory}, {done.bytes / 1e6:,.1f} MB."
    words = words if done.files else f"The events of {directory} were discarded at {done.at}."
    common.show_words(done, words, as_json=as_json, quiet=quiet)
    return 0
