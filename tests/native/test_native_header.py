"""Members of values that Python read, and rows of a table in a layout: the same as from dicts, to the byte."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pipeline import values
from pipeline.encoder.event import Encoder
from pipeline.mapper import verbs  # noqa: F401  (declares the decoders)
from pipeline.mapper.program.blanks import BlankRemover
from pipeline.mapper.program.functions import decode_row, layout_of
from pipeline.mapper.program.operations import Decode
from pipeline.models import Layout, SealedOptions
from pipeline.native import AVAILABLE, native

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="backcast was installed without a compiler")

TEXTS = st.text(max_size=12) | st.text('"\\/\x00\x07\x08\x09\x0a\x0c\x0d\x1f\x7f\u00e9\u2028\U0001f600', max_size=12)
SCALARS = TEXTS | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
NESTED = st.sampled_from([Raw(b"null"), Raw(b"1.10"), Raw(b'"a\\u00e9"'), Raw(b'{"a":[1]}'), Raw(b'""'), Raw(b'"-"')])
ROWS = st.dictionaries(
    st.sampled_from(["a", "$ip", "distinct_id", "$groups", "b b", "\u00e9"]), SCALARS | NESTED | st.none()
)
OPTIONS = SealedOptions(as_of=1_800_000_000_000_000)


def of(row: dict[str, Any]) -> Any:
    return native.Header(tuple(row))(list(row.values()))


def without_none(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


@settings(max_examples=150, deadline=None)
@given(ROWS)
@example({"$ip": ""})
@example({"$ip": 0.0})
@example({"$ip": "", "a": 1.5})
@example({"a": "\ud800"})
def test_an_event_is_written_as_from_a_dict(row: dict[str, Any]) -> None:
    encoder = Encoder("generic", OPTIONS)
    texts: list[Any] = []
    for write, properties in ((encoder.write_usual, without_none(row)), (encoder.write_members, of(row))):
        text = bytearray(b"before")
        try:
            texts.append((write(text, b"head", "u1", properties, b"ending", 10_000), bytes(text)))  # type: ignore[operator]
        except UnicodeEncodeError:
            texts.append((False, b"before"))
    left_to_python = isinstance(row.get("$ip"), int | float)
    assert texts[1] == ((False, b"before") if left_to_python else texts[0])


@settings(max_examples=80, deadline=None)
@given(ROWS)
def test_its_members_are_those_of_the_dict(row: dict[str, Any]) -> None:
    """Also for a dict, whose names are not known before, and for a row after it with others."""
    plain = without_none(row)
    header = native.Header()
    header({"z": 1})
    for members in (of(row), header(row), header(row)):
        assert members.as_dict() == plain
        assert [members.text(name) for name in row] == [values.text(row[name]) for name in row]
        assert [members.given(name) for name in row] == [None if values.is_absent(one) else one for one in row.values()]


def test_blank_cells_and_lines_that_are_not_rows() -> None:
    assert native.Header(("a", "b"))(("", None)).as_dict() == {"a": ""}
    row = {"a": "", "b": "-", "c": "\u00e9", "d": None, "e": 0, "f": {"x": "-"}, "kept": "-"}
    (members,) = native.Lines(json.dumps(row).encode(), ("f",), False)
    assert not isinstance(members, (bytes, tuple))
    native.Blanks(frozenset({"-", "\u00e9", "0"}), frozenset(), frozenset(), "kept")(members)
    assert list(members) == ["a", "d", "f", "kept"]
    header = native.Header(("a", "b"))
    for wrong in (["x"], ["x"] * 3):
        with pytest.raises(ValueError, match="2 values"):
            header(wrong)
    for wrong in ({"a": 1}, "ab", None):
        with pytest.raises(TypeError):
            header(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        native.Header()(["x"])
    with pytest.raises(TypeError):
        native.Header()({1: "x"})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="twice"):
        native.Header(("a", "a"))
    with pytest.raises(TypeError):
        native.Header(("a",))([next(iter(native.Lines(b"{}", (), False)))])


def test_names_beyond_the_limit() -> None:
    """Such rows stay dicts, so that ever new names do not fill the memory; a name that is not a string is still
    refused."""
    program = """
from pipeline.native import native
header = native.Header()
for n in range(1 << 14):
    header({f"name {n}": "x"})
row = {"a new name": "x"}
assert header(row) is row
assert header({"name 1": "x"}).as_dict() == {"name 1": "x"}
try:
    header({1: "x"})
except TypeError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"


@settings(max_examples=150, deadline=None)
@given(
    ROWS,
    st.sets(st.sampled_from(["", "-", "null", "0", "1.10", "\u00e9", "a\u00e9", "x" * 70, "{}", "true"])),
    st.sets(st.sampled_from(["", "-", "null", "0", "true", "\u00e9", "\x07", "x" * 70])),
    st.booleans(),
)
@example({"a": "x" * 70, "b b": Raw(b'"' + b"x" * 70 + b'"')}, {"x" * 70}, {"x" * 70}, False)
@example({"a": Raw(b'"\\u002d"'), "b b": Raw(b'"\\ud800"'), "\u00e9": Raw(b'"')}, {"-"}, set(), False)
def test_blanks(row: dict[str, Any], json_texts: set[str], cells: set[str], some: bool) -> None:
    names = ("a", "\u00e9") if some else ()
    plain, members = without_none(row), of(row)
    BlankRemover(json_texts, cells, names)(plain)
    native.Blanks(frozenset(json_texts), frozenset(cells), frozenset(names))(members)
    assert members.as_dict() == plain


COLUMNS = [
    "a", "A", "_a", "p.a", "p.b", "p.", "q.a", "q.a.b", "p_a", "x_a", "x_p_a", "x.a", "mp_reserved_a", "_sdc_a", "1",
    'é"', "p", "columns", "_airbyte_data",
]  # fmt: skip
CELLS = st.sampled_from(["", "", "1", "{}", 'a"\\\n\x00', "é\u2028\U0001f600"])
DECODES = [
    Decode("nested", (("p", "q"),)),
    Decode("loaded_row", ("columns", (), (), ())),
    Decode("loaded_row", ("columns", ("a",), (), ("x_", "p_"))),
    Decode("loaded_row", ("columns", ("1", "A"), ("$a", "p_a"), ())),
    Decode("lifted", (("p",), "")),
    Decode("with_lower_names", (("A",),)),
]


def spelled(row: Any) -> list[tuple[str, Any]]:
    return [
        (name, bytes(value) if type(value) is Raw else spelled(value) if type(value) is dict else value)
        for name, value in row.items()
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(DECODES),
    st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=8, unique=True),
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
    assert layout_of(Decode("nested", (tuple(map(str, range(17))),)), ("a",)) is None


def test_lines_that_do_not_fit_a_layout() -> None:
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
