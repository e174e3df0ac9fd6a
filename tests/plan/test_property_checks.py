"""What the drift of properties shows: every planted fault is found and named, and nothing in a clean history."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pipeline.api import plan_export
from pipeline.models import Finding
from pipeline.options import PlanOptions
from pipeline.plan.checks import run_checks
from pipeline.timestamps import DAY
from pipeline.transform.sample import MOST_EVENTS
from pipeline.transform.unsafe_integers import unsafe_of
from tests.golden.samples import AS_OF, GOLDEN, path_of
from tests.plan.test_drift import SHOP, Event, block_of, examined
from tests.support.plan_facts import facts

FIRST = 18_262
"""1 January 2020."""
MONTHS = 24
CHECKS = {
    "mixed_types", "numbers_as_text", "amounts_as_text", "unsafe_integer", "rounded_value", "null_rate",
    "cut_values", "property_names",
}  # fmt: skip
Change = Callable[[dict[str, Any], int, Random], None]
"""Plants a fault into the properties of an event of this month, counted from 0."""


def clean(seed: int, count: int = 12_000) -> list[Event]:
    """Two years of events with realistic properties: some rare, some new, some no longer sent."""
    chance = Random(seed)
    events: list[Event] = []
    for number in range(count):
        day = number * MONTHS * 30 // count
        properties: dict[str, Any] = {
            "plan": chance.choice(["free", "pro", "team"]),
            "price": chance.choice([9, 19.5, 0.25, chance.randrange(10_000) / 100]),
            "zip": chance.choice(["10115", "80331", "01067"]),
            "app_version": chance.choice(["12", "13", "13.1"]),
            "user_code": str(chance.randrange(10**9)),
            "order": chance.randrange(10**15),
            "token": "".join(chance.choices("0123456789abcdef", k=256)),
            "description": "x y" * chance.randrange(5, 90) + str(number),
            "tags": chance.sample(["a", "b", "c"], 2),
            "paid": chance.random() < 0.3,
            "page": "https://shop.example/" + "p/" * chance.randrange(4, 170) + str(number),
        }
        if chance.random() < 0.9:
            properties["city"] = chance.choice(["Kraków", "Łódź", "", None]) if chance.random() < 0.1 else "Berlin"
        if chance.random() < (0.4 if day // 30 % 6 == 5 else 0.02):
            properties["campaign"] = "spring"
        if day > 200:
            properties["new"] = "since July"
        if day < 500:
            properties["old"] = number
        if chance.random() < 0.05:
            properties[f"setting_{chance.randrange(60)}"] = True
        events.append((chance.choice(["Viewed", "Bought", "Signed up"]), (FIRST + day) * DAY + number, properties))
    return events


def found_in(events: list[Event], folder: Path, most: int = MOST_EVENTS, **thresholds: Any) -> dict[str, Finding]:
    """The findings for these events, by the name of their check."""
    drift = examined([events], folder, most)[1]
    some = facts(
        drift=drift,
        unsafe=unsafe_of(block_of(events)),
        row_at=lambda place: f"row {place + 1}",
        thresholds=PlanOptions(**thresholds),
    )
    return {one.name: one for one in run_checks(some) if one.name in CHECKS}


@cache
def history() -> list[Event]:
    """A clean history, which tests do not change."""
    return clean(1)


def planted(change: Change) -> list[Event]:
    """The history with faults in the purchases."""
    chance = Random(101)
    events = deepcopy(history())
    for name, time, properties in events:
        if name == "Bought":
            change(properties, (time // DAY - FIRST) // 30, chance)
    return events


@pytest.mark.parametrize(
    ("seed", "count", "most"),
    [(0, 12, 20), (1, 12, 20), (0, 300, 500), (2, 300, 200), (0, 12_000, 12_000), (2, 12_000, 5_000)],
)  # fmt: skip
def test_nothing_is_found_in_a_clean_history(seed: int, count: int, most: int, tmp_path: Path) -> None:
    """Neither in properties of campaigns, new and old ones, nor in zip codes, versions, ids, tokens and long
    strings."""
    assert found_in(clean(seed, count), tmp_path, most) == {}


def one_kind(properties: dict[str, Any], month: int, chance: Random) -> None:
    """Other types, amounts as strings, large integers, nulls, truncated strings, and names that contain ids."""
    if chance.random() < 0.03:
        properties["price"] = "n/a"
    if chance.random() < 0.03:
        properties["plan"] = [properties["plan"]]
    properties["totalPriceEUR"] = f"{chance.random() * 100:.2f}"
    if month == 20:
        properties["order"] = 2**53 + 1 + chance.randrange(10**6)
    if month >= 15 and chance.random() < 0.6:
        properties["city"] = None
    properties["page"] = properties["page"][:255]
    properties[f"clicked_{chance.randrange(10**9)}"] = 1


def another_kind(properties: dict[str, Any], month: int, chance: Random) -> None:
    """Numbers that become strings, missing or blank values, and truncated strings in other alphabets."""
    if month >= 14:
        properties["price"] = str(properties["price"])
    if month in (8, 9) and chance.random() < 0.8:
        del properties["plan"]
    if month == 23:
        properties["zip"] = " "
    properties["page"] = properties["page"].replace("p", "ü")[:256]


FAULTS: dict[Change, list[tuple[str, str]]] = {
    one_kind: [
        ("mixed_types", r"price of Bought: 9\d\.\d% number, \d\.\d% text; the first text is in row "),
        ("mixed_types", r"plan of Bought: 9\d\.\d% text, \d\.\d% list; the first list is in row "),
        ("amounts_as_text", r"totalPriceEUR of Bought \([\d,]+ rows\), the first in row "),
        ("unsafe_integer", r"order of Bought \(\d+ rows\), the first in row "),
        ("null_rate", r"city of Bought in 2021-0[34]: \d\d% of the events, \d\d% before;"
                      " the first null or blank value is in row "),
        ("cut_values", r"page of Bought: [\d,]+ of [\d,]+ long values have exactly 255 characters and none is longer,"
                       " the first in row "),
        ("property_names", r"Bought: [234],\d\d\d of [234],\d\d\d properties are in 3 events or fewer,"
                           r" such as clicked_\d+, .* the first in row "),
    ],
    another_kind: [
        ("numbers_as_text", r"price of Bought: [\d,]+ numbers \(2020-01 to 2021-02\), [\d,]+ as text"
                            r" \(2021-02 to 2021-12\), the first in row "),
        ("null_rate", r"plan of Bought in 2020-(08|09|10): \d\d% of the events, \d+% before$"),
        ("null_rate", r"zip of Bought in 2021-1[12]: .* value is in row "),
        ("cut_values", r"page of Bought: .* exactly 256 characters .* the first in row "),
    ],
}  # fmt: skip
"""A function that plants faults in different properties, the check that finds each, and how its example begins."""


@pytest.mark.parametrize("most", [MOST_EVENTS, 6_000])
@pytest.mark.parametrize("change", FAULTS)
def test_planted_faults_are_found_and_named_and_nothing_else(change: Change, most: int, tmp_path: Path) -> None:
    """The property, its event, its months, and the row of the first; the fault is in half of the events, which each
    finding says."""
    events = planted(change)
    found = found_in(events, tmp_path, most)
    assert {name for name, one in found.items() if "(in a sample of " in one.detail} == (
        set() if most == MOST_EVENTS else found.keys() - {"unsafe_integer"}
    )
    assert {name: one.count for name, one in found.items()} == Counter(name for name, _ in FAULTS[change])
    for name, text in FAULTS[change]:
        examples = found[name].examples
        assert isinstance(examples, list)
        (example,) = [one for one in examples if re.match(text, one)] or examples
        assert re.match(text, example), example
        if "row " in example:
            row = int(example.rpartition("row ")[2])
            event, _, properties = events[row - 1]
            assert event == "Bought"
            of = example.partition(" of ")[0]
            before = history()[row - 1][2]
            assert properties.get(of) != before.get(of) or not properties.get(of), example


def test_options_allow_more(tmp_path: Path) -> None:
    """Each threshold is an option of a plan."""
    events = planted(one_kind)
    more = {"mixed_types": 5.0, "null_jump": 90.0, "cut_values": 10_000, "property_names": 5_000}
    assert found_in(events, tmp_path, **more).keys() == {"amounts_as_text", "unsafe_integer"}


def test_amounts_with_a_decimal_comma_and_rounded_numbers_are_found_by_their_values(tmp_path: Path) -> None:
    """Whatever the property is called; a few other strings rule out amounts, and one rounded number is enough."""
    for other, found in (("49,90", {"amounts_as_text"}), ("1,2", set()), ("1.6E+12", {"rounded_value"})):
        texts = [*("1.234,50" if row % 2 else "49,90" for row in range(30)), *[other] * 3]
        events = [("Bought", DAY * row, {"was": text}) for row, text in enumerate(texts)]
        assert found_in(events, tmp_path).keys() == found


def test_a_plan_names_the_file_and_the_row(tmp_path: Path) -> None:
    """Rows count in their file; a check's finding is not repeated as a warning."""
    (tmp_path / "shop.yaml").write_text(SHOP)
    export = tmp_path / "export"
    export.mkdir()
    for file in range(2):
        orders = [*range(30), *([2**53 + 1] * 30 if file else range(30, 60))]
        rows = [
            {"name": "Bought", "user": "u", "at": f"2023-01-02T03:{number:02}:00Z", "order": order, "page": f"{file}"}
            for number, order in enumerate(orders)
        ]
        (export / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = plan_export([str(export)], tmp_path / "plan", PlanOptions(mapping=tmp_path / "shop.yaml", as_of=AS_OF))
    (found,) = (one for one in plan.gates if one.name in CHECKS)
    assert found.name == "unsafe_integer"
    assert found.examples == ["order of Bought (30 rows), the first in row 31 of 1.jsonl"]
    assert "unsafe_integer" not in plan.warnings
    assert "unsafe_integer" not in plan.examples


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_nothing_is_found_in_a_sample_but_its_large_integers(name: str) -> None:
    """Every shipped mapping with its sample, whose golden file has the checks of its plan."""
    gates = json.loads(path_of(name).read_text("utf-8").partition("\n")[0])["gates"]
    amounts = {"amounts_as_text"} if name == "generic-csv" else set()  # its prices have a decimal comma
    assert {gate for gate, _ in gates} & CHECKS <= {"unsafe_integer"} | amounts
