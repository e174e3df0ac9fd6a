"""JSON documents as rows: a list with or without its brackets, objects one after another over several lines, or pages
with a list of rows.

Each row becomes one line without white space between its tokens, and is read as JSON lines are; its offset is that of
its first byte in the part. A part may have several documents one after another. What is between rows has to be JSON:
anything else is an error that names the byte, because rows beyond it could be lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pipeline.errors import UnreadableExport
from pipeline.extractors.containers import FETCH_AGAIN
from pipeline.extractors.json_scanner import ScannedText, Scanner, Token, ends_well
from pipeline.extractors.jsonl_rows import JsonlRows
from pipeline.extractors.line_blocks import BOM
from pipeline.extractors.stream import MAX_RECORD_BYTES, opened, too_long
from pipeline.models import Block, Part

_PIECE = 1 << 20


class Member(NamedTuple):
    """A member of a page, as far as a sample shows it: its name, its length, and whether it is a list of objects."""

    name: str
    length: int
    of_objects: bool


class _Run(msgspec.Struct, frozen=True, array_like=True):
    """The content of a `Block`: where each row begins (64-bit little-endian), and the rows as lines."""

    starts: bytes
    lines: bytes


class DocumentRows(JsonlRows):
    """The rows of one block. `options` are those of `JsonlRows`."""

    def __init__(self, data: bytes, **options: Any) -> None:
        run = msgspec.msgpack.decode(data, type=_Run)
        super().__init__(run.lines, joined=False, **options)
        self._origins = np.frombuffer(run.starts, "<i8")

    def offset(self, row: int) -> int:
        return int(self._origins[row])


def blocks(part: Part, size: int) -> Iterator[Block]:
    """A block ends with the first row that ends at or after each `size` decompressed bytes.

    Raises UnreadableExport for a truncated or damaged container or document, also halfway.
    """
    starts: list[int] = []
    lines: list[bytes] = []
    index = 0
    end = 0
    for start, end, row in _rows(part, min(size, _PIECE)):
        starts.append(start)
        lines.append(row)
        if end >= starts[0] - starts[0] % size + size:
            yield block_of(part, index, starts, lines, end)
            index, starts, lines = index + 1, [], []
    if starts:
        yield block_of(part, index, starts, lines, end)


def block_of(part: Part, index: int, starts: list[int], lines: list[bytes], end: int) -> Block:
    """A block of rows as lines. Each begins at one of `starts` in the part, and the last one ends at `end`."""
    run = _Run(np.array(starts, "<i8").tobytes(), b"\n".join(lines) + b"\n")
    return Block(part.index, index, starts[0], end - starts[0], msgspec.msgpack.encode(run))


def _pieces(part: Part, size: int, most_levels: int) -> Iterator[ScannedText]:
    with opened(part) as stream:
        start = len(BOM) if stream.peek(len(BOM))[: len(BOM)] == BOM else 0
        stream.read(start)
        scanner = Scanner(start, most_levels)
        while data := bytearray(stream.read(size)):
            while not ends_well(data) and (more := stream.read(1)):
                data += more
            yield scanner.scan(bytes(data))


def _rows(part: Part, size: int) -> Iterator[tuple[int, int, bytes]]:
    """(its first byte, the byte after its last, its text) of each row."""
    rows = part.dialect.rows or ()
    reader = _Reader(part, rows[0] if rows else "", rows[1:])
    for piece in _pieces(part, size, 2 if rows else 1):
        yield from reader.rows(piece)
        if reader.length > MAX_RECORD_BYTES:
            raise too_long(part, reader.start)
    reader.finish()


class _Reader:
    """Follows the tokens of a part, and returns the text between those that surround a row.

    `_begin` is where the present text begins in the compact piece; `_before` are the pieces of it that came before.
    """

    def __init__(self, part: Part, wanted: str, dropped: Sequence[str]) -> None:
        self._part = part
        self._wanted = wanted
        self._dropped = dropped
        self._before: list[bytes] = []
        self._begin = 0
        self._inside = ""
        """What the present text is of: "" between documents, row, list, page (a member's name), value (of a member)."""
        self._name = ""
        self._found = False
        self._items = 0
        self.start = 0
        self.length = 0

    def rows(self, piece: ScannedText) -> Iterator[tuple[int, int, bytes]]:
        self._begin = 0
        for token in piece.tokens:
            if (row := self._step(piece, token)) is not None:
                yield self._first, token.at + (self._inside == ""), row
        rest = piece.compact[self._begin :]
        if rest and not self.length:
            self.start = piece.origin(self._begin)
        self._before.append(rest)
        self.length += len(rest)

    _first = 0
    """The first byte of the row that `_step` returned last."""

    def _step(self, piece: ScannedText, token: Token) -> bytes | None:
        """Takes one token; the text of the row that it ends, if it ends one."""
        inside, char, level = self._inside, token.char, token.level
        if inside == "row":
            if level > 0:
                return None
            self._comma_follows = True
            return self._take(piece, token, closing=True, then="")
        if inside == "list":
            return self._list(piece, token)
        if inside == "page":
            if level == 1 and char == b":":
                self._name = _name(self._take(piece, token, closing=False, then="value"))
            elif level == 0:
                if self._take(piece, token, closing=False, then=""):
                    raise self._unreadable(self._first, "there is a name without a value")
                self._end_page(token)
            return None
        if inside == "value":
            return self._value(piece, token)
        before = self._take(piece, token, closing=False, then=inside)
        if not before and char == b"," and self._comma_follows:
            self._comma_follows = False
            return None
        if before or char not in (b"{", b"["):
            raise self._unreadable(self._first, "there is something that is neither an object nor a list")
        self._items = 0
        self._found = False
        if char == b"{" and not self._wanted:
            self._inside, self._begin = "row", token.compact
        else:
            self._inside = "list" if char == b"[" else "page"
            self._levels = 1
        self._opened = token.at
        return None

    _comma_follows = False
    """Whether a comma may come next: after a row that is an item of a list which somebody cut out of its brackets."""
    _levels = 1
    """The levels of the list that is read: 1 for a document, 2 for one in a page."""
    _opened = 0
    """Where the present document begins."""

    def _list(self, piece: ScannedText, token: Token) -> bytes | None:
        ends = token.level == self._levels - 1
        if not ends and (token.level != self._levels or token.char != b","):
            return None
        closes_page = ends and self._levels == 2
        row = self._take(piece, token, closing=False, then="value" if closes_page else "" if ends else "list")
        if not row:
            if not ends or self._items:
                raise self._unreadable(token.at, "a list has no item before this byte")
            return None
        self._items += 1
        return row

    def _value(self, piece: ScannedText, token: Token) -> bytes | None:
        """A member of a page after its colon."""
        if token.level == 1 and token.char == b"[":
            if self._name == self._wanted:
                self._take(piece, token, closing=False, then="list")
                self._levels, self._items, self._found = 2, 0, True
            return None
        if token.level == 2 and token.char == b"{" and self._name not in (self._wanted, *self._dropped):
            if self._take(piece, token, closing=False, then="value") == b"[":
                raise self._unreadable(
                    token.at, f"a page has a second list of objects, {self._name!r}, which its beginning does not have"
                )
            return None
        if token.level == 0 or (token.level == 1 and token.char == b","):
            value = self._take(piece, token, closing=False, then="page")
            if self._name == self._wanted and not self._found:
                if value != b"null":
                    raise self._unreadable(self._first, f"the member {self._name!r} is not a list")
                self._found = True
            if token.level == 0:
                self._inside = ""
                self._end_page(token)
        return None

    def _end_page(self, token: Token) -> None:
        if not self._found:
            error = self._unreadable(self._opened, f"an object begins that has no list {self._wanted!r}")
            if self._dropped:
                error.hint = f"its lists are {', '.join(self._dropped)}: name one with --set rows={self._dropped[0]}"
            raise error

    def _take(self, piece: ScannedText, token: Token, *, closing: bool, then: str) -> bytes:
        """The text up to a token, with it when `closing`; the next text, of the kind `then`, begins after the token."""
        end = token.compact + closing
        text = piece.compact[self._begin : end]
        if self.length:
            self._first = self.start
            text = b"".join((*self._before, text))
        else:
            self._first = piece.origin(self._begin)
        self._before.clear()
        self.length = 0
        self._begin = token.compact + 1
        self._inside = then
        return text

    def finish(self) -> None:
        """Raises UnreadableExport where the part ends inside a document."""
        if self._inside:
            raise UnreadableExport(
                f"{self._part.path} is cut short: it ends inside the document that begins at byte {self._opened:,}",
                path=self._part.path,
                hint=FETCH_AGAIN,
            )
        if self.length:
            raise self._unreadable(self.start, "there is something that is neither an object nor a list")

    def _unreadable(self, at: int, what: str) -> UnreadableExport:
        return UnreadableExport(
            f"{self._part.path} cannot be read as JSON: at byte {at:,} {what}",
            path=self._part.path,
            hint=f"correct the file at that byte, or {FETCH_AGAIN}",
        )


def _name(text: bytes) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return text.decode("utf-8", "backslashreplace")


def page_members(sample: bytes, usual: Sequence[str]) -> list[Member]:
    """The members of the first object in a sample; none for a sample that begins otherwise.

    A member that the sample cuts is as long as the sample has it. An empty list of a `usual` name counts as one of
    objects.
    """
    piece = Scanner(0, 2).scan(sample.rstrip(b" \t\r\n\\"))
    members: list[Member] = []
    name, begin, of_objects = "", 1, False
    if piece.compact[:1] != b"{":
        return []
    for token in piece.tokens:
        if token.level == 1 and token.char == b":":
            name, begin, of_objects = _name(piece.compact[begin : token.compact]), token.compact + 1, False
        elif token.level == 2 and token.char == b"{" and piece.compact[begin : token.compact] == b"[":
            of_objects = True
        elif (token.level == 1 and token.char == b",") or (token.level == 0 and token.char == b"}"):
            empty = piece.compact[begin : token.compact] == b"[]" and name in usual
            if token.compact > begin:
                members.append(Member(name, token.compact - begin, of_objects or empty))
            begin, name = token.compact + 1, ""
            if token.level == 0:
                return members
    return [*members, Member(name, len(piece.compact) - begin, of_objects)] if name else members
