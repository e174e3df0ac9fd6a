"""`backcast demo`: the whole job, offline, no keys."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import common


@click.command(epilog="Example: backcast demo")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    metavar="DIR",
    help="Where the plans are written; the output of an earlier demo is replaced.",
)
@common.as_json
def demo(output: Path, as_json: bool) -> int:
    """Plan, rehearse and verify the bundled sample data: the whole job, offline, no keys."""
    from pipeline import demo

    results = []
    for step in demo.run(output):
        results.append(step)
        if not as_json:
            click.echo(f"{step.name}: {step.sentence}")
            click.echo(f"  {step.verdict}")
    proved = all(step.proved for step in results)
    if as_json:
        common.emit({"format": "backcast.demo/1", "proved": proved, "steps": results})
    else:
        click.echo()
        click.echo("What landed equals what was planned, event by event." if proved else "There are differences.")
        click.echo("Reports:")
        for step in results:
            click.echo(f"  {step.report}")
    return 0 if proved else 7
