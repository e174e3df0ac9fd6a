"""What the documentation names exists, and its generated parts are complete: tests, codes, options, commands, verbs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click
import pytest

from pipeline import errors
from pipeline.cli import cli
from pipeline.mapper.inspection.cases import run_cases
from pipeline.mapper.language.editor_schema import editor_schema
from pipeline.mapper.language.loader import parse
from pipeline.report.state import State
from tests.support.doc_blocks import README, ROOT

sys.path.insert(0, str(ROOT / "docs"))
import generate

USE = ROOT / "docs" / "use"


def page(name: str) -> str:
    return (USE / name).read_text(encoding="utf-8")


def everything() -> str:
    """The text of the README and of every page of docs/use."""
    return "\n".join(file.read_text(encoding="utf-8") for file in (README, *USE.rglob("*.md")))


def test_each_failure_names_a_test_that_exists() -> None:
    """Tests that are renamed have to be renamed in the tables of failures; every failure there has a proof."""
    written = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    known = set(re.findall(r"def (test_\w+)", written))
    named = set(re.findall(r"`(test_\w+)`", everything()))
    assert sorted(named - known) == []
    assert len(named) > 50
    rows = [line for line in (page("failures.md") + page("jobs.md")).splitlines() if "|" in line]
    proved = [line for line in rows if re.search(r"\| (\d+(, \d+)*) \|", line)]
    assert [line for line in proved if "`test_" not in line] == []


def test_the_tables_of_codes_and_states_are_complete() -> None:
    """Each exit code of the errors and success, and each state of a plan has a row."""
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    text = page("json-and-exit-codes.md")
    assert [code for code in sorted({0, *codes}) if f"| {code} |" not in text] == []
    assert [state for state in State if f"| `{state}` |" not in page("json-and-exit-codes.md")] == []


def test_each_option_name_and_variable_of_a_page_exists() -> None:
    """An option belongs to some command of backcast, or of `dask worker`; modules and functions are where a page says;
    an environment variable is in the code."""
    tree = generate.command_tree(cli, None, "backcast")
    options = [one for command, _ in tree for one in command.params if isinstance(one, click.Option)]
    known = {text for one in options for text in one.opts}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", everything()))
    assert sorted(named - known - {"--help", "--nthreads", "--nworkers"}) == []
    assert len(named) > 50
    named = set(re.findall(r"\bpipeline(?:\.\w+)+", everything()))
    assert [name for name in sorted(named) if not _there(name)] == []
    assert named
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "pipeline").rglob("*.py"))
    named = set(re.findall(r"(?<!_)BACKCAST_[A-Z_]+", everything()))
    assert [name for name in sorted(named) if name not in code] == []


def _there(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    try:
        import_module(name)
    except ImportError:
        module, _, attribute = name.rpartition(".")
        return bool(module) and hasattr(import_module(module), attribute)
    return True


VERBS = [name for name in editor_schema()["$defs"] if "-" in name]


def test_generated_parts_and_commands_are_complete() -> None:
    """A page uses only existing generated parts, and every part is used; every command and every public option is
    there."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert sorted(generate.PLACEHOLDER.findall(pages)) == sorted(generate.PARTS)
    reference = generate.commands()
    missing = []
    for command, context in generate.command_tree(cli, None, "backcast"):
        if f" `{context.command_path}`\n" not in reference:
            missing.append(context.command_path)
        options = (one for one in command.params if isinstance(one, click.Option) and not one.hidden)
        missing += [f"{context.command_path} {one.opts[0]}" for one in options if one.opts[0] not in reference]
    assert missing == []


@pytest.mark.parametrize("part", generate.PARTS)
def test_each_generated_part_has_text(part: str) -> None:
    """The code from which a part is generated is where the generator looks for it."""
    assert len(generate.PARTS[part]()) > 100


def test_no_verb_is_without_an_example_and_no_section_without_a_row() -> None:
    """A new verb needs an example, and a removed one takes its example along; each key in the editors' schema is in a
    table."""
    assert sorted(generate.examples()) == sorted(name.replace("-", " ", 1) for name in VERBS)
    reference = generate.mapping_sections()
    assert [key for key in sorted(set(_keys(editor_schema()))) if f"`{key}`" not in reference] == []


@pytest.mark.parametrize("verb", generate.examples())
def test_the_example_of_a_verb_does_what_it_shows(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example uses its verb, and its cases pass."""
    monkeypatch.setenv("BACKCAST_HASH_KEY", "a secret of the documentation")
    example = generate.examples()[verb]
    assert f"{verb.partition(' ')[2]}: " in example
    outcomes = run_cases(parse(generate.complete(example), verb))
    assert outcomes
    assert [outcome.differences for outcome in outcomes if not outcome.passed] == []


def _keys(schema: Any) -> Iterator[str]:
    """The keys of a section and of the sections inside it."""
    for name, field in schema.get("properties", {}).items():
        yield name
        yield from _keys(field)
    inside = [*schema.get("anyOf", ()), schema.get("items"), schema.get("additionalProperties")]
    for one in inside:
        if isinstance(one, dict):
            yield from _keys(one)
