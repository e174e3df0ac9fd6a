"""The commands that fetch, survey and plan an export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli import common
from pipeline.cli.common import combined
from pipeline.cli.flags import takes
from pipeline.cli.help import PLAN, GroupedHelp, example
from pipeline.cli.progress import Fetching, Line, Reading
from pipeline.errors import EmptyExport, UsageError
from pipeline.options import EstimateOptions, FetchOptions, PlanOptions, SurveyOptions
from pipeline.text import printable

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
    epilog=example("backcast fetch mixpanel --project 12345 --since 2024-01-01 --until 2024-02-01 -o export/"),
)
def fetch() -> None:
    """Download a window of a tool's events into a folder, for `backcast plan`.

    The folder has one file per window, as the tool gave it, and backcast-fetch.json with counts and digests. Run the
    same command again to go on after a stop, or to check the files of a complete fetch against their digests. Keys come
    from the environment. Exit 7 if the tool counts more than it gave, or does not have an event of --uuids.
    """


_query_options = combined(
    click.option("--query", required=True, metavar="SQL", help="One SELECT, or @FILE for the file that it is in."),
    click.option(
        "--out", "-o", "file", required=True, metavar="FILE", type=click.Path(path_type=Path),
        help="A new file in .parquet.",
    ),
    common.printing,
)  # fmt: skip
"""The options of a query whose rows are written to a file."""


@fetch.command(
    "duckdb",
    short_help="Write the rows of a DuckDB query to a file.",
    epilog=example('backcast fetch duckdb warehouse.duckdb --query "select * from events" -o events.parquet'),
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
    epilog=example('backcast fetch adbc postgresql --query "select * from events" -o events.parquet'),
)
@click.argument("driver", metavar="DRIVER")
@click.option(
    "--option", "pairs", multiple=True, metavar="NAME=VALUE", help="An option of the driver that is not a secret.",
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
            raise UsageError("--option needs NAME=VALUE", hint="for example --option adbc.snowflake.sql.db=EVENTS")
        if secret_option(name):
            raise UsageError(
                f"--option {name} may be a secret", hint=f"set it in the environment: {URI}, {PASSWORD} or {OPTIONS}"
            )
        options[name] = value
    return _show_rows(fetch_database(driver, _text_of(query), file, options=options), as_json=as_json, quiet=quiet)


def _text_of(query: str) -> str:
    """The query itself, or the text of the file that `@FILE` names. Raises UsageError."""
    if not query.startswith("@"):
        return query
    try:
        return Path(query[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the query: {error}", hint="check the path after @, or give --query SQL"
        ) from None


def _show_rows(found: QueryResult, *, as_json: bool, quiet: bool) -> int:
    from pipeline.text import pluralize

    if not found.rows:
        common.warn("the query has no row")
    value = {"format": "backcast.fetch-query/1", **found._asdict(), "file": str(found.file)}
    words = f"Written: {pluralize(found.rows, 'row')}, {found.bytes:,} bytes, sha256 {found.digest}"
    common.show_words(value, words, as_json=as_json, quiet=quiet)
    return 0


def _command(tool: Tool) -> click.Command:
    project = " --project 12345" if tool.project else ""
    keys = " and ".join(tool.keys)
    hours = "." if tool.step == 86_400 else " or 2024-01-31T05:00:00Z."

    without = {
        "project": tool.project, "count": tool.counts, "extras": bool(tool.extras), "by": tool.ingestion
    }  # fmt: skip

    @click.option("--since", required=True, metavar="TIME", help="The first moment, as 2024-01-31" + hours)
    @click.option("--until", required=True, metavar="TIME", help="The moment after the last one.")
    @takes(FetchOptions, without=[name for name, has in without.items() if not has])
    @common.printing
    @click.option(
        "--out", "-o", "folder", required=True, metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
        help="The folder: a new one, or that of the same fetch.",
    )  # fmt: skip
    def run(since: str, until: str, folder: Path, options: FetchOptions, as_json: bool, quiet: bool) -> int:
        from pipeline.fetch.run import fetch_export

        with Fetching(tool.title, quiet=quiet) as progress:
            found = fetch_export(tool.name, (since, until), folder, options, progress=progress, warn=common.warn)
        if not found.rows and not any(page.rows for page in found.manifest.pages):
            listed = " of the list" if found.missing else ""
            raise EmptyExport(
                f"{tool.title} has no event{listed} between {found.manifest.since} and {found.manifest.until}",
                hint="check --since, --until, the region in --from, and the project or its key",
            )
        lacks = bool(found.fewer or found.short or found.missing)
        mute = quiet and not lacks
        common.show(_machine(found), lambda console: _draw(console, tool, found), as_json=as_json, quiet=mute)
        return 7 if lacks else 0

    return click.command(
        tool.name,
        help=f"Download events of {tool.title}: {tool.clock}. Keys: {keys}"
        + (f" ({', '.join(tool.optional)} may be absent)." if tool.optional else "."),
        short_help=f"Download events of {tool.title}.",
        epilog=example(f"backcast fetch {tool.name}{project} --since 2024-01-01 --until 2024-02-01 -o export/"),
    )(run)


def _machine(found: FetchResult) -> dict[str, Any]:
    import msgspec

    manifest = {name: value for name, value in msgspec.to_builtins(found.manifest).items() if name != "left"}
    shown = {"rows": found.rows, "fetched": found.fetched, "missing": found.missing}
    return manifest | shown | {"folder": str(found.folder)}


def _draw(console: Console, tool: Tool, found: FetchResult) -> None:
    from pipeline.report.state import NextStep
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
    words = f"Not counted: {pluralize(windows - found.counted, 'window')}; every file was read to its end."
    if found.fewer:
        more = f"{tool.title} counts more events than it gave in {pluralize(found.fewer, 'window')}"
        words = f"Incomplete: {more}; backcast-fetch.json names them. The same command fetches them again."
    elif found.counted == windows:
        words = f"Complete: {tool.title} counts no more events in any window."
    console.print(words, markup=False)
    for line in _more_lines(tool, found):
        console.print(line, markup=False)
    keys = ",".join(one.partition(":")[2].rpartition("=")[0] for one in manifest.extras if one.startswith("group:"))
    groups = f" --set {quoted(f'groups={keys}')}" if keys else ""
    command = f"backcast plan {quoted(str(found.folder))} -m {manifest.tool}{groups} -o plan"
    show_step(console, NextStep("plan these files, which sends nothing:", command))


def _more_lines(tool: Tool, found: FetchResult) -> Iterator[str]:
    """What was fetched besides events, and what is missing from a list of events."""
    rows: Counter[str] = Counter()
    for page in found.manifest.pages:
        rows[page.of.partition("=")[0]] += page.rows
    if rows:
        yield "Also fetched: " + ", ".join(f"{of} ({count:,})" for of, count in rows.items()) + "."
    if found.short:
        listed = ", ".join(found.short)
        yield f"Incomplete: {tool.title} counts more than it gave of {listed}. The same command asks for these again."
    if found.missing:
        some = ", ".join(found.missing[:5]) + (", …" if len(found.missing) > 5 else "")
        yield f"Not found: {len(found.missing):,} of the listed events, {some}; --json has all."


@click.command(epilog=example("backcast survey exports/2021-*.json.gz"))
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@takes(SurveyOptions)
@common.printing
def survey(sources: tuple[str, ...], options: SurveyOptions, as_json: bool, quiet: bool) -> int:
    """Describe an export before mapping it.

    Shows which tool it comes from, which fields and types it has, its time range, and the time zone of its timestamps.
    Exit 4 when it has no row, as for a plan of it.
    """
    from pipeline import api
    from pipeline.report.survey_view import show_survey
    from pipeline.survey.recognition import no_rows

    with Line("Surveying:", quiet=quiet) as progress:
        result = api.survey_export(sources, options, step=progress.step)
    if options.report is not None:
        from pipeline.report.survey_view import write_survey

        write_survey(options.report, result, sources, options)
    show = partial(show_survey, survey=result, sources=sources, options=options)
    common.show(result, show, as_json=as_json, quiet=quiet)
    if not result.rows:
        raise no_rows(result.notices)
    return 0


@click.command(
    cls=GroupedHelp, groups=PLAN,
    epilog=example("backcast plan exports/ -m mixpanel --timezone America/New_York --for eu -o plan/"),
)  # fmt: skip
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--output", "-o", "directory", metavar="DIR", type=common.PlanDirectory(),
    help="Where the plan is written.  [default: none; required without --estimate]",
)  # fmt: skip
@takes(PlanOptions)
@takes(EstimateOptions, "estimating")
@common.printing_for_long
def plan(
    sources: tuple[str, ...], directory: str | None, options: PlanOptions, estimating: EstimateOptions,
    as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Read everything, send nothing, write the sealed plan and its report.

    SOURCE: files, folders, globs, archives, s3:// gs:// az:// URLs, or - for stdin. Exit 4: the plan is not ready.
    """
    if estimating.estimate:
        return _estimate(sources, options, estimating.rate, as_json=as_json, quiet=quiet)
    if estimating.rate is not None:
        raise UsageError(
            "plan uses --rate only for an estimate", hint="add --estimate, or give --rate to apply instead"
        )
    if directory is None:
        raise UsageError("-o is missing: a plan is written to a new directory", hint="add -o DIR, for example -o plan/")
    from pipeline import api
    from pipeline.plan.in_bucket import directory_at
    from pipeline.report import machine
    from pipeline.report.state import read_status
    from pipeline.report.terminal import steps

    notices: list[str] = []
    with Reading(quiet=quiet) as progress:
        plan = api.plan_export(
            sources, directory, options, progress=progress, notice=notices.append, step=progress.step
        )
    for notice in () if quiet else notices:
        click.echo(printable(notice, 300), err=True)
    written = directory_at(directory)
    common.show(
        machine.plan_object(plan, directory),
        lambda console: steps.show_plan(console, plan, read_status(plan, written), directory, common.words()),
        as_json=as_json,
        quiet=quiet and plan.ready,
    )
    return 0 if plan.ready else 4


def _estimate(sources: tuple[str, ...], options: PlanOptions, rate: float | None, *, as_json: bool, quiet: bool) -> int:
    from pipeline.plan.estimate import estimate_plan
    from pipeline.report.terminal.export_views import show_estimate

    with Reading(quiet=quiet) as progress:
        found = estimate_plan(sources, options, rate=rate, progress=progress)
    common.show(found, lambda console: show_estimate(console, found), as_json=as_json)
    return 0
