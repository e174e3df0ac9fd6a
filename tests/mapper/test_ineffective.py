"""What a mapping says without any effect is an error of `mapping check`."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pipeline.errors import MappingError
from pipeline.mapper import available, load
from pipeline.mapper.inspection.ineffective import CHECKS, check_effects
from pipeline.mapper.language.loader import parse
from tests.support.doc_blocks import ROOT
from tests.support.small_mappings import HEAD

sys.path.insert(0, str(ROOT / "docs"))
import generate

CLOSED = "properties:\n  rest: drop\n"
ANY_OF = "skip: {when: {any: [{one_of: [Bought], of: /name}, {present: x}]}, code: c}\n"

INEFFECTIVE = [
    ("settings: {plan: the plan}\n", "nothing uses the setting 'plan'", (7, 12)),
    ("uuid: {setting: plan, default: id}\n", "the setting 'plan' is not declared", (7, 7)),
    ("tables: {codes: {a: b}}\n", "nothing uses the table 'codes'", (7, 10)),
    ("tables: {codes: {a: b}}\nuuid: {lookup: x, table: codes, in: {c: d}}\n", "does not use its `table`", (8, 7)),
    ("define: {one: /a, two: '@one'}\n", "nothing refers to @two", (7, 19)),
    ("properties:\n  rest: x_\n", "every column is a property by its own name", (8, 3)),
    (f"{CLOSED}  drop: [a]\n", "'a' is left out anyway", (9, 10)),
    ("properties:\n  open: /p\n  rest: drop\n  drop: [a, /b]\n", "'/b' is left out anyway", (10, 13)),
    ("properties:\n  drop: [/a/b]\n", "a path inside one", (8, 10)),
    ("properties:\n  drop: [{const: a}]\n", "takes names of properties", (8, 10)),
    ("properties:\n  drop: [a]\n  rename: {a: b}\n", "'a' is renamed, so it is not left out", (8, 10)),
    ("events: {Bought: {drop: [a], rename: {a: b}}}\n", "'a' is renamed, so it is not left out", (7, 26)),
    ("properties:\n  rename: {a: b}\n  types: {a: number}\n", "no property 'a' any more", (9, 11)),
    ("properties:\n  drop: [a]\n  hash: {a: mail}\n", "no property 'a' any more", (9, 10)),
    (f"{CLOSED}  types: {{a: number}}\n", "there is no property 'a'", (9, 11)),
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
    ("uuid: {lookup: a, in: {de: x, DE: y}, case: any}\n", "is in its table twice", (7, 7)),
    ("blanks: {in: [a]}\n", "no texts that are missing there", (7, 10)),
    ("received: {from: /r, unit: ms, format: {const: '%Y%m%d'}}\n", "no other unit", (7, 22)),
    ("skip: {when: {is: Bought, of: /name}, code: c}\nevents: {Bought: Sold}\n", "`skip` leaves out every", (8, 10)),
    (f"{ANY_OF}events: {{Bought: Sold}}\n", "`skip` leaves out every 'Bought' (code c)", (8, 10)),
    ("skip: [{when: {present: a}, code: c}, {when: {present: a}, code: d}]\n", "has the same condition", (7, 40)),
    ("events: {Bought: {skip: c, set: {a: /b}}}\n", "become no event, so `set` changes nothing", (7, 28)),
    ("events: {Bought: {skip: c, as: Sold}}\n", "become no event, so `as` changes nothing", (7, 28)),
    ("events: {Bought: {update: person, drop: [a]}}\n", "become no event, so `drop` changes nothing", (7, 35)),
    ("events: {Bought: {warn: lost}}\n", "`warn` is for rows that `skip` leaves out", (7, 19)),
    ("events: {Bought: Bought}\n", "changes nothing", (7, 10)),
    ("events: {Bought: Sold}\n", "no event has the name 'Bought'", (7, 10)),  # where all names are in lower case
]


@pytest.mark.parametrize(("sections", "message", "place"), INEFFECTIVE)
def test_what_has_no_effect_is_an_error_with_its_place(sections: str, message: str, place: tuple[int, int]) -> None:
    """The message says what cannot be, the place where it is written."""
    head = HEAD.replace("event: /name", "event: {lower: /name}") if "no event has" in message else HEAD
    with pytest.raises(MappingError) as caught:
        check_effects(parse(head + sections, "shop.yaml"))
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
def test_what_can_have_an_effect_is_none(sections: str) -> None:
    """The nearest mapping in which the same part changes rows passes."""
    check_effects(parse(HEAD + sections, "shop.yaml"))


def test_every_check_finds_something_here() -> None:
    """A new check comes with a mapping above."""
    found = {check.__name__ for check in CHECKS for text, *_ in INEFFECTIVE if any(check(parse(HEAD + text, "x")))}
    assert found == {check.__name__ for check in CHECKS}


def test_what_people_copy_from_says_nothing_without_effect() -> None:
    """The shipped mappings, and the examples of the reference."""
    for name in available():
        check_effects(load(name))
    for name, example in generate.examples().items():
        check_effects(parse(generate.complete(example), name))


def test_the_command_stops_at_it(tmp_path: Any, call: Any) -> None:
    """`mapping check` prints the place, and ends with exit 2."""
    (tmp_path / "shop.yaml").write_text(f"{HEAD}events: {{Bought: Bought}}\n", "utf-8")
    said = call("mapping", "check", tmp_path / "shop.yaml")
    assert said.code == 2
    assert said.two_lines[0].endswith("shop.yaml:7:10")
