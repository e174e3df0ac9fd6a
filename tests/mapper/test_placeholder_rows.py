"""No shipped mapping makes a person of an id that names nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pipeline.mapper import available, load
from pipeline.mapper.compiler import Mapper, compile_mapping
from pipeline.mapper.inspection.cases import options_of, row_of
from pipeline.models import Link, MapperResult, PersonUpdate, UnvalidatedEvent
from pipeline.validator.placeholder_ids import is_placeholder
from pipeline.values import FALSE, raw

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
    compiled: dict[str, Mapper] = {}
    for case in mapping.cases:
        options = options_of(mapping, case)
        given = repr((options, case.lookups))
        if given not in compiled:
            compiled[given] = compile_mapping(mapping, options, case.lookups, for_members=False)

        def persons(row: str, mapper: Mapper = compiled[given], form: str = case.format) -> set[str]:
            made = mapper.map_row(row_of(mapping, row, form), True)
            return {
                one for outcome in (made if isinstance(made, list) else [made]) for one in persons_of(outcome) if one
            }

        for one in persons(case.row):
            row = case.row.replace(json.dumps(one.removeprefix("$device:")), json.dumps(WORD))
            if row != case.row:
                assert [other for other in persons(row) if WORD in other and not is_placeholder(other)] == []
