"""Members whose strings stay where they were read equal Members of the same str, whatever is done to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pipeline.extractors.csv_rows import DelimitedRows
from pipeline.extractors.format import RowOptions
from pipeline.extractors.parquet_reader import ParquetRows, packed
from pipeline.models import Block, BrokenRow, Dialect, Part
from pipeline.native import AVAILABLE, native

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="backcast was installed without a compiler")

NAMES = ("a", "b", "$ip", "d")
TEXTS = st.one_of(
    st.sampled_from(
        ["", "0", "-1.50", "1e5", "null", "EMPTY", "é", '{"x":[1],"y":"ü"}', '{"x":1,"x":2}', "{", "false"]
    ),
    st.text(st.sampled_from('ab"\\\n\x00\x1f\x7fé\u2028\U0001f600,'), max_size=40),
)
ROWS = st.lists(TEXTS, min_size=4, max_size=4)


def of_values(texts: list[str]) -> Any:
    return native.Header(NAMES)(texts)


def of_delimited(texts: list[str]) -> Any:
    line = ",".join('"' + text.replace('"', '""') + '"' for text in texts).encode() + b"\n"
    (row,) = DelimitedRows(line, 0, Dialect(header=NAMES), RowOptions(blanks=True, members=True))
    return row


PART = Part(0, "a", "a", "", (), "parquet", Dialect(), 0, 0)


def of_table(texts: list[str]) -> Any:
    batch = pa.RecordBatch.from_arrays([pa.array([text]) for text in texts], names=list(NAMES))
    (row,) = ParquetRows(PART, Block(0, 0, 0, batch.num_rows), packed(batch), RowOptions(members=True))
    return row


def written(members: Any) -> object:
    text = bytearray(b"before,")
    write = native.Writer(frozenset(("reserved",)), b',"tail":1}', b',"beside":1}')
    return write(text, b'{"head":', "id", members, b"!", 10_000), bytes(text)


def blanks(members: Any) -> None:
    native.Blanks(frozenset(("0",)), frozenset(("EMPTY", "é", "")), frozenset())(members)


def renamed(members: Any) -> object:
    changes = (("a", "new"), ("b", "d"), ("$ip", None))
    warn: Callable[..., Any] = lambda old, new, value, _properties, warnings: (*warnings, (old, new, value))  # noqa: E731
    return native.Renames(changes, warn, frozenset(), lambda _properties, warnings: warnings)(members, ())


def _copied(members: Any, other: Any, left: str) -> object:
    """The result for columns, except for one, next to properties."""
    warn: Callable[..., Any] = lambda name, value, _properties, taken: (*taken, (name, value))  # noqa: E731
    new_name: Callable[[str], str | None] = lambda name: None if name == left else f"x_{name}"  # noqa: E731
    return native.Spread(new_name, None, warn, print, True)(members, other, ())


def left(members: Any) -> object:
    """`d` is dropped before another property takes its name, and the column `a` is left out."""
    changes = (("b", "d"),)
    warn: Callable[..., Any] = lambda old, new, value, _properties, warnings: (*warnings, (old, new, value))  # noqa: E731
    rename = native.Renames(changes, warn, frozenset(), lambda _, warnings: warnings, lambda name: name in ("d", "b"))
    other = native.Header(("z",))(["y"])
    copied = _copied(members, other, "a")
    return rename(members, ()), members.items(), copied, other.items()


def spread(members: Any) -> object:
    other = native.Header(("d", "z"))(["x", "y"])
    warn: Callable[..., Any] = lambda name, value, _properties, warnings: (*warnings, (name, value))  # noqa: E731
    found = native.Spread(lambda name: name, None, warn, lambda *_: None)(members, other, ())
    return found, other.items()


def columns(members: Any) -> object:
    other = native.Header(("x_a",))(["y"])
    return _copied(members, other, "b"), other.items()


OPERATIONS: list[Callable[[Any], object]] = [
    lambda members: [members.text(name) for name in NAMES],
    lambda members: [members.number(name) for name in NAMES],
    lambda members: [members.given(name) for name in NAMES],
    lambda members: [members.setdefault(name, "other") for name in (*NAMES, "new")],
    lambda members: [members[name] for name in NAMES] + members.values(),
    lambda members: members.twin().items(),
    lambda members: members.__setitem__("a", Raw(b"1")),
    lambda members: [native.Opener()(members.get(name)) is None for name in NAMES],
    written, blanks, renamed, left, spread, columns,
]  # fmt: skip


def spelled(value: Any) -> Any:
    """Values that can be compared: a Raw is equal only to itself."""
    if isinstance(value, Raw):
        return bytes(value)
    return type(value)(map(spelled, value)) if isinstance(value, list | tuple) else value


@settings(max_examples=200, deadline=None)
@given(ROWS, st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=3), st.sampled_from([of_delimited, of_table]))
@example(["", "é", '"', "\x01"], [written], of_table)
@example(["a", "EMPTY", "", "0"], [blanks, written], of_delimited)
@example(["1", "2", "", '12345678"\\'], [written], of_delimited)
def test_texts_equal_str(texts: list[str], operations: list[Any], made: Callable[[list[str]], Any]) -> None:
    """Reads, changes and writings give the same, and leave the same members."""
    cells, values = made(texts), of_values(texts)
    for operation in operations:
        assert spelled(_outcome(operation, cells)) == spelled(_outcome(operation, values))
        assert spelled(cells.items()) == spelled(values.items())


def _outcome(operation: Callable[[Any], object], members: Any) -> object:
    try:
        return operation(members)
    except KeyError as error:
        return str(error)


def test_a_block_with_a_string_that_is_not_utf8_has_that_row_broken() -> None:
    """One row of a block is rejected, and its other rows are Members."""
    text = pa.array([b"a", b"\xff", None]).cast(pa.binary()).view(pa.string())
    batch = pa.RecordBatch.from_arrays([text, pa.array([1, 2, 3])], names=["a", "b"])
    found = list(ParquetRows(PART, Block(0, 0, 0, batch.num_rows), packed(batch), RowOptions(members=True)))
    assert isinstance(found[1], BrokenRow)
    assert [spelled(found[at].items()) for at in (0, 2)] == [[("a", "a"), ("b", 1)], [("b", 3)]]


@pytest.mark.parametrize("filling", ["x", '"', "é"])
@pytest.mark.parametrize("length", [*range(36), 300])
def test_a_string_is_escaped_wherever_it_has_to_be(length: int, filling: str) -> None:
    """Each character that JSON may escape, at each place of strings of all lengths that are copied differently, is
    written as msgspec writes it, and neither what precedes the event nor its end moves."""
    for place in range(min(length, 36)):
        for odd in '"\\\x00\x08\n\x1f \x7fé':
            text = filling * place + odd + filling * (length - place - 1)
            expected = b'before,{"head":"id","a":%b,"tail":1}!' % msgspec.json.encode(text)
            assert written(of_values([text, "", "x", ""])) == written(of_delimited([text, "", "x", ""]))
            row = native.Header(("a",))([text])
            assert written(row) == (True, expected)


@pytest.mark.parametrize("most", range(24, 34))
def test_an_event_is_measured_with_its_escapes(most: int) -> None:
    """An event that has `most` bytes only because of them is left to Python, and nothing of it remains."""
    write, text = native.Writer(frozenset(), b"}", b"}"), bytearray(b"before,")
    done = write(text, b'{"h":', "id", native.Header(("a",))(['x""""y']), b"!", most)
    expected = b'before,{"h":"id","a":"x\\"\\"\\"\\"y"}'
    assert (done, bytes(text)) == ((True, expected + b"!") if len(expected) - 7 < most else (False, b"before,"))


def test_the_callback_for_left_out_names_may_fail() -> None:
    """The error is raised, and the next call asks again."""
    asked: list[str] = []

    def leaves(name: str) -> bool:
        asked.append(name)
        if len(asked) == 1:
            raise KeyError(name)
        return name == "a"

    rename = native.Renames((), lambda *_: (), frozenset(), lambda _, warnings: warnings, leaves)
    members = of_values(["1", "2", "3", "4"])
    with pytest.raises(KeyError):
        rename(members, ())
    assert len(members) == 4
    assert rename(members, ()) == ()
    assert [name for name, _ in members.items()] == ["b", "$ip", "d"]
    asked.clear()
    columns = native.Spread(lambda name: None if leaves(name) else f"x_{name}", None, print, print)
    other = native.Header(("z",))(["y"])
    with pytest.raises(KeyError):
        columns(of_values(["1", "2", "3", "4"]), other, ())
    assert columns(of_values(["1", "2", "3", "4"]), other, ()) == ()
    assert [name for name, _ in other.items()] == ["z", "x_b", "x_$ip", "x_d"]
