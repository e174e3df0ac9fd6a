"""Verbs for lists inside a text: `1,200=12.50,10`, or `;Lamp;2;19.90,;Bulb;1;4.95`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache, partial
from typing import Any

import msgspec
from msgspec import Raw

from pipeline.mapper.codegen.conversions import as_number
from pipeline.mapper.codegen.runtime import encode
from pipeline.mapper.language.kinds import NAMES, TEXT, VALUE, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program.builder import Builder, wrong_call
from pipeline.mapper.program.expressions import Apply, Constant, Value
from pipeline.mapper.program.functions import function
from pipeline.mapper.program.lookup_table import in_memory
from pipeline.values import BadValue

value = partial(verb, "value")


@value(
    "pieces",
    "the pieces of a text as a list: of texts, or with `columns` of objects; blank ones are left out, and it is missing"
    " where nothing is left",
    pieces=Field(VALUE, "the text", True),
    by=Field(TEXT, "the text between two pieces", True),
    cells=Field(TEXT, "the text between two cells of a piece"),
    columns=Field(
        NAMES, "the names of the cells, of which the last has the rest of its piece; without them the first cell counts"
    ),
    numbers=Field(NAMES, "columns whose text becomes the number it is"),
    escape=Field(TEXT, "the character before one that belongs to a value"),
    table=Field(TEXT, "a table that has names for the first cells; what it lacks stays"),
    prefix=Field(TEXT, "a text before first cells that the table lacks"),
)
def pieces(build: Builder, call: Call) -> Value:
    given = call.arguments
    for name in ("by", "cells"):
        if given.get(name) == "":
            raise wrong_call(call, f"{name}: a text cannot be split by an empty text", f'write {name}: ","')
    if given.get("columns") and not given.get("cells"):
        raise wrong_call(call, "columns need `cells`, the text between two of them", 'write cells: ";"')
    if unknown := [name for name in given.get("numbers", ()) if name not in given.get("columns", ())]:
        raise wrong_call(call, f"numbers: {unknown[0]!r} is not among the columns", "name one of `columns`")
    table = ""
    if "table" in given:
        table = encode(dict(in_memory(build.tables[build.table(call, False)], given["table"]))).decode()
    settings = [given.get(name, "") for name in ("by", "cells", "escape", "prefix")]
    columns = given.get("columns", ())
    settings += [table, len(columns), *columns, *given.get("numbers", ())]
    return Apply("pieces_of", (build.text(given["pieces"]), *map(Constant, settings)))


@function(needs=1)
def pieces_of(
    text: str, by: str, cells: str, escape: str, prefix: str, table: str, width: int, *names: str
) -> Raw | None:
    """The list of a text's pieces. `table` is a JSON object or ""; `names` are `width` columns, then the numbers."""
    read = _pieces_often if len(text) <= SHORT else _pieces
    return read(text, by, cells, escape, prefix, table, width, *names)


SHORT = 200
"""Characters of a text that is remembered: the lists of pages and products are the same in many rows."""


def _pieces(
    text: str, by: str, cells: str, escape: str, prefix: str, table: str, width: int, *names: str
) -> Raw | None:
    columns, numbers = names[:width], names[width:]
    entries = _entries(table) if table else None
    found: list[Any] = []
    for piece in _split(text, by, escape):
        if not piece.strip():
            continue
        parts = _split(piece, cells, escape, max(width - 1, 1)) if cells else [piece]
        first, *rest = (_plain(part, escape).strip() for part in parts)
        if first and entries is not None:
            first = entries.get(first) or prefix + first
        if not columns:
            if first:
                found.append(first)
            continue
        record: dict[str, Any] = {}
        for name, cell in zip(columns, (first, *rest), strict=False):
            if cell:
                record[name] = cell
                if name in numbers:
                    with suppress(BadValue):
                        record[name] = as_number(cell)
        if record:
            found.append(record)
    return Raw(encode(found)) if found else None


_pieces_often = lru_cache(4_096)(_pieces)


@lru_cache(64)
def _entries(table: str) -> Mapping[str, str]:
    """The table; its text is one object of the program, so that it is not decoded for each row."""
    return msgspec.json.decode(table, type=dict[str, str])


def _split(text: str, by: str, escape: str, most: int = -1) -> list[str]:
    """The pieces of a text, with their escapes; with `most`, that many separators count."""
    if not escape or escape not in text:
        return text.split(by, most)
    found: list[str] = []
    start = 0
    for separator in _separators(by, escape).finditer(text):
        if separator[0] == by and len(found) != most:
            found.append(text[start : separator.start()])
            start = separator.end()
    return [*found, text[start:]]


@cache
def _separators(by: str, escape: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(escape)}.|{re.escape(by)}", re.DOTALL)


def _plain(text: str, escape: str) -> str:
    if not escape or escape not in text:
        return text
    return re.sub(rf"{re.escape(escape)}(.)", r"\1", text, flags=re.DOTALL)
