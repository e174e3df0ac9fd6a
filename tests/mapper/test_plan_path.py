"""Rows as a plan reads them: every case of every mapping, also modified, and every verb over an opened object."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, product
from pathlib import Path
from typing import Any

import pytest

from pipeline import values
from pipeline.encoder.event import Encoder
from pipeline.extractors import blocks, rows
from pipeline.extractors.jsonl_rows import JsonlRows
from pipeline.mapper import Mapper, available, load
from pipeline.mapper.codegen.steps import StepEmitter
from pipeline.mapper.compiler import MapRow, compile_mapping, load_source
from pipeline.mapper.inspection.cases import describe, options_of, row_of
from pipeline.mapper.language.sections import Case, Mapping
from pipeline.mapper.program.operations import Program
from pipeline.models import ItemOutcomes, Link, MapperResult, PersonUpdate, SealedOptions, UnvalidatedEvent
from pipeline.options import Limits
from pipeline.transform.events import Events
from pipeline.transform.rows import RowTransformer
from pipeline.validator.placeholder_ids import is_placeholder
from pipeline.validator.rules import ValidationContext
from pipeline.values import FALSE, Record, raw
from pipeline.zone_clock import ZoneClock
from tests.support.parts import opened
from tests.support.small_mappings import ROW, mapper


def alike(mapping: Mapping) -> Iterator[tuple[list[Case], SealedOptions]]:
    """The cases that one mapper runs, with its options."""

    def given(case: Case) -> str:
        return repr((case.format, case.lookups, options_of(mapping, case)))

    for _, cases in groupby(sorted(mapping.cases, key=given), key=given):
        found = list(cases)
        yield found, options_of(mapping, found[0])


def written(cases: list[Case], path: Path) -> Path:
    """The rows of cases as a file: lines of JSON, or cells of CSV, in which a missing column is blank."""
    records = [json.loads(case.row) for case in cases]
    if cases[0].format == "json":
        # As a case spells it, if that is one line.
        spelled = zip(cases, records, strict=True)
        lines = [json.dumps(row, ensure_ascii=False) if "\n" in case.row else case.row for case, row in spelled]
        path.write_text("\n".join(lines), encoding="utf-8")
        return path
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for record in records for name in record)))
        writer.writeheader()
        writer.writerows(records)
    return path


def transformed(path: Path, made: Mapper, options: SealedOptions, *, members: bool) -> Events:
    """The events of a file of one block."""
    part = opened(path)
    (block,) = blocks(part)
    asked: Any = {"opens": made.opens, "blanks": made.blanks, "layout_of": made.layout}
    read = rows(part, block, members=members, **asked)
    context = ValidationContext.of(options, Limits(), frozenset())
    return RowTransformer(read, made, Encoder(made.tool, options), context).run()


def outcome_of(events: Events) -> list[Any]:
    """The outcome of the rows: the events as they are sent, the row of each, and the rejects."""
    rejects = [(reject.row, reject.item, reject.code, reject.detail) for reject in events.rejects]
    return [events.events, events.row_of, rejects, events.rejected]


@pytest.mark.parametrize("name", available())
def test_a_plan_makes_of_the_row_of_a_case_what_the_case_says(name: str, tmp_path: Path) -> None:
    """Whether the reader opened the properties or not, in C and in Python."""
    mapping = load(name)
    for number, (cases, options) in enumerate(alike(mapping)):
        made = compile_mapping(mapping, options, cases[0].lookups)
        closed = replace(made, opens=(), map_members=None)
        path = written(cases, tmp_path / str(number))
        plain = transformed(path, closed, options, members=False)
        for members in (False, True) if made.map_members else (False,):
            events = transformed(path, made, options, members=members)
            assert outcome_of(events) == outcome_of(plain)
            assert (events.warnings, events.cells) == (plain.warnings, plain.cells)
        sent: dict[int, list[dict[str, Any]]] = {}
        for row, event in zip(plain.row_of, plain.events, strict=True):
            sent.setdefault(row, []).append(json.loads(event))
        for row, case in enumerate(cases):
            wanted = expected(closed, row_of(mapping, case.row, case.format), sent.get(row, []))
            assert sent.get(row, []) == wanted, case.name


def expected(made: Mapper, record: values.Record, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events that the outcomes of a case's row say are sent; uuids and import properties as they were sent."""
    result = made.map_row(record)
    described = [describe(one) for one in (result if isinstance(result, list) else [result])]
    if any("reject" in one for one in described) and not isinstance(result, ItemOutcomes):
        return []
    events = [one for one in described if "event" in one]
    return [
        {
            **event,
            "event": one["event"],
            "timestamp": one["timestamp"],
            "properties": {**event["properties"], **json.loads(one["properties"]), "distinct_id": one["distinct_id"]},
        }
        for one, event in zip(events, sent, strict=True)
    ]


VERBS = (
    "{member: a, of: X}", "{member: a/0/b, of: X}", "{item: 0, of: X}", '{item: 0, of: X, where: {a: "1"}}',
    "{entries: X}", "{record: X}", "{canonical: X}", "{flat: X}", "{combine: [X, /q]}", "{combine: [/q, X]}",
    "{keyed: X, by: {const: k}}",
    "{type: text, of: X}", "{type: json, of: X}", "{type: list, of: X}", "{type: number, of: X}", "{lower: X}",
    "{first: [X, /q]}", "{unless: ['{}'], of: X}", "{lookup: X, in: {a: b}, else: keep}", '{pieces: X, by: ","}',
    "{when: {present: X}, then: X, else: {const: no}}", "{total: X, of: a}", "{join: [X, {const: b}]}",
)  # fmt: skip
READS = ("/p", "{opened: yes}", "/p/a", "a", '"@whole"', '"@whole/a"')
OBJECTS = (
    '{"a":1}', "{}", "null", '{"a":null}', '{"a":[{"b":1}]}', '"{\\"a\\":1}"', '""', '[{"key":"x","value":1}]', '"a,b"',
    '{"a": 1.10 , "b":[ 1 ]}', '{"key":"x","value":1}',
)  # fmt: skip


