"""What is looked for in a JSON text by its bytes is what a parser of JSON finds in it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pipeline.json_limits import SAFE_INTEGER, unsafe_integers, unsendable
from pipeline.native import AVAILABLE, native

DIGITS = st.from_regex(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,17})?", fullmatch=True)
STRINGS = st.lists(st.sampled_from(["\\", '"', "[", ":", "9007199254740993", "-", ".", "e", "é"])).map("".join)
SCALARS = DIGITS | STRINGS.map(json.dumps)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]")
        | st.lists(st.tuples(STRINGS.map(json.dumps), inner), max_size=4).map(
            lambda members: "{" + ", ".join(f"{name}:{value}" for name, value in members) + "}"
        )
    ),
    max_leaves=8,
)


@given(DOCUMENTS)
def test_unsafe_integers_are_those_that_a_parser_reads(document: str) -> None:
    """Digits in strings, in fractions and in exponents are no integers."""
    found: list[str] = []
    json.loads(document, parse_int=found.append, parse_float=str)
    unsafe = [digits for digits in found if abs(int(digits)) > SAFE_INTEGER]
    assert unsafe_integers(document.encode()) == unsafe
    if AVAILABLE:
        assert native.unsafe_integers(document.encode()) == unsafe


@given(st.integers(0, 3) | st.integers(0, 400), st.sampled_from(["", "e", "E+", "e-"]), st.integers(0, 400))
def test_a_number_is_sendable_if_a_double_holds_it(digits: int, sign: str, exponent: int) -> None:
    """However it is spelled, and also where its text is short."""
    number = "9" * digits + "1" + (f"{sign}{exponent}" if sign else "")
    assert bool(unsendable(number.encode())) == (float(number) == float("inf"))
