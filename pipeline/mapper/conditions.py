"""The verbs that decide: each writes what it needs to read and gives the expression that is true when it holds."""

from __future__ import annotations

from functools import partial

from pipeline.mapper.code import Code
from pipeline.mapper.kinds import CONDITION, CONDITIONS, NAMES, TEXT, VALUE, VALUES, Field, verb
from pipeline.mapper.language import Call

condition = partial(verb, "condition")


@condition("present", "the row has it, and it is not null", present=Field(VALUE, "what", True))
def present(code: Code, call: Call) -> str:
    return f"{_there(code, call.given['present'])} is not None"


@condition("absent", "the row does not have it, or it is null", absent=Field(VALUE, "what", True))
def absent(code: Code, call: Call) -> str:
    return f"{_there(code, call.given['absent'])} is None"


def _there(code: Code, call: Call) -> str:
    """A name that is None when the value is missing: its text, when that was made already."""
    known = code.known(("text", call.given["ref"])) if call.verb == "ref" else None
    return known.name if known is not None else code.present(call).name


@condition("is", "the text is this one", is_=Field(TEXT, "the text", True), of=Field(VALUE, "of what", True))
def is_(code: Code, call: Call) -> str:
    return f"{code.text(call.given['of']).name} == {call.given['is']!r}"


@condition("one_of", "the text is one of these", one_of=Field(NAMES, "texts", True), of=Field(VALUE, "of what", True))
def one_of(code: Code, call: Call) -> str:
    return f"{code.text(call.given['of']).name} in {code.const(frozenset(call.given['one_of']))}"


@condition(
    "starts",
    "the text begins so",
    starts=Field(TEXT, "the beginning", True),
    of=Field(VALUE, "of what", True),
)
def starts(code: Code, call: Call) -> str:
    return f"({code.text(call.given['of']).name} or '').startswith({call.given['starts']!r})"


@condition(
    "contains",
    "the text has this in it",
    contains=Field(TEXT, "the piece", True),
    of=Field(VALUE, "of what", True),
)
def contains(code: Code, call: Call) -> str:
    return f"{call.given['contains']!r} in ({code.text(call.given['of']).name} or '')"


@condition("same", "the texts are equal, and none is missing", same=Field(VALUES, "two or more values", True))
def same(code: Code, call: Call) -> str:
    names = [code.text(part).name for part in call.given["same"]]
    return f"(None is not {' == '.join(names)})"


@condition("all", "every one of these holds", all=Field(CONDITIONS, "conditions", True))
def all_(code: Code, call: Call) -> str:
    return "(" + " and ".join(code.test(part) for part in call.given["all"]) + ")"


@condition("any", "at least one of these holds", any=Field(CONDITIONS, "conditions", True))
def any_(code: Code, call: Call) -> str:
    return "(" + " or ".join(code.test(part) for part in call.given["any"]) + ")"


@condition("not", "this does not hold", not_=Field(CONDITION, "a condition", True))
def not_(code: Code, call: Call) -> str:
    return f"(not {code.test(call.given['not'])})"