def ways(made: Mapper, line: str) -> list[list[Any]]:
    """The outcomes of a row as a case reads it, as a reader that opens its properties does, and as the C part does."""
    found: list[list[Any]] = []
    for opens, members in (((), False), (made.opens, False), (made.opens, True)):
        if members and made.map_members is None:
            continue
        (record,) = JsonlRows(line.encode(), opens=opens, members=members)
        map_row: Any = made.map_row if isinstance(record, dict) else made.map_members
        result = map_row(record)
        outcomes = result if isinstance(result, list) else [result]
        for one in outcomes:
            if isinstance(one, UnvalidatedEvent) and not isinstance(one.properties, dict):
                one.properties = one.properties.as_dict()  # type: ignore[unreachable]
        found.append([describe(one) for one in outcomes])
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_reads_the_opened_object_as_it_reads_its_json(verb: str) -> None:
    """A value that is the object itself keeps its JSON, byte for byte, whatever becomes of the properties."""
    for read in READS:
        value = verb.replace("X", read)
        made = mapper(f"define: {{whole: /p}}\nproperties:\n  open: /p\n  set: {{out: {value}}}\n")
        for given in OBJECTS:
            first, *others = ways(made, f'{{{ROW},"p":{given},"q":{{"a":7,"z":8}}}}')
            assert all(other == first for other in others), (value, given)


def test_members_that_were_read_as_properties_are_still_members() -> None:
    """A property that is dropped, renamed or set is a member of its object in every other section."""
    made = mapper(
        "properties:\n  open: /p\n  drop: [a]\n  rename: {b: c}\n"
        "  set: {lower: {lower: a}, member: /p/a, other: {lower: b}, again: /p/b}\n"
        "person: {spread_set: [{from: /p}]}\n"
    )
    outcomes = ways(made, f'{{{ROW},"p":{{"a":"X","b":"Y"}}}}')
    assert outcomes[0][0]["properties"] == '{"c":"Y","lower":"x","member":"X","other":"y","again":"Y"}'
    assert outcomes[0][0]["set"] == '{"a":"X","b":"Y"}'
    assert all(outcome == outcomes[0] for outcome in outcomes)


def test_a_row_is_sent_with_a_warning_where_the_mapping_has_words_for_what_is_wrong() -> None:
    """In C and in Python; a row without such a fault has no warning."""
    made = mapper("warn: [{code: unreadable_entity, of: /wrong}]\nproperties: {open: /p, drop: [/wrong]}\n")
    for members, warnings in (('"wrong":"not read"', ["unreadable_entity"]), ('"wrong":null', None), ("", None)):
        for outcome in ways(made, f'{{{ROW},"p":{{}}{"," if members else ""}{members}}}'):
            assert (outcome[0]["event"], outcome[0].get("warnings")) == ("Bought", warnings)


ODD: tuple[Any, ...] = (None, "", "null", "0", "12.5", "2023-01-02T03:04:05Z", 7, 1.5, True)
ROUNDS = 8


class Untested(StepEmitter):
    """Writes every value without testing whether its reference exists."""

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
    """For the rows of a mapping's cases, with any of their columns missing or odd."""
    mapping = load(name)
    chance = random.Random(name)
    for cases, options in alike(mapping):
        program = compile_mapping(mapping, options, cases[0].lookups, for_members=False).program
        tested, untested = compiled(StepEmitter, program), compiled(Untested, program)
        for case, number in product(cases, range(ROUNDS)):
            row = row_of(mapping, case.row, case.format)
            row = changed(row, chance) if number else row
            assert tested(dict(row)) == untested(dict(row)), row


def persons_of(outcome: MapperResult) -> Iterator[str | None]:
    """The ids of which an outcome makes persons, or which it joins."""
    if isinstance(outcome, UnvalidatedEvent):
        if raw(outcome.properties.get("$process_person_profile")) != FALSE:
            yield outcome.distinct_id
        if outcome.note is not None:
            yield from (outcome.note.anonymous, outcome.note.user)
    elif isinstance(outcome, Link):
        yield from (outcome.distinct_id, outcome.other)
    elif isinstance(outcome, PersonUpdate):
        yield outcome.distinct_id


def persons(made: Mapper, row: values.Record) -> set[str]:
    result = made.map_row(row)
    outcomes = result if isinstance(result, list) else [result]
    return {one for outcome in outcomes for one in persons_of(outcome) if one}


@pytest.mark.parametrize("name", available())
def test_a_placeholder_is_never_an_id_in_any_row(name: str) -> None:
    """In the rows of the cases each id in turn is a placeholder that programs write for a missing one."""
    mapping = load(name)
    for cases, options in alike(mapping):
        made = compile_mapping(mapping, options, cases[0].lookups, for_members=False)
        for case in cases:
            for one in persons(made, row_of(mapping, case.row, case.format)):
                row = case.row.replace(json.dumps(one.removeprefix("$device:")), '"undefined"')
                if row != case.row:
                    found = persons(made, row_of(mapping, row, case.format))
                    assert [other for other in found if "undefined" in other and not is_placeholder(other)] == []
