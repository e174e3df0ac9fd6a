"""The sections of a draft for a row's key and its properties."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from decimal import Decimal

from pipeline.mapper.codegen.conversions import as_comma_number
from pipeline.mapper.language.scalars import comment, quoted, scalar
from pipeline.survey.columns import Column
from pipeline.survey.draft.decisions import Choice, Decisions, Option
from pipeline.survey.fields import OBJECT_TEXT
from pipeline.survey.roles.ids import keys_in
from pipeline.survey.roles.properties import entry_keys, renames_in, small_unit
from pipeline.values import raw

_SMALL_UNIT = re.compile(
    r"(?:[\s_-]+in)?[\s_-]+(?:cents?|micros)$|(?-i:(?:In)?(?:Cents?|Micros)$)|^(?:cents?|micros)$", re.IGNORECASE
)
_DECIMAL_COMMA = re.compile(r"-?(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:[. ][0-9]{3})+),[0-9]{2}$", re.ASCII)
ENOUGH_ROWS = 20
"""In fewer rows, different values of a column show nothing, unless its name is that of a key."""


def key_section(known: Decisions) -> str:
    """What makes a row one event of the tool: a column that no two rows share."""
    timed = {one.column.steps for one in known.clocks}
    people = {one.column.steps for one in known.people if one.known}
    likely = [one for one in keys_in(known.columns.values()) if one.steps not in timed | people]
    named = keys_in(likely, likely=False)
    enough = len(known.table.records) >= ENOUGH_ROWS
    best = next((one for one in likely if _is_unique(known, one) and (enough or one in named)), None)
    if best is None:
        return "\n".join(["", *(comment(line) for line in _no_key(known, likely))])
    known.dropped.append(best.steps)
    ref, rows = known.ref(best), known.unique.get(best.steps[0], len(best.values))
    return "\n".join([
        "",
        "# What makes a row one event of the tool: rows with one key are one event.",
        f"# No two of {rows:,} sampled rows share a value.",
        *([f"uuid: {ref}"] if best.share("uuid in text") >= 0.9 else []),
        f"key: {{of: [{ref}], needs: [{ref}]}}",
    ])  # fmt: skip


def _no_key(known: Decisions, likely: Sequence[Column]) -> list[str]:
    """Why no column is the key."""
    shared = [column.path for column in likely if not _is_unique(known, column)][:3]
    few = [column.path for column in likely if column.path not in shared][:3]
    lines = [f"{', '.join(shared)}: different rows share a value, so it is not a key."] if shared else []
    lines += [f"{', '.join(few)}: too few rows to show a key."] if few else []
    return [*(lines or ["No column looks like a row's own id."]), "A row's whole content is its key."]


def _is_unique(known: Decisions, column: Column) -> bool:
    if len(column.steps) == 1:
        return column.steps[0] in known.unique
    return len(column.texts) == len(column.values)


def property_sections(known: Decisions) -> str:
    """`define` and `properties`."""
    flat = known.opened is None
    define, lines = ("", []) if known.opened is None else _opened(known, known.opened)
    own = () if known.opened is None else (known.opened.steps[0],)
    renames = renames_in(one for one in known.columns.values() if one.steps not in known.dropped)
    renamed = {steps[-1]: new for steps, new in renames.items() if steps[:-1] == own}
    sets = {} if flat else _beside(known, {steps[0]: new for steps, new in renames.items() if len(steps) == 1})
    dropped = [steps for steps in dict.fromkeys(known.dropped) if steps[:-1] == own or len(steps) == 1]
    names = [
        scalar(steps[-1])
        if steps[:-1] == own and steps[-1][:1] not in ("", "/", "@")
        else known.ref(known.columns[steps])
        for steps in dropped
    ]
    amounts, comments = _amounts(known)
    sets |= amounts
    texts = _json_texts(known) if flat else []
    decimals = _decimal_commas(known) if flat else []
    if names:
        lines.append(f"  drop: [{', '.join(names)}]")
    if renamed:
        lines += ["  rename:", *(f"    {scalar(old)}: {scalar(new)}" for old, new in renamed.items())]
    if texts or decimals:
        lines += ["  types:"]
        lines += [f"    {scalar(name)}: json      # JSON written as text" for name in texts]
        lines += [f"    {scalar(name)}: comma_number      # such as {_number(known, name)}" for name in decimals]
    lines += [f"  {line}" for line in comments]
    if sets:
        lines += ["  set:", *(f"    {scalar(name)}: {text}" for name, text in sets.items())]
    section = ["properties:"] if any(line.strip()[:1] != "#" for line in lines) else []
    return "\n".join([*define, *([""] if lines else []), *section, *lines])


def _opened(known: Decisions, column: Column) -> tuple[list[str], list[str]]:
    """The definition of a list of keys and values, and the line that opens the event's own properties."""
    ref, define = known.ref(column), list[str]()
    if (entries := entry_keys(column)) is not None:
        name = re.sub(r"\W", "_", column.steps[0])
        define = ["", "define:", f"  {name}:", *_entries(ref, *entries)]
        ref = quoted(f"@{name}")
    return define, [f"  open: {ref}      # other columns become {known.tool}_NAME"]


