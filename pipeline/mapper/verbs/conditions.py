"""The verbs of conditions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pipeline.mapper.language.kinds import CONDITION, CONDITIONS, NAMES, TEXT, VALUE, VALUES, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program import expressions
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Condition

condition = partial(verb, "condition")


@condition("present", "the row has the value, and it is not null", present=Field(VALUE, "the value", True))
def present(build: Builder, call: Call) -> Condition:
    return expressions.Present(build.present(call.arguments["present"]))


@condition("absent", "the row does not have the value, or it is null", absent=Field(VALUE, "the value", True))
def absent(build: Builder, call: Call) -> Condition:
    return expressions.Not(expressions.Present(build.present(call.arguments["absent"])))


def _text_condition(name: str, help: str, argument: Field, operation: Callable[..., Condition]) -> None:
    """Declare a condition that compares the text of a value with its argument."""

    @condition(name, help, **{name: argument}, of=Field(VALUE, "the value", True))
    def build_condition(build: Builder, call: Call) -> Condition:
        return operation(build.text(call.arguments["of"]), call.arguments[name])


_text_condition("is", "the text is this one", Field(TEXT, "the text", True), expressions.Equals)
_text_condition("one_of", "the text is one of these", Field(NAMES, "texts", True), expressions.OneOf)
_text_condition("starts", "the text has this prefix", Field(TEXT, "the prefix", True), expressions.StartsWith)
_text_condition("contains", "the text contains this one", Field(TEXT, "the text", True), expressions.Contains)


@condition("same", "the texts are equal, and none is missing", same=Field(VALUES, "two or more values", True))
def same(build: Builder, call: Call) -> Condition:
    return expressions.Same(tuple(map(build.text, call.arguments["same"])))


@condition("all", "all of these are true", all=Field(CONDITIONS, "conditions", True))
def all_(build: Builder, call: Call) -> Condition:
    return expressions.All(tuple(map(build.condition, call.arguments["all"])))


@condition("any", "at least one of these is true", any=Field(CONDITIONS, "conditions", True))
def any_(build: Builder, call: Call) -> Condition:
    return expressions.Any_(tuple(map(build.condition, call.arguments["any"])))


@condition("not", "this is false", not_=Field(CONDITION, "a condition", True))
def not_(build: Builder, call: Call) -> Condition:
    return expressions.Not(build.condition(call.arguments["not"]))
