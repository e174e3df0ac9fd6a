"""The generated parts of the documentation are complete, and each example of a verb does what it shows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest

from pipeline.mapper.inspection.cases import run_cases
from pipeline.mapper.language.editor_schema import editor_schema
from pipeline.mapper.language.loader import parse
from tests.support import doc_blocks

sys.path.insert(0, str(doc_blocks.ROOT / "docs"))
import generate

VERBS = [name for name in editor_schema()["$defs"] if "-" in name]


def test_generated_parts_and_commands_are_complete() -> None:
    """A page asks only for parts that there are, and no part is left out; no command and no option that can be given is
    missing."""
    asked = [
        name
        for page in (doc_blocks.ROOT / "docs").rglob("*.md")
        for name in generate.PLACEHOLDER.findall(page.read_text(encoding="utf-8"))
    ]
    assert sorted(asked) == sorted(generate.PARTS)
    from pipeline.cli import cli

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
    """The code that a part is generated from is where the generator looks for it."""
    assert len(generate.PARTS[part]()) > 100


def test_no_verb_is_without_an_example_and_no_section_without_a_row() -> None:
    """A new verb comes with an example, one that goes takes it along; each key that the editors' schema knows is in a
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
