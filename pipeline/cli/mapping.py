"""`backcast mapping`: the mapping files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from pipeline.cli import common, completing
from pipeline.errors import UsageError
from pipeline.text import pluralize, printable


@click.group(epilog="Example: backcast mapping test mappings/mine.yaml")
def mapping() -> None:
    """The mapping files, which turn the rows of a tool into events."""


@mapping.command("list", epilog="Example: backcast mapping list")
@common.as_json
def list_(as_json: bool) -> int:
    """The shipped mappings."""
    from pipeline.mapper import available, load

    mappings = [{"name": name, "tool": load(name).tool, "title": load(name).title} for name in available()]
    if as_json:
        common.emit({"format": "backcast.mappings/1", "mappings": mappings})
    else:
        for entry in mappings:
            click.echo(f"{entry['name']:12} {entry['title']}")
    return 0


@mapping.command(epilog="Example: backcast mapping show mixpanel > mine.yaml")
@click.argument("name", metavar="NAME|FILE", shell_complete=completing.mappings)
@click.option("--program", "as_program", is_flag=True, help="Print the operations that it compiles to instead.")
@click.option("--compiled", is_flag=True, help="Print the Python source that runs instead.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the mapping.")
def show(name: str, as_program: bool, compiled: bool, settings: tuple[str, ...]) -> int:
    """Print a mapping file, or what it compiles to."""
    from pipeline.mapper import compile as compile_mapping
    from pipeline.mapper import load
    from pipeline.mapper.printer import printed
    from pipeline.models import SealedOptions
    from pipeline.option_types import read_settings

    if as_program and compiled:
        raise UsageError("--program and --compiled exclude each other", hint="give one of the two")
    document = load(name)
    if not as_program and not compiled:
        click.echo(document.text, nl=False)
        return 0
    mapper = compile_mapping(document, SealedOptions(as_of=0, settings=read_settings(settings)))
    click.echo(printed(mapper.program) if as_program else mapper.source, nl=compiled)
    return 0


@mapping.command(epilog="Example: backcast mapping check mine.yaml")
@click.argument("names", metavar="NAME|FILE...", nargs=-1, required=True)
def check(names: tuple[str, ...]) -> int:
    """Read mapping files; an error has file:line:column and the nearest valid name. Exit 7 when choices are open."""
    from pipeline.mapper import load
    from pipeline.mapper.compiler import check_mapping
    from pipeline.mapper.ineffective import check_effects

    unfinished = 0
    for name in names:
        document = load(name)
        check_mapping(document)
        check_effects(document)
        unfinished += bool(document.open)
        click.echo(f"{name}: {'unfinished' if document.open else 'good'} ({pluralize(len(document.cases), 'case')})")
        _show_open(document.open)
    return 7 if unfinished else 0


@mapping.command(epilog="Example: backcast mapping test mixpanel mine.yaml")
@click.argument("names", metavar="NAME|FILE...", nargs=-1, shell_complete=completing.mappings)
@common.as_json
def test(names: tuple[str, ...], as_json: bool) -> int:
    """Run the cases inside mapping files (all shipped mappings when none is named).

    Exit 7 when a case fails, or when a mapping has open choices.
    """
    from pipeline.mapper import available, load
    from pipeline.mapper.cases import run_cases

    failed = total = 0
    results = []
    unfinished: dict[str, dict[str, str]] = {}
    for name in names or available():
        found = load(name)
        if found.open:
            unfinished[name] = dict(found.open)
        for outcome in run_cases(found):
            total += 1
            failed += not outcome.passed
            results.append(
                {
                    "mapping": name,
                    "case": outcome.case.name,
                    "passed": outcome.passed,
                    "differences": list(outcome.differences),
                }
            )
            if not outcome.passed and not as_json:
                click.echo(f"{name}: {outcome.case.name}\n{chr(10).join(outcome.differences)}\n")
    if as_json:
        common.emit(
            {
                "format": "backcast.mapping-test/1",
                "cases": total,
                "failed": failed,
                "open": unfinished,
                "results": results,
            }
        )
    else:
        click.echo(f"{pluralize(total - failed, 'case')} passed, {failed} failed")
        for name, choices in unfinished.items():
            click.echo(f"{name}: unfinished, {pluralize(len(choices), 'open choice')}:")
            _show_open(choices)
    return 7 if failed or unfinished else 0


def _show_open(choices: Mapping[str, str]) -> None:
    """Print the choices that a draft leaves open."""
    for name, evidence in choices.items():
        click.echo(f"  {printable(name, 60)}: {printable(evidence, 600)}")


@mapping.command(epilog="Example: backcast mapping new exports/ > mine.yaml")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write here instead of stdout.")
def new(sources: tuple[str, ...], output: Path | None) -> int:
    """Write a commented starting mapping for an export: the shipped one where the tool is recognised."""
    from pipeline.survey.recognition import starting_mapping

    if output is not None and output.exists():
        raise UsageError(f"{output} exists already", hint="choose another -o FILE")
    with tempfile.TemporaryDirectory() as spool:
        text = starting_mapping(sources, Path(spool))
    if output is None:
        click.echo(text, nl=False)
        return 0
    output.write_text(text, encoding="utf-8")
    click.echo(f"Wrote {output}; next: backcast mapping test {output}", err=True)
    return 0


@mapping.command(epilog="Example: backcast mapping schema > mapping.schema.json")
def schema() -> int:
    """The JSON Schema of mapping files, for editors."""
    from pipeline.mapper.editor_schema import editor_schema

    common.emit(editor_schema())
    return 0
