"""Plans the renaming of properties: which names are tested one by one, and which by one test for all of them.

Testing a row for each of a hundred names would cost more than all other steps. So the rare names (not read anyway and
not listed as `common`) come first, behind one test. The order affects the bytes sent.

No section of a mapping sees what another did, so nothing else may read the object that holds the changed properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Map

import msgspec

from pipeline.mapper.language.sections import Mapping
from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.operations import OpenProperties, RenameProperty, Step
from pipeline.mapper.program.references import references_in

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
    "import_plan",
    "import_row",
)
"""Property names that mean something to the service, or to an import's provenance
(docs/know/exports.md#mixpanel-traps, docs/know/service.md#event-fields, #ids-and-text, #persons). A source's own
properties of these names become TOOL_name, so that a row cannot trigger that meaning by accident."""

STRAIGHT = 12
"""Up to this many properties are tested one by one; any more go through the one test."""


def rename_properties(
    mapping: Mapping, dropped: tuple[str, ...], steps: tuple[Step, ...], loaders: bool
) -> program.RenameProperties:
    """The step that renames and leaves out, with `loaders` a loader's columns too; `steps` come before it."""
    properties = mapping.properties
    leaving: dict[str, str | None] = dict.fromkeys(dropped)
    leaving.update(properties.rename)
    read = leaving.keys() & set(always_read(steps))
    blanks = {name: blank.values for blank in properties.blank for name in blank.within}
    reserved = RESERVED if properties.reserved is None else properties.reserved
    rare: dict[str, str | None] = {name: f"{mapping.tool}_{name}" for name in reserved if name not in leaving}
    waiting = [name for name in leaving if name not in read]
    for name in waiting:
        if name not in properties.common and (properties.common or len(waiting) > STRAIGHT):
            rare[name] = leaving[name]
    changes, swapped = in_order({**rare, **leaving})
    late: list[str] = []
    for old, new in changes.items():
        if old not in rare or old in swapped or new in late:
            late.append(old)
    return program.RenameProperties(
        blanks=tuple(blanks.items()),
        rare=tuple(RenameProperty(old, new, kept=old in reserved) for old, new in changes.items() if old not in late),
        common=tuple(RenameProperty(old, changes[old], kept=old in reserved) for old in late),
        loaders=loaders and properties.open is None,
    )


def in_order(changes: Map[str, str | None]) -> tuple[dict[str, str | None], set[str]]:
    """The changes in an order in which each name has moved away before another takes its place, and the names for which
    there is no such order, because they take each other's."""
    ordered: dict[str, str | None] = {}
    swapped: set[str] = set()
    for first in changes:
        chain: list[str] = []
        name: str | None = first
        while name is not None and name in changes and name not in ordered and name not in chain:
            chain.append(name)
            name = changes[name]
        if name in chain:
            swapped.update(chain[chain.index(name) :])
        ordered.update((old, changes[old]) for old in reversed(chain))
    return ordered, swapped


def always_read(operation: object) -> Iterator[str]:
    """The properties that an operation reads in every row."""
    match operation:
        case expressions.Property(name):
            yield name
        case expressions.First(values):
            yield from always_read(values[:1])
        case expressions.Choose(when, _, _):
            yield from always_read(when)
        case expressions.Lookup(text):
            yield from always_read(text)
        case program.ReadTime(_, clocks):
            yield from always_read(tuple(clock.source for clock in clocks[:1]))
        case program.SetDistinctId(candidates):
            yield from always_read(candidates[:1])
        case program.Merge(_, into, other, version, of):
            yield from always_read((into[:1], other[:1], version, of))
        case program.AddLinks(when=when) | program.ReadExtraEvent(when=when) if when is not None:
            yield from always_read(when)
        case program.ByRule() | program.ObservePerson() | program.ObserveGroups():
            return
        case tuple():
            for inner in operation:
                yield from always_read(inner)
        case _:
            for name in getattr(operation, "__struct_fields__", ()):
                yield from always_read(getattr(operation, name))


def unread_columns(dropped: Iterable[str], flat: bool, steps: tuple[Step, ...]) -> frozenset[str]:
    """The columns that a mapping leaves out and that no step reads, so that their values decide nothing.

    `dropped` are the references of its `drop`; with `flat`, the columns are the properties.
    """
    read: set[str] = set()
    for operation in expressions.operations(steps):
        match operation:
            case expressions.Property(name) if flat:
                read.add(name)
            case expressions.Column(name):
                read.add(name)
            case expressions.AllProperties() if flat:
                return frozenset()
    return frozenset(name.removeprefix("/") for name in dropped if flat or name.startswith("/")) - read


def kept_properties(mapping: Mapping) -> set[str]:
    """The properties of a row that its events keep with `rest: drop`, by their names in the row: those that `rename`
    and `fill` name, and a row's own groups. Other rules set values of their own and keep no property."""
    rules = (mapping.properties, *mapping.events.values())
    kept = {name for rule in rules for name in (*rule.rename, *rule.fill)}
    if mapping.groups is not None and mapping.groups.open is not None:
        kept |= {"$groups"} & references_in(mapping.groups.open)
    return kept


def opened_object(
    opening: OpenProperties, column: str | None, others: tuple[Step, ...]
) -> tuple[str | None, OpenProperties]:
    """The column whose object a reader may open with the row, and the step that takes the properties from it. `column`
    is the column that `properties: open` names, if it is one, and `others` are all other steps."""
    shared = not _columns(opening.source).isdisjoint(_columns(others))
    whole = column is None or _is_read_whole(column, others)
    return None if whole else column, msgspec.structs.replace(opening, shared=shared)


def _is_read_whole(column: str, others: tuple[Step, ...]) -> bool:
    """Whether a step reads a column as a value, and not only members of its object. If a reader opens an object, its
    text is lost: its white space, and all but the last of the members with one name."""
    whole = expressions.Column(column)
    present = expressions.NotNull(whole)
    reads = members = 0
    for one in expressions.operations(others):
        match one:
            case expressions.Column():
                reads += one == whole
            case expressions.Member(of) | expressions.Spread(of) | expressions.Present(of):
                members += of in (whole, present)
    return reads > members


def _columns(found: object) -> set[str]:
    return {one.name for one in expressions.operations(found) if isinstance(one, expressions.Column)}
