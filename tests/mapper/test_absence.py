"""What is made of a reference that a row does not have is skipped, and the outcome is the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pipeline.mapper import available, load
from pipeline.mapper.codegen.steps import StepEmitter
from pipeline.mapper.compiler import MapRow, compile_mapping, load_source
from pipeline.mapper.inspection.cases import options_of, row_of
from pipeline.mapper.program.operations import Program
from pipeline.timestamps import ZoneClock
from pipeline.values import Record

ODD: tuple[Any, ...] = (None, "", "null", "0", "12.5", "2023-01-02T03:04:05Z", 7, 1.5, True)
ROUNDS = 8


class Untested(StepEmitter):
    """Writes every value without looking whether its reference is there."""

    tested = ()


def compiled(emitter: type[StepEmitter], program: Program) -> MapRow:
    written = emitter(program)
    return load_source(written, written.source(), ZoneClock(()))


def changed(row: Record, chance: random.Random) -> Record:
    """The row without some of its columns, and with odd values in others."""
    kept = {name: value for name, value in row.items() if chance.random() < 0.8}
    return {name: chance.choice(ODD) if chance.random() < 0.1 else value for name, value in kept.items()}


@pytest.mark.parametrize("name", available())
def test_outcomes_are_the_same_without_the_tests(name: str) -> None:
    """For the rows of a mapping's cases, with any of their columns absent or odd."""
    mapping = load(name)
    chance = random.Random(name)
    made: dict[Any, tuple[MapRow, MapRow]] = {}
    for case in mapping.cases:
        options = options_of(mapping, case)
        key = repr(options)
        if key not in made:
            program = compile_mapping(mapping, options, for_members=False).program
            made[key] = compiled(StepEmitter, program), compiled(Untested, program)
        tested, untested = made[key]
        for number in range(ROUNDS):
            row = row_of(mapping, case.row, case.format)
            row = changed(row, chance) if number else row
            assert tested(dict(row), True) == untested(dict(row), True), row
