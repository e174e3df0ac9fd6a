"""The verbs that make a value. Adding one is adding one function here; nothing else names them.

`@value(name, what it does, argument=Field(kind, what it is))` declares it; the function writes the code that
computes it and says, as a `Local`, where the result is. It gets `code` (what to write with: `code.text(call)`,
`code.present(call)`, `code.line(...)`) and `call` (what the mapping gave: `call.given["argument"]`).
Texts of the mapping enter the code by `code.const(...)` or `!r` only, so a mapping can never run anything.
"""

from __future__ import annotations

import os
import re
from functools import partial

import msgspec

from pipeline.errors import MappingError, UsageError
from pipeline.json_limits import unsendable
from pipeline.mapper import conversions, runtime
from pipeline.mapper.code import Code, Local
from pipeline.mapper.grammar import TYPES
from pipeline.mapper.kinds import CONDITION, NAMES, TEXT, VALUE, VALUES, YES, Choice, Either, Field, Json, TableOf, verb
from pipeline.mapper.language import Call

value = partial(verb, "value")

HASH_KEY = "BACKCAST_HASH_KEY"
"""The environment variable with the secret of `hash`; it is in no mapping, plan or report."""


@value(
    "ref",
    "a property's name, or /column of the row, or /column/member of an object in it",
    ref=Field(TEXT, "where"),
)
def ref(code: Code, call: Call) -> Local:
    return code.read(call.given["ref"])


@value("const", "a fixed text", const=Field(TEXT, "the text", True))
def const(code: Code, call: Call) -> Local:
    return Local(code.const(call.given["const"]), "text")


@value("json", "a fixed JSON value", json=Field(Json(), "JSON text, such as '12.50' or 'true'", True))
def json(code: Code, call: Call) -> Local:
    if problem := unsendable(call.given["json"].encode()):
        raise _wrong(call, f"json: {problem}", "the service would refuse every event with it")
    return Local(code.const(msgspec.Raw(call.given["json"].encode())), "value")


@value(
    "setting",
    "what --set NAME=… names: a column, or after a second = a fixed text",
    setting=Field(TEXT, "the name", True),
    default=Field(TEXT, "the column when the setting is not given"),
    optional=Field(YES, "whether it may be left out; then it is missing"),
)
def setting(code: Code, call: Call) -> Local:
    given = setting_of(code, call)
    if given is None:
        return Local("None", "text")
    if given.startswith("="):
        return Local(code.const(given[1:]), "text")
    return code.read(given)


def setting_of(code: Code, call: Call) -> str | None:
    """What the operator gave for a `setting`; None when it is optional and was left out."""
    name = call.given["setting"]
    given = code.options.settings.get(name) or call.given.get("default")
    if given is None and call.given.get("optional") != "yes":
        raise UsageError(f"this mapping needs to know {name!r}", hint=f"add --set {name}=COLUMN, or --set {name}==TEXT")
    return given


@value("first", "the first of these that is not missing", first=Field(VALUES, "values, best first", True))
def first(code: Code, call: Call) -> Local:
    name = code.local()
    found, *others = call.given["first"]
    code.line(f"{name} = {code.present(found).name}")
    for number, other in enumerate(others):
        with code.block(f"if {name} is None:"):
            code.line(f"{name} = {code.present(other).name}")
            if number + 1 < len(others):
                continue
    return Local(name, "value")


HOLE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|[{}]")


@value(
    "template",
    "a text with {references} in it; missing when one of them is",
    template=Field(TEXT, "the text; {{ is a brace", True),
)
def template(code: Code, call: Call) -> Local:
    name = code.local("t")
    pieces: list[str] = []
    holes: list[str] = []
    end = 0
    text = call.given["template"]
    for hole in HOLE.finditer(text):
        pieces.append(repr(text[end : hole.start()]))
        end = hole.end()
        if hole.group(1):
            held = code.text(Call("ref", {"ref": hole.group(1)}, call.place)).name
            holes.append(held)
            pieces.append(held)
        elif len(hole.group()) == 2:
            pieces.append(repr(hole.group()[0]))
        else:
            raise _wrong(call, "a single brace in a template", "write {{ or }} for a brace")
    pieces.append(repr(text[end:]))
    whole = " and ".join(f"{hole} is not None" for hole in holes) or "True"
    code.line(f"{name} = ''.join(({', '.join(pieces)},)) if {whole} else None")
    return Local(name, "text")


