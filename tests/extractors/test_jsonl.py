"""JSON lines: where blocks end, and one defined outcome for each fault of a row."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from math import isinf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import extractors
from pipeline.errors import UnreadableExport
from pipeline.extractors import line_blocks
from pipeline.extractors.jsonl_rows import JsonlRows
from pipeline.models import Block, BrokenRow, Part
from tests.support.parts import all_rows, located, part_of

GOOD = b'{"event":"a","n":1}'


def expected_blocks(content: bytes, size: int) -> list[tuple[int, int]]:
    """The rule itself: a line belongs to the block whose range contains its first byte."""
    begins: dict[int, int] = {}
    at = 0
    for line in content.splitlines(keepends=True):
        begins.setdefault(at // size, at)
        at += len(line)
    return [(start, end - start) for start, end in pairwise([*begins.values(), len(content)])]


def cut(part: Part, size: int) -> list[tuple[int, int]]:
    return [(block.offset, block.length) for block in extractors.blocks(part, block_bytes=size)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=40), st.integers(1, 200), st.booleans())
def test_blocks_have_the_lines_that_start_in_their_range(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], size: int, ended: bool
) -> None:
    """Boundaries are a function of the content: the same by seeking in a file and by streaming a gzip."""
    content = b"\n".join(b'{"x":"%s"}' % (b"y" * length) for length in lengths) + (b"\n" if ended else b"")
    folder = tmp_path_factory.mktemp("cut")
    expected = expected_blocks(content, size)
    assert cut(part_of(folder / "plain", content), size) == expected
    assert cut(part_of(folder / "packed", gzip.compress(content)), size) == expected


def test_blocks_are_numbered_without_gaps_and_name_their_part(tmp_path: Path) -> None:
    """A line longer than several blocks leaves no empty block after it; a plain block has no content."""
    part = part_of(tmp_path / "a", b'{"x":"%s"}\n{"x":1}\n' % (b"y" * 100))
    assert list(extractors.blocks(part, block_bytes=10)) == [Block(0, 0, 0, 109), Block(0, 1, 109, 8)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (GOOD + b"\n" + GOOD, [(0, {"event": '"a"', "n": "1"}), (20, {"event": '"a"', "n": "1"})]),
        (b"\xef\xbb\xbf" + GOOD + b"\n", [(3, {"event": '"a"', "n": "1"})]),
        ('{"event":"ä"}\r\n{"event":"b"}'.encode("utf-16"), [(0, {"event": '"ä"'}), (16, {"event": '"b"'})]),
    ],
)
def test_lines_are_read_in_every_form(tmp_path: Path, content: bytes, expected: list[Any]) -> None:
    """The last newline may be missing, a byte order mark belongs to no row, and UTF-16 is read like any other; half a
    character at its end means that the file is incomplete."""
    assert located(part_of(tmp_path / "a", content), block_bytes=4) == expected
    if content.startswith(b"\xff\xfe"):
        with pytest.raises(UnreadableExport, match="cut short"):
            located(part_of(tmp_path / "a", content[:-1]))


OUTCOMES: dict[str, tuple[bytes, str | None]] = {
    "not JSON": (b"oops", "bad_json"),
    "cut off": (b'{"event":"a"', "bad_json"),
    "NaN": (b'{"x":NaN}', "bad_json"),
    "Infinity": (b'{"x":-Infinity}', "bad_json"),
    "a list": (b"[1,2]", "bad_json"),
    "a number": (b"5", "bad_json"),
    "trailing comma": (b'{"a":1,}', "bad_json"),
    "NUL byte": (b'{"a":"\x00"}', "bad_json"),
    "invalid UTF-8": (b'{"a":"\xff"}', "bad_utf8"),
    "lone surrogate": (rb'{"a":"\ud800"}', "bad_value"),
    "1E400": (b'{"a":1E400}', "bad_value"),
    "310 digits and e99": (b'{"a":%se99}' % (b"1" * 310), "bad_value"),
    "400 digits": (b'{"a":%s}' % (b"1" * 400), "bad_value"),
    "5000 digits": (b'{"a":[-%s]}' % (b"1" * 5000), "bad_value"),
    "309 nines": (b'{"a":%s}' % (b"9" * 309), "bad_value"),
    "310 digits and e-99": (b'{"a":%se-99}' % (b"1" * 310), None),
    "0e400": (b'{"a":0e400}', None),
    "65 levels": (b'{"a":' * 65 + b"1" + b"}" * 65, "too_deep"),
    "20 levels": (b'{"a":' * 20 + b"1" + b"}" * 20, None),
    "NUL escape": (rb'{"a":"\u0000"}', None),
    "U+2028": ('{"a":"x\u2028y\x85z"}'.encode(), None),
    "carriage return": (b'{"a":1}\r', None),
    "duplicate key": (b'{"a":1,"a":2}', None),
    "large integer after a duplicate key": (b'{"a":1,"a":%b}' % (b"7" * 5_000), "bad_value"),
    "1 MB of text": (b'{"a":"%s"}' % (b"x" * 1_000_000), None),
    "large integer": (b'{"a":12345678901234567890123}', None),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_row_has_one_outcome_and_its_neighbours_are_read(tmp_path: Path, name: str) -> None:
    """A broken row is a reject with its code, offset and content; the rows next to it are untouched."""
    row, code = OUTCOMES[name]
    part = part_of(tmp_path / "a", GOOD + b"\n" + row + b"\n\n" + GOOD + b"\n")
    first, (offset, found), last = located(part)
    assert first == (0, {"event": '"a"', "n": "1"})
    assert last == (len(GOOD) + len(row) + 3, {"event": '"a"', "n": "1"})
    assert offset == len(GOOD) + 1
    if code:
        (rows,) = all_rows(part)
        assert (found, rows.text(1)) == (code, row.decode("utf-8", "backslashreplace"))
    else:
        assert list(found) == ["a"]
        assert name != "duplicate key" or found == {"a": "2"}


@pytest.mark.parametrize("observe", [False, True])
@settings(max_examples=50, deadline=None)
@given(
    whole=st.integers(1, 420),
    fraction=st.integers(0, 420),
    power=st.none() | st.integers(-450, 450),
    digit=st.sampled_from("019"),
    before=st.sampled_from([0, 1, 31, 32, 33, (1 << 18) - 300, (1 << 18) - 20, (1 << 19) - 30]),
)
def test_a_number_is_judged_by_its_value(
    observe: bool, whole: int, fraction: int, power: int | None, digit: str, before: int
) -> None:
    """However it is spelled and wherever it is, a number is refused exactly if a double cannot represent it."""
    number = digit * (whole if digit != "0" else 1) + (f".{digit * fraction}" if fraction else "")
    number += "" if power is None else f"e{power:+d}"
    data = b'{"p":"%s","a":%s}\n' % (b"y" * before, number.encode())
    for members in (False, True):
        (row,) = JsonlRows(data, observe=observe, members=members)
        assert (isinstance(row, BrokenRow) and row.code == "bad_value") == isinf(float(number))


UNUSUAL_NAMES = ['na\\"me', "\\u0000", "\\\\", "\\u001f", "\\n", "", "\\u00e9", "x" * 2000]


@pytest.mark.parametrize("name", UNUSUAL_NAMES)
@pytest.mark.parametrize("members", [False, True])
def test_a_row_of_two_members_may_have_any_name(name: str, members: bool) -> None:
    """A name with a quote, a backslash or a control character in the first row is an ordinary name."""
    row = f'{{"{name}":1,"properties":{{"time":1640995201,"x":1,"x":2}}}}'
    rows = JsonlRows(row.encode(), opens=("properties",), members=members)
    (record,) = rows
    assert not isinstance(record, BrokenRow)
    assert {**{one: record[one] for one in record}}.keys() == json.loads(row).keys()
    assert [code for _, code, _ in rows.warnings] == ["duplicate_key"]


def test_a_repeated_key_may_have_more_digits_than_python_reads() -> None:
    """Its row is rejected for the number, or has a warning, like any other."""
    rows = JsonlRows(b'{"a":1,"a":{"b":%b}}' % (b"7" * 4_400))
    assert len(list(rows)) == 1


LARGE = b"12345678901234567890"


@pytest.mark.parametrize("members", [False, True])
def test_only_rows_that_are_read_are_warned_of(members: bool) -> None:
    """A rejected row is not sent, so its integers cause no warning, wherever it is in the block."""
    good, bare, cut = b'{"a":%s}' % LARGE, LARGE, b'{"a":%s' % LARGE
    for block, expected in (([bare, good], [1]), ([good, bare, cut, good], [0, 3]), ([cut, b"", bare], [])):
        rows = JsonlRows(b"\n".join(block), members=members)
        list(rows)
        assert rows.warnings == [(row, "unsafe_integer", f"{LARGE.decode()} is beyond 2^53") for row in expected]


def test_a_line_that_never_ends_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond the limit is not collected in memory: the error has the file and the byte."""
    monkeypatch.setattr(line_blocks, "MAX_RECORD_BYTES", 10_000)
    for pack in (bytes, gzip.compress):
        part = part_of(tmp_path / "a", pack(GOOD + b"\n" + b'{"x":"' + b"y" * 20_000))
        with pytest.raises(UnreadableExport, match="at byte"):
            list(extractors.blocks(part, block_bytes=1000))
