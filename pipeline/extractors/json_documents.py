"""JSON documents as rows: a list with or without its brackets, objects one after another over several lines, or pages
with a list of rows.

Each row becomes one line without white space between its tokens, and is read like JSON lines; its offset is that of its
first byte in the part. A part may have several documents. Whatever is between rows has to be JSON: anything else is an
error that names the byte, because rows after it could be lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from typing import NamedTuple

import msgspec

from pipeline.errors import UnreadableExport
from pipeline.extractors.containers import FETCH_AGAIN
from pipeline.extractors.json_texts import after_white, compact, end_of_item, end_of_name, end_of_value
from pipeline.extractors.jsonl_rows import JsonlRows, settings_of
from pipeline.extractors.line_blocks import BOM
from pipeline.extractors.rows import RowOptions
from pipeline.extractors.stream import MAX_RECORD_BYTES, opened, too_long
from pipeline.models import Block, Part

_PIECE = 1 << 20
_OBJECTS = re.compile(r"\[[ \t\r\n]*\{")
_NAME = re.compile(r'"(?:[^"\\]|\\.)*+"[ \t\r\n]*', re.DOTALL)
_EMPTY = re.compile(r"\[[ \t\r\n]*\]")


class Member(NamedTuple):
    """A member of a page, as far as a sample shows it: its name, its length, and whether it is a list of objects."""

    name: str
    length: int
    of_objects: bool


class _Run(msgspec.Struct, frozen=True, array_like=True):
    """The content of a `Block`: where each row begins, and the rows as lines."""

    starts: list[int]
    lines: bytes


class DocumentRows(JsonlRows):
    """The rows of one block."""

    def __init__(self, part: Part, block: Block, content: bytes, options: RowOptions) -> None:
        run = msgspec.msgpack.decode(content, type=_Run)
        super().__init__(run.lines, joined=False, **settings_of(part, options))
        self._origins = run.starts

    def offset(self, row: int) -> int:
        return self._origins[row]


def blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    """A block ends with the first row that ends at or after each `block_bytes` decompressed bytes.

    Raises UnreadableExport for a truncated or damaged container or document, also halfway.
    """
    starts: list[int] = []
    lines: list[bytes] = []
    index = end = 0
    with opened(part) as stream:
        for start, end, row in _Reader(part, stream, min(block_bytes, _PIECE)).rows():
            starts.append(start)
            lines.append(row)
            if end >= starts[0] - starts[0] % block_bytes + block_bytes:
                yield block_of(part, index, starts, lines, end)
                index, starts, lines = index + 1, [], []
    if starts:
        yield block_of(part, index, starts, lines, end)


def block_of(part: Part, index: int, starts: list[int], lines: list[bytes], end: int) -> Block:
    """A block of rows as lines. Each begins at one of `starts` in the part; the last one ends at `end`."""
    run = _Run(starts, b"\n".join(lines) + b"\n")
    return Block(part.index, index, starts[0], end - starts[0], msgspec.msgpack.encode(run))


Row = tuple[int, int, bytes]
"""A row: its first byte, the byte after its last, its text on one line."""


class _Reader:
    """Reads the documents of a part. `_text` has the bytes from `_start` onwards that are read and still needed; `_at`
    is the next one.

    If an item is longer than what was read, twice as much is read next, so a long one is searched only a few times.
    """

    def __init__(self, part: Part, stream: BufferedReader, size: int) -> None:
        self._part = part
        self._stream = stream
        self._size = size
        self._text, self._start, self._at = "", 0, 0
        wanted = part.dialect.rows or ("",)
        self._wanted, self._dropped = wanted[0], wanted[1:]
        self._opened = 0
        """Where the current document begins."""

    def rows(self) -> Iterator[Row]:
        """The rows of all documents, one after another, after a byte order mark."""
        if self._stream.peek(len(BOM))[: len(BOM)] == BOM:
            self._start = len(self._stream.read(len(BOM)))
        comma_follows = False  # after an item of a list whose brackets were cut off
        while char := self._next():
            self._opened = self._start + self._at
            if char == "," and comma_follows:
                comma_follows = False
                self._at += 1
            elif char == "[":
                yield from self._list(1)
            elif char == "{" and self._wanted:
                yield from self._page()
            elif char == "{":
                end = self._end(end_of_value)
                yield self._opened, self._start + end, compact(self._text[self._at : end])
                self._at = end
                comma_follows = True
            else:
                raise self._unreadable(self._at, "is neither an object nor a list")

    def _list(self, levels: int) -> Iterator[Row]:
        """The items of a document's list (1), or of a page's list in it (2)."""
        self._at += 1
        count = 0
        while True:
            self._require()
            end = self._end(end_of_item)
            start, at = self._start + self._at, self._at
            closes = self._text[end] != ","
            self._at = end + 1
            row = compact(self._text[at:end].rstrip(" \t\r\n"))
            if row.strip():  # a form feed alone would be a blank line, which is not a row
                count += 1
                yield start, self._start + end + (closes and levels == 1), row
            elif count or not closes:
                raise self._unreadable(end, "a list lacks an item before this byte")
            if closes:
                return

    def _page(self) -> Iterator[Row]:
        """The items of the list `_wanted` of a page."""
        found = False
        closes = False
        self._at += 1
        while not closes:
            self._require()
            colon = self._end(end_of_name)
            written = self._text[self._at : colon]
            if self._text[colon] != ":":
                if written:
                    raise self._unreadable(self._at, "there is a name without a value")
                self._at = colon + 1
                break
            if _NAME.fullmatch(written) is None:
                raise self._unreadable(self._at, "there is no name of a member")
            name = _name(written)
            self._at = colon + 1
            is_read = self._require() == "[" and name == self._wanted
            if is_read:
                found = True
                yield from self._list(2)
                self._require()
            end = self._end(end_of_item)
            after = self._at if is_read else end_of_value(self._text, self._at) or end
            if (after := after_white(self._text, after)) < end:
                raise self._unreadable(after, f"something follows the value of {name!r}")
            value = self._text[self._at : end].strip()
            if name == self._wanted and not found:
                if value != "null":
                    raise self._unreadable(self._at, f"the member {name!r} is not a list")
                found = True
            elif name not in (self._wanted, *self._dropped) and (objects := _OBJECTS.match(value)):
                what = f"a page has a second list of objects, {name!r}, which its beginning does not show"
                raise self._unreadable(self._at + objects.end() - 1, what)
            closes = self._text[end] != ","
            self._at = end + 1
        if not found:
            error = self._unreadable(self._opened - self._start, f"an object begins that has no list {self._wanted!r}")
            if self._dropped:
                error.hint = f"its lists are {', '.join(self._dropped)}: name one with --set rows={self._dropped[0]}"
            raise error

    def _end(self, find: Callable[[str, int], int | None]) -> int:
        """Where the next value or name ends."""
        while (end := find(self._text, self._at)) is None:
            self._read_more()
        if end - self._at > MAX_RECORD_BYTES:
            raise too_long(self._part, self._start + self._at)
        return end

    def _require(self) -> str:
        """The next character inside a document that is not white space."""
        while not (char := self._next()):
            self._read_more()
        return char

    def _next(self) -> str:
        """The next character that is not white space, "" at the end of the part."""
        while (at := after_white(self._text, self._at)) == len(self._text):
            self._at = at
            if not self._read():
                return ""
        self._at = at
        return self._text[at]

    def _read(self) -> bool:
        """Read more; False at the end of the part."""
        kept = self._text[self._at :]
        if len(kept) > MAX_RECORD_BYTES:
            raise too_long(self._part, self._start + self._at)
        piece = self._stream.read(max(self._size, len(kept)))
        self._start += self._at
        self._text, self._at = kept + piece.decode("latin-1"), 0
        return bool(piece)

    def _read_more(self) -> None:
        if not self._read():
            raise UnreadableExport(
                f"{self._part.path} is cut short: it ends inside the document that begins at byte {self._opened:,}",
                path=self._part.path,
                hint=FETCH_AGAIN,
            )

    def _unreadable(self, at: int, what: str) -> UnreadableExport:
        """The error for what stands at this position of the text."""
        return UnreadableExport(
            f"{self._part.path} cannot be read as JSON: at byte {self._start + at:,} {what}",
            path=self._part.path,
            hint=f"correct the file at that byte, or {FETCH_AGAIN}",
        )


def _name(text: str) -> str:
    stored = text.strip().encode("latin-1")
    try:
        return str(json.loads(stored))
    except ValueError:
        return stored.decode("utf-8", "backslashreplace")


def page_members(sample: bytes, usual: Sequence[str]) -> list[Member]:
    """The members of the first object in a sample; none if the sample begins with something else.

    A member that the sample cuts off has the length that the sample shows. An empty list with a `usual` name counts as
    a list of objects.
    """
    text = sample.decode("latin-1")
    at = after_white(text)
    members: list[Member] = []
    if text[at : at + 1] != "{":
        return []
    while (colon := end_of_name(text, at + 1)) is not None and text[colon] == ":":
        name = _name(text[at + 1 : colon])
        begin = after_white(text, colon + 1)
        end = end_of_item(text, begin)
        value = text[begin:end].strip()
        empty = end is not None and name in usual and _EMPTY.fullmatch(value) is not None
        if value or end is None:
            members.append(Member(name, len(compact(value)), empty or _OBJECTS.match(value) is not None))
        if end is None or text[end] != ",":
            break
        at = end
    return members
