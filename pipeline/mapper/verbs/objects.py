"""Verbs for fixed texts of the operator, numbers of people, whole objects, ranks, and rows that cannot be sent."""

from __future__ import annotations

from functools import partial

from msgspec import Raw

from pipeline import values
from pipeline.mapper.codegen.runtime import encode, is_count
from pipeline.mapper.codegen.runtime import opened as opened_object
from pipeline.mapper.language.kinds import NAMES, TEXT, VALUE, VALUES, YES, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program import expressions
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Constant, Missing, Value
from pipeline.mapper.program.functions import function
from pipeline.mapper.program.references import path_steps
from pipeline.uuids import SEPARATOR
from pipeline.values import Record

value = partial(verb, "value")
RANK_DIGITS = 10


@value(
    "word",
    "the text that --set NAME=TEXT gives, never a column",
    word=Field(TEXT, "the name", True),
    default=Field(TEXT, "the text when the setting is left out; missing without it"),
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
    "an object with one member; missing when its name or its value is",
    keyed=Field(VALUE, "the member's value", True),
    by=Field(VALUE, "the member's name", True),
)
def keyed(build: Builder, call: Call) -> Value:
    return Apply("one_member", (build.text(call.arguments["by"]), build.present(call.arguments["keyed"])))


@function(needs=2)
def one_member(name: str, value: values.Value) -> Raw:
    """`{name: value}` as JSON text."""
    return Raw(encode({name: value}))


@value(
    "combine",
    "one object with the members of several; of members of one name the earlier object's counts, null or not. What is"
    " missing is passed over",
    combine=Field(VALUES, "the objects", True),
)
def combine(build: Builder, call: Call) -> Value:
    return Apply("combined", tuple(map(build.present, call.arguments["combine"])))


@function(needs=0)
def combined(*objects: values.Value) -> Raw | None:
    """The members of all objects as JSON text, in their order; None without any. Raises BadValue for one that is no
    object."""
    members: values.Record = {}
    for one in objects:
        for name, value in (opened_object(one) or {}).items():
            members.setdefault(name, value)
    return Raw(encode({name: values.raw(value) for name, value in members.items()})) if members else None


@value(
    "opened",
    "the object that `properties: open` names, with all of its members",
    opened=Field(YES, "yes", True),
)
def opened(build: Builder, call: Call) -> Value:
    return expressions.AllProperties(build.loaders and build.flat)


@value(
    "flat",
    "an object whose members are no objects: members of objects inside it are named `object_member`, and with the name"
    " alone those of the objects in `own`; of two with one name the second is named `object_member` too",
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
    """The members of an object and of the objects in it, as one object; None for a missing or empty one. Raises
    BadValue where the value is no object."""
    left_out, own = spec[: int(count)], frozenset(spec[int(count) :])
    members = opened_object(value)
    found: Record = {}
    if members:
        _flatten({name: member for name, member in members.items() if name not in left_out}, "", "", own, found)
    return Raw(encode({name: values.raw(member) for name, member in found.items()})) if found else None


def _flatten(members: Record, path: str, prefix: str, own: frozenset[str], found: Record) -> None:
    """Add members to `found`; `path` leads to their object, `prefix` is what their names begin with."""
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


@value(
    "rank",
    "one number that sorts as the list of these numbers does; missing when one of them is no such whole number",
    rank=Field(VALUES, "the numbers, the most significant first, each below 10,000,000,000", True),
)
def rank(build: Builder, call: Call) -> Value:
    return Apply("ranked", tuple(map(build.text, call.arguments["rank"])))


@function()
def ranked(*numbers: str | None) -> Raw | None:
    """The digits of all numbers, each padded to ten, as one number."""
    if not all(is_count(number, RANK_DIGITS) for number in numbers):
        return None
    return Raw(str(int("".join((number or "").zfill(RANK_DIGITS) for number in numbers))).encode())


@value(
    "refuse",
    "the row cannot be sent: the reject bad_value",
    refuse=Field(TEXT, "a sentence for the operator", True),
    of=Field(VALUE, "a value that shows why, printed after the sentence"),
)
def refuse(build: Builder, call: Call) -> Value:
    return expressions.Refuse(
        call.arguments["refuse"], build.text(call.arguments["of"]) if "of" in call.arguments else Missing()
    )
