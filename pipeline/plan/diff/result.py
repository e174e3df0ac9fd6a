"""The differences between two plans: the object of `diff --json`, which terminal and page show too."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

FORMAT = "backcast.diff/1"
KINDS = ("changed", "only_a", "only_b")
WHAT = ("event", "distinct_id", "timestamp", "day", "properties", "order")
"""What changed events differ in."""


class Side(msgspec.Struct, frozen=True):
    """One of the plans. `plan` is its directory as it was given; `rows` and `phases` are the plan's counts."""

    plan: str
    digest: str
    tool: str
    mapping: str
    zone: str
    first: str | None
    last: str | None
    rows: Mapping[str, int]
    phases: Mapping[str, int]


class Setting(msgspec.Struct, frozen=True):
    """A difference in what decides the events, in words: an option, a file of the export, or a line of the mapping."""

    name: str
    a: str
    b: str


class CodeChange(msgspec.Struct, frozen=True):
    """A code of skipped or rejected rows, with its count in each plan."""

    code: str
    a: int
    b: int


class PhaseChange(msgspec.Struct, frozen=True):
    """The events of a phase: `a` in one plan and `b` in the other, and how many of them are the same, changed and so
    on.

    Events with the same uuid are the same if their bytes are equal, else changed. Merges, groups and profile updates
    are matched by their ids; a time that is the plan's own instant does not count as a difference.
    """

    a: int
    b: int
    same: int
    changed: int
    only_a: int
    only_b: int


class PropertyChange(msgspec.Struct, frozen=True):
    """A property in the changed events of a phase: how many have it only in B (`added`), only in A (`removed`), or with
    another value. `name` "" stands for all beyond the first ones. `examples` are (in A, in B), masked unless asked for;
    "" if the event does not have it."""

    phase: str
    name: str
    added: int
    removed: int
    changed: int
    examples: list[tuple[str, str]]


class NameChange(msgspec.Struct, frozen=True):
    """The events of a name that differ; changed events count under their name in A."""

    event: str
    changed: int
    only_a: int
    only_b: int


class DayChange(msgspec.Struct, frozen=True):
    """The events of a UTC day that differ, and all of its events in each plan; changed events count on their day in
    A."""

    day: str
    changed: int
    only_a: int
    only_b: int
    a: int
    b: int


class Renamed(msgspec.Struct, frozen=True):
    """This many changed events have one name in A and another in B."""

    a: str
    b: str
    events: int


class Shift(msgspec.Struct, frozen=True):
    """This many changed events are this much later in B; None stands for all shifts beyond the first ones."""

    seconds: float | None
    events: int


class PersonChange(msgspec.Struct, frozen=True):
    """A distinct_id, masked unless asked for, and its events that differ."""

    distinct_id: str
    events: int


class Persons(msgspec.Struct, frozen=True):
    """How many distinct_ids have events that differ, and those with the most."""

    count: int
    most: list[PersonChange]


class EventExample(msgspec.Struct, frozen=True):
    """One event that differs, as (event, timestamp) in each plan; None if the plan does not have it."""

    kind: str
    uuid: str
    a: tuple[str, str] | None
    b: tuple[str, str] | None


class Consequences(msgspec.Struct, frozen=True):
    """What applying B means for a target to which all of A was sent.

    `collapse`: the service takes them for copies of what is there, since uuid, event, distinct_id and UTC day are
    equal; `replaced` of these have other content. `duplicated`: the uuid is there with another event name,
    distinct_id or UTC day, so both stay. `rekeyed`: the row's event is there under another uuid, so both stay. `new`:
    not there yet. `left`: events that stay there although B does not have them. `merged`: merges that only A has,
    because B leaves out merges that an earlier plan, such as A itself, sent.
    """

    collapse: int
    replaced: int
    duplicated: int
    rekeyed: int
    new: int
    left: int
    merged: int = 0


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """Two plans compared. `compared` says whether their events were compared, or only what the plans recorded; then
    everything from `changed` on is empty.

    `changed` counts changed events by what differs: event, distinct_id, timestamp, day, properties, or only the order
    of the properties. `days` has every day; `names`, `renamed`, `shifts`, `properties` and `examples` have only the
    worst entries, the worst first, and `totals` says how many there are.
    """

    format: str = FORMAT
    equal: bool
    compared: bool
    a: Side
    b: Side
    settings: list[Setting]
    skips: list[CodeChange]
    rejects: list[CodeChange]
    phases: dict[str, PhaseChange]
    changed: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(WHAT, 0))
    properties: list[PropertyChange] = []
    names: list[NameChange] = []
    days: list[DayChange] = []
    renamed: list[Renamed] = []
    shifts: list[Shift] = []
    persons: Persons = Persons(0, [])
    examples: list[EventExample] = []
    consequences: Consequences | None = None
    totals: dict[str, int]
