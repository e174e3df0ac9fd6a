"""The cases inside mapping files, and the starting file that comes with one."""

from __future__ import annotations

import pytest

from pipeline.mapper import available, load
from pipeline.mapper.inspection.cases import run_cases
from pipeline.mapper.language.loader import parse


@pytest.mark.parametrize("name", available())
def test_every_case_of_the_shipped_mappings_passes(name: str) -> None:
    """What a mapping file says about itself is true, and a mapping without examples is not shipped."""
    results = run_cases(load(name))
    assert results
    assert {result.case.name: result.differences for result in results if not result.passed} == {}


def test_the_shipped_mappings_are_found() -> None:
    """Those of every kind of tool are among them."""
    assert {"ga4", "generic", "mixpanel", "segment-warehouse", "universal-analytics"} < set(available())


HEAD = """format: backcast.mapping/1
tool: shop
title: Shop
event: /name
events: {Seen: {skip: seen}}
distinct_id: /user
time: {from: /at, unit: s}
properties: {drop: [name, user, at]}
cases:
  - name: one
    row: '{"name":"Bought","user":"u-1","at":0,"a":1.10}'
    gives: """


@pytest.mark.parametrize(
    ("gives", "differences"),
    [
        (
            "{event: Bought, distinct_id: u-1, timestamp: 1970-01-01T00:00:00Z, key: none, properties: '{\"a\":1.10}'}",
            (),
        ),
        ("{event: Sold}", ("- event: Sold", "+ event: Bought")),
        ("{properties: '{\"a\":1.1}'}", ("- a: 1.1", "+ a: 1.10")),
        ("{properties: '{}'}", ("+ a: 1.10",)),
        ("{has: '{\"a\":1.1}'}", ("- a: 1.1\n+ a: 1.10",)),
        ("{has: '{\"b\":1}'}", ("- b: 1\n+ b: (absent)",)),
        ("{lacks: [a]}", ("+ a: 1.10 (lacks)",)),
        ("{event: Bought, lacks: [b]}", ()),
        ("{warnings: [bad_value]}", ("- warnings: ['bad_value']", "+ warnings: []")),
        ("{key: [a]}", ("- key: ['a']", "+ key: ['none']")),
        ("[{event: Bought}, {link: [identify, a, b]}]", ("- {'link': ('identify', 'a', 'b')}",)),
    ],
)
def test_a_case_that_fails_shows_what_differs(gives: str, differences: tuple[str, ...]) -> None:
    """The lines with a minus were wanted, those with a plus came; an outcome too many or too few is a difference, and a
    case that names no warning says that there is none."""
    result = run_cases(parse(HEAD + gives + "\n", "shop.yaml"))[0]
    assert (result.differences, result.passed) == (differences, not differences)
    text = HEAD.replace('"a":1.10', '"a":"x"').replace("user, at]", "user, at], types: {a: number}")
    told = run_cases(parse(text + "{event: Bought}\n", "shop.yaml"))[0].differences
    assert told == ("- warnings: []", "+ warnings: ['bad_value']")


@pytest.mark.parametrize(
    ("row", "gives"),
    [
        ('{"name":"Seen","user":"u","at":0}', "{skip: seen}"),
        ('{"name":"a","user":"u"}', "{reject: missing_timestamp}"),
        ('{"name":"a","user":"u","at":"x"}', "{reject: bad_timestamp}"),
        ('{"name":"a","at":0}', "{reject: missing_distinct_id}"),
        ('{"name":"a","user":"null","at":0}', "{reject: junk_distinct_id}"),
        ('{"user":"u","at":0}', "{reject: missing_event}"),
    ],
)
def test_rows_that_are_not_sent_are_cases_too(row: str, gives: str) -> None:
    """Skips and rejects are outcomes like any other."""
    text = HEAD.partition("    row:")[0] + f"    row: '{row}'\n    gives: {gives}\n"
    assert run_cases(parse(text, "shop.yaml"))[0].differences == ()
