"""The verbs that decide."""

from __future__ import annotations

from functools import partial

from pipeline.mapper import expressions
from pipeline.mapper.builder import Builder
from pipeline.mapper.expressions import Condition
from pipeline.mapper.kinds import CONDITION, CONDITIONS, NAMES, TEXT, VALUE, VALUES, Field, verb
from pipeline.mapper.language import Call

condition = partial(verb, "condition")


@condition("present", "the row has it, and it is not null", present=Field(VALUE, "what", True))
def present(build: Builder, call: Call) -> Condition:
    return expressions.Present(build.present(call.given["present"]))


@condition("absent", "the row does not have it, or it is null", absent=Field(VALUE, "what", True))
def absent(build: Builder, call: Call) -> Condition:
    return expressions.Not(expressions.Present(build.present(call.given["absent"])))


@condition("is", "the text is this one", is_=Field(TEXT, "the text", True), of=Field(VALUE, "of what", True))
def is_(build: Builder, call: Call) -> Condition:
    return expressions.Equals(build.text(call.given["of"]), call.given["is"])


@condition("one_of", "the text is one of these", one_of=Field(NAMES, "texts", True), of=Field(VALUE, "of what", True))
def one_of(build: Builder, call: Call) -> Condition:
    return expressions.OneOf(build.text(call.given["of"]), call.given["one_of"])


@condition(
    "starts",
    "the text begins so",
    starts=Field(TEXT, "the beginning", True),
    of=Field(VALUE, "of what", True),
)
def starts(build: Builder, call: Call) -> Condition:
    return expressions.StartsWith(build.text(call.given["of"]), call.given["starts"])


@condition(
    "contains",
    "the text has this in it",
    contains=Field(TEXT, "the piece", True),
    of=Field(VALUE, "of what", True),
)
def contains(build: Builder, call: Call) -> Condition:
    return expressions.Contains(build.text(call.given["of"]), call.given["contains"])


@condition("same", "the texts are equal, and none is missing", same=Field(VALUES, "two or more values", True))
def same(build: Builder, call: Call) -> Condition:
    return expressions.Same(tuple(map(build.text, call.given["same"])))


@condition("all", "every one of these holds", all=Field(CONDITIONS, "conditions", True))
def all_(build: Builder, call: Call) -> Condition:
    return expressions.All(tuple(map(build.condition, call.given["all"])))


@condition("any", "at least one of these holds", any=Field(CONDITIONS, "conditions", True))
def any_(build: Builder, call: Call) -> Condition:
    return expressions.Any_(tuple(map(build.condition, call.given["any"])))


@condition("not", "this does not hold", not_=Field(CONDITION, "a condition", True))
def not_(build: Builder, call: Call) -> Condition:
    return expressions.Not(build.condition(call.given["not"]))
