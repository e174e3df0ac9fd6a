"""The verbs for conditions, and general verbs for values. To add one, add a function to any module of this folder."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.json_limits import unsendable
from pipeline.mapper.language.kinds import (
    CONDITION,
    CONDITIONS,
    NAMES,
    TEXT,
    VALUE,
    VALUES,
    YES,
    Call,
    Choice,
    Either,
    Field,
    Json,
    TableOf,
    condition,
    value,
)
from pipeline.mapper.language.types_section import TYPES
from pipeline.mapper.program import expressions
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Choose, Condition, Constant, Missing, Value
from pipeline.mapper.program.functions import FUNCTIONS, Function
from pipeline.mapper.program.references import HOLE


@value(
    "ref",
    "a property's name, or /column of the row, or /column/member of an object in it",
    ref=Field(TEXT, "the reference"),
)
def ref(build: Builder, call: Call) -> Value:
    return build.reference(call.arguments["ref"])


@value("const", "a fixed text", const=Field(TEXT, "the text", True))
def const(build: Builder, call: Call) -> Value:
    return Constant(call.arguments["const"])


@value("json", "a fixed JSON value", json=Field(Json(), "JSON text, such as '12.50' or 'true'", True))
def json(build: Builder, call: Call) -> Value:
    if problem := unsendable(call.arguments["json"].encode()):
        raise call.place.error(f"json: {problem}", "correct the JSON: the service would refuse every event with it")
    return expressions.Json(call.arguments["json"])


@value(
    "setting",
    "the column that --set NAME=… names, or the fixed text after a second =",
    setting=Field(TEXT, "the name", True),
    default=Field(TEXT, "the column if the setting is not given"),
    optional=Field(YES, "whether it may be left out; then it is missing"),
)
def setting(build: Builder, call: Call) -> Value:
    text = build.setting(call)
    if text is None:
        return Missing()
    return Constant(text[1:]) if text.startswith("=") else build.reference(text)


@value("first", "the first of these that is not missing", first=Field(VALUES, "values, best first", True))
def first(build: Builder, call: Call) -> Value:
    return expressions.First(tuple(map(build.present, call.arguments["first"])))


@value(
    "template",
    "a text with {references} in it; missing if one of them is",
    template=Field(TEXT, "the text; write {{ for a brace", True),
)
def template(build: Builder, call: Call) -> Value:
    parts: list[str | Value] = []
    end = 0
    text = call.arguments["template"]
    for hole in HOLE.finditer(text):
        parts.append(text[end : hole.start()])
        end = hole.end()
        if hole.group(1):
            parts.append(expressions.as_text(build.reference(hole.group(1))))
        elif len(hole.group()) == 2:
            parts.append(hole.group()[0])
        else:
            raise call.place.error("the template contains a single { or }", "write {{ or }} for a brace")
    parts.append(text[end:])
    return expressions.Template(tuple(part for part in parts if part != ""))


@value(
    "join",
    "the texts that are not missing, joined",
    join=Field(VALUES, "values", True),
    with_=Field(TEXT, "the text between them"),
)
def join(build: Builder, call: Call) -> Value:
    return expressions.Join(tuple(map(build.text, call.arguments["join"])), call.arguments.get("with", ""))


@value(
    "lookup",
    "the entry that a table has for a text",
    lookup=Field(VALUE, "the text", True),
    table=Field(TEXT, "the table's name under `tables` or `lookup_files`"),
    in_=Field(TableOf(TEXT), "or the table itself"),
    case=Field(Choice(("exact", "any")), "whether upper and lower case differ (exact) or not; exact if left out"),
    else_=Field(Either(("keep", "missing")), "for text that the table lacks: the text, missing (default), or a value"),
)
def lookup(build: Builder, call: Call) -> Value:
    any_case = call.arguments.get("case") == "any"
    text = build.text(call.arguments["lookup"])
    otherwise = call.arguments.get("else", "missing")
    return expressions.Lookup(
        text,
        build.table(call, any_case),
        any_case,
        build.text(otherwise) if isinstance(otherwise, Call) else text if otherwise == "keep" else Missing(),
    )


@value(
    "hash",
    "a keyed hash (HMAC-SHA256, hex) of text, with the secret in BACKCAST_HASH_KEY",
    hash=Field(VALUE, "the text", True),
    key=Field(TEXT, "the purpose: the same text has different hashes for different purposes", True),
)
def hash(build: Builder, call: Call) -> Value:
    return expressions.Hash(build.text(call.arguments["hash"]), build.purpose(call.arguments["key"]))


@value(
    "type",
    "the value as another type; a value that cannot be converted stays, with the warning bad_value",
    type=Field(Choice(TYPES), "number, integer, comma_number (49,90 or 1.234,56), text, boolean, json or list", True),
    of=Field(VALUE, "the value", True),
    else_=Field(Choice(("warn", "keep")), "whether to warn about a value that stays; warn if left out"),
)
def type_(build: Builder, call: Call) -> Value:
    return expressions.Convert(
        build.present(call.arguments["of"]), call.arguments["type"], call.arguments.get("else") != "keep"
    )


@value(
    "unless",
    "the value, but missing if its text is one of these",
    unless=Field(NAMES, "texts that mean no value", True),
    of=Field(VALUE, "the value", True),
)
def unless(build: Builder, call: Call) -> Value:
    blank = expressions.OneOf(build.text(call.arguments["of"]), call.arguments["unless"])
    return Choose(blank, Missing(), build.present(call.arguments["of"]))


@value("lower", "the text in lower case", lower=Field(VALUE, "the text", True))
def lower(build: Builder, call: Call) -> Value:
    return Apply("lower_case", (build.text(call.arguments["lower"]),))


@value("upper", "the text in upper case", upper=Field(VALUE, "the text", True))
def upper(build: Builder, call: Call) -> Value:
    return Apply("upper_case", (build.text(call.arguments["upper"]),))


@value(
    "strip",
    "the text without a prefix or a suffix",
    strip=Field(TEXT, "the prefix or suffix", True),
    of=Field(VALUE, "the text", True),
    at=Field(Choice(("start", "end")), "where to remove it; start if left out"),
)
def strip(build: Builder, call: Call) -> Value:
    name = "without_suffix" if call.arguments.get("at") == "end" else "without_prefix"
    return Apply(name, (build.text(call.arguments["of"]), Constant(call.arguments["strip"])))


@value(
    "session",
    "a $session_id: a UUIDv7 made from the session's start and from values that distinguish sessions",
    session=Field(VALUE, "the session's start, in milliseconds since 1970; if negative, there is no session", True),
    with_=Field(VALUES, "values that distinguish sessions, for example the device id"),
)
def session(build: Builder, call: Call) -> Value:
    start, parts = build.text(call.arguments["session"]), map(build.text, call.arguments.get("with", ()))
    return start if start == Missing() else Apply("session_of", (start, Constant(build.tool), *parts))


@value(
    "when",
    "one value or another",
    when=Field(CONDITION, "the condition", True),
    then=Field(VALUE, "the value if it is true", True),
    else_=Field(VALUE, "the value if it is false; missing if left out"),
)
def when(build: Builder, call: Call) -> Value:
    otherwise = call.arguments.get("else")
    return Choose(
        build.condition(call.arguments["when"]),
        build.present(call.arguments["then"]),
        build.present(otherwise) if otherwise else Missing(),
    )


FUNCTIONS["lower_case"] = Function(str.lower, needs=1)
FUNCTIONS["upper_case"] = Function(str.upper, needs=1)
FUNCTIONS["without_prefix"] = Function(str.removeprefix, needs=1)
FUNCTIONS["without_suffix"] = Function(str.removesuffix, needs=1)


@condition("present", "the row has the value, and it is not null", present=Field(VALUE, "the value", True))
def present(build: Builder, call: Call) -> Condition:
    return expressions.Present(build.present(call.arguments["present"]))


@condition("absent", "the row does not have the value, or it is null", absent=Field(VALUE, "the value", True))
def absent(build: Builder, call: Call) -> Condition:
    return expressions.Not(expressions.Present(build.present(call.arguments["absent"])))


def _text_condition(name: str, help: str, argument: Field, operation: Callable[..., Condition]) -> None:
    @condition(name, help, **{name: argument}, of=Field(VALUE, "the value", True))
    def build_condition(build: Builder, call: Call) -> Condition:
        return operation(build.text(call.arguments["of"]), call.arguments[name])


_text_condition(
    "is", "the text is this one", Field(TEXT, "the text", True), lambda value, text: expressions.OneOf(value, (text,))
)
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
