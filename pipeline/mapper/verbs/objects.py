"""Verbs for fixed strings from the operator, ids and numbers of people, ranks, rows that must not be sent, and whole
objects.

Each kind of file writes the nested columns of warehouses in its own way: one leaves nulls out, another writes them, a
third writes numbers as strings (docs/know/exports.md#ga4-forms).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from pipeline import values
from pipeline.mapper.codegen.conversions import as_number
from pipeline.mapper.codegen.runtime import encode, is_count
from pipeline.mapper.codegen.runtime import opened as opened_object
from pipeline.mapper.language.kinds import NAMES, TEXT, VALUE, VALUES, YES, Call, Field, value
from pipeline.mapper.program import expressions
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Constant, Missing, Value
from pipeline.mapper.program.functions import computed, function
from pipeline.mapper.program.references import path_steps
from pipeline.uuids import SEPARATOR
from pipeline.validator.placeholder_ids import is_placeholder
from pipeline.values import NULL, BadValue, Record

RANK_DIGITS = 10


@value(
    "word",
    "the text that --set NAME=TEXT gives, never a column",
    word=Field(TEXT, "the name", True),
    default=Field(TEXT, "the text if the setting is left out; without it, missing"),
)
def word(build: Builder, call: Call) -> Value:
    text = build.options.settings.get(call.arguments["word"]) or call.arguments.get("default")
    return Missing() if text is None else Constant(text)


@value(
    "number",
    "the tool's own number of a person: it joins ids in links, and is neither an id nor ever sent",
    number=Field(VALUE, "the number", True),
)
def number(build: Builder, call: Call) -> Value:
    return Apply("number_of_person", (build.text(call.arguments["number"]), Constant(build.tool)))


@function(needs=1)
def number_of_person(number: str, tool: str) -> str | None:
    """A tool's number of a person, in a form that differs from every id; None for an empty one."""
    return f"{SEPARATOR}{tool} {number}" if number else None


@value(
    "keyed",
    "an object with one member; missing if its name or its value is",
    keyed=Field(VALUE, "the member's value", True),
    by=Field(VALUE, "the member's name", True),
)
def keyed(build: Builder, call: Call) -> Value:
    return Apply("one_member", (build.text(call.arguments["by"]), build.present(call.arguments["keyed"])))


@function(needs=2)
def one_member(name: str, value: values.Value) -> Raw:
    return Raw(encode({name: value}))


@computed(
    "combine",
    "one object with the members of several; if several have a member, the first one counts, null or not. Missing"
    " objects are passed over",
    "present",
    needs=0,
    combine=Field(VALUES, "the objects", True),
)
def combined(*objects: values.Value) -> Raw | None:
    """The members of all objects as JSON, in order, or None. Raises BadValue for a value that is not an
    object."""
    members: values.Record = {}
    for one in objects:
        for name, member in (opened_object(one) or {}).items():
            members.setdefault(name, member)
    return Raw(encode({name: values.raw(value) for name, value in members.items()})) if members else None


@value(
    "opened",
    "the object that `properties: open` names, with all its members",
    opened=Field(YES, "yes", True),
)
def opened(build: Builder, call: Call) -> Value:
    return expressions.AllProperties(build.loaders and build.flat)


@value(
    "flat",
    "an object with the members of all objects inside it: named `object_member`, or by the member's name alone for the"
    " objects in `own`; if two members have one name, the second is named `object_member` too",
    flat=Field(VALUE, "the object", True),
    own=Field(NAMES, "objects whose members keep their names, such as agent, or /metadata/agent deeper in it"),
    except_=Field(NAMES, "members of the outermost object that are left out"),
)
def flat(build: Builder, call: Call) -> Value:
    given = call.arguments
    own = (path_steps(path) for path in given.get("own", ()))
    left_out = given.get("except", ())
    spec = [str(len(left_out)), *left_out, *(SEPARATOR.join(path) for path in own)]
    return Apply("flattened", (build.present(given["flat"]), *map(Constant, spec)))


@function()
def flattened(value: values.Value, count: str, *spec: str) -> Raw | None:
    """The members of an object and of the objects inside it, as one object; None for a missing or empty one. Raises
    BadValue if the value is not an object."""
    left_out, own = spec[: int(count)], frozenset(spec[int(count) :])
    members = opened_object(value)
    found: Record = {}
    if members:
        _flatten({name: member for name, member in members.items() if name not in left_out}, "", "", own, found)
    return Raw(encode({name: values.raw(member) for name, member in found.items()})) if found else None


def _flatten(members: Record, path: str, prefix: str, own: frozenset[str], found: Record) -> None:
    """Add members to `found`; `path` leads to their object, `prefix` comes before their names."""
    for name, member in members.items():
        inside = opened_object(member) if type(member) is Raw and bytes(member)[:1] == b"{" else None
        here = f"{path}{SEPARATOR}{name}" if path else name
        if inside is not None:
            _flatten(inside, here, prefix if here in own else f"{prefix}{name}_", own, found)
        elif not values.is_absent(member):
            new, number = prefix + name, 1
            while new in found:
                outer = path.rpartition(SEPARATOR)[2]
                new = f"{prefix}{outer}_{name}" if number == 1 and outer else f"{prefix}{name}_{number}"
                number += 1
            found[new] = member


@computed(
    "rank",
    "one number that sorts like a list of numbers; missing if one of them is not a whole number in range",
    "text",
    needs=0,
    rank=Field(VALUES, "the numbers, the most significant first, each below 10,000,000,000", True),
)
def ranked(*numbers: str | None) -> Raw | None:
    """The digits of all numbers, each padded to ten, as one number."""
    if not all(is_count(number, RANK_DIGITS) for number in numbers):
        return None
    return Raw(str(int("".join((number or "").zfill(RANK_DIGITS) for number in numbers))).encode())


