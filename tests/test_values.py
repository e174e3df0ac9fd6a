"""Values are read without being changed; an untouched value reaches the wire byte for byte
(docs/know/promises.md#exactness). What is looked for in a JSON text by its bytes is what a parser finds in it."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pipeline import values
from pipeline.json_limits import SAFE_INTEGER, unsafe_integers, unsendable
from pipeline.mapper.codegen.conversions import as_json, as_number
from pipeline.values import BadValue
from tests.support import tiny_tool as tiny

SPACE = st.sampled_from(["", "", "", " ", "\t", "  "])
NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(["0", "-0", "-0.0", "1.10", "1e5", "1E-7", "9007199254740993", "18446744073709551616", "0.1e+2"]),
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9).map(str),
)
PIECES = st.sampled_from([*"aZ9 é😀/", "\\u00e9", "\\u000a", "\\n", "\\/", '\\"', "\\\\", "\\ud83d\\ude00", "\\u2028"])
STRINGS = st.lists(PIECES, max_size=6).map(lambda pieces: f'"{"".join(pieces)}"')


def _list(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(st.lists(inside, max_size=3), SPACE).map(
        lambda both: f"[{both[1]}{(',' + both[1]).join(both[0])}]"
    )


def _object(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.lists(st.tuples(STRINGS, SPACE, inside), max_size=3, unique_by=lambda one: json.loads(one[0]))
    return st.tuples(members, SPACE).map(
        lambda both: "{" + both[1] + ",".join(f"{key}{gap}:{gap}{value}" for key, gap, value in both[0]) + both[1] + "}"
    )


JSON = st.recursive(
    st.one_of(NUMBERS, STRINGS, st.sampled_from(["true", "false", "null"])),
    lambda inside: st.one_of(_list(inside), _object(inside)),
    max_leaves=8,
)
"""JSON in every spelling: white space, escapes, large and oddly written numbers."""


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(JSON, min_size=1, max_size=8))
def test_an_untouched_value_reaches_the_wire_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    """From a line of the export through plan and apply into a request: the value's own bytes, in their own order."""
    place = tmp_path_factory.mktemp("exact")
    members = ",".join(f'"p{number}" : {text} ' for number, text in enumerate(texts))
    line = f'{{"event":"Seen","id":"u-1","at":{tiny.THEN},"key":"k",{members}}}'
    made = tiny.make_plan(place / "plan", [tiny.write(place / "a.jsonl", [line])], provenance=False)
    (event,) = made.sent_bytes()
    expected = ",".join(f'"p{number}":{text}' for number, text in enumerate(texts))
    assert event.decode().partition(',"$geoip_disable"')[0] == (
        f'{{"event":"Seen","properties":{{"distinct_id":"u-1",{expected}'
    )


def test_raw_gives_json_text_as_it_stands() -> None:
    """Numbers keep their digits, objects their order and white space; a number that JSON cannot represent is never
    null."""
    for text in (b"1.10", b"-0.0", b"9007199254740993", b'"\\u00e9"', b'{ "b" : 1, "a" : [ 2 ,3] }'):
        assert bytes(values.raw(Raw(text))) == text
    for number in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(BadValue, match="not a JSON number"):
            values.raw(number)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Raw(b'"\\u00e9\\n"'), "é\n"),
        (Raw(b"1.10"), "1.10"),
        (Raw(b"9007199254740993"), "9007199254740993"),
        (Raw(b"true"), "true"),
        (Raw(b"null"), None),
        (Raw(b"[1, 2]"), "[1, 2]"),
        (Raw(b'""'), ""),
        ("é", "é"),
        (0, "0"),
        (1.5, "1.5"),
        (False, "false"),
        (None, None),
    ],
)
def test_text_is_the_content_of_the_value(value: values.Value, expected: str | None) -> None:
    """A string's characters, a number's own digits, and None only if it is absent."""
    assert values.text(value) == expected


