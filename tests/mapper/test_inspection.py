"""What can be found out about a mapping: what its cases show, what no case shows, and what has no effect."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.errors import MappingError
from pipeline.mapper import available, load
from pipeline.mapper.inspection.cases import run_cases
from pipeline.mapper.inspection.ineffective import CHECKS, check_mapping
from pipeline.mapper.inspection.mutations import changes, mutate
from pipeline.mapper.language.loader import parse
from tests.support.commands import in_process
from tests.support.doc_blocks import ROOT
from tests.support.small_mappings import HEAD

sys.path.insert(0, str(ROOT / "docs"))
import generate


@pytest.mark.parametrize("name", available())
def test_every_case_of_the_shipped_mappings_passes(name: str) -> None:
    """What a mapping file says about itself is true, and every shipped mapping has examples."""
    results = run_cases(load(name))
    assert results
    assert {result.case.name: result.differences for result in results if not result.passed} == {}


ONE_CASE = """format: backcast.mapping/1
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
        ("{event: Bought, distinct_id: u-1, timestamp: 1970-01-01T00:00:00Z, key: none}", ()),
        ("{properties: '{\"a\":1.10}'}", ()),
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
    """Lines with a minus were expected, those with a plus came; one outcome too many or too few is a difference, and a
    case without warnings expects none."""
    result = run_cases(parse(ONE_CASE + gives + "\n", "shop.yaml"))[0]
    assert (result.differences, result.passed) == (differences, not differences)
    text = ONE_CASE.replace('"a":1.10', '"a":"x"').replace("user, at]", "user, at], types: {a: number}")
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
    text = ONE_CASE.partition("    row:")[0] + f"    row: '{row}'\n    gives: {gives}\n"
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
    """If rows cover every part, every change of the mapping is noticed, also if its times have a format."""
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
    dated = more.replace('"at":0', '"at":"01.01.1970"').replace("unit: s", 'unit: format, format: "%d.%m.%Y"')
    assert mutate(parse(dated, "shop.yaml")).survivors == ()


@pytest.mark.parametrize("name", ["generic", "posthog"])
def test_a_change_is_a_mapping_or_an_error_with_a_place(name: str) -> None:
    """No change makes a mapping fail in another way than a user's file would."""
    mapping = load(name)
    assert {type(changed.part) for changed in changes(mapping)} == {type(mapping)}
    assert all(changed.part != mapping for changed in changes(mapping))


def test_a_part_without_a_value_is_an_error() -> None:
    """It has no meaning, and the error names the file and the place."""
    ids, time = "distinct_id: /b\n", "time: {from: /t}\n"
    for section, problem in (
        ("distinct_id: []\n" + time, "'first' is an empty list"),
        (ids + "time: []\n", "'time' is an empty list"),
        (ids + time + "properties: {open: props}\n", "`open` cannot read a property"),
        (ids + time + "events: {a: {link: {distinct_id: [], other: /b}}}\n", "'distinct_id' is an empty list"),
    ):
        with pytest.raises(MappingError, match=problem):
            check_mapping(parse(f"format: backcast.mapping/1\ntool: x\ntitle: x\nevent: /e\n{section}", "x.yaml"))


def test_what_replaces_two_others_is_not_taken_away() -> None:
    """A merge has a list of ids, or two ids: without the list it would not be a mapping."""
    merge = MAPPING.replace("{skip: left}", "{link: {kind: merge, of: {type: json, of: /ids, else: keep}}}")
    assert "without `of`" not in [change.what for change in changes(parse(merge, "shop.yaml"))]


CLOSED = "properties:\n  rest: drop\n"
ANY_OF = "skip: {when: {any: [{one_of: [Bought], of: /name}, {present: x}]}, code: c}\n"

