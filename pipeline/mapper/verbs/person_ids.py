"""The verb for ids of persons, which may be words that trackers write where an id is missing."""

from __future__ import annotations

from functools import partial

from pipeline.mapper.language.kinds import VALUE, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Constant, Value
from pipeline.mapper.program.functions import function
from pipeline.validator.placeholder_ids import is_placeholder

value = partial(verb, "value")


@value(
    "person_id",
    "an id as text, missing where `distinct_id` passes it over: a placeholder id such as `undefined`, or one of its"
    " `junk`",
    person_id=Field(VALUE, "the id", True),
)
def person_id(build: Builder, call: Call) -> Value:
    return Apply("id_of_person", (build.text(call.arguments["person_id"]), *map(Constant, build.junk)))


@function(needs=1)
def id_of_person(text: str, *junk: str) -> str | None:
    """The id, unless it is a placeholder id or, in any case of letters, one of `junk`."""
    return None if is_placeholder(text) or text.lower() in junk else text
