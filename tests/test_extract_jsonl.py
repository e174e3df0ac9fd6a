"""JSON lines: where blocks end, and one defined outcome for each thing a row can suffer."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pipeline import extract
from pipeline.errors import UnreadableExport
from pipeline.extract import lines
from pipeline.schema import Block, BrokenRow, Part

GOOD = b'{"event":"a","n":1}'


def part_of(path: Path, content: bytes) -> Part:
    path.write_bytes(content)
    (part,) = extract.open_source([str(path)]).parts
    return part


def read(part: Part, size: int = 1 << 22) -> list[Any]:
    """Each row as (offset, code or members as text)."""
    found: list[Any] = []
    for block in extract.blocks(part, block_bytes=size):
        rows = extract.rows(part, block)
        for number, row in enumerate(rows):
            if isinstance(row, BrokenRow):
                found.append((rows.offset(number), row.code, rows.text(number)))
            else:
                members = {
                    key: bytes(value).decode() if isinstance(value, Raw) else value for key, value in row.items()
                }
                found.append((rows.offset(number), members))
    return found


def starts(content: bytes) -> list[int]:
    """Where each line begins, the plain way."""
    found, at = [], 0
    for line in content.split(b"\n"):
        if at < len(content):
            found.append(at)
        at += len(line) + 1
    return found


def expected_blocks(content: bytes, size: int) -> list[tuple[int, int]]:
    """The rule itself: a line belongs to the block of the range that its first byte lies in."""
    begins: dict[int, int] = {}
    for start in starts(content):
        begins.setdefault(start // size, start)
    edges = [*begins.values(), len(content)]
    return [(start, end - start) for start, end in pairwise(edges)]


def cut(part: Part, size: int) -> list[tuple[int, int]]:
    return [(block.offset, block.length) for block in extract.blocks(part, block_bytes=size)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=40), st.integers(1, 200), st.booleans())
def test_blocks_hold_the_lines_that_start_in_their_range(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], size: int, ended: bool
) -> None:
    """Boundaries are a function of the content: the same by seeking in a file and by streaming a gzip."""
    content = b"\n".join(b'{"x":"%s"}' % (b"y" * length) for length in lengths) + (b"\n" if ended else b"")
    folder = tmp_path_factory.mktemp("cut")
    plain = part_of(folder / "plain", content)
    packed = part_of(folder / "packed", gzip.compress(content))
    assert cut(plain, size) == expected_blocks(content, size)
    assert cut(packed, size) == expected_blocks(content, size)


def test_block_numbers_have_no_gaps(tmp_path: Path) -> None:
    """A line longer than several blocks leaves no empty block behind it."""
    part = part_of(tmp_path / "a", b'{"x":"%s"}\n{"x":1}\n' % (b"y" * 100))
    assert [block.index for block in extract.blocks(part, block_bytes=10)] == [0, 1]


def test_a_last_line_without_a_newline_is_a_row(tmp_path: Path) -> None:
    """The last newline may be missing."""
    assert read(part_of(tmp_path / "a", GOOD + b"\n" + GOOD)) == [
        (0, {"event": '"a"', "n": "1"}),
        (20, {"event": '"a"', "n": "1"}),
    ]


def test_a_byte_order_mark_belongs_to_no_row(tmp_path: Path) -> None:
    """The first row begins after the mark."""
    part = part_of(tmp_path / "a", b"\xef\xbb\xbf" + GOOD + b"\n")
    assert part.dialect.bom
    assert read(part) == [(3, {"event": '"a"', "n": "1"})]


def test_utf16_lines_are_read(tmp_path: Path) -> None:
    """Lines in UTF-16 are read like any others."""
    part = part_of(tmp_path / "a", '{"event":"ä"}\r\n{"event":"b"}\r\n'.encode("utf-16"))
    assert [row for _, row in read(part, 4)] == [{"event": '"ä"'}, {"event": '"b"'}]


def test_a_cut_utf16_file_is_told(tmp_path: Path) -> None:
    """Half a character at the end means that the file is not whole."""
    part = part_of(tmp_path / "a", '{"event":"a"}\n'.encode("utf-16")[:-1])
    with pytest.raises(UnreadableExport, match="cut short"):
        list(extract.blocks(part))


OUTCOMES: dict[str, tuple[bytes, str | None]] = {
    "not JSON": (b"oops", "bad_json"),
    "cut off": (b'{"event":"a"', "bad_json"),
    "NaN": (b'{"x":NaN}', "bad_json"),
    "Infinity": (b'{"x":-Infinity}', "bad_json"),
    "a list": (b"[1,2]", "bad_json"),
    "a number": (b"5", "bad_json"),
    "trailing comma": (b'{"a":1,}', "bad_json"),
    "two objects": (b'{"a":1}{"b":2}', "bad_json"),
    "NUL byte": (b'{"a":"\x00"}', "bad_json"),
    "invalid UTF-8": (b'{"a":"\xff"}', "bad_utf8"),
    "lone surrogate": (rb'{"a":"\ud800"}', "bad_value"),
    "1E400": (b'{"a":1E400}', "bad_value"),
    "65 levels": (b'{"a":' * 65 + b"1" + b"}" * 65, "too_deep"),
    "20 levels": (b'{"a":' * 20 + b"1" + b"}" * 20, None),
    "NUL escape": (rb'{"a":"\u0000"}', None),
    "U+2028": ('{"a":"x\u2028y\x85z"}'.encode(), None),
    "carriage return": (b'{"a":1}\r', None),
    "duplicate key": (b'{"a":1,"a":2}', None),
    "1 MB of text": (b'{"a":"%s"}' % (b"x" * 1_000_000), None),
    "large integer": (b'{"a":12345678901234567890123}', None),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_row_has_one_outcome_and_its_neighbours_are_read(tmp_path: Path, name: str) -> None:
    """A broken row is a reject with its code, offset and text; the rows beside it are untouched."""
    row, code = OUTCOMES[name]
    part = part_of(tmp_path / "a", GOOD + b"\n" + row + b"\n\n" + GOOD + b"\n")
    first, middle, last = read(part)
    assert first == (0, {"event": '"a"', "n": "1"})
    assert last == (len(GOOD) + len(row) + 3, {"event": '"a"', "n": "1"})
    assert middle[0] == len(GOOD) + 1
    if code:
        assert middle[1:] == (code, row.decode("utf-8", "backslashreplace"))
    else:
        assert list(middle[1]) == ["a"]


def test_a_duplicate_key_is_warned_of(tmp_path: Path) -> None:
    """The last value wins, and that is told when observing."""
    part = part_of(tmp_path / "a", b'{"a":1,"a":2}\n')
    (block,) = extract.blocks(part)
    rows = extract.rows(part, block)
    assert [dict(row) for row in rows if not isinstance(row, BrokenRow)] == [{"a": Raw(b"2")}]
    assert [(row, code) for row, code, _ in rows.warnings] == [(0, "duplicate_key")]


def test_a_line_that_never_ends_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond the limit is not gathered in memory: the file is named with the byte."""
    monkeypatch.setattr(lines, "MAX_RECORD_BYTES", 10_000)
    for pack in (bytes, gzip.compress):
        part = part_of(tmp_path / "a", pack(GOOD + b"\n" + b'{"x":"' + b"y" * 20_000))
        with pytest.raises(UnreadableExport, match="at byte"):
            list(extract.blocks(part, block_bytes=1000))


def test_a_block_carries_its_part(tmp_path: Path) -> None:
    """A block names its part by index, and a plain one has no content."""
    part = part_of(tmp_path / "a", GOOD + b"\n")
    assert list(extract.blocks(part)) == [Block(part=0, index=0, offset=0, length=20)]
