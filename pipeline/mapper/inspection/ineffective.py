"""What a mapping says without any effect: usually a misspelt name, or a rule that another one makes unreachable.

`backcast mapping check` and a plan stop at the first finding. docs/use/mapping-reference.md lists the checks, from
their docstrings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Mapping as Map
from itertools import pairwise
from typing import Any, NamedTuple

from pipeline.errors import MappingError, UsageError
from pipeline.mapper.compiler import compile_mapping
from pipeline.mapper.inspection.value_ranges import can_be, is_never_missing, is_never_placeholder
from pipeline.mapper.language.kinds import MOST_CANDIDATES
from pipeline.mapper.language.parsed import place_of
from pipeline.mapper.language.sections import Call, EventRule, Mapping
from pipeline.mapper.program.blanks import leave_out_blanks
from pipeline.mapper.program.references import calls_in, holes_of, path_steps, references_in
from pipeline.mapper.program.renaming import kept_properties
from pipeline.models import SealedOptions


class Finding(NamedTuple):
    """Something without effect. `at` is the verb, or the keys and indexes that lead to the place in the file."""

    message: str
    hint: str
    at: Call | tuple[str | int, ...]


Check = Callable[[Mapping], Iterator[Finding]]
CHECKS: list[Check] = []


def check_mapping(mapping: Mapping) -> None:
    """Raise a MappingError if a mapping cannot be compiled, as far as that shows without a plan's settings, or else for
    the first part of it that has no effect."""
    given = {name: next(iter(setting.one_of), name) for name, setting in mapping.settings.items()}
    try:
        compile_mapping(mapping, SealedOptions(as_of=0, settings=given), for_members=False)
    except MappingError:
        raise
    except UsageError:
        pass  # a setting or a secret that only the operator has
    for check in CHECKS:
        for message, hint, at in check(mapping):
            raise (at.place if isinstance(at, Call) else place_of(mapping, *at)).error(message, hint)


def _check(check: Check) -> Check:
    CHECKS.append(check)
    return check


# --- names ------------------------------------------------------------------------------------------------


@_check
def unused_settings(mapping: Mapping) -> Iterator[Finding]:
    """a setting that nothing uses, and the use of a setting that `settings` does not declare, so that it cannot be
    given"""
    used = {"source"} | ({"uuid"} if mapping.key is not None and mapping.key.posthog is not None else set())
    used |= {"table"} if mapping.table_from_path is not None else set()
    used |= {mapping.groups.setting} if mapping.groups is not None else set()
    for call in calls_in(mapping):
        name = call.arguments.get(call.verb) if call.verb in ("setting", "word") else call.arguments.get("setting")
        if isinstance(name, str):
            used.add(name)
            if name not in mapping.settings and name != "source":
                yield Finding(
                    f"the setting {name!r} is not declared", f"add it to settings: {name}: what it means", call
                )
    for name in mapping.settings:
        if name not in used:
            yield Finding(
                f"nothing uses the setting {name!r}", "use {setting: …} or {word: …}, or delete it", ("settings", name)
            )


@_check
def unused_tables(mapping: Mapping) -> Iterator[Finding]:
    """a table under `tables` or `lookup_files` that no verb uses, or that is under both; a `lookup` with both a
    `table` and its own `in`"""
    used = set()
    for call in calls_in(mapping):
        if "table" in call.arguments:
            used.add(call.arguments["table"])
            if "in" in call.arguments:
                yield Finding("a lookup with `in` does not use its `table`", "keep one of the two", call)
    for section, tables in (("tables", mapping.tables), ("lookup_files", mapping.lookup_files)):
        for name in tables:
            if name not in used:
                yield Finding(f"nothing uses the table {name!r}", "delete it", (section, name))
    for name in mapping.tables.keys() & mapping.lookup_files.keys():
        yield Finding(f"lookup_files also has a table {name!r}", "rename one of them", ("tables", name))


@_check
def unused_definitions(mapping: Mapping) -> Iterator[Finding]:
    """a definition under `define` that nothing refers to"""
    used = {path_steps(text)[0] for text in references_in(mapping)}
    for call in calls_in(mapping):
        used |= {path_steps(text)[0] for text in holes_of(call.arguments.get("template", ""))}
    for name in mapping.define:
        if f"@{name}" not in used:
            yield Finding(f"nothing refers to @{name}", "delete it", ("define", name))


# --- properties -------------------------------------------------------------------------------------------


@_check
def prefix_of_no_columns(mapping: Mapping) -> Iterator[Finding]:
    """a prefix in `rest` without `open`: the row itself is the properties, so there are no other columns"""
    properties = mapping.properties
    if properties.open is None and properties.rest not in ("", "drop", "keep"):
        yield Finding(
            "without `open`, every column is a property with its own name",
            "use rest: drop or rest: keep",
            ("properties", "rest"),
        )


@_check
def dropped_in_vain(mapping: Mapping) -> Iterator[Finding]:
    """a `drop` of something that is never kept: a path inside a column, a name that is also renamed, or with `rest:
    drop` a column that is left out anyway"""
    properties = mapping.properties
    kept = {spelt for name in kept_properties(mapping) for spelt in (name, f"/{name}")}
    for changes in (properties, *mapping.events.values()):
        for call in changes.drop:
            if call.verb == "setting":
                continue
            name = call.arguments.get("ref")
            if name is None or name[:1] == "@":
                yield Finding("`drop` takes names of properties and columns", "name a property, or /column", call)
                continue
            if name[:1] == "/" and len(path_steps(name)) > 1:
                hint = "name the column; to leave out members, use `spread` with `except`"
                yield Finding(f"`drop` leaves out whole columns, but {name!r} is a path inside one", hint, call)
            elif name.removeprefix("/") in changes.rename and (properties.open is None or name[:1] != "/"):
                yield Finding(f"{name!r} is renamed, so it is not left out", "keep it in one of the two", call)
            elif properties.rest == "drop" and (name[:1] == "/" if properties.open is not None else name not in kept):
                message = f"with `rest: drop`, {name!r} is left out anyway"
                yield Finding(message, "delete it from `drop`", call)


@_check
def changes_of_no_property(mapping: Mapping) -> Iterator[Finding]:
    """`types`, `hash` or `blank` for a property that never exists: it was dropped or renamed before, or with `rest:
    drop` no rule names it"""
    properties = mapping.properties
    flat = properties.open is None
    rules = [properties, *mapping.events.values()]
    made = {name for rule in rules for name in (*rule.set, *rule.fill, *rule.rename.values())}
    dropped = {
        call.arguments["ref"].removeprefix("/")
        for call in properties.drop
        if call.verb == "ref" and (flat or call.arguments["ref"][:1] != "/")
    }
    gone = (dropped | set(properties.rename)) - made
    closed = flat and properties.rest == "drop"
    for section in ("types", "hash"):
        for name in getattr(properties, section):
            if name in made or properties.spread:
                continue
            if name in gone:
                new = properties.rename.get(name)
                hint = f"use its new name {new!r}" if new else "keep the property, or delete this"
                yield Finding(f"{section}: property {name!r} no longer exists", hint, ("properties", section, name))
            elif closed and name not in kept_properties(mapping):
                yield Finding(
                    f"{section}: with `rest: drop`, property {name!r} does not exist",
                    "name it under `set`",
                    ("properties", section, name),
                )
    for number, blank in enumerate(properties.blank):
        for name in blank.within:
            if name in dropped - set(properties.rename) or (closed and name not in kept_properties(mapping)):
                yield Finding(
                    f"blank: the property {name!r} is left out anyway",
                    "delete it here",
                    ("properties", "blank", number, "in"),
                )


@_check
def renamed_to_itself(mapping: Mapping) -> Iterator[Finding]:
    """a `rename` to the same name, unless it keeps the property under `rest: drop`"""
    closed = mapping.properties.open is None and mapping.properties.rest == "drop"
    sections = [
        (("properties",), mapping.properties.rename),
        *((("events", name), rule.rename) for name, rule in mapping.events.items()),
    ]
    for path, renames in sections:
        for old, new in renames.items():
            if old == new and not closed:
                yield Finding(f"{old!r} is renamed to itself", "delete it", (*path, "rename", old))


@_check
def filled_after_set(mapping: Mapping) -> Iterator[Finding]:
    """a `fill` of a property that `set` always sets"""
    for name, call in mapping.properties.set.items():
        if name in mapping.properties.fill and is_never_missing(call):
            yield Finding(
                f"`set` always sets {name!r}, so `fill` never does",
                "delete one of the two",
                ("properties", "fill", name),
            )


# --- verbs ------------------------------------------------------------------------------------------------


@_check
def unreachable_choices(mapping: Mapping) -> Iterator[Finding]:
    """a value of `first`, or a candidate for an id or a time, that comes after one that is never missing, such as a
    constant"""
    for call in calls_in(mapping):
        if call.verb == "first":
            yield from _unreachable(call.arguments["first"], is_never_missing)
    yield from _unreachable([clock.source for clock in mapping.time], is_never_missing)
    yield from _unreachable([clock.source for clock in mapping.received], is_never_missing)
    yield from _unreachable(mapping.distinct_id.first[:MOST_CANDIDATES], is_never_placeholder)


def _unreachable(calls: Any, always: Callable[[Call], bool]) -> Iterator[Finding]:
    for before, call in pairwise(calls):
        if always(before):
            yield Finding(
                "this is never used: the value before it is never missing", "change the order, or delete one", call
            )
            return


@_check
def impossible_texts(mapping: Mapping) -> Iterator[Finding]:
    """`unless`, `is` or `one_of` with a text that its value can never be, and entries of a table that a `lookup` can
    never find: capitals after `lower`, small letters after `upper`, text that the `lookup` inside never gives"""
    for call in calls_in(mapping):
        if call.verb in ("unless", "is", "one_of"):
            given = call.arguments[call.verb]
            texts = (given,) if isinstance(given, str) else given
            if texts and not any(can_be(call.arguments["of"], text, mapping) for text in texts):
                named = " or ".join(map(repr, texts))
                yield Finding(f"{call.verb}: the value is never {named}", "check the spelling, or delete it", call)
        elif call.verb == "lookup":
            table = call.arguments.get("in", mapping.tables.get(call.arguments.get("table", ""), {}))
            any_case = call.arguments.get("case") == "any"
            for text in table if "in" in call.arguments else ():
                if not any_case and not can_be(call.arguments["lookup"], text, mapping):
                    yield Finding(f"lookup: the text is never {text!r}", "check the spelling, or delete it", call)
            lowered = [text.lower() for text in table]
            if any_case and len(set(lowered)) < len(lowered):
                twice = next(text for text in table if lowered.count(text.lower()) > 1)
                yield Finding(f"lookup: the table has {twice!r} twice, in different case", "keep one of them", call)


@_check
def blanks_of_nothing(mapping: Mapping) -> Iterator[Finding]:
    """`in` of `blanks` without the `texts`, `json: missing` or `parquet: missing` that it restricts"""
    if mapping.blanks.within and leave_out_blanks(mapping) is None:
        yield Finding("blanks: `in` names fields, but nothing counts as missing there", "add `texts`", ("blanks", "in"))


@_check
def both_unit_and_format(mapping: Mapping) -> Iterator[Finding]:
    """a `unit` for a time that also has a `format`"""
    for section, clocks in (("time", mapping.time), ("received", mapping.received)):
        for number, clock in enumerate(clocks):
            if clock.form is not None and clock.form.verb != "setting" and clock.unit not in ("iso", "format"):
                yield Finding(
                    "a time with a format cannot have another unit",
                    "write unit: format, or delete the format",
                    (section, number, "unit"),
                )


# --- events -----------------------------------------------------------------------------------------------


@_check
def shadowed_rules(mapping: Mapping) -> Iterator[Finding]:
    """an event rule that no row reaches: a `skip` before it leaves out all rows with that name, or the event's name is
    never this one; and a `skip` with the same condition as an earlier one"""
    for name in mapping.events:
        if not can_be(mapping.event, name, mapping):
            yield Finding(f"no event has the name {name!r} here", "use the name that `event` gives", ("events", name))
        for skip in mapping.skip:
            if any(_is_name(when, mapping.event, name) for when in _alternatives(skip.when)):
                yield Finding(
                    f"`skip` leaves out every {name!r} (code {skip.code}), so its rule is never used",
                    "delete one of the two",
                    ("events", name),
                )
    seen: list[object] = []
    for number, skip in enumerate(mapping.skip):
        same = _without_places(skip.when)
        if same in seen:
            yield Finding("an earlier skip has the same condition", "delete one of the two", ("skip", number, "when"))
        seen.append(same)


@_check
def changes_of_no_event(mapping: Mapping) -> Iterator[Finding]:
    """in an event rule, changes of properties or other parts of rows that do not become events: with `skip`, `update`,
    `group`, `profiles` or an unconditional `link`; `warn` without `skip`; and a rule that changes nothing"""
    for name, rule in mapping.events.items():
        at = ("events", name)
        ends = _ending(rule)
        parts = [part for part in ("rename", "drop", "set", "fill") if getattr(rule, part)]
        if rule.skip:
            parts += [
                part
                for part in ("as", "link", "update", "group", "profiles")
                if getattr(rule, {"as": "name"}.get(part, part))
            ]
        if ends and parts:
            yield Finding(
                f"rows with `{ends}` do not become events, so `{parts[0]}` has no effect", "delete it", (*at, parts[0])
            )
        if rule.warn and not rule.skip:
            yield Finding("`warn` is for rows that `skip` leaves out", "add skip: CODE, or delete it", (*at, "warn"))
        if mapping.unlisted == "keep" and rule in (EventRule(), EventRule(name=name)):
            yield Finding(f"the rule for {name!r} changes nothing", "delete it", at)


def _ending(rule: EventRule) -> str:
    """The part of a rule that keeps its rows from being events; "" if they are events."""
    if rule.link is not None and rule.link.when is None and not rule.update:
        return "link"
    return next((part for part in ("skip", "update", "group", "profiles") if getattr(rule, part)), "")


# --- walking a mapping ------------------------------------------------------------------------------------


def _alternatives(condition: Call) -> Iterator[Call]:
    """The conditions of which any one is enough."""
    if condition.verb == "any":
        for one in condition.arguments["any"]:
            yield from _alternatives(one)
    else:
        yield condition


def _is_name(condition: Call, event: Call, name: str) -> bool:
    """Whether a condition is true for every row with this event name."""
    if condition.verb not in ("is", "one_of") or _without_places(condition.arguments["of"]) != _without_places(event):
        return False
    texts = condition.arguments[condition.verb]
    return name == texts if isinstance(texts, str) else name in texts


def _without_places(part: object) -> object:
    """A part of a mapping in a form that makes identical parts equal wherever they are written."""
    match part:
        case Call():
            return (part.verb, _without_places(part.arguments))
        case Map():
            return tuple((name, _without_places(one)) for name, one in sorted(part.items()))
        case tuple():
            return tuple(map(_without_places, part))
        case _:
            return part
