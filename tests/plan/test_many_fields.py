"""A plan of many fields, rules or event names does work in proportion to their number, not to its square.

Work is counted in calls of functions, which is the same on every machine, and, if one call does it all, in comparisons.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.errors import UnreadableExport
from pipeline.extractors.dialect import unique
from pipeline.extractors.header import values_in
from pipeline.mapper.program.references import Level, Reference
from pipeline.options import PlanOptions
from pipeline.plan.statistics.unmatched import ReferenceUsage

MAPPING = """\
format: backcast.mapping/1
tool: shop
title: Shop
event: event
distinct_id: user
time: [{from: at, unit: iso}]
"""
SMALL = 100


def row(number: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "event": "Seen",
        "user": f"u-{number % 3}",
        "at": f"2023-01-02T03:{number // 60 % 60:02}:{number % 60:02}Z",
        **more,
    }


def wide(count: int) -> list[dict[str, Any]]:
    return [row(one, **{f"c{number}": number for number in range(count)}) for one in range(2)]


def names(count: int) -> list[dict[str, Any]]:
    return [row(number, event=f"e{number}", a=1, b="x") for number in range(count)]


def lines(section: str, line: str, count: int) -> str:
    return MAPPING + section + "".join(line.replace("N", str(number)) for number in range(count))


KINDS: dict[str, Callable[[int], tuple[str, list[dict[str, Any]]]]] = {
    "fields": lambda count: (MAPPING, wide(count)),
    "fields of an object": lambda count: (
        MAPPING + "properties: {open: /properties}\n",
        [row(properties={f"c{number}": f"id-{number}" for number in range(count)})],
    ),
    "fields of their own in each row": lambda count: (MAPPING, [row(one, **{f"c{one}": 1}) for one in range(count)]),
    "set of fields": lambda count: (lines("properties:\n  set:\n", "    qN: cN\n", count), wide(count)),
    "rename": lambda count: (lines("properties:\n  rename:\n", "    cN: qN\n", count), wide(count)),
    "known": lambda count: (lines("known:\n  fields:\n", "    - xN*\n", count), wide(count)),
    "event names": lambda count: (MAPPING, names(count)),
    "rules": lambda count: (lines("events:\n", "  eN: {rename: {a: aN, cN: b}}\n", count), names(count)),
    "rules without rows": lambda count: (lines("events:\n", "  fN: {set: {a: bN}}\n", count), names(5)),
    "skips": lambda count: (lines("events:\n", "  eN: {skip: unwanted}\n", count), names(count)),
}


def calls_of_plan(folder: Path, mapping: str, rows: list[dict[str, Any]]) -> int:
    """The number of functions called while a plan is made."""
    folder.mkdir()
    (folder / "shop.yaml").write_text(mapping)
    (folder / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    options = PlanOptions(mapping=str(folder / "shop.yaml"), workers=1)
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        pipeline.plan_export(folder / "rows.jsonl", folder / "plan", options)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_does_work_in_proportion_to_its_fields_rules_and_names(kind: str, tmp_path: Path) -> None:
    calls_of_plan(tmp_path / "first", *KINDS[kind](3))  # loads modules, whose calls do not count
    few, some, many = (
        calls_of_plan(tmp_path / str(count), *KINDS[kind](count)) for count in (SMALL, 2 * SMALL, 4 * SMALL)
    )
    assert many - some < 3 * (some - few) + 3_000


class Counted(str):
    """A string that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other) is True


def comparisons(work: Callable[[list[Counted]], object], texts: list[str]) -> int:
    counted = [Counted(text) for text in texts]
    Counted.compared = 0
    work(counted)
    return Counted.compared


def _missing(texts: list[Counted]) -> object:
    return ReferenceUsage([Reference(Level(False, ()), text, text, None) for text in texts]).missing()


@pytest.mark.parametrize(
    "work",
    [unique, lambda header: values_in(header, [["1"] * len(header)]), _missing],
    ids=["names of columns", "whether a row is a header", "references in no row"],
)
def test_names_are_compared_in_proportion_to_their_number(work: Callable[[list[Counted]], object]) -> None:
    kinds = (lambda number: f"c{number}", lambda number: "same", lambda number: "", lambda number: f"c{number % 7}")
    for kind in kinds:
        assert comparisons(work, [kind(number) for number in range(1_000)]) < 20_000


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_a_header_that_is_longer_than_what_is_read_of_it_is_an_error_that_says_so(
    delimiter: str, tmp_path: Path
) -> None:
    header = delimiter.join(("event", "user", "at", *(f"column_number_{number}" for number in range(400_000))))
    (tmp_path / "wide.csv").write_text(header + "\n" + delimiter.join(["1"] * 400_003) + "\n")
    (tmp_path / "shop.yaml").write_text(MAPPING)
    with pytest.raises(UnreadableExport, match=r"the first line of .*wide\.csv is over 5 MiB long") as caught:
        pipeline.plan_export(tmp_path / "wide.csv", tmp_path / "plan", PlanOptions(mapping=str(tmp_path / "shop.yaml")))
    assert "only the columns" in caught.value.hint
