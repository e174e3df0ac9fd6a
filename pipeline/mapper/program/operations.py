"""The program that a mapping compiles to: every operation is data, and nothing hides in a function.

A `Program` is a list of steps that run in order for each row. Steps set registers (`event`, `time`, `received`,
`distinct_id`, `key`, `uuid`, the links so far), change properties, or end the row with its outcome. Values and
conditions (`expressions`) are trees inside steps. Every value reads the row as it came: all values are evaluated before
the first change, so no value sees another's change.

`expressions.Apply` calls a function by its name (`functions`), and `Lookup` a table by its name in `Program.tables`,
so a back end in another language needs only the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pipeline.mapper.program.expressions import Condition, NamedValues, Operation, Spread, Value, Variable

# --- steps --------------------------------------------------------------------------------------------------


class OpenProperties(Operation, frozen=True):
    """Take the properties from an object of the row; None: the row itself is the properties, without its nulls.

    `shared`: other steps read the object too, and so must not see changes of the properties. `blanks`: strings that are
    not objects and count as missing.
    """

    source: Value | None
    shared: bool = False
    blanks: tuple[str, ...] = ()


class LeaveOutBlanks(Operation, frozen=True):
    """Leave out the columns and properties whose text counts as missing: `json` are such strings in JSON values,
    `cells` in other formats. Only members with these names, or all if there are none."""

    json: tuple[str, ...]
    cells: tuple[str, ...]
    names: tuple[str, ...]


class Let(Operation, frozen=True):
    """Evaluate a value once, under a name for later steps."""

    name: str
    value: Value


class SkipRow(Operation, frozen=True):
    """End a row if the condition is true: it is skipped with the code, and with a warning if there is one."""

    when: Condition
    code: str
    warning: str


class WarnRow(Operation, frozen=True):
    """Warn about a row with the text of a value, if it has one."""

    code: str
    text: Value


class SetEvent(Operation, frozen=True):
    name: Value


class EventCase(Operation, frozen=True):
    """What an event's name decides: the row is skipped with a code, or is renamed and has the rule with a number."""

    event: str
    rename: str
    rule: int
    skip: str = ""
    warning: str = ""


class MatchEvent(Operation, frozen=True):
    """Find the case of the event's name. A name without one is kept, or rejected (`unmapped_event`)."""

    cases: tuple[EventCase, ...]
    reject_others: bool


class Clock(Operation, frozen=True):
    """One place where a time may be.

    `unit` is iso, s, ms, us, ns or auto, or `format` with the pattern in `form`. `zone` says what a reading without an
    offset is: `utc`; `required`: rejected, because no zone was named; `observed`: taken as it reads, and kept as
    evidence of the zone; `converted`: the same, and converted from the operator's zones. `any_number`: the same applies
    to plain numbers. Rows for which `no_evidence` is true prove nothing about the zone.
    """

    source: Value
    unit: str
    form: str | None
    space: bool
    date: bool
    zone: str
    no_evidence: Condition | None


class ReadTime(Operation, frozen=True):
    """Set `time` or `received` from the first clock that has one. A time that cannot be read, or is outside the years 1
    to 9999, is a reason to reject the event; such a receive time is missing."""

    register: str
    clocks: tuple[Clock, ...]


class SetUuid(Operation, frozen=True):
    """Set the source's own UUID, if the text is a valid one."""

    text: Value


class SetKey(Operation, frozen=True):
    """Set the dedupe key from its parts; if one of `needs` is missing or blank, the row has no key."""

    parts: tuple[Value, ...]
    needs: tuple[Value, ...]


class SetDistinctId(Operation, frozen=True):
    """Set the distinct_id to the first candidate that is not a placeholder; passing one over is a warning.
    `placeholders` are further ones, and those `allowed` are not."""

    candidates: tuple[Value, ...]
    placeholders: tuple[str, ...]
    allowed: tuple[str, ...] = ()


class Merge(Operation, frozen=True):
    """The ids that are one person: those of the list `of`, or the first candidates of `into` and of `other` that
    identify a person. For kind `person`, `into` is the tool's number of a person and `version` the version of the
    row."""

    kind: str
    into: tuple[Value, ...]
    other: tuple[Value, ...]
    version: Value | None
    of: Value | None


class AddLinks(Operation, frozen=True):
    """Add the links of a merge to the row's outcomes. `warn_incomplete`: a merge without two ids is a warning."""

    merge: Merge
    when: Condition | None
    warn_incomplete: bool = False


class GiveLinks(Operation, frozen=True):
    """End a row that states a merge and nothing else; a merge without two ids is skipped (`incomplete_merge`)."""

    merge: Merge
    when: Condition | None


class OverrideProperties(Operation, frozen=True):
    """Evaluate the changes of an event's own rule, for `ApplyOverrides`; `before` is what `set` replaces."""

    drop: tuple[str, ...]
    rename: tuple[tuple[str, str], ...]
    fill: NamedValues
    set: NamedValues
    before: NamedValues = ()


class RuleSteps(Operation, frozen=True):
    rule: int
    steps: tuple[Step, ...]


class ByRule(Operation, frozen=True):
    """Steps for rows whose event has a rule."""

    rules: tuple[RuleSteps, ...]


