"""`backcast mapping`: the mapping files."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import click

from pipeline.cli import common
from pipeline.cli.help import WholeHelp, example
from pipeline.errors import UsageError
from pipeline.option_types import read_settings
from pipeline.options.planning import FILE_SETTINGS
from pipeline.text import pluralize, printable, quoted

if TYPE_CHECKING:
    from pipeline.mapper.inspection.mutations import Mutated
    from pipeline.mapper.language.sections import Mapping as Document
    from pipeline.survey.draft import Choice, Draft

MOST_QUESTIONS = 7
"""How many choices `mapping new --ask` asks for."""


@click.group(cls=WholeHelp, epilog=example("backcast mapping test mappings/mine.yaml"))
def mapping() -> None:
    """The mapping files, which turn the rows of a tool into events."""


@mapping.command("list", epilog=example("backcast mapping list"))
@common.as_json
def list_(as_json: bool) -> int:
    """The shipped mappings, and the mappings, formats and verbs of installed packages.

    Exit 2 when one of a package cannot be used.
    """
    from pipeline.mapper.registry import listing

    listed = listing()
    if as_json:
        common.emit({"format": "backcast.mappings/1", **listed})
    else:
        names = max(len(entry["name"]) for entry in listed["mappings"]) + 2
        wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
        for entry in listed["mappings"]:
            line = f"{entry['name']:{names}}{entry['title']}{_of_package(entry)}"
            click.echo(fill(line, wide, subsequent_indent=" " * names, break_on_hyphens=False))
        for kind in ("format", "verb"):
            for entry in listed[f"{kind}s"]:
                click.echo(f"{kind} {entry['name']}: {entry['title']}{_of_package(entry)}")
    for problem in listed["problems"]:
        click.echo(f"Error: {printable(problem['error'], 1_000)}", err=True)
    return 2 if listed["problems"] else 0


def _of_package(entry: Mapping[str, str]) -> str:
    return f" ({printable(entry['package'], 100)} {printable(entry['version'], 50)})" if "package" in entry else ""


@mapping.command(epilog=example("backcast mapping show mixpanel > mine.yaml"))
@click.argument("name", metavar="NAME|FILE", shell_complete=common.COMPLETIONS["mappings"])
@click.option("--program", "as_program", is_flag=True, help="Print the operations that it compiles to instead.")
@click.option("--compiled", is_flag=True, help="Print the Python source that runs instead.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the mapping.")
@common.as_json
def show(name: str, as_program: bool, compiled: bool, settings: tuple[str, ...], as_json: bool) -> int:
    """Print a mapping file, or what it compiles to."""
    from pipeline.mapper import compile as compile_mapping
    from pipeline.mapper import load
    from pipeline.mapper.program.printer import printed
    from pipeline.models import SealedOptions

    if as_program and compiled:
        raise UsageError("--program and --compiled cannot be combined", hint="leave one of them out")
    document = load(name)
    text = document.text
    if as_program or compiled:
        mapper = compile_mapping(document, SealedOptions(as_of=0, settings=read_settings(settings)))
        text = mapper.source + "\n" if compiled else printed(mapper.program)
    if as_json:
        about = {"name": name, "tool": document.tool, "title": document.title, "open": document.open}
        common.emit({"format": "backcast.mapping/1", **about, "text": text})
    else:
        click.echo(text, nl=False)
    return 0


@mapping.command(epilog=example("backcast mapping check mine.yaml --against exports/"))
@click.argument("names", metavar="NAME|FILE...", nargs=-1, required=True)
@click.option(
    "--against", metavar="SOURCE...", help="Compare one mapping with this export; see below.  [default: none]"
)
@click.option("--all", "every", is_flag=True, help="With --against: read every row, not the first 100,000.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="With --against: a setting of the mapping.")
@click.option("--timezone", multiple=True, metavar="ZONE", help="With --against: the zone of its times, as for a plan.")
@common.as_json
def check(
    names: tuple[str, ...],
    against: str | None,
    every: bool,
    settings: tuple[str, ...],
    timezone: tuple[str, ...],
    as_json: bool,
) -> int:
    """Read mapping files; an error has file:line:column and the nearest valid name. Exit 7 when choices are open.

    With --against, show what becomes of every field and event's name of an export, what the mapping names that no row
    has, which keys are not unique, which candidates and conditions the rows take, and the lines for what is unknown.
    """
    from pipeline.mapper import load
    from pipeline.mapper.inspection.ineffective import check_mapping

    if against is None and (every or settings or timezone or as_json):
        raise UsageError("--all, --set, --timezone and --json need --against", hint="add --against SOURCE")
    unfinished = 0
    for name in names if against is None else names[:1]:
        document = load(name)
        check_mapping(document)
        unfinished += bool(document.open)
        verdict = f"{name}: {'unfinished' if document.open else 'good'} ({pluralize(len(document.cases), 'case')})"
        click.echo(verdict, err=as_json)
        _show_open(document.open, err=as_json)
    if against is not None:
        from pipeline.options import PlanOptions
        from pipeline.plan.against import check_against
        from pipeline.report.terminal.export_views import show_against

        options = PlanOptions(settings=read_settings(settings), timezone=timezone)
        found = check_against(names[0], (against, *names[1:]), options, every=every)
        common.show(found, lambda console: show_against(console, found), as_json=as_json)
    return 7 if unfinished else 0


@mapping.command(epilog=example("backcast mapping test mixpanel mine.yaml"))
@click.argument("names", metavar="NAME|FILE...", nargs=-1, shell_complete=common.COMPLETIONS["mappings"])
@click.option("--mutate", "changed", is_flag=True, help="Change each part in turn, and show what no case notices.")
@click.option("--update-cases", is_flag=True, help="Show what failing cases give now, and write it into the files.")
@common.as_json
def test(names: tuple[str, ...], changed: bool, update_cases: bool, as_json: bool) -> int:
    """Run the cases inside mapping files (all shipped mappings when none is named).

    Exit 7 when a case fails, when a mapping has open choices, or with --mutate when more than 5 % of its changes fail
    no case.
    """
    from pipeline.mapper import load
    from pipeline.mapper.inspection.cases import run_cases
    from pipeline.mapper.inspection.mutations import mutate
    from pipeline.mapper.registry import shipped

    if update_cases and not (names and all(Path(name).is_file() for name in names)):
        raise UsageError(
            "--update-cases rewrites mapping files, so it needs their paths",
            hint="for example: backcast mapping test FILE.yaml --update-cases",
        )
    results: list[dict[str, object]] = []
    unfinished: dict[str, dict[str, str]] = {}
    written: dict[str, int] = {}
    for name in names or shipped():
        document = load(name)
        if document.open:
            unfinished[name] = dict(document.open)
        outcomes = run_cases(document)
        wrong = [number for number, outcome in enumerate(outcomes) if not outcome.passed]
        for one in outcomes:
            case, differences = one.case.name, list(one.differences)
            results.append({"mapping": name, "case": case, "passed": one.passed, "differences": differences})
            if not one.passed and not as_json:
                click.echo(f"{name}: {case}\n{chr(10).join(differences)}\n")
        if update_cases and wrong:
            written[name] = len(wrong)
            _write_cases(document, wrong)
    total, failed = len(results), 0 if update_cases else sum(not one["passed"] for one in results)
    changes = {name: mutate(load(name)) for name in names or shipped()} if changed and not failed else {}
    if as_json:
        found = {"format": "backcast.mapping-test/1", "cases": total, "failed": failed, "open": unfinished}
        found |= {"results": results} | ({"updated": written} if update_cases else {})
        common.emit(found | ({"changes": {name: _changes(one) for name, one in changes.items()}} if changed else {}))
    else:
        for name, count in written.items():
            click.echo(
                f"{name}: wrote what {pluralize(count, 'case')} now {'gives' if count == 1 else 'give'}; read it"
            )
        click.echo(f"{pluralize(total - failed, 'case')} passed, {failed} failed")
        for name, choices in unfinished.items():
            click.echo(f"{name}: unfinished, {pluralize(len(choices), 'open choice')}:")
            _show_open(choices)
        for name, tried in changes.items():
            for survivor in tried.survivors:
                click.echo(f"{name}:{survivor.place.line}:{survivor.place.column}: {printable(survivor.what, 200)}")
            click.echo(f"{name}: {tried.failed:,} of {pluralize(tried.tried, 'change')} fail a case")
    return 7 if failed or unfinished or not all(tried.enough for tried in changes.values()) else 0


def _write_cases(document: Document, cases: list[int]) -> None:
    """Write a mapping file in which these cases give what their rows give now."""
    from pipeline.mapper.inspection.cases import updated

    path = Path(document.file)
    content = path.read_bytes()
    text = updated(document, cases)
    path.write_bytes((text.replace("\n", "\r\n") if b"\r\n" in content else text).encode("utf-8"))


def _changes(tried: Mutated) -> dict[str, object]:
    survivors = [{"line": one.place.line, "column": one.place.column, "change": one.what} for one in tried.survivors]
    return {"tried": tried.tried, "failed": tried.failed, "survivors": survivors}


def _show_open(choices: Mapping[str, str], *, err: bool = False) -> None:
    for name, evidence in choices.items():
        click.echo(_folded(f"{printable(name, 60)}: {printable(evidence, 600)}", 2), err=err)


def _folded(text: str, indent: int) -> str:
    """Text behind this many spaces, on lines no longer than the terminal's; on one line if there is no terminal."""
    if not sys.stderr.isatty():
        return " " * indent + text
    width = min(shutil.get_terminal_size().columns, 160)
    return fill(text, width, initial_indent=" " * indent, subsequent_indent=" " * indent, break_on_hyphens=False)


