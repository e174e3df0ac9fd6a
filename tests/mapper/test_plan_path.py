"""Rows as a plan reads them: every case of every mapping, and every verb over the object that the reader opens."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import groupby, product
from pathlib import Path
from typing import Any

import pytest

from pipeline import values
from pipeline.encoder.event import Encoder
from pipeline.extractors import blocks, open_source, rows
from pipeline.extractors.jsonl_rows import JsonlRows
from pipeline.mapper import Mapper, available, load
from pipeline.mapper import compile as compile_mapping
from pipeline.mapper.inspection.cases import describe, options_of, row_of
from pipeline.mapper.language.sections import Case
from pipeline.models import ItemOutcomes, SealedOptions, UnvalidatedEvent
from pipeline.options import Limits
from pipeline.transform.events import Events
from pipeline.transform.observer import NOTHING_MORE
from pipeline.transform.rows import make_events
from pipeline.validator.rules import ValidationContext
from tests.support.small_mappings import ROW, mapper


def written(cases: list[Case], path: Path) -> Path:
    """The rows of cases as a file: lines of JSON, or the cells of CSV, of which a row without a column has a blank."""
    if cases[0].format == "json":
        lines = [
            json.dumps(json.loads(case.row), ensure_ascii=False) if "\n" in case.row else case.row for case in cases
        ]
        path = path.with_suffix(".jsonl")
        path.write_text("\n".join(lines), encoding="utf-8")
        return path
    records = [json.loads(case.row) for case in cases]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for record in records for name in record)))
    writer.writeheader()
    writer.writerows(records)
    path = path.with_suffix(".csv")
    path.write_text(text.getvalue(), encoding="utf-8")
    return path


def transformed(path: Path, made: Mapper, options: SealedOptions, *, observe: bool, members: bool) -> Events:
    """The events of a file of one block."""
    (part,) = open_source([str(path)]).parts
    (block,) = blocks(part)
    read = rows(
        part, block, observe=observe, opens=made.opens, members=members, blanks=made.blanks, layout_of=made.layout
    )
    context = ValidationContext.of(options, Limits(), frozenset())
    return make_events(read, made, Encoder(made.tool, options), context, observation=NOTHING_MORE if observe else None)


def outcome_of(events: Events) -> list[Any]:
    """What becomes of the rows: the events as they are sent, in which row each is, and the rejects."""
    rejects = [(reject.row, reject.item, reject.code, reject.detail) for reject in events.rejects]
    return [events.events, events.row_of, rejects, events.rejected]


@pytest.mark.parametrize("name", available())
def test_a_plan_makes_of_the_row_of_a_case_what_the_case_says(name: str, tmp_path: Path) -> None:
    """Whether the reader opened the properties or not, in C and in Python, in a plan and in an apply."""
    mapping = load(name)

    def group(case: Case) -> str:
        return repr((case.format, case.lookups, options_of(mapping, case)))

    for number, (_, grouped) in enumerate(groupby(sorted(mapping.cases, key=group), key=group)):
        cases = list(grouped)
        options = options_of(mapping, cases[0])
        made = compile_mapping(mapping, options, cases[0].lookups)
        closed = replace(made, opens=(), map_members=None)
        path = written(cases, tmp_path / str(number))
        plain = transformed(path, closed, options, observe=True, members=False)
        for members, observe in product((False, True) if made.map_members else (False,), (True, False)):
            events = transformed(path, made, options, observe=observe, members=members)
            assert outcome_of(events) == outcome_of(plain)
            if observe:
                assert (events.warnings, events.cells) == (plain.warnings, plain.cells)
        sent: dict[int, list[dict[str, Any]]] = {}
        for row, event in zip(plain.row_of, plain.events, strict=True):
            sent.setdefault(row, []).append(json.loads(event))
        for row, case in enumerate(cases):
            assert sent.get(row, []) == expected(closed, row_of(mapping, case.row, case.format), sent.get(row, [])), (
                case.name
            )


def expected(made: Mapper, record: values.Record, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events that the outcomes of a case's row say are sent; uuids and import properties as they were sent."""
    result = made.map_row(record, True)
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
        result = map_row(record, True)
        outcomes = result if isinstance(result, list) else [result]
        for one in outcomes:
            if isinstance(one, UnvalidatedEvent) and not isinstance(one.properties, dict):
                one.properties = one.properties.as_dict()  # type: ignore[unreachable]
        found.append([describe(one) for one in outcomes])
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_reads_the_opened_object_as_it_reads_its_text(verb: str) -> None:
    """A value that is the object itself has its text, byte for byte; nobody sees what becomes of the properties."""
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
