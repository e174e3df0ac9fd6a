"""The program that a mapping compiles to: it is data, it always prints the same, and what runs is made from it."""

from __future__ import annotations

import pickle
import traceback

import pytest

from pipeline.mapper import available, compile, load
from pipeline.mapper.language.kinds import FAMILIES, VALUE, Field, verb
from pipeline.mapper.language.loader import parse
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Operation, operations
from pipeline.mapper.program.functions import FUNCTIONS, function
from pipeline.models import SealedOptions
from tests.golden.programs import HERE, SETTINGS, program_of
from tests.support.odd_mappings import EVERYTHING
from tests.support.small_mappings import drafted, mapper

DATA = (str, int, bool, type(None), tuple)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_program_prints_as_its_golden_file(name: str) -> None:
    """A change of a shipped mapping, or of what verbs build, shows as a diff; `make golden` writes the files."""
    assert program_of(name) == (HERE / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*available(), "everything"])
def test_every_operation_is_data(name: str) -> None:
    """No operation contains a function, table or pattern, and a program can be sent to another process."""
    mapping = parse(EVERYTHING, name) if name == "everything" else load(name)
    program = compile(
        mapping,
        SealedOptions(
            as_of=0, settings=SETTINGS.get(name, {"groups": ""}) if name in ("generic", "everything") else {}
        ),
    ).program
    found = list(operations(program.steps))
    assert len(found) > 20
    for one in found:
        for field in one.__struct_fields__:
            value = getattr(one, field)
            assert isinstance(value, (*DATA, Operation)), (one, field)
    assert pickle.loads(pickle.dumps(program)) == program


def test_a_verb_is_one_function_and_what_it_calls() -> None:
    """A declared verb is part of the language; its operation names the function that runs."""

    @function(needs=1)
    def reversed_text(text: str) -> str:
        return text[::-1]

    @verb("value", "reverse", "the text backwards", reverse=Field(VALUE, "the text", True))
    def reverse(build: Builder, call: Call) -> Apply:
        return Apply("reversed_text", (build.text(call.arguments["reverse"]),))

    try:
        made = drafted("properties: {set: {b: {reverse: a}}}\n", '"a":"xyz"')
    finally:
        del FAMILIES["value"]["reverse"], FUNCTIONS["reversed_text"]
    assert made.properties["b"] == "zyx"


def test_a_traceback_shows_the_line_of_the_program() -> None:
    """If the source that was made from a program fails, its lines are available."""

    class Failing:
        """A scan that cannot read an event's name."""

        __slots__ = ()

        def row(self, row: object) -> None:
            pass

    made = mapper("properties: {rename: {a: b}}\n")
    with pytest.raises(AttributeError) as failed:
        made.map_row({"name": "Seen"}, Failing())
    shown = "".join(traceback.format_exception(failed.value))
    assert "<mapping shop " in shown
    assert "scan.event = event" in shown
