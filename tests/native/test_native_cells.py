"""Rows of a table in a decoder's layout are what it makes of each row by itself, whichever cells are blank."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pipeline.mapper.program.functions import decode_row, layout_of
from pipeline.mapper.program.operations import Decode
from pipeline.models import Layout
from pipeline.native import AVAILABLE, native

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="backcast was installed without a compiler")

NAMES = [
    "a", "A", "_a", "p.a", "p.b", "p.", "q.a", "q.a.b", "p_a", "x_a", "x_p_a", "x.a", "mp_reserved_a", "_sdc_a", "1",
    'é"', "p", "columns", "_airbyte_data",
]  # fmt: skip
CELLS = st.sampled_from(["", "", "1", "{}", 'a"\\\n\x00', "é\u2028\U0001f600"])
DECODES = [
    Decode("nested", ("p", "q")),
    Decode("loaded_row", ("columns", "0", "0")),
    Decode("loaded_row", ("columns", "1", "2", "a", "x_", "p_")),
    Decode("loaded_row", ("columns", "2", "0", "1", "A", "$a", "p_a")),
    Decode("lifted", ("", "p")),
    Decode("with_lower_names", ("A",)),
]


def spelled(row: Any) -> list[tuple[str, Any]]:
    return [
        (name, bytes(value) if type(value) is Raw else spelled(value) if type(value) is dict else value)
        for name, value in row.items()
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(DECODES),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True),
    st.lists(st.lists(CELLS, min_size=8, max_size=8), min_size=1, max_size=4),
    st.booleans(),
)
@example(DECODES[0], ["a", "q.a", "p.a"], [["x", "", "y"], ["", "z", "y"], ["", "", ""]], False)
@example(DECODES[1], ["A", "A.B"], [["x", "y"]], False)
@example(DECODES[1], ["A", "p_a"], [["x", ""], ["x", "y"]], False)
@example(DECODES[2], ["x_a", "p_1", "a"], [["x", "y", "z"], ["x", "", ""]], False)
@example(DECODES[3], ["p.a", "mp_reserved_a", "1"], [["x", "y", "z"]], True)
@example(DECODES[1], ["_sdc_a"], [["x"]], True)
def test_a_layout_is_what_the_decoder_makes(
    decode: Decode, names: list[str], rows: list[list[str]], blanks: bool
) -> None:
    layout = layout_of(decode, tuple(names))
    if layout is None:
        return
    places = layout.places or tuple((number, -1, name) for number, name in enumerate(names))
    lay_out = native.Cells(len(names), places, layout.objects, blanks, layout.always)
    for row in rows:
        cells = row[: len(names)]
        record: dict[str, Any] = {name: cell for name, cell in zip(names, cells, strict=True) if cell or blanks}
        (decoded,) = decode_row(decode, record)
        assert spelled(lay_out(cells)) == spelled(decoded)


def test_ordinary_tables_have_a_layout() -> None:
    assert layout_of(DECODES[0], ("ts", "p.a", "q.a")) == Layout(((0, -1, "ts"), (1, 0, "a"), (2, 1, "a")), ("p", "q"))
    assert layout_of(DECODES[2], ("x_b", "a", "b_c")) == Layout(
        ((1, -1, "a"), (0, 0, "b"), (2, 0, "b_c")), ("columns",), always=True
    )
    assert layout_of(DECODES[4], ("a",)) == Layout()
    assert layout_of(DECODES[4], ("p",)) is None
    assert layout_of(Decode("nested", tuple(map(str, range(17)))), ("a",)) is None


def test_what_is_no_row() -> None:
    lay_out = native.Cells(2, ((0, -1, "a"), (1, 0, "b")), ("p",))
    for wrong in (["x"], ["x"] * 3):
        with pytest.raises(ValueError, match="2 cells"):
            lay_out(wrong)
    for odd in (("x", "y"), [1, "x"], ["x", None], None):
        with pytest.raises(TypeError):
            lay_out(odd)  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        native.Cells(1, ((0, 0, "a"),))(["\udcff"])
    for place in ((2, 0, "a"), (-1, 0, "a"), (0, 1, "a"), (0, -2, "a")):
        with pytest.raises(ValueError, match="no such column"):
            native.Cells(2, (place,), ("p",))
    with pytest.raises(ValueError, match="16 objects"):
        native.Cells(2, (), tuple(map(str, range(17))))
    with pytest.raises(TypeError):
        native.Cells(2, (0,))  # type: ignore[arg-type]