class ObservePerson(Operation, frozen=True):
    """For a plan only: what the row says about its ids and its person. What cannot be read is a warning."""

    user: Value | None
    anonymous: tuple[Value, ...]
    set: NamedValues
    spread_set: tuple[Spread, ...]
    set_once: NamedValues
    spread_set_once: tuple[Spread, ...]
    unset: Value | None


class ObserveGroups(Operation, frozen=True):
    """For a plan only: the updates of groups (an object of type → key → properties) that a row has in addition to its
    event."""

    groups: Value


class GivePersonUpdate(Operation, frozen=True):
    """End a row that describes its person and is not an event."""


class GiveGroupUpdates(Operation, frozen=True):
    """End a row that describes groups: `open` is an object of type → key → properties; without it there is one
    group."""

    open: Value | None
    type: Value
    key: Value
    set: Value


class GiveProfiles(Operation, frozen=True):
    """End a row that is a profile, or a list of them (`each`)."""

    each: Value
    id: Value
    properties: Value
    id_member: str
    properties_member: str
    leave: tuple[str, ...]
    rename: tuple[tuple[str, str], ...]


class ReadExtraEvent(Operation, frozen=True):
    """Evaluate one more event of the same row; its key is the row's with `suffix`."""

    suffix: str
    event: Value
    properties: NamedValues
    when: Condition | None


class KeepProperties(Operation, frozen=True):
    """Leave out every property but these."""

    names: tuple[str, ...]


class RenameProperty(Operation, frozen=True):
    """A new name, or None to leave the property out. `kept`: it never keeps its name, which the service reads."""

    old: str
    new: str | None
    kept: bool = False


class RenameProperties(Operation, frozen=True):
    """Leave out properties with a blank text, then rename or leave out others: all are removed, and get their new names
    in this order, `rare` ones first.

    If the new name is taken, the old one stays, with a warning. Most rows have none of the `rare` ones. `loaders`: a
    loader's columns are left out first, unless they have a new name.
    """

    blanks: tuple[tuple[str, tuple[str, ...]], ...]
    rare: tuple[RenameProperty, ...]
    common: tuple[RenameProperty, ...]
    loaders: bool = False

    def reserved(self) -> frozenset[str]:
        """The names that never stay."""
        return frozenset(change.old for change in (*self.rare, *self.common) if change.kept)


class SpreadProperties(Operation, frozen=True):
    """Set the members of an object; the row's own property of that name moves to TOOL_name, with a warning."""

    members: Variable


class SetProperty(Operation, frozen=True):
    """Set a property. `fill`: only if the row does not have it; `replace`: whatever the row has, because the value was
    made from it; `set`: the row's own moves to TOOL_name, with a warning."""

    name: str
    value: Variable
    how: str


class ApplyOverrides(Operation, frozen=True):
    """Make the changes of the event's own rule: leave out, rename, fill, set."""


class ConvertProperty(Operation, frozen=True):
    """Convert a property. One that cannot be converted stays, with the warning `bad_value` (`keep`), becomes null with
    the warning `nulled_value` (`null`), rejects the row (`reject`), or stays and stops the plan (`stop`)."""

    name: str
    type: str
    otherwise: str


class HashProperty(Operation, frozen=True):
    name: str
    purpose: str


class KeepGroups(Operation, frozen=True):
    """Keep the row's own `$groups`; if types were chosen, only those."""

    chosen: tuple[str, ...]


class SetGroups(Operation, frozen=True):
    """Set `$groups` from an object of type → key and from single keys; if types were chosen, only those."""

    open: Variable | None
    types: tuple[tuple[str, Variable], ...]
    chosen: tuple[str, ...]


class KeepColumns(Operation, frozen=True):
    """Add the columns of the row that the mapping does not name, with a prefix; with `loaders`, none of a loader's."""

    named: tuple[str, ...]
    prefix: str
    loaders: bool = False


class GiveEvent(Operation, frozen=True):
    """End the row: its event, its links, its extra events and, for a plan, its group updates."""


Step: TypeAlias = (
    OpenProperties | LeaveOutBlanks | Let | SkipRow | WarnRow | SetEvent | MatchEvent | ReadTime | SetUuid | SetKey
    | SetDistinctId | AddLinks | GiveLinks
    | OverrideProperties | ByRule | ObservePerson | ObserveGroups | GivePersonUpdate | GiveGroupUpdates
    | GiveProfiles | ReadExtraEvent | KeepProperties | RenameProperties | SpreadProperties | SetProperty
    | ApplyOverrides | ConvertProperty | HashProperty | KeepGroups | SetGroups | KeepColumns | GiveEvent
)  # fmt: skip


class Decode(Operation, frozen=True):
    """What turns one odd row into plain rows, before any step sees them: a named decoder and its arguments."""

    decoder: str
    arguments: tuple[str | bool | tuple[str, ...] | tuple[tuple[str, str], ...], ...]


class Program(Operation, frozen=True):
    """A whole mapping for one set of options. `opened` is the column whose object a reader may open with the row;
    `unread` are the columns that the mapping leaves out without reading them."""

    tool: str
    decode: Decode | None
    opened: str | None
    steps: tuple[Step, ...]
    tables: Mapping[str, Mapping[str, str]]
    unread: frozenset[str] = frozenset()
