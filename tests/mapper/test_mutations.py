"""Cases are tried on a mapping of which one part is changed at a time."""

from __future__ import annotations

import pytest

from pipeline.errors import MappingError
from pipeline.mapper import load
from pipeline.mapper.compiler import check_mapping
from pipeline.mapper.inspection.mutations import changes, mutate
from pipeline.mapper.language.loader import parse

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
