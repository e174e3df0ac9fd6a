"""The cases inside mapping files, and how they are tried on a mapping of which one part is changed at a time."""

from __future__ import annotations

import pytest

from pipeline.errors import MappingError
from pipeline.mapper import available, load
from pipeline.mapper.compiler import check_mapping
from pipeline.mapper.inspection.cases import run_cases
from pipeline.mapper.inspection.mutations import changes, mutate
from pipeline.mapper.language.loader import parse


@pytest.mark.parametrize("name", available())
def test_every_case_of_the_shipped_mappings_passes(name: str) -> None:
    """What a mapping file says about itself is true, and a mapping without examples is not shipped."""
    results = run_cases(load(name))
    assert results
    assert {result.case.name: result.differences for result in results if not result.passed} == {}


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


MAPPING = """format: backcast.mapping/1
tool: shop
title: Shop
settings: {shop: the name of the shop}
event: {lookup: /name, in: {s: Seen, b: Bought}}
events: {Bought: {rename: {a: amount}}, Left: {skip: left}}
distinct_id: [/user, /device]
time: {from: /at, unit: s}
properties:
  rest: drop
  set:
    $os: {lower: /os}
    size: {when: {is: l, of: /size}, then: {const: large}}
cases:
  - name: one
    row: '{"name":"b","user":"u-1","at":0,"a":1.10,"os":"IOS"}'
    gives: {event: Bought, distinct_id: u-1, timestamp: 1970-01-01T00:00:00Z, has: '{"amount":1.10}'}
"""


def test_survivors_are_the_parts_that_no_case_shows() -> None:
    """Each has the line and the column of the part that was changed."""
    survivors = [(place.line, place.column, what) for what, place in mutate(parse(MAPPING, "shop.yaml")).survivors]
    assert survivors == [
        (4, 12, "without 'shop'"),
        (5, 29, "without 's'"),
        (6, 41, "without 'Left'"),
        (6, 48, "without `skip`"),
        (7, 22, "without '/device'"),
        (10, 3, "without `rest`"),
        (12, 5, "without '$os'"),
        (12, 5, "without `lower`"),
        (12, 11, "with a field that no row has in place of '/os'"),
        (13, 5, "without 'size'"),
        (13, 12, "with the opposite of `is`"),
        (13, 19, "with 'l_changed' in place of 'l'"),
        (13, 26, "with a field that no row has in place of '/size'"),
        (13, 45, "with 'large_changed' in place of 'large'"),
    ]


def test_a_case_that_shows_a_part_fails_when_it_changes() -> None:
    """With rows for every part, every change of the mapping is noticed."""
    more = MAPPING.replace("has: '{\"amount\":1.10}'", 'properties: \'{"amount":1.10,"$os":"ios"}\'') + (
        """  - name: two
    settings: {shop: one}
    row: '{"name":"s","device":"d-1","at":0,"size":"l","more":1}'
    gives: {event: Seen, distinct_id: d-1, properties: '{"size":"large"}'}
  - name: three
    row: '{"name":"s","device":"d-1","at":0,"size":"m"}'
    gives: {event: Seen, properties: '{}'}
"""
    )
    more = more.replace(", Left: {skip: left}", "")
    tried = mutate(parse(more, "shop.yaml"))
    assert tried.survivors == ()
    assert tried.tried == tried.failed > 20
    assert tried.enough


@pytest.mark.parametrize("name", ["generic", "posthog"])
def test_a_change_is_a_mapping_or_an_error_with_a_place(name: str) -> None:
    """No change leads to a mapping that fails in another way than a file of a user's would."""
    mapping = load(name)
    assert {type(changed.part) for changed in changes(mapping)} == {type(mapping)}
    assert all(changed.part != mapping for changed in changes(mapping))


def test_a_part_without_a_value_is_an_error() -> None:
    """It has no meaning, and the file and the place are named."""
    ids, time = "distinct_id: /b\n", "time: {from: /t}\n"
    for section, problem in (
        ("distinct_id: []\n" + time, "'first' is an empty list"),
        (ids + "time: []\n", "'time' is an empty list"),
        (ids + time + "properties: {open: props}\n", "`open` cannot read a property"),
        (ids + time + "events: {a: {link: {distinct_id: [], other: /b}}}\n", "'distinct_id' is an empty list"),
    ):
        with pytest.raises(MappingError, match=problem):
            check_mapping(parse(f"format: backcast.mapping/1\ntool: x\ntitle: x\nevent: /e\n{section}", "x.yaml"))


def test_what_stands_for_two_others_is_not_taken_away() -> None:
    """A merge has a list of ids, or two ids: without the list it would be no mapping."""
    merge = MAPPING.replace("{skip: left}", "{link: {kind: merge, of: {type: json, of: /ids, else: keep}}}")
    assert "without `of`" not in [change.what for change in changes(parse(merge, "shop.yaml"))]
