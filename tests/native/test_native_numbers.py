"""Properties become numbers in one call as one by one in Python: equal values in the same order, equal warnings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pipeline.mapper.codegen.conversions import convert_number
from pipeline.native import AVAILABLE, native
from pipeline.values import NULL

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="backcast was installed without a compiler")

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
