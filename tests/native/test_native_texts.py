"""The C readers of texts are those of Python: equal results, and equal errors, for ordinary texts and for odd ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pipeline.mapper.codegen import runtime
from pipeline.mapper.codegen.conversions import _read_number, convert_number
from pipeline.mapper.codegen.timeformat import TimeFormat
from pipeline.native import AVAILABLE, native
from pipeline.timestamps import read_iso
from pipeline.validator.placeholder_ids import SPELLINGS, is_placeholder
from pipeline.values import NULL

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="the C part is not compiled")

TIME = r"(000[01]|1[69]\d\d|20\d\d|9999)-(0[0-9]|1[0-3])-([0-2]\d|3[0-2])[T tx]([01]\d|2[0-5]):([0-5]\d|6\d)"
ENDING = r"(:([0-5]\d|6\d)(\.\d{0,12}|,5)?)?( ?(Z|z|UTC|UT)| ?[+-](\d\d|2[34])(:?[0-6]\d|:)?)?"
ODD = st.text("0123456789-:. TZ+abcdeFUTC$[]{}\"'\x1c\x85\u0664K\u017f", max_size=40)


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except (ValueError, TypeError, AttributeError) as error:
        return type(error), str(error)


def refuse(*_: Any) -> Any:
    raise AssertionError("an ordinary text went to Python")


@settings(max_examples=200, deadline=None)
@given(st.from_regex(TIME + ENDING, fullmatch=True) | ODD, st.booleans())
@example("2024-02-29 23:59:59.123456789 +0530", True)
@example("1900-02-29T00:00:00Z", False)
@example("2024-01-01T00:00:00.0000000Z", False)
@example("٢٠٢٤-01-01T00:00:00Z", False)
def test_times(text: str, space: bool) -> None:
    assert outcome(native.Reader("iso", read_iso), text, space) == outcome(read_iso, text, space)


words = st.sampled_from(sorted(SPELLINGS))


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(words, st.integers(0), st.sampled_from(["", "$device:", " ", "x"])).map(
        lambda one: one[2] + "".join(c.upper() if one[1] >> i & 1 else c for i, c in enumerate(one[0]))
    )
    | ODD
    | st.just(None)
)
@example("\u212aNull")
@example("nuLL")
def test_ids(text: str | None) -> None:
    reader = native.Reader("placeholder", is_placeholder, SPELLINGS)
    assert outcome(reader, text) == outcome(is_placeholder, text)


@settings(max_examples=150, deadline=None)
@given(st.uuids().map(str) | st.uuids().map(lambda one: f" {str(one).upper()}\n") | ODD | st.none())
@example("00000000-0000-0000-0000-000000000000")
@example("\x1c5f0c3b5a-0000-4000-8000-00000000000")
@example("5f0c3b5a-0000-4000-8000-0000000000\u0130")
def test_uuids(text: str | None) -> None:
    assert outcome(native.Reader("uuid", runtime.clean_uuid), text) == outcome(runtime.clean_uuid, text)


FORMATS = ["%Y%m%d%H%M%S", "%d/%m/%Y %H:%M", "%Y-%m-%d", "%H%M%d%m%Y"]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(FORMATS),
    st.from_regex(
        r"(000[01]|20[012]\d|9999)[/ -]?(0[0-9]|1[0-3])[/ -]?([0-2]\d|3[0-2])( ?[012]\d:?[0-6]\d){0,2}", fullmatch=True
    )
    | st.datetimes().flatmap(lambda at: st.sampled_from([at.strftime(one) for one in FORMATS]))
    | ODD,
)
@example("%Y%m%d%H%M%S", "20230229000000")
@example("%d/%m/%Y %H:%M", "1/2/2023 4:05")
@example("%d/%m/%Y %H:%M", " 01/02/2023 04:05")
@example("%Y%m%d%H%M%S", "2023022800000")
@example("%Y%m%d%H%M%S", "20230228235960")
def test_times_of_a_format(form: str, text: str) -> None:
    python = TimeFormat(form)
    assert outcome(native.Reader("format", python.read, format=form), text) == outcome(python.read, text)


def test_what_it_does_not_read() -> None:
    """Other directives, words that it cannot compare, and a kind that there is not."""
    for form in ("%Y%m", "%Y%m%d%f", "%Y%m%d%", "%Y%m%d%d", "%Y%m%d%%", "%Y\u0660%m%d", "%y%m%d", ""):
        with pytest.raises(ValueError, match="directives"):
            native.Reader("format", refuse, format=form)
    for words in (frozenset({""}), frozenset({"ü"}), frozenset({"x" * 64}), frozenset({1})):
        with pytest.raises((ValueError, TypeError)):
            native.Reader("placeholder", is_placeholder, words)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind"):
        native.Reader("date", read_iso)


DIGITS = st.from_regex(r" ?-?(0|[0-9]{1,20})(\.[0-9]{0,20})?([eE]-?[0-9]{1,3})?", fullmatch=True)


@settings(max_examples=200, deadline=None)
@given(
    DIGITS.map(lambda text: Raw(text.strip().encode()))
    | DIGITS.map(lambda text: Raw(f'"{text}"'.encode()))
    | DIGITS
    | ODD
    | st.sampled_from([None, True, 7, 1.5, Raw(b'""'), Raw(b"true"), Raw(b'"\\u0031"'), "-", "٣"])
)
def test_numbers(value: Any) -> None:
    expected, read = (outcome(call, value) for call in (_read_number, native.Reader("number", _read_number)))
    assert type(read) is type(expected)
    assert (bytes(read) if isinstance(read, Raw) else read) == (bytes(expected) if isinstance(read, Raw) else expected)


def test_ordinary_texts_do_not_go_to_python() -> None:
    assert native.Reader("format", refuse, format="%Y%m%d%H%M%S")("20240310023000") == (1710037800000000, False, False)
    number = native.Reader("number", refuse)
    assert [bytes(number(one)) for one in ("-1.10", Raw(b"0"), Raw(b'"123456789012345678"'))] == [
        b"-1.10", b"0", b"123456789012345678",
    ]  # fmt: skip
    iso = native.Reader("iso", refuse)
    assert iso("2024-03-10T02:30:00.123Z", False) == (1710037800123000, True, False)
    assert iso("2024-03-10 02:30:00 +0100", True) == (1710034200000000, True, False)
    assert native.Reader("placeholder", refuse, SPELLINGS)("user-1234") is False
    own = "5f0c3b5a-1111-4222-8333-444444444444"
    uuid = native.Reader("uuid", refuse)
    assert (uuid(own), uuid("order-1"), uuid(None)) == (own, None, None)


# -- all numbers of a row in one call: equal values in the same order, equal warnings ----------------------------------

VALUES = st.sampled_from(["1", "-1.10", "", "007", " 5", "1e3", "x", "٣", 7, 1.5, True]) | st.sampled_from(
    [b"1", b"-0", b'"12.50"', b'"1e400"', b"1e5", b"null", b'""', b'"x"', b"{}", b'"\\u0031"', b"123456789012345678901"]
).map(Raw)
NAMES = ("a", "b", "c")


def spelled(items: Any) -> list[tuple[str, Any]]:
    return [(name, bytes(value) if isinstance(value, Raw) else value) for name, value in items]


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([*NAMES, "d"]), VALUES))
@example({"d": "1", "b": "x", "a": Raw(b'"2"')})
def test_numbers_of_a_row(row: dict[str, Any]) -> None:
    expected, warnings = dict(row), (("before", ""),)
    for name in NAMES:
        if (value := row.get(name)) is not None and value != NULL:
            warnings = convert_number(name, value, expected, warnings)  # type: ignore[assignment]
    members = native.Header(tuple(row), True)(list(row.values()))
    assert native.Numbers(NAMES, convert_number)(members, (("before", ""),)) == warnings
    assert spelled(members.items()) == spelled(expected.items())


def test_ordinary_numbers_do_not_go_to_python() -> None:
    members = native.Header(NAMES)(["1", Raw(b'"2.5"'), Raw(b"3")])
    assert native.Numbers((*NAMES, "d"), None)(members, ()) == ()  # type: ignore[arg-type]
    assert spelled(members.items()) == [("a", b"1"), ("b", b"2.5"), ("c", b"3")]


def test_what_it_cannot_call() -> None:
    with pytest.raises(TypeError):
        native.Numbers(("a", 1), convert_number)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Members"):
        native.Numbers(("a",), convert_number)({"a": "1"}, ())  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        native.Numbers(("a",), lambda *_: 1 / 0)(native.Header(("a",))(["x"]), ())
