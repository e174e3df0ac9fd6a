"""Verbs for what the operator names in a word, for whole objects, for ranks, and for rows that cannot be understood."""

from __future__ import annotations

from functools import partial

from msgspec import Raw

from pipeline.mapper.code import Code, Local
from pipeline.mapper.kinds import TEXT, VALUE, VALUES, YES, Field, verb
from pipeline.mapper.language import Call
from pipeline.mapper.runtime import encode
from pipeline.uuids import SEPARATOR
from pipeline.values import Value

value = partial(verb, "value")
RANK_DIGITS = 10


@value(
    "word",
    "the text that --set NAME=TEXT gives, never a column",
    word=Field(TEXT, "the name", True),
    default=Field(TEXT, "the text when the setting is not given; missing when left out"),
)
def word(code: Code, call: Call) -> Local:
    given = code.options.settings.get(call.given["word"]) or call.given.get("default")
    return Local("None" if given is None else code.const(given), "text")


@value(
    "number",
    "the tool's own number of a person: it joins ids in links, and is neither an id nor ever sent",
    number=Field(VALUE, "the number", True),
)
def number(code: Code, call: Call) -> Local:
    source = code.text(call.given["number"]).name
    name = code.local("t")
    code.line(f"{name} = {SEPARATOR!r} + {code.const(code.tool)} + ' ' + {source} if {source} else None")
    return Local(name, "text")


@value(
    "keyed",
    "an object with one member; missing when its name or its value is",
    keyed=Field(VALUE, "the member's value", True),
    by=Field(VALUE, "the member's name", True),
)
def keyed(code: Code, call: Call) -> Local:
    by, held = code.text(call.given["by"]).name, code.present(call.given["keyed"]).name
    name = code.local()
    code.line(f"{name} = None if {held} is None or {by} is None else {code.const(one_member)}({by}, {held})")
    return Local(name, "value")


def one_member(name: str, value: Value) -> Raw:
    """`{name: value}` as JSON text."""
    return Raw(encode({name: value}))


@value(
    "opened",
    "the object that `properties: open` names, with all that is in it",
    opened=Field(YES, "yes", True),
)
def opened(code: Code, call: Call) -> Local:
    name = code.local()
    code.line(f"{name} = {'p.as_dict()' if code.members else 'dict(p)'}")
    return Local(name, "value")


@value(
    "rank",
    "whole numbers as one, greater where an earlier of them is; missing when one of them is no such number",
    rank=Field(VALUES, "the numbers, the weightiest first, each below 10,000,000,000", True),
)
def rank(code: Code, call: Call) -> Local:
    name = code.local()
    parts = ", ".join(code.text(part).name for part in call.given["rank"])
    code.line(f"{name} = {code.const(ranked)}({parts})")
    return Local(name, "value")


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
def refuse(code: Code, call: Call) -> Local:
    shown = code.text(call.given["of"]).name if "of" in call.given else "None"
    code.line(f"raise BadValue({code.const(sentence)}({call.given['refuse']!r}, {shown}))")
    return Local("None", "value")


def sentence(text: str, shown: str | None) -> str:
    """The sentence, and after it what shows it."""
    return text if shown is None else f"{text}: {shown[:60]!r}"
