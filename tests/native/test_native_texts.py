"""The C readers of strings agree with those of Python: equal results, and equal errors, for ordinary and for odd
strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.mapper.codegen import runtime
from pipeline.mapper.codegen.timeformat import TimeFormat
from pipeline.native import AVAILABLE, native
from pipeline.timestamps import read_iso
from pipeline.validator.placeholder_ids import SPELLINGS, is_placeholder

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
    """Other directives, words that it cannot compare, and an unknown kind."""
    for form in ("%Y%m", "%Y%m%d%f", "%Y%m%d%", "%Y%m%d%d", "%Y%m%d%%", "%Y\u0660%m%d", "%y%m%d", ""):
        with pytest.raises(ValueError, match="directives"):
            native.Reader("format", refuse, format=form)
    for words in (frozenset({""}), frozenset({"ü"}), frozenset({"x" * 64}), frozenset({1})):
        with pytest.raises((ValueError, TypeError)):
            native.Reader("placeholder", is_placeholder, words)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind"):
        native.Reader("date", read_iso)


def test_ordinary_strings_do_not_go_to_python() -> None:
    assert native.Reader("format", refuse, format="%Y%m%d%H%M%S")("20240310023000") == (1710037800000000, False, False)
    iso = native.Reader("iso", refuse)
    assert iso("2024-03-10T02:30:00.123Z", False) == (1710037800123000, True, False)
    assert iso("2024-03-10 02:30:00 +0100", True) == (1710034200000000, True, False)
    assert native.Reader("placeholder", refuse, SPELLINGS)("user-1234") is False
    own = "5f0c3b5a-1111-4222-8333-444444444444"
    uuid = native.Reader("uuid", refuse)
    assert (uuid(own), uuid("order-1"), uuid(None)) == (own, None, None)
