"""`backcast plan`: the dry run that seals."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import completing, options
from pipeline.cli.options import console
from pipeline.cli.progress import Reading


@click.command(epilog="Example: backcast plan exports/ -m mixpanel --timezone America/New_York --for eu -o plan/")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--mapping",
    "-m",
    metavar="NAME|FILE",
    help="A shipped mapping or a file; recognised when left out.",
    shell_complete=completing.mappings,
)
@click.option(
    "--output",
    "-o",
    "directory",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the plan is written.",
)
@click.option(
    "--for",
    "target",
    default="",
    metavar="us|eu|URL",
    help="The intended target; fixes the dialect.",
    shell_complete=completing.targets,
)
@click.option("--dialect", type=click.Choice(["contract", "posthog"]), help="Override the target's dialect.")
@click.option("--since", metavar="TIME", help="Only events at or after this time (UTC).")
@click.option("--until", metavar="TIME", help="Only events before this time (UTC).")
@click.option(
    "--timezone",
    "zones",
    multiple=True,
    metavar="ZONE[@DATE]",
    shell_complete=completing.zones,
    help="IANA zone of a tool that writes local times; repeat with @DATE where it changed.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the mapping.")
@click.option(
    "--exclude-ids",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Ids to leave out, one a line: people who asked to be forgotten.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Read only the first N rows.")
@click.option("--max-rejects", default="0", show_default=True, metavar="N|P%", help="Rows that may be unsendable.")
@click.option("--allow-recent", is_flag=True, help="Also send events under 48 hours old, which are billed.")
@click.option("--collapse-identical", is_flag=True, help="Identical rows without a source id become one event.")
@click.option(
    "--allow-key-conflicts",
    is_flag=True,
    help="Rows of one source id are one event even where their event names or UTC days differ.",
)
@click.option("--name", default="", metavar="TEXT", help="A name for this import, carried by every event.")
@click.option("--no-provenance", is_flag=True, help="Leave the import's own properties off the events.")
@click.option("--max-batch-events", type=click.IntRange(1, 100_000), default=5000, show_default=True, metavar="N")
@click.option(
    "--max-batch-bytes",
    type=click.IntRange(1000, 9 * 1024 * 1024),
    default=5 * 1024 * 1024,
    show_default=True,
    metavar="N",
)
@click.option(
    "--person-properties",
    type=click.Choice(["final", "none"]),
    help="Each person's last values, sent once, or none.  [default: the mapping's, else final]",
)
@click.option(
    "--profile-policy",
    metavar="fill-only|overwrite|prefix=TEXT",
    shell_complete=completing.policies,
    help="How they meet a live profile.  [default: the mapping's, else fill-only]",
)
@click.option(
    "--promoted-properties",
    type=click.Choice(["leave", "final"]),
    help="Event properties that the service copies to persons ($browser, utm_source, …): leave it what arrives last, or"
    " final: first values go out before all events, as $set_once of $initial_…, and last ones after them, as $set under"
    " every policy, since events overwrite these anyway. Reads the export twice.  [default: the mapping's, else leave]",
)
@click.option(
    "--persons",
    type=click.Choice(["all", "identified"]),
    default="all",
    show_default=True,
    help="Whose events make profiles; merges and groups need one.",
)
@click.option(
    "--max-ids-per-person",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    metavar="N",
    help="More anonymous ids of one user are not merged.",
)
@click.option(
    "--identities",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Pairs of ids of your own: CSV with anonymous_id,user_id, or the same as JSON lines.",
)
@click.option(
    "--group-types", default="", metavar="A,B,C", help="Up to five group types, in the order of their numbers."
)
@click.option(
    "--earlier",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    metavar="DIR",
    help="An earlier plan whose merges are in; repeat.  [default: those beside -o for the same target]",
)
@click.option("--as-of", metavar="TIME", help="The plan's instant, for a plan that is made again.  [default: now]")
@options.workers
@options.as_json
@options.quiet
def plan(
    sources: tuple[str, ...], mapping: str | None, directory: Path, target: str, dialect: str | None,
    since: str | None, until: str | None, zones: tuple[str, ...], settings: tuple[str, ...],
    exclude_ids: Path | None, limit: int | None, max_rejects: str, allow_recent: bool, collapse_identical: bool,
    allow_key_conflicts: bool, name: str, no_provenance: bool, max_batch_events: int, max_batch_bytes: int,
    person_properties: str | None, profile_policy: str | None, promoted_properties: str | None, persons: str,
    max_ids_per_person: int,
    identities: Path | None, group_types: str, earlier: tuple[Path, ...], as_of: str | None,
    workers: int | None, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Read everything, send nothing, write the sealed plan and its report.

    SOURCE: files, folders, globs, archives, or - for stdin. Exit 4 when the plan is not ready.
    """
    from pipeline.plan.prestart import start_plan_workers

    # First of all: they start while this process loads the rest.
    ready = click.get_current_context().with_resource(start_plan_workers(sources, workers))
    from pipeline import api
    from pipeline.models import Limits
    from pipeline.plan.directory import Directory
    from pipeline.report import machine, terminal
    from pipeline.targets import address_of

    if target:
        address_of(target)
    request = api.PlanRequest(
        sources=sources,
        directory=directory,
        mapping=mapping,
        target=target,
        dialect=dialect,
        zones=options.zones(zones),
        since=options.instant(since, "--since"),
        until=options.instant(until, "--until"),
        settings=options.settings(settings),
        name=name,
        provenance=not no_provenance,
        allow_recent=allow_recent,
        collapse_identical=collapse_identical,
        allow_key_conflicts=allow_key_conflicts,
        exclude_ids=exclude_ids,
        limit=limit,
        max_rejects=max_rejects,
        limits=Limits(batch_events=max_batch_events, batch_bytes=max_batch_bytes),
        workers=workers,
        as_of=options.instant(as_of, "--as-of"),
        person_properties=person_properties,
        profile_policy=profile_policy,
        promoted_properties=promoted_properties,
        persons=persons,
        max_ids_per_person=max_ids_per_person,
        identities=identities,
        group_types=tuple(group_types.split(",")) if group_types else (),
        earlier=earlier or None,
    )
    with Reading(None, quiet=quiet) as progress:
        made = api.plan_export(request, progress, ready)
    machine.write_report(Directory(directory), made)
    with options.output():
        if as_json:
            options.emit(machine.plan_object(made, directory))
        else:
            terminal.show_plan(console(), made, directory=str(directory))
    return 0 if made.ready else 4
