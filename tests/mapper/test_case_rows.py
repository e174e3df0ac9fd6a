"""Rows of the cases of shipped mappings, changed: no outcome depends on a test, and nobody becomes a person."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.mapper import available, load
from pipeline.mapper.codegen.steps import StepEmitter
from pipeline.mapper.compiler import Mapper, MapRow, compile_mapping, load_source
from pipeline.mapper.inspection.cases import options_of, row_of
from pipeline.mapper.language.sections import Case, Mapping
from pipeline.mapper.program.operations import Program
from pipeline.models import Link, MapperResult, PersonUpdate, UnvalidatedEvent
from pipeline.timestamps import ZoneClock
from pipeline.validator.placeholder_ids import is_placeholder
from pipeline.values import FALSE, Record, raw

ODD: tuple[Any, ...] = (None, "", "null", "0", "12.5", "2023-01-02T03:04:05Z", 7, 1.5, True)
ROUNDS = 8


def compiled_cases(mapping: Mapping) -> Iterator[tuple[Case, Mapper]]:
    """Each case with the mapper that it is run by, which is compiled once for all that have the same options."""
    made: dict[str, Mapper] = {}
    for case in mapping.cases:
        options = options_of(mapping, case)
        given = repr((options, case.lookups))
        if given not in made:
            made[given] = compile_mapping(mapping, options, case.lookups, for_members=False)
        yield case, made[given]


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
    made: dict[int, tuple[MapRow, MapRow]] = {}
    for case, mapper in compiled_cases(mapping):
        program = mapper.program
        if id(program) not in made:
            made[id(program)] = compiled(StepEmitter, program), compiled(Untested, program)
        tested, untested = made[id(program)]
        for number in range(ROUNDS):
            row = row_of(mapping, case.row, case.format)
            row = changed(row, chance) if number else row
            assert tested(dict(row), True) == untested(dict(row), True), row


WORD = "undefined"


def persons_of(outcome: MapperResult) -> Iterator[str | None]:
    """The ids that an outcome makes persons of, or joins."""
    if isinstance(outcome, UnvalidatedEvent):
        if raw(outcome.properties.get("$process_person_profile")) != FALSE:
            yield outcome.distinct_id
        if outcome.note is not None:
            yield from (outcome.note.anonymous, outcome.note.user)
    elif isinstance(outcome, Link):
        yield from (outcome.distinct_id, outcome.other)
    elif isinstance(outcome, PersonUpdate):
        yield outcome.distinct_id


@pytest.mark.parametrize("name", available())
def test_a_word_for_nobody_is_an_id_of_nobody_in_any_row(name: str) -> None:
    """In the rows of the cases each id in turn is a word that programs write where they have none."""
    mapping = load(name)
    for case, mapper in compiled_cases(mapping):

        def persons(row: str, mapper: Mapper = mapper, form: str = case.format) -> set[str]:
            made = mapper.map_row(row_of(mapping, row, form), True)
            return {
                one for outcome in (made if isinstance(made, list) else [made]) for one in persons_of(outcome) if one
            }

        for one in persons(case.row):
            row = case.row.replace(json.dumps(one.removeprefix("$device:")), json.dumps(WORD))
            if row != case.row:
                assert [other for other in persons(row) if WORD in other and not is_placeholder(other)] == []
