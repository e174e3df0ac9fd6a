"""`backcast diff`: what a changed mapping or export changes."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.cli.progress import Comparing
from pipeline.options import DiffOptions


@click.command(epilog="Example: backcast diff plan-before/ plan-after/ --html diff.html")
@click.argument("plan_a", metavar="PLAN_A", type=common.PlanDirectory())
@click.argument("plan_b", metavar="PLAN_B", type=common.PlanDirectory())
@takes(DiffOptions)
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path), help="Also write a page with all of it.  [default: none]"
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 also where the plans differ.")
@common.as_json
@common.quiet
def diff(
    plan_a: str, plan_b: str, options: DiffOptions, html: Path | None, exit_zero: bool, as_json: bool, quiet: bool
) -> int:
    """What a changed mapping or export changes: two plans compared event by event.

    Events are matched by uuid; merges, groups and profiles by their ids. Both exports are read again, where the plans
    sealed different events of them; nothing is sent. Exit 0 when the plans send the same, 7 when they differ.
    """
    from pipeline import api
    from pipeline.files import may_replace, write_atomically
    from pipeline.report.diff_view import render_diff, show_diff

    if html is not None:
        may_replace(html, (b"<!doctype html>",), "--html")
    with Comparing(quiet=quiet) as progress:
        found = api.diff_plans(plan_a, plan_b, options, progress=progress)
    if html is not None:
        write_atomically(html, render_diff(found).encode("utf-8", "backslashreplace"))
    common.show(found, lambda console: show_diff(console, found), as_json=as_json, quiet=quiet and found.equal)
    return 0 if found.equal or exit_zero else 7
