"""`backcast fetch`: download a window of a tool's events into a folder first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli import common
from pipeline.cli.flags import takes
from pipeline.cli.progress import Fetching
from pipeline.errors import EmptyExport, UsageError
from pipeline.options import FetchOptions

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.fetch.query import QueryResult
    from pipeline.fetch.run import FetchResult
    from pipeline.fetch.tool import Tool


class Tools(click.Group):
    """A command for each tool of `pipeline.fetch.tools`, and those that are declared below."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from pipeline.fetch.tool import tools

        return sorted([*tools(), *super().list_commands(ctx)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from pipeline.fetch.tool import tools

        found = tools().get(cmd_name)
        return super().get_command(ctx, cmd_name) if found is None else _command(found)


@click.group(
    cls=Tools,
    epilog="Example: backcast fetch mixpanel --project 12345 --since 2024-01-01 --until 2024-02-01 -o export/",
)
def fetch() -> None:
    """Download a window of a tool's events into a folder, for `backcast plan`.

    The folder has one file per window, as the tool gave it, and backcast-fetch.json with counts and digests. Run the
    same command again to go on after a stop, or to check the files of a complete fetch against their digests. Keys come
    from the environment. Exit 7 where the tool counts more events than it gave.
    """


def _query_options(command: Callable[..., int]) -> Callable[..., int]:
    """The options of a query whose rows are written to a file."""
    options = (
        click.option("--query", required=True, metavar="SQL", help="One SELECT, or @FILE for the file that it is in."),
        click.option(
            "--out", "-o", "file", required=True, metavar="FILE", type=click.Path(path_type=Path),
            help="A new file in .parquet.",
        ),
        common.as_json,
        common.quiet,
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@fetch.command(
    "duckdb",
    short_help="Write the rows of a DuckDB query to a file.",
    epilog='Example: backcast fetch duckdb warehouse.duckdb --query "select * from events" -o events.parquet',
)
@click.argument("database", metavar="[DATABASE]", required=False, type=click.Path(path_type=Path))
@_query_options
def of_duckdb(database: Path | None, query: str, file: Path, as_json: bool, quiet: bool) -> int:
    """Write the rows of a query to a Parquet file, sorted by all columns, for `backcast plan`.

    DATABASE is a DuckDB file, opened for reading only. Without it the query names its files itself: select * from
    'events/*.csv'. The same rows make the same file, whatever their order in the database.
    """
    from pipeline.fetch.query import fetch_query

    return _show_rows(fetch_query(database, _text_of(query), file), as_json=as_json, quiet=quiet)


@fetch.command(
    "adbc",
    short_help="Write the rows of a warehouse query to a file, by a driver of ADBC.",
    epilog='Example: backcast fetch adbc postgresql --query "select * from events" -o events.parquet',
)
@click.argument("driver", metavar="DRIVER")
@click.option(
    "--option", "pairs", multiple=True, metavar="NAME=VALUE", help="An option of the driver that is no secret.",
)  # fmt: skip
@_query_options
def of_database(driver: str, pairs: tuple[str, ...], query: str, file: Path, as_json: bool, quiet: bool) -> int:
    """Write the rows of a query to a Parquet file, sorted by all columns, for `backcast plan`.

    DRIVER is the name of an installed driver of ADBC: postgresql for the package adbc-driver-postgresql, and so
    snowflake, bigquery, flightsql, sqlite. The address of the database is read from BACKCAST_ADBC_URI, a password that
    is not part of it from BACKCAST_ADBC_PASSWORD, and other options that are secrets from BACKCAST_ADBC_OPTIONS, a JSON
    object. Nothing is committed in the database.
    """
    from pipeline.fetch.database import OPTIONS, PASSWORD, URI, fetch_database, secret_option

    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError("--option needs NAME=VALUE", hint="such as --option adbc.snowflake.sql.db=EVENTS")
        if secret_option(name):
            raise UsageError(f"--option {name} may be a secret", hint=f"put it into {URI}, {PASSWORD} or {OPTIONS}")
        options[name] = value
    return _show_rows(fetch_database(driver, _text_of(query), file, options=options), as_json=as_json, quiet=quiet)


def _text_of(query: str) -> str:
    """The query itself, or the text of the file that `@FILE` names. Raises UsageError."""
    if not query.startswith("@"):
        return query
    try:
        return Path(query[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the query: {error}", hint="give --query SQL or --query @FILE") from None


def _show_rows(found: QueryResult, *, as_json: bool, quiet: bool) -> int:
    from pipeline.text import pluralize

    if not found.rows:
        common.warn("the query has no row")
    common.show(
        {"format": "backcast.fetch-query/1", **found._asdict(), "file": str(found.file)},
        lambda console: console.print(
            f"Written: {pluralize(found.rows, 'row')}, {found.bytes:,} bytes, sha256 {found.digest}",
            markup=False,
            soft_wrap=True,
        ),
        as_json=as_json,
        quiet=quiet,
    )
    return 0


def _command(tool: Tool) -> click.Command:
    """The command of a tool."""
    project = " --project 12345" if tool.project else ""
    keys = " and ".join(tool.keys)
    hours = "." if tool.step == 86_400 else " or 2024-01-31T05:00:00Z."

    without = {"project": tool.project, "count": tool.counts}

    @click.option("--since", required=True, metavar="TIME", help="The first moment, as 2024-01-31" + hours)
    @click.option("--until", required=True, metavar="TIME", help="The moment after the last one.")
    @takes(FetchOptions, without=[name for name, has in without.items() if not has])
    @common.as_json
    @common.quiet
    @click.option(
        "--out", "-o", "folder", required=True, metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
        help="The folder: a new one, or that of the same fetch.",
    )  # fmt: skip
    def run(since: str, until: str, folder: Path, options: FetchOptions, as_json: bool, quiet: bool) -> int:
        return _run(tool, (since, until), folder, options, as_json=as_json, quiet=quiet)

    return click.command(
        tool.name,
        help=f"Download events of {tool.title}: {tool.clock}. Keys: {keys}"
        + (f" ({', '.join(tool.optional)} may be absent)." if tool.optional else "."),
        short_help=f"Download events of {tool.title}.",
        epilog=f"Example: backcast fetch {tool.name}{project} --since 2024-01-01 --until 2024-02-01 -o export/",
    )(run)


def _run(
    tool: Tool, between: tuple[str, str], folder: Path, options: FetchOptions, *, as_json: bool, quiet: bool
) -> int:
    from pipeline.fetch.run import fetch_export

    with Fetching(tool.title, quiet=quiet) as progress:
        found = fetch_export(tool.name, between, folder, options, progress=progress, warn=common.warn)
    if not found.rows:
        raise EmptyExport(
            f"{tool.title} has no event between {found.manifest.since} and {found.manifest.until}",
            hint="check the project, the dates and --from",
        )
    common.show(_machine(found), lambda console: _draw(console, tool, found), as_json=as_json, quiet=quiet)
    return 7 if found.fewer else 0


def _machine(found: FetchResult) -> dict[str, Any]:
    import msgspec

    manifest = {name: value for name, value in msgspec.to_builtins(found.manifest).items() if name != "left"}
    return manifest | {"folder": str(found.folder), "rows": found.rows, "fetched": found.fetched}


def _draw(console: Console, tool: Tool, found: FetchResult) -> None:
    from pipeline.report.next_step import NextStep
    from pipeline.report.terminal.steps import show_step
    from pipeline.text import pluralize, quoted

    manifest, windows = found.manifest, len(found.manifest.windows)
    total = sum(one.bytes for one in manifest.files)
    done = "Fetched" if found.fetched else "Nothing to fetch; the digests of all files agree"
    console.print(
        f"{done}: {pluralize(found.rows, 'event')} in {pluralize(len(manifest.files), 'file')}, {total:,} bytes,"
        f" {manifest.since} until {manifest.until}.",
        markup=False,
    )
    if found.fewer:
        console.print(
            f"Incomplete: {tool.title} counts more events than it gave in {pluralize(found.fewer, 'window')};"
            " backcast-fetch.json names them.",
            markup=False,
        )
    elif found.counted == windows:
        console.print(f"Complete: {tool.title} counts no more events in any window.", markup=False)
    else:
        console.print(
            f"Not counted: {pluralize(windows - found.counted, 'window')}; every file was read to its end.",
            markup=False,
        )
    command = f"backcast plan {quoted(str(found.folder))} -m {manifest.tool} -o plan"
    show_step(console, NextStep("plan these files, which sends nothing:", command))
