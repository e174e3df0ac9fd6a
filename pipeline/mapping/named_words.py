"""Verbs for what the operator names in a word, for objects made of a name, and for rows that cannot be understood."""

from __future__ import annotations

from functools import partial

from msgspec import Raw

from pipeline.mapping.code import Code, Local
from pipeline.mapping.kinds import TEXT, VALUE, Field, verb
from pipeline.mapping.language import Call
from pipeline.mapping.runtime import encode
from pipeline.values import Value

value = partial(verb, "value")


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
