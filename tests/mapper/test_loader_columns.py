"""Columns that a loader adds to a table: they change nothing that is sent, with any mapping, and are counted."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pipeline.errors import UsageError
from pipeline.mapper import available, load
from pipeline.mapper.compiler import compile_mapping
from pipeline.mapper.inspection.cases import describe, row_of
from pipeline.mapper.loader_columns import is_loader_column
from tests.mapper.test_plan_path import alike, outcome_of, transformed, ways, written
from tests.support.people import planned
from tests.support.small_mappings import ROW, mapper

COLUMNS = {
    "Fivetran": ("_fivetran_deleted", "_fivetran_index", "_file", "_line", "_modified"),
    "Airbyte": ("_airbyte_meta", "_airbyte_generation_id", "_ab_source_file_url", "_ab_cdc_lsn"),
    "Stitch": ("_sdc_sequence", "_sdc_table_version", "_sdc_level_0_id"),
    "dlt": ("_dlt_load_id", "_dlt_root_id"),
}


def loaded(row: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The row with some columns of one loader at any place, in upper or lower case as its own."""
    added = chance.choice(list(COLUMNS.values()))
    upper = all(name == name.upper() for name in row)
    members = list(row.items())
    for name in chance.sample(added, chance.randint(1, len(added))):
        value = chance.choice(("2024-02-01 00:00:00", 7, True, "x"))
        members.insert(chance.randint(0, len(members)), (name.upper() if upper else name, value))
    return dict(members)


def without_uuid(event: bytes) -> bytes:
    """An event without its uuid, which depends on the whole row if nothing else identifies it."""
    return event.rpartition(b',"uuid":')[0]


@pytest.mark.parametrize("name", available())
def test_the_columns_of_a_loader_change_nothing(name: str, tmp_path: Path) -> None:
    """Every case of every mapping, as a file, in C and in Python: the same events, rejects, updates and merges."""
    mapping, chance = load(name), random.Random(name)
    for number, (cases, options) in enumerate(alike(mapping)):
        rows = [json.loads(case.row) for case in cases]
        if any(not isinstance(row, dict) for row in rows):
            continue
        changed = [replace(case, row=json.dumps(loaded(row, chance))) for case, row in zip(cases, rows, strict=True)]
        made = compile_mapping(mapping, options, cases[0].lookups)
        same = [replace(case, row=json.dumps(row)) for case, row in zip(cases, rows, strict=True)]
        plain = written(same, tmp_path / f"{number}")
        again = written(changed, tmp_path / f"{number}-loaded")
        for members in (False, True) if made.map_members else (False,):
            one, other = (transformed(path, made, options, members=members) for path in (plain, again))
            assert outcome_of(other)[1:] == outcome_of(one)[1:]
            assert list(map(without_uuid, other.events)) == list(map(without_uuid, one.events))
        for case, more in zip(same, changed, strict=True):
            outcomes = []
            for row in (case.row, more.row):
                result = made.map_row(row_of(mapping, row, case.format))
                outcomes.append([describe(one) for one in (result if isinstance(result, list) else [result])])
            assert outcomes[1] == outcomes[0], case.name


@pytest.mark.parametrize("column", [name for names in COLUMNS.values() for name in names])
def test_a_mapping_may_name_a_column_of_a_loader(column: str) -> None:
    """What it renames, sets or fills is a property, in C and in Python; with the setting all of them are."""
    row = f'{{{ROW},"{column}":"x"}}'
    for sections, name in (
        (f"properties: {{rename: {{{column}: kept}}}}\n", "kept"),
        (f"properties: {{rename: {{b: {column}}}}}\n", column),
        (f"properties: {{set: {{{column}: /{column}}}}}\n", column),
        (f"properties: {{open: /p, rest: keep, set: {{{column}: /{column}}}}}\n", column),
    ):
        for outcome in ways(mapper(sections), row.replace("}", ',"b":"x","p":{}}')):
            assert json.loads(outcome[0]["properties"])[name] == "x"
    for sections in ("", "properties: {open: /p, rest: keep}\n"):
        for settings, found in (({}, False), ({"loader_columns": "keep"}, True)):
            for outcome in ways(mapper(sections, settings=settings), row):
                assert (column in json.loads(outcome[0]["properties"])) == found
    with pytest.raises(UsageError, match="loader_columns=drop"):
        mapper("", settings={"loader_columns": "drop"})


def test_those_of_profiles_are_counted_too(tmp_path: Path) -> None:
    """A table may have no row that is an event."""
    row = {"id": "u-1", "id_hash": 1, "last_updated_at": "2020-01-02 00:00:00", "n_id": "7", "_fivetran_synced": "x"}
    plan = planned(tmp_path, "pendo", [row])
    (notice,) = [gate for gate in plan.gates if gate.name == "loader_columns"]
    assert notice.detail == "1 column of a loader is left out: _fivetran_synced (1 row)"


def test_a_property_inside_an_object_is_the_tools_own() -> None:
    for outcome in ways(mapper("properties: {open: /p}\n"), f'{{{ROW},"_line":1,"p":{{"_line":2,"_sdc_x":3}}}}'):
        assert json.loads(outcome[0]["properties"]) == {"_line": 2, "_sdc_x": 3}


@pytest.mark.parametrize("name", ["_airbyte_data", "_files", "_lines", "file", "_insert_id", "_", "fivetran_synced"])
def test_other_names_are_not_a_loaders(name: str) -> None:
    assert not is_loader_column(name)


def test_a_plan_counts_them(tmp_path: Path) -> None:
    """A notice has the rows of each column that has a value; the columns are not unmapped fields."""
    row = {"event": "Seen", "user": "u-1", "at": "2020-01-02T00:00:00Z", "_fivetran_synced": "x"}
    chosen = {"event": "event", "distinct_id": "user", "timestamp": "at"}
    plan = planned(tmp_path, "generic", [{**row, "_line": 1}, {**row, "user": "u-2"}], settings=chosen)
    (notice,) = [gate for gate in plan.gates if gate.name == "loader_columns"]
    assert (notice.level, notice.count) == ("notice", 2)
    assert notice.detail == "2 columns of a loader are left out: _fivetran_synced (2 rows); _line (1 row)"