def test_only_missing_and_null_are_absent() -> None:
    """Zero, false and the empty string are values."""
    given: list[values.Value] = [None, Raw(b"null"), Raw(b"0"), Raw(b"false"), Raw(b'""'), ""]
    assert [values.is_absent(value) for value in given] == [True, True, False, False, False, False]


@pytest.mark.parametrize("look", [values.text, values.opened, values.items])
def test_half_a_surrogate_pair_is_a_bad_value(look: object) -> None:
    """A Unicode string cannot contain one, so reading it gives an error instead of a crash."""
    with pytest.raises(BadValue, match="not a text"):
        look(Raw(b'"[\\ud800"'))  # type: ignore[operator]


@pytest.mark.parametrize("value", [Raw(b'{"a": 1.10}'), Raw(b'"{\\"a\\": 1.10}"'), '{"a": 1.10}'])
def test_an_object_opens_with_its_values_untouched_also_out_of_a_string(value: values.Value) -> None:
    """Warehouses keep properties as JSON in a text column. An absent object opens to nothing, which differs from an
    empty one."""
    assert values.opened(value) == {"a": Raw(b"1.10")}
    assert [values.opened(absent) for absent in (None, Raw(b"null"), "", " \n", Raw(b'""'))] == [None] * 5


@pytest.mark.parametrize("value", [Raw(b"[1]"), Raw(b"1"), "nope", 1, Raw(b'"[1]"'), '{"a":1', '"' * 3])
def test_anything_but_an_object_is_a_bad_value(value: values.Value) -> None:
    """It is reported, never read as an empty one."""
    with pytest.raises(BadValue, match="an object was expected"):
        values.opened(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Raw(b"[1.10, [2], null]"), [Raw(b"1.10"), Raw(b"[2]"), Raw(b"null")]),
        (Raw(b'"[1, 2]"'), [Raw(b"1"), Raw(b"2")]),
        (" [1]", [Raw(b"1")]),
        (Raw(b'"[not a list"'), [Raw(b'"[not a list"')]),
        (Raw(b"7"), [Raw(b"7")]),
        ("x", ["x"]),
        (Raw(b"[]"), []),
        (None, None),
        (Raw(b"null"), None),
    ],
)
def test_items_gives_the_members_of_a_list(value: values.Value, expected: list[values.Value] | None) -> None:
    """Unchanged, also out of a string; a single value is a list of one."""
    assert values.items(value) == expected


def _record(text: str) -> values.Record:
    return {**msgspec.json.decode(text, type=dict[str, Raw])}


@given(_object(JSON))
def test_one_record_has_one_canonical_spelling(text: str) -> None:
    """Order, white space and escapes of a row do not affect its identity; parsing it again changes nothing."""
    once = values.canonical(_record(text))
    assert values.canonical(_record(once.decode())) == once
    members = list(_record(text).items())
    assert values.canonical(dict(reversed(members))) == once


def test_canonical_sorts_keys_at_every_level() -> None:
    """So two writers of the same row agree; identity never fails, whatever a string contains."""
    assert values.canonical({"a": Raw(b'"\\ud800"')}) == b'{"a":"\\ud800"}'
    record = _record('{"b" : {"z":[ {"d":1, "c":"\\u0041"} ], "y":2}, "a":null}')
    assert values.canonical(record) == b'{"a":null,"b":{"y":2,"z":[{"c":"A","d":1}]}}'