@value(
    "join",
    "the texts of those that are not missing, one after the other",
    join=Field(VALUES, "values", True),
    with_=Field(TEXT, "what stands between them"),
)
def join(code: Code, call: Call) -> Local:
    name = code.local("t")
    parts = ", ".join(code.text(part).name for part in call.given["join"])
    code.line(f"{name} = {call.given.get('with', '')!r}.join([x for x in ({parts},) if x is not None]) or None")
    return Local(name, "text")


@value(
    "lookup",
    "what a table says for a text",
    lookup=Field(VALUE, "the text", True),
    table=Field(TEXT, "the table's name under `tables`"),
    in_=Field(TableOf(TEXT), "or the table itself"),
    case=Field(Choice(("exact", "any")), "whether the case of letters counts; exact when left out"),
    else_=Field(Either(("keep", "missing")), "where the table has nothing: the text, nothing (default), or a value"),
)
def lookup(code: Code, call: Call) -> Local:
    table = call.given.get("in")
    if table is None:
        known = code.tables
        if call.given.get("table") not in known:
            raise _wrong(
                call,
                f"there is no table {call.given.get('table')!r}",
                f"tables: {', '.join(known) or 'none'}",
            )
        table = known[call.given["table"]]
    source = code.text(call.given["lookup"]).name
    key = source
    if call.given.get("case") == "any":
        table = {name.lower(): found for name, found in table.items()}
        key = f"({source} or '').lower()"
    name = code.local("t")
    code.line(f"{name} = {code.const(dict(table))}.get({key})")
    otherwise = call.given.get("else", "missing")
    if otherwise == "keep":
        code.line(f"if {name} is None: {name} = {source}")
    elif isinstance(otherwise, Call):
        with code.block(f"if {name} is None:"):
            code.line(f"{name} = {code.text(otherwise).name}")
    return Local(name, "text")


@value(
    "hash",
    "a keyed hash (HMAC-SHA256, hex) of a text, with the secret in BACKCAST_HASH_KEY",
    hash=Field(VALUE, "the text", True),
    key=Field(TEXT, "a name that tells hashes of one text for two purposes apart", True),
)
def hash(code: Code, call: Call) -> Local:
    source = code.text(call.given["hash"]).name
    name = code.local("t")
    code.line(f"{name} = None if {source} is None else {keyed_hash(code, call.given['key'])}({source})")
    return Local(name, "text")


def keyed_hash(code: Code, key: str) -> str:
    """The name of the constant that hashes under `key`. Raises UsageError without a secret."""
    secret = os.environ.get(HASH_KEY, "")
    if not secret:
        raise UsageError(
            "this mapping hashes personal data and has no secret to do it with",
            hint=f"set {HASH_KEY} to a long random text, and keep it: another one gives other hashes",
        )
    code.used_hash = True
    return code.const(runtime.KeyedHash(secret, key))


@value(
    "type",
    "the value as another type; what cannot be converted stays, with the warning bad_value",
    type=Field(Choice(TYPES), "number, text, boolean, json or list", True),
    of=Field(VALUE, "the value", True),
    else_=Field(Choice(("warn", "keep")), "whether what stays is worth a warning; warn when left out"),
)
def type_(code: Code, call: Call) -> Local:
    source = code.present(call.given["of"]).name
    name = code.local()
    code.line(f"{name} = {source}")
    with code.block(f"if {source} is not None:"):
        code.line(f"try: {name} = {code.const(conversions.CONVERT[call.given['type']])}({source})")
        quiet = call.given.get("else") == "keep"
        code.line("except BadValue: pass" if quiet else "except BadValue as error: w += (('bad_value', str(error)),)")
    return Local(name, "value")


