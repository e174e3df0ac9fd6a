"""What the commands share that run the local service with faults: the help lists every fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from pipeline.errors import UsageError
from pipeline.text import pluralize

if TYPE_CHECKING:
    from pipeline.local_service.faults import FaultCounts


class WithFaults(click.Command):
    """A command whose help ends with the list of faults."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then the faults."""
        super().format_options(ctx, formatter)
        from pipeline.local_service.faults import catalogue

        with formatter.section("Faults, each written NAME[:VALUE][,OPTION=VALUE]"):
            formatter.write_dl(catalogue())


def check(texts: Sequence[str]) -> None:
    """Raise UsageError for a text that names no fault."""
    from pipeline.local_service.faults import BadFault, read_script

    try:
        read_script(texts)
    except BadFault as error:
        raise UsageError(f"--fault: {error}", hint=error.hint) from None


def report(tallies: Iterable[FaultCounts]) -> list[str]:
    """What the faults did, one line each."""
    return [f"Fault {tally.fault}: {tally.acted:,} of {pluralize(tally.reached, 'request')}" for tally in tallies]