INEFFECTIVE = [
    ("settings: {plan: the plan}\n", "nothing uses the setting 'plan'", (7, 12)),
    ("uuid: {setting: plan, default: id}\n", "the setting 'plan' is not declared", (7, 7)),
    ("tables: {codes: {a: b}}\n", "nothing uses the table 'codes'", (7, 10)),
    ("tables: {codes: {a: b}}\nuuid: {lookup: x, table: codes, in: {c: d}}\n", "does not use its `table`", (8, 7)),
    ("define: {one: /a, two: '@one'}\n", "nothing refers to @two", (7, 19)),
    ("properties:\n  rest: x_\n", "every column is a property with its own name", (8, 3)),
    (f"{CLOSED}  drop: [a]\n", "'a' is left out anyway", (9, 10)),
    ("properties:\n  open: /p\n  rest: drop\n  drop: [a, /b]\n", "'/b' is left out anyway", (10, 13)),
    ("properties:\n  drop: [/a/b]\n", "a path inside one", (8, 10)),
    ("properties:\n  drop: [{const: a}]\n", "takes names of properties", (8, 10)),
    ("properties:\n  drop: [a]\n  rename: {a: b}\n", "'a' is renamed, so it is not left out", (8, 10)),
    ("events: {Bought: {drop: [a], rename: {a: b}}}\n", "'a' is renamed, so it is not left out", (7, 26)),
    ("properties:\n  rename: {a: b}\n  types: {a: number}\n", "property 'a' no longer exists", (9, 11)),
    ("properties:\n  drop: [a]\n  hash: {a: mail}\n", "property 'a' no longer exists", (9, 10)),
    (f"{CLOSED}  types: {{a: number}}\n", "property 'a' does not exist", (9, 11)),
    (f"{CLOSED}  blank: [{{values: x, in: [a]}}]\n", "'a' is left out anyway", (9, 23)),
    ("properties:\n  rename: {a: a}\n", "'a' is renamed to itself", (8, 12)),
    ("events: {Bought: {rename: {a: a}}}\n", "'a' is renamed to itself", (7, 28)),
    ("properties:\n  set: {a: {const: x}}\n  fill: {a: /b}\n", "`fill` never does", (9, 10)),
    ("uuid: {first: [/a, {const: x}, /b]}\n", "this is never used", (7, 32)),
    ("uuid: {first: [{lookup: a, in: {b: c}, else: {const: x}}, /b]}\n", "this is never used", (7, 59)),
    ("uuid: {first: [{when: {present: a}, then: {const: x}, else: {const: y}}, /b]}\n", "this is never used", (7, 74)),
    ("uuid: {first: [{template: y}, /b]}\n", "this is never used", (7, 31)),
    ("uuid: {unless: [A, B], of: {lower: a}}\n", "the value is never 'A' or 'B'", (7, 7)),
    ("uuid: {unless: '', of: {url: host, of: a}}\n", "the value is never ''", (7, 7)),
    ("skip: {when: {is: x, of: {lookup: a, in: {b: y}}}, code: c}\n", "the value is never 'x'", (7, 14)),
    ("uuid: {lookup: {upper: a}, in: {de: x}}\n", "the text is never 'de'", (7, 7)),
    ("uuid: {lookup: a, in: {de: x, DE: y}, case: any}\n", "the table has ", (7, 7)),
    ("blanks: {in: [a]}\n", "nothing counts as missing there", (7, 10)),
    ("received: {from: /r, unit: ms, format: {const: '%Y%m%d'}}\n", "cannot have another unit", (7, 22)),
    ("skip: {when: {is: Bought, of: /name}, code: c}\nevents: {Bought: Sold}\n", "`skip` leaves out every", (8, 10)),
    (f"{ANY_OF}events: {{Bought: Sold}}\n", "`skip` leaves out every 'Bought' (code c)", (8, 10)),
    ("skip: [{when: {present: a}, code: c}, {when: {present: a}, code: d}]\n", "has the same condition", (7, 40)),
    ("events: {Bought: {skip: c, set: {a: /b}}}\n", "do not become events, so `set` has no effect", (7, 28)),
    ("events: {Bought: {skip: c, as: Sold}}\n", "do not become events, so `as` has no effect", (7, 28)),
    ("events: {Bought: {update: person, drop: [a]}}\n", "do not become events, so `drop` has no effect", (7, 35)),
    ("events: {Bought: {warn: lost}}\n", "`warn` is for rows that `skip` leaves out", (7, 19)),
    ("events: {Bought: Bought}\n", "changes nothing", (7, 10)),
    ("events: {Bought: Sold}\n", "no event has the name 'Bought'", (7, 10)),  # where all names are in lower case
]


