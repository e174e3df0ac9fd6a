"""The sections of a draft for a row's key and its properties."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from functools import partial

from pipeline.mapper.codegen.conversions import as_comma_number
from pipeline.mapper.language.scalars import comment, quoted, scalar
from pipeline.survey.clock import LATEST
from pipeline.survey.columns import Column
from pipeline.survey.draft.decisions import Choice, Decisions, Option
from pipeline.survey.fields import OBJECT_TEXT
from pipeline.survey.roles.ids import is_named_as_key, key_in, keys_in
from pipeline.survey.roles.properties import entry_keys, renames_in, small_unit
from pipeline.text import printable
from pipeline.timestamps import DAY, format_utc
from pipeline.values import raw
from pipeline.values import text as text_of

_SMALL_UNIT = re.compile(
    r"(?:[\s_-]+in)?[\s_-]+(?:cents?|micros)$|(?-i:(?:In)?(?:Cents?|Micros)$)|^(?:cents?|micros)$", re.IGNORECASE
)
_DECIMAL_COMMA = re.compile(r"-?(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:[. ][0-9]{3})+)(?:,[0-9]+)?$", re.ASCII)
_CERTAIN_COMMA = re.compile(r"\S*,(?:[0-9]{1,2}|[0-9]{4,})$", re.ASCII)
"""A decimal comma, and no comma between thousands."""
_DATE_FOLDERS = {
    "year": slice(0, 4), "month": slice(5, 7), "day": slice(8, 10),
    "date": slice(0, 10), "dt": slice(0, 10), "ds": slice(0, 10),
}  # fmt: skip
"""The names of folders such as `day=07`, and their place in a time that is written as 2023-05-07T…"""


def key_section(known: Decisions) -> str:
    """What makes a row one event of the tool: a column that no two rows share."""
    timed = {one.column.steps for one in known.clocks}
    people = {one.column.steps for one in known.people if one.known}
    others = [one for one in known.columns.values() if one.steps not in timed | people]
    best = key_in(others, partial(_is_unique, known), len(known.table.records))
    if best is None:
        return "\n".join(["", *(comment(line) for line in _no_key(known, keys_in(others)))])
    known.dropped.append(best.steps)
    unnamed = not keys_in([best], likely=False) and not is_named_as_key(best)
    ref, rows = known.ref(best), known.unique.get(best.steps[0], len(best.values))
    return "\n".join([
        "",
        "# What makes a row one event of the tool: rows with one key are one event.",
        f"# No two of {rows:,} sampled rows share a value.",
        *(["# Only the values of this column look like ids, not its name: is it the id of a row?"] * unnamed),
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
    folders = _date_folders(known)
    known.dropped += [column.steps for column in folders]
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
    if folders:
        named = ", ".join(printable(column.path, 60) for column in folders)
        lines.append("  " + comment(f"{named}: the folders repeat the day of the event's time, so they are left out."))
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


def _date_folders(known: Decisions) -> list[Column]:
    """The columns of folders such as year=2023/month=05 that repeat the day of the event's time, in any zone."""
    folders = {folder.partition("=")[0] for part in known.table.parts for folder in part.path.split("/")[:-1]}
    if not known.clocks:
        return []
    times, days = known.clocks[0], dict[int, tuple[str, ...]]()
    for row, value in zip(times.column.rows, times.column.values, strict=True):
        reading = times.clock.read(value)
        if reading is not None and DAY < reading.us < LATEST - DAY:
            days[row] = tuple(format_utc(reading.us + move)[:10] for move in (-DAY, 0, DAY))

    def repeats(column: Column) -> bool:
        cut = _DATE_FOLDERS[column.name]
        pairs = zip(column.rows, map(text_of, column.values), strict=True)
        return all((text or "").zfill(2) in {day[cut] for day in days[row]} for row, text in pairs if row in days)

    own = (one for one in known.columns.values() if len(one.steps) == 1 and one is not times.column)
    return [one for one in own if one.steps[0] in folders and one.name in _DATE_FOLDERS and days and repeats(one)]


def _json_texts(known: Decisions) -> list[str]:
    """The columns that have JSON as text."""
    return [
        steps[0]
        for steps, column in known.columns.items()
        if len(steps) == 1 and steps not in known.dropped and column.share(OBJECT_TEXT, "list in text") >= 0.9
    ]


def _number(known: Decisions, name: str) -> str:
    """A number as written, and as it is sent."""
    text = next(text for text in known.columns[name,].texts if "," in text)
    return f"{text}: {bytes(raw(as_comma_number(text))).decode()}"


def _in_units(name: str, taken: Collection[str]) -> str:
    """The name of an amount in whole units: `price_cents` is `price`, unless the export has another such column."""
    bare = _SMALL_UNIT.sub("", name) or name
    return bare if bare == name or bare not in taken else f"{bare}_in_units"


def _decimal_commas(known: Decisions) -> list[str]:
    """The columns whose strings are all numbers such as 49,9 or 1.234,56. A version is not a number."""
    return [
        steps[0]
        for steps, column in known.columns.items()
        if len(steps) == 1
        and steps not in known.dropped
        and column.matching(_DECIMAL_COMMA) == 1
        and column.matching(_CERTAIN_COMMA) > 0
        and "version" not in column.name
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