@value(
    "unless",
    "the value, but missing where its text is one of these",
    unless=Field(NAMES, "texts that stand for nothing", True),
    of=Field(VALUE, "the value", True),
)
def unless(code: Code, call: Call) -> Local:
    text = code.text(call.given["of"]).name
    held = code.value(call.given["of"]).name
    name = code.local()
    code.line(f"{name} = None if {text} is None or {text} in {code.const(frozenset(call.given['unless']))} else {held}")
    return Local(name, "value")


@value(
    "item",
    "one member of a list; of anything but a list, the thing itself",
    item=Field(TEXT, "which, from 0", True),
    of=Field(VALUE, "the list", True),
)
def item(code: Code, call: Call) -> Local:
    if not re.fullmatch(r"[0-9]{1,9}", call.given["item"]):
        raise _wrong(call, "which item is not a number of at most nine digits", "write item: 0 for the first")
    source = code.present(call.given["of"]).name
    name = code.local()
    code.line(f"{name} = item_of({source}, {int(call.given['item'])})")
    return Local(name, "value")


@value("lower", "the text in small letters", lower=Field(VALUE, "the text", True))
def lower(code: Code, call: Call) -> Local:
    source = code.text(call.given["lower"]).name
    return _changed(code, source, f"{source}.lower()")


@value("upper", "the text in capitals", upper=Field(VALUE, "the text", True))
def upper(code: Code, call: Call) -> Local:
    source = code.text(call.given["upper"]).name
    return _changed(code, source, f"{source}.upper()")


@value(
    "strip",
    "the text without a beginning",
    strip=Field(TEXT, "the beginning", True),
    of=Field(VALUE, "the text", True),
)
def strip(code: Code, call: Call) -> Local:
    source = code.text(call.given["of"]).name
    return _changed(code, source, f"{source}.removeprefix({call.given['strip']!r})")


@value(
    "url",
    "a part of a URL; missing when the URL has none",
    url=Field(Choice(("host", "path", "query", "scheme")), "which part", True),
    of=Field(VALUE, "the URL", True),
)
def url(code: Code, call: Call) -> Local:
    source = code.text(call.given["of"]).name
    return _changed(code, source, f"url_part({source}, {call.given['url']!r})")


@value(
    "session",
    "a $session_id: a UUIDv7 made of the session's start and what tells its session from others",
    session=Field(VALUE, "the session's start, in milliseconds since 1970; negative is no session", True),
    with_=Field(VALUES, "such as the device id"),
)
def session(code: Code, call: Call) -> Local:
    start = code.text(call.given["session"]).name
    parts = ", ".join(code.text(part).name for part in call.given.get("with", ()))
    name = code.local("t")
    code.line(f"{name} = session_of({start}, {code.const(code.tool)}, {parts})")
    return Local(name, "text")


@value(
    "when",
    "one value or another",
    when=Field(CONDITION, "what decides", True),
    then=Field(VALUE, "the value where it holds", True),
    else_=Field(VALUE, "the value where it does not; missing when left out"),
)
def when(code: Code, call: Call) -> Local:
    name = code.local()
    with code.block(f"if {code.test(call.given['when'])}:"):
        code.line(f"{name} = {code.present(call.given['then']).name}")
    with code.block("else:"):
        otherwise = call.given.get("else")
        code.line(f"{name} = {code.present(otherwise).name if otherwise else None}")
    return Local(name, "value")


def _changed(code: Code, source: str, expression: str) -> Local:
    name = code.local("t")
    code.line(f"{name} = None if {source} is None else {expression}")
    return Local(name, "text")


def _wrong(call: Call, message: str, hint: str) -> MappingError:
    file, line, column = call.place
    return MappingError(message, file=file, line=line, column=column, hint=hint)
