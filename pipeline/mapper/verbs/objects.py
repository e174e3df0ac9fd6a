"""Verbs for what the operator names in a word, for whole objects, for ranks, and for rows that cannot be understood."""

from __future__ import annotations

from functools import partial

from msgspec import Raw

from pipeline import values
from pipeline.mapper import expressions
from pipeline.mapper.builder import Builder
from pipeline.mapper.expressions import Apply, Constant, Missing, Value
from pipeline.mapper.functions import function
from pipeline.mapper.kinds import TEXT, VALUE, VALUES, YES, Field, verb
from pipeline.mapper.language import Call
from pipeline.mapper.runtime import encode
from pipeline.uuids import SEPARATOR

value = partial(verb, "value")
RANK_DIGITS = 10


@value(
    "word",
    "the text that --set NAME=TEXT gives, never a column",
    word=Field(TEXT, "the name", True),
    default=Field(TEXT, "the text when the setting is not given; missing when left out"),
)
def word(build: Builder, call: Call) -> Value:
    given = build.options.settings.get(call.given["word"]) or call.given.get("default")
    return Missing() if given is None else Constant(given)


@value(
    "number",
    "the tool's own number of a person: it joins ids in links, and is neither an id nor ever sent",
    number=Field(VALUE, "the number", True),
)
def number(build: Builder, call: Call) -> Value:
    return Apply("number_of_person", (build.text(call.given["number"]), Constant(build.tool)))


@function(needs=1)
def number_of_person(number: str, tool: str) -> str | None:
    """A tool's number of a person as something that no id can be; None for an empty one."""
    return f"{SEPARATOR}{tool} {number}" if number else None


@value(
    "keyed",
    "an object with one member; missing when its name or its value is",
    keyed=Field(VALUE, "the member's value", True),
    by=Field(VALUE, "the member's name", True),
)
def keyed(build: Builder, call: Call) -> Value:
    return Apply("one_member", (build.text(call.given["by"]), build.present(call.given["keyed"])))


@function(needs=2)
def one_member(name: str, value: values.Value) -> Raw:
    """`{name: value}` as JSON text."""
    return Raw(encode({name: value}))


@value(
    "opened",
    "the object that `properties: open` names, with all that is in it",
    opened=Field(YES, "yes", True),
)
def opened(build: Builder, call: Call) -> Value:
    return expressions.AllProperties()


@value(
    "rank",
    "whole numbers as one, greater where an earlier of them is; missing when one of them is no such number",
    rank=Field(VALUES, "the numbers, the weightiest first, each below 10,000,000,000", True),
)
def rank(build: Builder, call: Call) -> Value:
    return Apply("ranked", tuple(map(build.text, call.given["rank"])))


@function()
def ranked(*numbers: str | None) -> Raw | None:
    """The numbers one after the other, each in ten digits."""
    if not all(one and one.isascii() and one.isdecimal() and len(one) <= RANK_DIGITS for one in numbers):
        return None
    return Raw(str(int("".join(f"{int(one or 0):0{RANK_DIGITS}d}" for one in numbers))).encode())


@value(
    "refuse",
    "the row cannot be sent: the reject bad_value",
    refuse=Field(TEXT, "a sentence for the operator", True),
    of=Field(VALUE, "the value that shows it, put after the sentence"),
)
def refuse(build: Builder, call: Call) -> Value:
    return expressions.Refuse(call.given["refuse"], build.text(call.given["of"]) if "of" in call.given else Missing())