@pytest.mark.parametrize(("one", "other"), [("1.0", "1.00"), ("1", "1.0"), ("1e1", "10"), ('"1"', "1"), ("null", '""')])
def test_canonical_keeps_different_values_apart(one: str, other: str) -> None:
    """A number is its digits: values that differ on the wire stay different."""
    assert values.canonical(_record(f'{{"a":{one}}}')) != values.canonical(_record(f'{{"a":{other}}}'))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":90}', '{"a":"90"}', True),
        ('{"a":90.0}', '{"a":"9e1"}', True),
        ('{"a":-0.0}', '{"a":"0"}', True),
        ('{"a":true}', '{"a":"true"}', True),
        ('{"a":1,"b":null,"c":{"d":[],"e":{"f":null}}}', '{"a":1}', True),
        ('{"a":[{"k":"x","v":{"s":null,"i":"7"}}]}', '{"a":[{"k":"x","v":{"i":7}}]}', True),
        ('{"a":9007199254740993}', '{"a":9007199254740992}', False),
        ('{"a":0.1}', '{"a":0.10000000000000001}', False),
        ('{"a":"007"}', '{"a":"7"}', False),
        ('{"a":""}', "{}", False),
        ('{"a":[null,1]}', '{"a":[1]}', False),
    ],
)
def test_bare_is_what_a_record_says_in_any_format(one: str, other: str, same: bool) -> None:
    """Nulls, empty objects and the spelling of a number depend on the format; other values are distinguished."""
    found = [values.bare(values.canonical(_record(text))) for text in (one, other)]
    assert (found[0] == found[1]) is same


BEYOND = ["1e400", "-1E+400", "1" * 310 + "e99", "9" * 309, "1" * 5000, "[0.5,1e309]", '{"b":[1e999]}']
BEYOND.append("[" * 65 + "]" * 65)


@pytest.mark.parametrize("inside", BEYOND)
def test_json_in_a_string_is_checked_when_it_is_opened(inside: str) -> None:
    """A number beyond a double, or too many levels, is refused inside a string too."""
    text = f'{{"a":{inside}}}'
    for value in (text, Raw(json.dumps(text).encode())):
        with pytest.raises(BadValue, match=r"beyond the range|levels of nesting"):
            values.opened(value)
    assert values.items(f"[{inside}]") == [f"[{inside}]"], "a text like any other"
    assert values.items(Raw(json.dumps(f"[{inside}]").encode())) == [Raw(json.dumps(f"[{inside}]").encode())]
    with pytest.raises(BadValue):
        as_json(text)
    with pytest.raises(BadValue):
        as_number(inside)


@pytest.mark.parametrize(
    "inside", ["1e308", "0e400", "1e-400", "1" * 308, "1" * 310 + "e-99", '"1e400"', '"' + "1" * 400 + '"']
)
def test_what_a_double_can_represent_is_opened(inside: str) -> None:
    """Digits in a string, a zero with any exponent and numbers that are too small are no reason to refuse."""
    assert values.opened(f'{{"a":{inside}}}') == {"a": Raw(inside.encode())}


DIGITS = st.from_regex(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,17})?", fullmatch=True)
TEXTS = st.lists(st.sampled_from(["\\", '"', "[", ":", "9007199254740993", "-", ".", "e", "é"])).map("".join)
SCALARS = DIGITS | TEXTS.map(json.dumps)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]")
        | st.lists(st.tuples(TEXTS.map(json.dumps), inner), max_size=4).map(
            lambda members: "{" + ", ".join(f"{name}:{value}" for name, value in members) + "}"
        )
    ),
    max_leaves=8,
)


@given(DOCUMENTS)
def test_unsafe_integers_are_those_that_a_parser_reads(document: str) -> None:
    """Digits in strings, in fractions and in exponents are not integers."""
    found: list[str] = []
    json.loads(document, parse_int=found.append, parse_float=str)
    unsafe = [digits for digits in found if abs(int(digits)) > SAFE_INTEGER]
    assert unsafe_integers(document.encode()) == unsafe


@given(st.integers(0, 3) | st.integers(0, 400), st.sampled_from(["", "e", "E+", "e-"]), st.integers(0, 400))
def test_a_number_is_sendable_if_a_double_can_represent_it(digits: int, sign: str, exponent: int) -> None:
    """However it is spelled, and also if it is short."""
    number = "9" * digits + "1" + (f"{sign}{exponent}" if sign else "")
    assert bool(unsendable(number.encode())) == (float(number) == float("inf"))