@value(
    "refuse",
    "reject the row with bad_value",
    refuse=Field(TEXT, "a sentence for the operator", True),
    of=Field(VALUE, "a value that shows why, printed after the sentence"),
)
def refuse(build: Builder, call: Call) -> Value:
    shown = build.text(call.arguments["of"]) if "of" in call.arguments else Missing()
    return Apply("refused", (Constant(call.arguments["refuse"]), shown))


@value(
    "person_id",
    "an id as text; missing if `distinct_id` passes it over: a placeholder id such as `undefined`, or one of its"
    " `junk`",
    person_id=Field(VALUE, "the id", True),
)
def person_id(build: Builder, call: Call) -> Value:
    return Apply("id_of_person", (build.text(call.arguments["person_id"]), *map(Constant, build.junk)))


@function(needs=1)
def id_of_person(text: str, *junk: str) -> str | None:
    """The id, unless it is a placeholder id or one of `junk`, in any case."""
    return None if is_placeholder(text) or text.lower() in junk else text


_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_any = msgspec.json.Decoder(float_hook=Decimal).decode


@value(
    "record",
    "an object or a list of objects, without members that are null or empty, at every depth; missing if nothing is"
    " left",
    record=Field(VALUE, "the object or the list; JSON text of either is opened", True),
    numbers=Field(NAMES, "members, at any depth, whose text becomes the number it spells"),
    millionths=Field(NAMES, "members, at any depth, that count millionths: they become numbers of units"),
    blank=Field(NAMES, "texts that mean no value: members with one are left out"),
)
def record(build: Builder, call: Call) -> Value:
    groups = [call.arguments.get(name, ()) for name in ("numbers", "millionths", "blank")]
    fixed = [Constant(value) for group in groups for value in (len(group), *group)]
    return Apply("compact_record", (build.present(call.arguments["record"]), *fixed))


@function(needs=1)
def compact_record(value: Any, *groups: int | str) -> values.Value:
    """The record without nulls, blanks and empty members; `groups` has the names of numbers and of millionths, and the
    blanks, each group after its length.

    Raises BadValue for anything other than an object or a list.
    """
    source = value if type(value) is Raw else values.raw(value) if type(value) is not dict else Raw(encode(value))
    content = bytes(source)
    if content[:1] == b'"':
        content = (values.text(value) or "").strip().encode("utf-8", "surrogatepass")
        if not content:
            return None
    if content[:1] not in (b"{", b"["):
        raise BadValue(f"expected an object or a list, not {content[:60].decode('utf-8', 'replace')}")
    try:
        return (_compacted_often if len(content) < LONG else _compacted)(content, groups)
    except msgspec.MsgspecError as error:
        raise BadValue(f"expected an object or a list: {error}") from None


LONG = 1_000
"""Records of this many bytes or more are not cached."""


def _compacted(content: bytes, groups: tuple[int | str, ...]) -> Raw | None:
    compacted = _compact(Raw(content), *_changes(groups))
    return None if compacted is None else Raw(encode(compacted))


# Many rows share their devices and places.
_compacted_often = lru_cache(4_096)(_compacted)


@cache
def _changes(groups: tuple[int | str, ...]) -> tuple[dict[str, Callable[[Any], Any]], frozenset[bytes]]:
    """What changes members, by their names, and the blanks as JSON."""
    rest: list[Any] = list(groups)
    numbers, millionths, blanks = ([rest.pop(0) for _ in range(rest.pop(0))] for _ in range(3))
    changes = dict.fromkeys(numbers, as_number) | dict.fromkeys(millionths, _units)
    return changes, frozenset(map(encode, blanks))


def _units(value: Any) -> Raw:
    number = Decimal(values.text(as_number(value)) or "").scaleb(-6)
    return Raw(f"{number.normalize():f}".encode())


def _compact(value: Raw, changes: dict[str, Callable[[Any], Any]], blanks: frozenset[bytes]) -> Any:
    """The value without nulls, blanks and empty members; None if nothing is left."""
    content = bytes(value)
    if content[:1] == b"{":
        members: dict[str, Any] = {}
        for name, member in _decode_object(value).items():
            kept = _compact(member, changes, blanks)
            if kept is None:
                continue
            if name in changes:
                with suppress(BadValue):
                    kept = changes[name](kept)
            members[name] = kept
        return members or None
    if content[:1] == b"[":
        kept_items = [_compact(item, changes, blanks) for item in _decode_list(value)]
        return [item for item in kept_items if item is not None] or None
    return None if value == NULL or content in blanks else value


_FRACTION = re.compile(r"(-?[0-9]+)\.([0-9]*?)0*")
_SMALLEST = -400


@computed(
    "canonical",
    'one spelling of a value, for keys: the members of objects sorted, 2, 2.0 and "2" the same; numbers are exact',
    "present",
    canonical=Field(VALUE, "the value", True),
)
def canonical_text(value: Any) -> str | None:
    """A value as JSON in one spelling. Scalars become strings, numbers without trailing zeros."""
    try:
        found = _decode_any(value if type(value) is Raw else encode(value))
    except msgspec.MsgspecError as error:
        raise BadValue(f"not JSON: {error}") from None
    return encode(_canonical(found)).decode()


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _canonical(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if value is None or isinstance(value, bool):
        return value
    # The digits of an exponent that is far below those of a double would be too many.
    plain = isinstance(value, Decimal) and value.adjusted() > _SMALLEST
    text = f"{value:f}" if plain else str(value)
    if match := _FRACTION.fullmatch(text):
        text = f"{match[1]}.{match[2]}" if match[2] else match[1]
    return "0" if text == "-0" else text