@pytest.mark.parametrize(("sections", "message", "place"), INEFFECTIVE)
def test_what_has_no_effect_is_an_error_with_its_place(sections: str, message: str, place: tuple[int, int]) -> None:
    """The message names the conflict, and the place where it is written."""
    head = HEAD.replace("event: /name", "event: {lower: /name}") if "no event has" in message else HEAD
    with pytest.raises(MappingError) as caught:
        check_mapping(parse(head + sections, "shop.yaml"))
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == place
    assert caught.value.hint


@pytest.mark.parametrize(
    "sections",
    [
        "settings: {plan: the plan}\nuuid: {setting: plan, default: id}\n",
        "settings: {plan: the plan}\ngroups: {setting: plan}\n",
        "define: {one: /a}\nuuid: {template: '{@one/b}'}\n",
        "properties: {rest: keep}\n",
        f"{CLOSED}  rename: {{a: a}}\n  types: {{a: number}}\n",
        f"{CLOSED}  fill: {{a: /b}}\n  drop: [a]\n",
        "properties: {open: /p, rest: x_, drop: [a, /b]}\n",
        "properties: {rename: {a: b}, types: {b: number}}\n",
        "properties: {drop: [a], set: {a: /b}, types: {a: number}}\n",
        "properties: {set: {a: /b}, fill: {a: {const: x}}}\n",
        "uuid: {first: [{word: source}, {json: 'null'}, {lookup: a, in: {b: c}}, {template: 'x{a}'}, /b]}\n",
        "uuid: {unless: ['', x], of: {url: host, of: a}}\n",
        "uuid: {lookup: {lower: a}, in: {DE: x}, case: any, else: keep}\n",
        "skip: {when: {all: [{is: Bought, of: /name}, {present: x}]}, code: c}\nevents: {Bought: Sold}\n",
        "events: {Bought: {link: {kind: alias, distinct_id: /a, other: /b, when: {present: /a}}, set: {a: /b}}}\n",
        "unlisted: reject\nevents: {Bought: Bought}\n",
    ],
)
def test_what_can_have_an_effect_is_not_an_error(sections: str) -> None:
    """The most similar mapping in which the same part does change rows passes."""
    check_mapping(parse(HEAD + sections, "shop.yaml"))


def test_every_check_finds_something_here() -> None:
    """A new check needs a mapping above."""
    found = {check.__name__ for check in CHECKS for text, *_ in INEFFECTIVE if any(check(parse(HEAD + text, "x")))}
    assert found == {check.__name__ for check in CHECKS}


def test_what_people_copy_from_says_nothing_without_effect() -> None:
    """Neither the shipped mappings nor the examples of the reference have a part without effect."""
    for name in available():
        check_mapping(load(name))
    for name, example in generate.examples().items():
        check_mapping(parse(generate.complete(example), name))


def test_a_plan_refuses_what_mapping_check_refuses(tmp_path: Path) -> None:
    """With the same message and exit code."""
    mapping, rows = tmp_path / "shop.yaml", tmp_path / "rows.csv"
    mapping.write_text(HEAD + "properties: {rename: {betrag: amount}, types: {betrag: number}}\n")
    rows.write_text("name,user,at,betrag\nBought,u-1,2023-01-02T03:04:05Z,1\n")
    checked = in_process("mapping", "check", mapping)
    planned = in_process("plan", rows, "-m", mapping, "-o", tmp_path / "plan")
    assert "types: property 'betrag' no longer exists" in checked.stderr
    assert (planned.returncode, planned.stderr) == (checked.returncode, checked.stderr)
    assert checked.returncode == 2
