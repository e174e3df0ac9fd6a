"""Writes what becomes of the properties: first everything that is read, then every change.

Properties that few rows have (all that are not read anyway, nor listed as `common`) are looked for with one test
for all of them, because asking for each by name would cost more than the rest of the row.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field

from pipeline.mapper import conversions, runtime, verbs
from pipeline.mapper.code import Code, Local
from pipeline.mapper.language import Call, EventRule, Mapping, Spread
from pipeline.mapper.members_code import MOST_RENAMES, MembersCode
from pipeline.native import native

RESERVED = (
    "$set",
    "$set_once",
    "$unset",
    "$ip",
    "$groups",
    "$group_0",
    "$group_1",
    "$group_2",
    "$group_3",
    "$group_4",
    "$group_type",
    "$group_key",
    "$group_set",
    "$anon_distinct_id",
    "alias",
    "$process_person_profile",
    "$geoip_disable",
    "$cookieless_mode",
    "$ignore_sent_at",
    "$sent_at",
    "capture_internal",
    "token",
    "api_key",
    "properties",
    "distinct_id",
    "historical_migration",
    "analytics_source",
    "import_name",
)
"""Property names that the service, or an import's provenance, gives a meaning of its own
(docs/know/exports.md#mixpanel-traps, docs/know/service.md#event-fields, #ids-and-text, #persons): a source's own become
TOOL_name, so a row cannot do by accident what they do."""

STRAIGHT = 12
"""Up to this many properties are asked for by name; more go through the one test."""


@dataclass
class Read:
    """The names of what was read, by the name of the property it becomes."""

    set: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    """Of `set`, what is a column as it stands: it is copied when it is set, and not read."""
    fill: dict[str, str] = field(default_factory=dict)
    spreads: list[str] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    groups_open: str = ""
    own_groups: bool = False
    rules: bool = False


def plan_changes(code: Code, mapping: Mapping) -> None:
    """Tell `code` which properties leave whatever else happens, so that reading them takes them out."""
    code.removed |= set(mapping.properties.rename) | set(dropped(code, mapping.properties.drop))


def dropped(code: Code, drop: tuple[Call, ...]) -> list[str]:
    """The properties that `drop` names; columns of the row (`/column`) are noted as named."""
    names: list[str] = []
    for call in drop:
        name = verbs.setting_of(code, call) if call.verb == "setting" else call.given.get("ref")
        if name is None or name.startswith("="):
            continue
        if name.startswith("/") and not code.open_row:
            code.named_columns.add(name[1:])
        else:
            names.append(name.removeprefix("/"))
    return names


def read_changes(code: Code, mapping: Mapping) -> Read:
    """Write the reading of everything that the changes need."""
    read = Read()
    properties, groups = mapping.properties, mapping.groups
    read.columns = _columns(code, properties.set)
    read.set = {name: "" if name in read.columns else code.present(call).name for name, call in properties.set.items()}
    read.fill = _read(code, properties.fill)
    read.spreads = [spread_members(code, one) for one in properties.spread]
    if groups is not None:
        read.groups = _read(code, groups.types)
        for name in filter(None, code.options.settings.get(groups.setting, "").split(",")):
            read.groups[name] = code.present(Call("ref", {"ref": name}, mapping.event.place)).name
        if groups.open is not None and groups.open.given.get("ref") == "$groups":
            read.own_groups = True
        elif groups.open is not None:
            read.groups_open = code.present(groups.open).name
    rules = [
        (number, rule)
        for number, rule in enumerate(mapping.events.values(), 1)
        if rule.set or rule.fill or rule.rename or rule.drop
    ]
    if rules:
        read.rules = True
        code.line("late = None")
        with code.block("if rule:"):
            for number, rule in rules:
                with code.block(f"if rule == {number}:"):
                    _read_rule(code, rule)
    return read


def _read(code: Code, table: Map[str, Call]) -> dict[str, str]:
    return {name: code.present(call).name for name, call in table.items()}


def _columns(code: Code, table: Map[str, Call]) -> dict[str, str]:
    if not isinstance(code, MembersCode):
        return {}
    return {name: column for name, call in table.items() if (column := code.column(call))}


def spread_members(code: Code, spread: Spread) -> str:
    """Emit the members of an object under their new names; a name for them, None when there is no object."""
    source = _opened_once(code, spread.source)
    spreader = runtime.Spreader(spread.only, spread.leave, spread.rename, spread.strip, spread.prefix, spread.blank)
    name = code.local("s")
    code.line(f"{name} = {code.const(spreader)}({source}) if {source} is not None else None")
    return name


def _opened_once(code: Code, call: Call) -> str:
    """The members of what is spread: opened once, whoever asks for them. Raises BadValue in the mapper."""
    held = code.present(call).name
    if known := code.known(("opened", held)):
        return known.name
    members = code.known(("members", code.read(call.given["ref"]).name)) if call.verb == "ref" else None
    name = code.local("o")
    before = f"{members.name} or " if members is not None else ""
    code.line(f"{name} = {before}opened({held})")
    return code.remember(("opened", held), Local(name, "value")).name


def _read_rule(code: Code, rule: EventRule) -> None:
    """Keep what one event's own rule makes in `late`, to be put in place after the common changes."""
    sets = _pairs(_read(code, rule.set))
    fills = _pairs(_read(code, rule.fill))
    drops = tuple(dropped(code, rule.drop))
    if isinstance(code, MembersCode):
        changes = dict.fromkeys(drops) | {old: new for old, new in rule.rename.items() if old not in drops}
        code.line(f"late = ({sets}, {fills}, {_renames(code, changes, {}, set())})")
    else:
        code.line(f"late = ({sets}, {fills}, {code.const(dict(rule.rename))}, {code.const(drops)})")


def _pairs(table: dict[str, str]) -> str:
    return "(" + "".join(f"({name!r}, {held}), " for name, held in table.items()) + ")"


def write_changes(code: Code, mapping: Mapping, read: Read) -> None:
    """Write every change, in this order: leave out, rename, spread, fill, set, one event's own, types, hashes,
    groups, columns named nowhere."""
    properties = mapping.properties
    _write_names(code, mapping)
    for spread in read.spreads:
        with code.block(f"if {spread} is not None:"), code.block(f"for k, v in {spread}.items():"):
            code.line("if p.setdefault(k, v) is not v: w = displaced(k, v, p, w)")
    for name, held in read.fill.items():
        code.line(f"if {held} is not None: p.setdefault({name!r}, {held})")
    for name, held in read.set.items():
        if name in read.columns:
            column = repr(read.columns[name])
            code.line(f"if not p.copy({name!r}, row, {column}): w = displaced({name!r}, row.get({column}), p, w)")
        else:
            _write_set(code, name, held, properties.set[name])
    if read.rules:
        _write_late(code, mapping)
    for name, kind in properties.types.items():
        with code.block(f"if (v := p.get({name!r})) is not None and v != NULL:"):
            code.line(f"try: p[{name!r}] = {code.const(conversions.CONVERT[kind])}(v)")
            code.line(f"except BadValue as error: w += (('bad_value', {name + ': '!r} + str(error)),)")
    for name, key in properties.hash.items():
        hashed = verbs.keyed_hash(code, key)
        code.line(f"if (v := text_of(p.get({name!r}))) is not None: p[{name!r}] = {hashed}(v)")
    if read.own_groups:
        _write_own_groups(code)
    else:
        _write_groups(code, read)
    if not code.open_row and properties.rest != "drop":
        prefix = "" if properties.rest == "keep" else properties.rest or f"{mapping.tool}_"
        if code.members:
            code.line(f"{code.const(native.Columns(frozenset(code.named_columns), prefix))}(row, p)")
        else:
            code.line(f"if row: {code.const(runtime.ExtraColumns(code.named_columns, prefix))}(row, p)")


def _write_names(code: Code, mapping: Mapping) -> None:
    properties = mapping.properties
    leaving: dict[str, str | None] = dict.fromkeys(dropped(code, properties.drop))
    leaving.update(properties.rename)
    reserved = RESERVED if properties.reserved is None else properties.reserved
    rare: dict[str, str | None] = {name: f"{mapping.tool}_{name}" for name in reserved if name not in leaving}
    straight: list[str] = []
    waiting = [name for name in leaving if name not in code.gone]
    for name in waiting:
        if name in properties.common or (not properties.common and len(waiting) <= STRAIGHT):
            straight.append(name)
        else:
            rare[name] = leaving[name]
    blanks = {name: frozenset(blank.values) for blank in properties.blank for name in blank.within}
    if isinstance(code, MembersCode):
        later = {name: new for name, new in leaving.items() if name not in rare}
        code.line(f"w = {_renames(code, rare | later, blanks, code.gone)}(p, w)")
        return
    if rare or blanks:
        table = code.const(frozenset(rare) | frozenset(blanks))
        code.line(f"if not {table}.isdisjoint(p): w = {code.const(runtime.RenameMap(rare, blanks))}(p, w)")
    for name, new in leaving.items():
        if name in straight and new is None:
            code.line(f"pop({name!r}, None)")
        elif name in straight:
            code.line(f"if (v := pop({name!r}, None)) is not None: {_renaming(name, new, 'v')}")
        elif name in code.gone and new is not None:
            local = code.known(("ref", name))
            assert local is not None
            code.line(f"if {local.name} is not None: {_renaming(name, new, local.name)}")


def _write_late(code: Code, mapping: Mapping) -> None:
    if not code.members:
        code.line(f"if late is not None: w = {code.const(runtime.EventOverrides(mapping.tool))}(p, late, w)")
        return
    with code.block("if late is not None:"):
        code.line("sets, fills, renames = late")
        code.line("w = renames(p, w)")
        with code.block("for k, v in fills:"):
            code.line("if v is not None: p.setdefault(k, v)")
        with code.block("for k, v in sets:"):
            code.line("if v is not None and p.setdefault(k, v) is not v: w = displaced(k, v, p, w)")


def _renames(
    code: MembersCode, changes: dict[str, str | None], blanks: dict[str, frozenset[str]], gone: set[str]
) -> str:
    """The constant that makes all of these changes in one call, in the order that the dict's mapper keeps.

    What is `gone` there by now is taken out before the first change is made.
    """
    seen: set[str | None] = set()
    for old, new in changes.items():
        if old in seen and old not in gone:
            code.suits = False  # renamed twice: the one call looks only at the names the row came with
        seen.add(new)
    if len(changes) > MOST_RENAMES:
        code.suits = False
        return "None"
    table = tuple((old, new, old in gone) for old, new in changes.items())
    blank = runtime.RenameMap({}, blanks)
    return code.const(native.Renames(table, runtime.renamed, frozenset(blanks), blank))


def _renaming(old: str, new: str | None, held: str) -> str:
    setting = f"p.setdefault({new!r}, {held})"
    return f"w = w if {setting} is {held} else renamed({old!r}, {new!r}, {held}, p, w)"


def _write_set(code: Code, name: str, held: str, call: Call) -> None:
    if name in references(call):
        code.line(f"if {held} is not None: p[{name!r}] = {held}")
        return
    code.line(
        f"if {held} is not None and p.setdefault({name!r}, {held}) is not {held}: w = displaced({name!r}, {held}, p, w)"
    )


def references(given: object) -> set[str]:
    """The references anywhere in a value."""
    if isinstance(given, Call):
        if given.verb == "ref":
            return {given.given["ref"]}
        return set().union(*(references(part) for part in given.given.values()), set())
    if isinstance(given, tuple):
        return set().union(*(references(part) for part in given), set())
    return set()


def _write_own_groups(code: Code) -> None:
    """Rows that have `$groups` as the service wants it keep it, but for types that were not chosen."""
    chosen = frozenset(code.options.group_types)
    with code.block("if '$groups' in p:"):
        code.line(f"left = own_groups(p, {code.const(chosen)})")
        _tell_left_out(code)


def _tell_left_out(code: Code) -> None:
    if code.observing:
        code.line("if left: w += (('left_out_group', 'of no type that was chosen: ' + left),)")


def _write_groups(code: Code, read: Read) -> None:
    if not read.groups and not read.groups_open:
        return
    code.line("d = {}")
    if read.groups_open:
        code.line(f"if {read.groups_open} is not None: d.update(opened({read.groups_open}) or {{}})")
    for name, held in read.groups.items():
        code.line(f"if {held} is not None: d[{name!r}] = {held}")
    chosen = frozenset(code.options.group_types)
    if not chosen:
        code.line("if d: add_groups(d, p)")
        return
    code.line(f"left = add_groups(d, p, {code.const(chosen)}) if d else ''")
    _tell_left_out(code)
