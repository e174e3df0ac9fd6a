"""The help of commands: their example, the commands of a group, and the options of commands with many.

Of those, `--help` shows what most people need, in groups; `--help-all` shows all.
"""

from __future__ import annotations

from typing import Any

import click

WHOLE = "backcast.help_all"
"""The key in a context's `meta` that asks for every option."""
COLUMN = 24
"""Characters of the column of options."""

PLAN = {
    "What you need": ("output mapping for set", "dialect name provenance no-provenance replay as-of"),
    "Choose rows": (
        "since until exclude-ids limit",
        "scope allow-recent collapse-identical allow-key-conflicts allow-ignored canary",
    ),
    "Time": ("timezone", "hour-events"),
    "People": (
        "identities person-properties",
        "persons profile-policy promoted-properties max-ids-per-person shared-devices joined-users group-types earlier",
    ),
    "Checks": (
        "max-rejects",
        "stop-on accept checks types max-unmapped spike level gap per-second per-minute per-day repeated one-day"
        " resolved mixed-types null-jump cut-values property-names",
    ),
    "Limits": ("workers", "engine max-batch-events max-batch-bytes"),
    "Output": ("estimate json quiet help help-all", "rate show-values show-ids pairs report log-format"),
}
APPLY = {
    "What you need": ("to project-key-file personal-key-file", "api project rotated-key ca-file allow-redirect-host"),
    "Choose what is sent": ("dry-run canary", "phases transport"),
    "Time": ("rate max-duration", "quiet-hours hours-timezone"),
    "People": ("approve-merges", "order per-id"),
    "Checks": (
        "require-rehearsal require-canary pause-functions yes",
        "allow-firing settle max-already-there allow-already-there allow-beside",
    ),
    "Limits": ("max-refused", "max-concurrency max-retries retry-for timeout"),
    "Output": ("json quiet help help-all", "log-format metrics metrics-port"),
}
"""Heading → the options that `--help` shows, and those that only `--help-all` adds."""


def example(command: str) -> str:
    """The end of a command's help. It is one line, so that it can be copied, also if it is wider than the terminal."""
    return f"\b\nExample: {command}"


class WholeHelp(click.Group):
    """A group whose help has the first sentence of each command whole; click cuts it at 45 characters."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl([
                (name, one.get_short_help_str(limit=formatter.width * 9)) for name, one in found if one is not None
            ])  # fmt: skip


class GroupedHelp(click.Command):
    """A command whose options are in `groups`."""

    def __init__(self, *arguments: Any, groups: dict[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.groups = groups
        self.params.append(
            click.Option(
                ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all,
                help="Show every option.",
            )
        )  # fmt: skip

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = {}
        for one in self.get_params(ctx):
            if (row := one.get_help_record(ctx)) is not None:
                rows[max(one.opts, key=len).removeprefix("--")] = row
        for heading, (usual, others) in self.groups.items():
            names = [*usual.split(), *(others.split() if ctx.meta.get(WHOLE) else ())]
            with formatter.section(heading):
                # Padded, so that the columns of all groups are in one line.
                formatter.write_dl([(rows[name][0].ljust(COLUMN), rows[name][1]) for name in names], col_max=COLUMN)


def _show_all(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[WHOLE] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
