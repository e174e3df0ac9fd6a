"""Verbs for what is inside a value: members of objects, items of lists, lists of keys and values, and lists inside a
string such as `1,200=12.50,10` or `;Lamp;2;19.90,;Bulb;1;4.95`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from pipeline import values
from pipeline.mapper.codegen.conversions import CONVERT, as_number
from pipeline.mapper.codegen.runtime import encode, member_at, text_of
from pipeline.mapper.language.kinds import NAMES, TEXT, TEXTS, VALUE, Call, Field, value
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Constant, Value
from pipeline.mapper.program.functions import function
from pipeline.mapper.program.lookup_table import in_memory
from pipeline.mapper.program.references import path_steps
from pipeline.values import BadValue, is_absent


@value(
    "member",
    "a member of a value, such as of an item of a list",
    member=Field(TEXT, "its name, or a path such as page/0/url, in which a number can also be a list index", True),
    of=Field(VALUE, "the object or the list", True),
)
def member(build: Builder, call: Call) -> Value:
    return build.member(build.present(call.arguments["of"]), path_steps(call.arguments["member"]))


@value(
    "item",
    "one item of a list; a value that is not a list counts as a list of one",
    item=Field(TEXT, "its index, from 0; -1 is the last", True),
    of=Field(VALUE, "the list", True),
    where=Field(TEXTS, "count only items whose members, given by their paths, have these texts, which may end in *"),
)
def item(build: Builder, call: Call) -> Value:
    of, index = build.present(call.arguments["of"]), _index(call)
    if "where" not in call.arguments:
        return Apply("item_of", (of, index))
    return Apply(
        "matching_item", (of, index, *(Constant(text) for pair in call.arguments["where"].items() for text in pair))
    )


def _index(call: Call) -> Value:
    if not re.fullmatch(r"-?[0-9]{1,9}", call.arguments["item"]):
        raise call.place.error("`item` is not a whole number of at most nine digits", "write item: 0 for the first")
    return Constant(int(call.arguments["item"]))


@value(
    "split",
    "one piece of a text, such as 1920 from 1920x1080; missing if there is no such piece",
    split=Field(VALUE, "the text", True),
    by=Field(TEXT, "the text between two pieces", True),
    item=Field(TEXT, "the index of the piece, from 0; -1 is the last", True),
)
def split(build: Builder, call: Call) -> Value:
    if not call.arguments["by"]:
        raise call.place.error(
            "`by` is empty, so the text cannot be split", "write the text between two pieces, such as by: x"
        )
    return Apply("piece_of", (build.text(call.arguments["split"]), Constant(call.arguments["by"]), _index(call)))


@function(needs=1)
def piece_of(text: str, by: str, index: int) -> str | None:
    """One piece of a string; None if there is no such piece or it is blank."""
    pieces = text.split(by)
    return pieces[index].strip() or None if -len(pieces) <= index < len(pieces) else None


@function(needs=1)
def matching_item(listed: Any, index: int, *wanted: str) -> values.Value:
    """The item with this index among the items whose members have the wanted strings (paths and strings in turn)."""
    tests = [(path_steps(path), text) for path, text in zip(wanted[::2], wanted[1::2], strict=True)]
    matching = [one for one in values.items(listed) or () if all(_has(one, path, text) for path, text in tests)]
    return matching[index] if -len(matching) <= index < len(matching) else None


def _has(item: values.Value, path: tuple[str, ...], wanted: str) -> bool:
    for step in path:
        item = member_at(item, step) if item is not None else None
    text = text_of(item)
    return text is not None and (text.startswith(wanted[:-1]) if wanted.endswith("*") else text == wanted)


KEEP = "keep"


@value(
    "entries",
    "a list of records, each with a key and a value, as one object; if records share a key, the later ones become"
    " KEY_2, KEY_3, …; records without a key or a value are left out",
    entries=Field(VALUE, "the list", True),
    key=Field(TEXT, "the path of the key inside a record; key if left out"),
    value=Field(NAMES, "the paths of the value inside a record, the first that is not null counts; value if left out"),
    types=Field(TEXTS, "path of a value: number, text, boolean, json or list, to which it is converted if possible"),
)
def entries(build: Builder, call: Call) -> Value:
    paths, types = call.arguments.get("value", ("value",)), call.arguments.get("types", {})
    for path, type_ in types.items():
        if path not in paths:
            raise call.place.error(
                f"types: {path!r} is not among the paths of `value`", f"available paths: {', '.join(paths)}"
            )
        if type_ not in CONVERT:
            raise call.place.error(f"types: unknown type {type_!r}", f"available types: {', '.join(CONVERT)}")
    spec = [call.arguments.get("key", "key"), *(text for path in paths for text in (path, types.get(path, KEEP)))]
    return Apply("object_of_entries", (build.present(call.arguments["entries"]), *map(Constant, spec)))


@function(needs=1)
def object_of_entries(listed: Any, key: str, *spec: str) -> Raw | None:
    """The object made from a list of records; `spec` has the paths of the value and their types in turn. Raises
    BadValue."""
    read_all, read_key, read_values = _record_reader(key, spec)
    records: Any
    try:
        records = read_all(listed if type(listed) is Raw else encode(None))
    except msgspec.MsgspecError:
        records = None
    if records is None:
        # For a list inside a string, or records of an unusual shape: each is read by itself.
        records = values.items(listed) or ()
        if len(records) == 1 and records[0] is listed:
            raise BadValue("expected a list of records with a key and a value")
        read_key, read_values = _slow_reader(key, spec)
    members: dict[str, Any] = {}
    for record in records:
        name = read_key(record)
        if name is None:
            continue
        for read, convert in read_values:
            found = read(record)
            if found is None or is_absent(found):
                continue
            if convert is not None:
                with suppress(BadValue):
                    found = convert(found)
            if name in members:
                number = 2
                while f"{name}_{number}" in members:
                    number += 1
                name = f"{name}_{number}"
            members[name] = found
            break
    return Raw(encode(members))


Reader = Callable[[Any], Any]


@cache
def _record_reader(key: str, spec: tuple[str, ...]) -> tuple[Reader, Reader, list[tuple[Reader, Reader | None]]]:
    """What decodes the JSON of a whole list into records with only the members that are read, and the readers of a
    record's key and values. A call of the decoder costs a tenth of opening each record by itself."""
    shape: dict[str, Any] = {}
    for path, leaf in ((key, str), *((path, Raw) for path in spec[::2])):
        *outer, last = path_steps(path)
        inside = shape
        for step in outer:
            inside = inside.setdefault(step, {})
        inside[last] = leaf

    def struct(shape: dict[str, Any]) -> Any:
        members = [
            # A member of type `Raw | None` would accept only null; Raw accepts null, too.
            (f"f{n}", of if of is Raw else (struct(of) if isinstance(of, dict) else of) | None, None)
            for n, of in enumerate(shape.values())
        ]
        names = {f"f{n}": name for n, name in enumerate(shape)}
        return msgspec.defstruct("Entry", members, rename=names, gc=False)

    def reader(path: str) -> Reader:
        attributes, inside = [], shape
        for step in path_steps(path):
            attributes.append(f"f{list(inside).index(step)}")
            inside = inside[step]

        def read(record: Any) -> Any:
            for attribute in attributes:
                record = getattr(record, attribute)
                if record is None:
                    return None
            return record

        return read

    record: Any = struct(shape)
    decode = msgspec.json.Decoder(list[record] | None).decode
    return (
        decode,
        reader(key),
        [(reader(path), CONVERT.get(kind)) for path, kind in zip(spec[::2], spec[1::2], strict=True)],
    )


