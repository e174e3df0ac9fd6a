"""The options of the commands that run the local service with faults; their help lists every fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from pipeline.cli import completing
from pipeline.errors import UsageError
from pipeline.text import pluralize

if TYPE_CHECKING:
    from pipeline.local_service.faults import FaultCounts

script = click.option(
    "--fault", "faults", multiple=True, metavar="FAULT",
    help="Misbehave so; several are met in turn. See below.", shell_complete=completing.faults,
)  # fmt: skip
seed = click.option(
    "--fault-seed", default=0, show_default=True, metavar="N",
    help="Draws by chance: the same seed and order of requests, the same faults.",
)  # fmt: skip


class WithFaults(click.Command):
    """A command whose help ends with the faults there are."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then the faults."""
        super().format_options(ctx, formatter)
        from pipeline.local_service.faults import catalogue

        with formatter.section("Faults, each written NAME[:VALUE][,OPTION=VALUE]"):
            formatter.write_dl(catalogue())


def check(texts: Sequence[str]) -> None:
    """Raises UsageError for a text that is no fault."""
    from pipeline.local_service.faults import BadFault, read_script

    try:
        read_script(texts)
    except BadFault as error:
        raise UsageError(f"--fault: {error}", hint=error.hint) from None


def told(tallies: Iterable[FaultCounts]) -> list[str]:
    """What the faults did, a line each."""
    return [f"Fault {tally.fault}: {tally.acted:,} of {pluralize(tally.reached, 'request')}" for tally in tallies]
