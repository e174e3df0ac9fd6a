"""`backcast definitions`: descriptions, tags, flags and types of events and properties, at the target."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli.help import WholeHelp, example
from pipeline.cli.resources import Connection, connected
from pipeline.errors import UsageError

_file = click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
_dry_run = click.option("--dry-run", is_flag=True, help="Only say what would be changed.")
_PLAN = ("kind", "name", "field", "current", "new")
_LEFT_OUT = ("why", "kind", "name", "field", "value", "detail")


@click.group(
    cls=WholeHelp,
    epilog=example("backcast definitions plan lexicon.csv -m mixpanel --to eu -o definitions.json"),
)
def definitions() -> None:
    """Descriptions, tags, verified and hidden flags, and types of events and properties: from the old tool to the
    target. Import the events first: the target has a definition only of what it received."""


@definitions.command(
    epilog=example("backcast definitions plan lexicon.csv -m mixpanel --to eu -o definitions.json"),
)
@connected()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--mapping", "-m", default="", metavar="NAME|FILE",
    help="The mapping of the import, which renames.  [default: none; names are those of the target]",
)  # fmt: skip
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="The mapping's settings, as in the import."
)
@click.option("--output", "-o", required=True, metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              help="Where the plan is written: a new file.")  # fmt: skip
@click.option(
    "--overwrite", default="", metavar="LIST",
    help="Fields whose values at the target may be replaced: description,tags,verified,hidden,type.  [default: none]",
)  # fmt: skip
def plan(
    connection: Connection, sources: tuple[str, ...], mapping: str, settings: tuple[str, ...], output: Path,
    overwrite: str,
) -> None:  # fmt: skip
    """Compare definitions with those of the target, and write what would change.

    SOURCE: Mixpanel's Lexicon (its CSV, or the JSON of its schemas), Amplitude's taxonomy (the CSV of Data, or the JSON
    of the Taxonomy API), a tracking plan, or a table with kind,name,description,tags,verified,type. The first one that
    states a field counts. A type at the target is its own guess: --overwrite type replaces it.
    """
    import msgspec

    from pipeline.definitions.apply import journal_of
    from pipeline.definitions.changes import FIELDS, plan_changes
    from pipeline.files import write_json
    from pipeline.option_types import read_settings
    from pipeline.text import pluralize

    given = read_settings(settings)
    if given and not mapping:
        raise UsageError("--set is for the settings of a mapping", hint="name the mapping with -m")
    fields = [one.strip() for one in overwrite.split(",") if one.strip()]
    if unknown := [one for one in fields if one not in FIELDS]:
        raise UsageError(f"--overwrite has no field {unknown[0]!r}", hint=f"name some of {', '.join(FIELDS)}")
    for file in (output, journal_of(output)):
        if file.exists():
            raise UsageError(f"{file} exists", hint="name a new file: with plan and journal, changes can be undone")
    with connection.client() as client:
        made = plan_changes(sources, mapping, given, client, fields)
    write_json(output, made)
    rows = [
        {"kind": one.kind, "name": one.name, "field": field, "current": one.before[field], "new": value}
        for one in made.changes
        for field, value in one.set.items()
    ]
    plain = msgspec.to_builtins(made)
    others = plain["left_out"]
    words = f"{pluralize(len(made.changes), 'definition')} to change, {pluralize(len(rows), 'field')}"
    connection.show(
        plain,
        ("show_rows", rows, *_PLAN),
        *([("show_line", "Left out:"), ("show_rows", others, *_LEFT_OUT)] if others else []),
        *(("show_line", line) for line in made.notices),
        ("show_line", f"{words}; {made.unchanged:,} already as defined; {len(others):,} left out. Written: {output}"),
    )


@definitions.command(epilog=example("backcast definitions apply definitions.json --to eu --dry-run"))
@connected()
@_file
@_dry_run
def apply(connection: Connection, file: Path, dry_run: bool) -> int:
    """Change the definitions as planned; run again to resume.

    Nothing is changed if a definition is no longer as it was planned (exit 4). Exit 5: the target refused some fields;
    the others are set.
    """
    return _run(connection, file, dry_run, undo=False)


@definitions.command(epilog=example("backcast definitions undo definitions.json --to eu"))
@connected()
@_file
@_dry_run
def undo(connection: Connection, file: Path, dry_run: bool) -> int:
    """Restore every definition as it was before the plan was applied.

    A field that somebody changed afterwards is left as it is and listed (exit 7).
    """
    return _run(connection, file, dry_run, undo=True)


def _run(connection: Connection, file: Path, dry_run: bool, *, undo: bool) -> int:
    import msgspec

    from pipeline.definitions.apply import run_plan
    from pipeline.text import pluralize

    with connection.client() as client:
        result = run_plan(file, client, undo=undo, dry_run=dry_run)
    done = msgspec.to_builtins(result)
    verb = "restore" if undo else "change"
    verb = f"Would {verb}" if dry_run else f"{verb.capitalize()}d"
    others = f"{result.already:,} already so; {pluralize(len(result.refused), 'field')} not set"
    words = f"{verb} {pluralize(result.changed, 'definition')}; {others}."
    connection.show(done, ("show_rows", done["refused"], *_LEFT_OUT), ("show_line", words))
    return (7 if undo else 5) if result.refused else 0