def _entries(ref: str, key: str, paths: Sequence[str]) -> list[str]:
    """The verb that turns a list of keys and values into an object."""
    types = {path: "number" for path in paths if re.search(r"int|number|double|float|long", path)}
    lines = [f"    entries: {ref}", f"    key: {scalar(key)}", f"    value: [{', '.join(map(scalar, paths))}]"]
    named = ", ".join(f"{scalar(path)}: {type_}" for path, type_ in types.items())
    return [*lines, f"    types: {{{named}}}"] if named else lines


def _beside(known: Decisions, renames: dict[str, str]) -> dict[str, str]:
    """The columns outside the opened properties that are set by name.

    The columns to keep do not include any that a section refers to, so such a column is set again if it is more than an
    event's name, time, id or key.
    """
    sets = {new: known.ref(known.columns[name,]) for name, new in renames.items()}
    opened = known.opened.steps[0] if known.opened is not None else ""
    columns = [*(one.column for one in known.people), *(one.column for one in known.clocks)]
    referred = dict.fromkeys(column.steps[0] for column in columns)
    whole = {steps[0] for steps in known.dropped if len(steps) == 1}
    for name in referred:
        if name not in whole and name != opened and name not in renames:
            sets[f"{known.tool}_{name}"] = known.ref(known.columns[name,])
    return sets


def _json_texts(known: Decisions) -> list[str]:
    """The columns that have JSON as text."""
    return [
        steps[0]
        for steps, column in known.columns.items()
        if len(steps) == 1 and steps not in known.dropped and column.share(OBJECT_TEXT, "list in text") >= 0.9
    ]


def _number(known: Decisions, name: str) -> str:
    """An amount as written, and as a number."""
    text = next(iter(known.columns[name,].texts))
    return f"{text}: {bytes(raw(as_comma_number(text))).decode()}"


def _in_units(name: str, taken: Collection[str]) -> str:
    """The name of an amount in whole units: `price_cents` is `price`, unless the export has another such column."""
    bare = _SMALL_UNIT.sub("", name) or name
    return bare if bare == name or bare not in taken else f"{bare}_in_units"


def _decimal_commas(known: Decisions) -> list[str]:
    """The columns whose strings are amounts such as 49,90 or 1.234,56."""
    return [
        steps[0]
        for steps, column in known.columns.items()
        if len(steps) == 1 and steps not in known.dropped and column.matching(_DECIMAL_COMMA) == 1
    ]


def _amounts(known: Decisions) -> tuple[dict[str, str], list[str]]:
    """The properties that are set to amounts in whole units, and comments if the choice is open."""
    found = [(one, unit) for one in known.columns.values() if (unit := small_unit(one)) is not None]
    if not found:
        return {}, []
    evidence = "; ".join(f"{one.path} in {unit:,}ths: {one.evidence()}" for one, unit in found[:3])
    names = {one.steps[-1] for one in known.columns.values()}
    sets = {_in_units(one.steps[-1], names): f"{{divide: {known.ref(one)}, by: {unit}}}" for one, unit in found}
    first, unit = found[0]
    example = next(iter(first.texts))
    divided = f"{Decimal(example) / unit:f}" if example.lstrip("-").isdecimal() else "its value in units"
    options = (
        Option("keep", f"they stay as they are: {first.path} is {example}"),
        Option("divide", f"they become amounts in whole units: {next(iter(sets))} is {divided}"),
    )
    question = f"these whole numbers may be amounts in a small unit ({evidence})."
    text, comments = known.choose(Choice("amounts", question, options))
    return (sets if text == "divide" else {}), comments
