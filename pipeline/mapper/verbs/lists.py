"""Verbs for what stands inside a computed value: members of objects, items of lists, lists of keys and values."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any

import msgspec
from msgspec import Raw

from pipeline import values
from pipeline.mapper.codegen.conversions import CONVERT
from pipeline.mapper.codegen.runtime import encode, member_at, text_of
from pipeline.mapper.language.kinds import NAMES, TEXT, TEXTS, VALUE, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program.builder import Builder, wrong_call
from pipeline.mapper.program.expressions import Apply, Constant, Value
from pipeline.mapper.program.functions import function
from pipeline.mapper.program.references import path_steps
from pipeline.values import BadValue, is_absent

value = partial(verb, "value")


@value(
    "member",
    "a member of a value, such as of an item of a list",
    member=Field(TEXT, "its name, or a path such as page/0/url, in which a number is also an index of a list", True),
    of=Field(VALUE, "the object or the list", True),
)
def member(build: Builder, call: Call) -> Value:
    return build.member(build.present(call.arguments["of"]), path_steps(call.arguments["member"]))


@value(
    "item",
    "one item of a list; a value that is no list is its own only item",
    item=Field(TEXT, "its index, from 0; -1 is the last", True),
    of=Field(VALUE, "the list", True),
    where=Field(TEXTS, "count only items whose members, given by their paths, have these texts; a text may end in *"),
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
        raise wrong_call(
            call, "the index of an item is not a number of at most nine digits", "write item: 0 for the first"
        )
    return Constant(int(call.arguments["item"]))


@value(
    "split",
    "one piece of a text, such as 1920 of 1920x1080; missing where there is no such piece",
    split=Field(VALUE, "the text", True),
    by=Field(TEXT, "the text between two pieces", True),
    item=Field(TEXT, "the piece, from 0; -1 is the last", True),
)
def split(build: Builder, call: Call) -> Value:
    if not call.arguments["by"]:
        raise wrong_call(call, "a text cannot be split by an empty text", "write by: x")
    return Apply("piece_of", (build.text(call.arguments["split"]), Constant(call.arguments["by"]), _index(call)))


@function(needs=1)
def piece_of(text: str, by: str, index: int) -> str | None:
    """One piece of a text; None where there is no such piece or it is blank."""
    pieces = text.split(by)
    return pieces[index].strip() or None if -len(pieces) <= index < len(pieces) else None


@function(needs=1)
def matching_item(listed: Any, index: int, *wanted: str) -> values.Value:
    """Among the items whose members have the wanted texts (paths and texts in turn), the one of an index."""
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
    "a list of records with a key and a value each, as one object; of records with one key, the later ones become"
    " KEY_2, KEY_3, …; records without a key or a value are left out",
    entries=Field(VALUE, "the list", True),
    key=Field(TEXT, "the path of the key inside a record; key when left out"),
    value=Field(
        NAMES, "the paths of the value inside a record, the first that is not null counts; value when left out"
    ),
    types=Field(
        TEXTS, "path of a value: number, text, boolean, json or list, which it is converted to where it can be"
    ),
)
def entries(build: Builder, call: Call) -> Value:
    paths, types = call.arguments.get("value", ("value",)), call.arguments.get("types", {})
    for path, type_ in types.items():
        if path not in paths:
            raise wrong_call(
                call, f"types: {path!r} is not among the paths of `value`", f"available paths: {', '.join(paths)}"
            )
        if type_ not in CONVERT:
            raise wrong_call(call, f"types: there is no type {type_!r}", f"available types: {', '.join(CONVERT)}")
    spec = [call.arguments.get("key", "key"), *(text for path in paths for text in (path, types.get(path, KEEP)))]
    return Apply("object_of_entries", (build.present(call.arguments["entries"]), *map(Constant, spec)))


@function(needs=1)
def object_of_entries(listed: Any, key: str, *spec: str) -> Raw | None:
    """The object of a list of records; `spec` are the paths of the value and their types in turn. Raises BadValue."""
    read_all, read_key, read_values = _record_reader(key, spec)
    records: Any
    try:
        records = read_all(listed if type(listed) is Raw else encode(None))
    except msgspec.MsgspecError:
        records = None
    if records is None:
        # A list inside a text, or records of an unusual shape: each is read by itself.
        records = values.items(listed) or ()
        if len(records) == 1 and records[0] is listed:
            raise BadValue("a list of records with a key and a value was expected")
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
    """What decodes the JSON text of a whole list into records, with only the members that are read, and the readers of
    a record's key and values. A call of the decoder costs a tenth of opening each record by itself."""
    shape: dict[str, Any] = {}
    for path, leaf in ((key, str), *((path, Raw) for path in spec[::2])):
        *outer, last = path_steps(path)
        inside = shape
        for step in outer:
            inside = inside.setdefault(step, {})
        inside[last] = leaf

    def struct(shape: dict[str, Any]) -> Any:
        members = [
            # A member of type `Raw | None` would take null alone; Raw takes null, too.
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