@mapping.command(epilog=example("backcast mapping new exports/ -o mine.yaml --ask"))
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Where to write it.  [default: stdout]"
)
@click.option("--ask", is_flag=True, help="Ask on the terminal what the rows do not show, at most seven questions.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help=FILE_SETTINGS)
@common.as_json
def new(sources: tuple[str, ...], output: Path | None, ask: bool, settings: tuple[str, ...], as_json: bool) -> int:
    """Write a commented starting mapping for an export: the shipped one if the tool is recognised.

    What the rows do not show is an open choice, marked in the file. A plan is not ready while one is left.
    """
    from pipeline.mapper.language.parsed import parse

    if output is not None and output.exists():
        raise UsageError(f"{output} exists already", hint="choose another -o FILE")
    if ask and not sys.stdin.isatty():
        raise UsageError(
            "--ask asks questions in a terminal, and stdin is not one",
            hint="leave --ask out: the file then lists the choices under `open`",
        )
    draft = draft_of(sources, read_settings(settings), {} if ask else None)
    text = draft.text
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    if as_json:
        place = {"text": text} if output is None else {"file": str(output)}
        common.emit({"format": "backcast.mapping-draft/1", **place, "open": draft.choices, "columns": draft.columns})
    elif output is None:
        click.echo(text, nl=False)
    written = parse(text, "new mapping")
    name = str(output or "the mapping")
    if written.open:
        show_unfinished(name, written.open)
    elif output is not None:
        zone = " --timezone Area/City" if "zone: local" in text else ""
        others = [one for one in settings if not getattr(written.files, one.partition("=")[0], "")]
        words = [*sources, "-m", str(output), *(word for one in others for word in ("--set", one))]
        plan = f"backcast plan {' '.join(map(quoted, words))}{zone} -o plan"
        click.echo(f"Wrote {output}. Read it, then plan with it; nothing is sent:\n  {plan}", err=True)
    return 0


def draft_of(
    sources: tuple[str, ...],
    settings: Mapping[str, str],
    answers: dict[str, str] | None,
    keep: Callable[[], None] = lambda: None,
    *,
    notices: bool = True,
) -> Draft:
    """The starting mapping of an export. What is open is asked for, unless `answers` is None; each answer is added
    there, and then `keep` is called. The `notices` of reading the export are printed to stderr."""
    from pipeline.survey.recognition import Starter

    with tempfile.TemporaryDirectory() as spool:
        starter = Starter(sources, Path(spool), settings)
        if notices and starter.notices:
            from pipeline.report.terminal.tables import show_notices

            show_notices(common.console(err=True), starter.notices)
        draft = starter.draft(answers)
        while answers is not None and len(answers) < MOST_QUESTIONS and draft.choices:
            choice = draft.choices[0]
            answers[choice.name] = _answer(choice, draft.columns)
            keep()
            draft = starter.draft(answers)
    return draft


def show_unfinished(name: str, choices: Mapping[str, str]) -> None:
    """Say on stderr what is open in a mapping."""
    click.echo(f"{name} is unfinished, {pluralize(len(choices), 'open choice')}:", err=True)
    _show_open(choices, err=True)


def _answer(choice: Choice, columns: Mapping[str, str]) -> str:
    """Ask for one choice; the answer in the spelling of the mapping."""
    from pipeline.survey.draft import FREE, custom_answer

    def read(given: str) -> str:
        if answer := custom_answer(choice, given, columns):
            return answer
        other = f" or {FREE[choice.free][1]}" if choice.free else ""
        raise UsageError(f"{printable(given, 60)!r} is not a number of the list{other}", hint="answer again")

    click.echo("\n" + _folded(f"{choice.name}: {printable(choice.question, 600)}", 0), err=True)
    for number, option in enumerate(choice.options, 1):
        click.echo(
            f"  {number}. {printable(option.text, 100)}\n{_folded(printable(option.evidence, 300), 7)}", err=True
        )
    prompt = f"Number, {FREE[choice.free][0]}" if choice.free else "Number"
    return common.choose(prompt, [option.text for option in choice.options], read, "1")


@mapping.command(epilog=example("backcast mapping schema > mapping.schema.json"))
def schema() -> int:
    """The JSON Schema of mapping files, for editors."""
    from pipeline.mapper.language.editor_schema import editor_schema

    common.emit(editor_schema())
    return 0