@cache
def _slow_reader(key: str, spec: tuple[str, ...]) -> tuple[Reader, list[tuple[Reader, Reader | None]]]:
    """The same readers for records that are values of a row."""

    def reader(path: str) -> Reader:
        steps = path_steps(path)

        def read(record: Any) -> Any:
            for step in steps:
                if record is None:
                    return None
                record = member_at(record, step)
            return record

        return read

    read_key = reader(key)
    return lambda record: text_of(read_key(record)), [
        (reader(path), CONVERT.get(kind)) for path, kind in zip(spec[::2], spec[1::2], strict=True)
    ]


@value(
    "pieces",
    "the pieces of a text as a list: of texts, or with `columns` of objects; blank pieces are left out, and the list is"
    " missing if none remains",
    pieces=Field(VALUE, "the text", True),
    by=Field(TEXT, "the text between two pieces", True),
    cells=Field(TEXT, "the text between two cells of a piece"),
    columns=Field(
        NAMES, "the names of the cells; the last has the rest of its piece. Without `columns` the first cell counts"
    ),
    numbers=Field(NAMES, "columns whose text becomes the number it spells"),
    escape=Field(TEXT, "the character that precedes one that belongs to a value"),
    table=Field(TEXT, "a table with names for the first cells; a cell that it lacks stays"),
    prefix=Field(TEXT, "a text before first cells that the table lacks"),
)
def pieces(build: Builder, call: Call) -> Value:
    given = call.arguments
    for name in ("by", "cells"):
        if given.get(name) == "":
            raise call.place.error(f"`{name}` is empty, so the text cannot be split", f'write {name}: ","')
    if given.get("columns") and not given.get("cells"):
        raise call.place.error("`columns` needs `cells`, the text between two of them", 'write cells: ";"')
    if unknown := [name for name in given.get("numbers", ()) if name not in given.get("columns", ())]:
        hint = f"use one of: {', '.join(given['columns'])}" if given.get("columns") else "name the columns in `columns`"
        raise call.place.error(f"numbers: {unknown[0]!r} is not among the columns", hint)
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
    """The list of a string's pieces. `table` is a JSON object or ""; `names` are `width` columns, then the numbers."""
    read = _pieces_often if len(text) <= SHORT else _pieces
    return read(text, by, cells, escape, prefix, table, width, *names)


SHORT = 200
"""The most characters of a string that is cached: many rows share their lists of pages and products."""


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
    """The pieces of a string, with their escapes; with `most`, only that many separators count."""
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
