"""What other modules compute for a plan and its results, as data: who reads a plan loads nothing that computes it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class PluginSeal(msgspec.Struct, frozen=True):
    """One mapping, format or verb of a package. `digest` is the sha256 of its source, of a mapping of the file."""

    kind: str
    name: str
    package: str
    version: str
    digest: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of the package {self.package}"


class MonthEvidence(msgspec.Struct, frozen=True):
    """The evidence of one month: in `rows` of `of` rows the clock stands `offset` seconds east of UTC.

    `expected` are the offsets that the declared zone had in that month: two if the clocks changed. `agrees`: the offset
    is the most frequent one, and one of them; otherwise it is that of the days that contradict the zone, and `expected`
    what the zone had on them.
    """

    month: str
    offset: int
    rows: int
    of: int
    expected: tuple[int, ...]
    agrees: bool


class FieldCoverage(msgspec.Struct, frozen=True):
    """One field. `field` is how a mapping refers to it. Of its `rows`, `mapped` go where `to` says, `kept` stay as a
    property that the mapping does not set, and the rest is `dropped`, `by` which rule. `unmapped`: kept in some row,
    and the mapping does not name it. `share` is that of all rows, `examples` are masked."""

    field: str
    rows: int
    share: float
    mapped: int
    kept: int
    dropped: int
    to: list[str]
    by: Mapping[str, int]
    unmapped: bool
    examples: list[str]


class EventCoverage(msgspec.Struct, frozen=True):
    """One event's name, as the mapping reads it, in `rows`.

    `become_events` counts the rows that become an event of the name `to` (several names where code of the mapping
    decides), duplicates included, `updates` those that become a merge or an update, `left_out` the others, by code.
    `unmapped`: sent under its own name, and the mapping does not name it."""

    event: str
    rows: int
    to: str
    become_events: int
    updates: int
    left_out: Mapping[str, int]
    unmapped: bool


class Totals(msgspec.Struct, frozen=True):
    """How many there are, how many of them are listed, and how many are unmapped."""

    met: int = 0
    listed: int = 0
    unmapped: int = 0


class Coverage(msgspec.Struct, frozen=True):
    """What the source has and what becomes of it.

    `unit` is `rows`, or `items` where a decoder makes plain rows of a row; `rows` counts them. `never_met` are
    references of the mapping that no row has, and `never_met_events` names in `events` that no row has. `skipped_items`
    counts, by code, what is left out of rows of which something is sent. `duplicates` counts the rows that become
    events and are left out as duplicates afterwards: what is sent is counted in the plan's `events`."""

    unit: str
    rows: int
    fields: list[FieldCoverage]
    fields_total: Totals
    events: list[EventCoverage]
    events_total: Totals
    never_met: list[str]
    never_met_events: list[str]
    skipped_items: Mapping[str, int]
    duplicates: int = 0

    @property
    def unmapped(self) -> int:
        """How many fields and names are unmapped."""
        return self.fields_total.unmapped + self.events_total.unmapped

    @property
    def met(self) -> int:
        """How many fields and names there are."""
        return self.fields_total.met + self.events_total.met


class HoursSeal(msgspec.Struct, frozen=True):
    """Events to send by hour of day, 24 counts from midnight on, in UTC and on the clock of the source.

    `weekdays` are seven counts from Monday on, by the clock of the source. `clock` says in words what the changes to
    and from daylight saving time show about that clock, "" where they show nothing.
    """

    utc: list[int]
    source: list[int]
    weekdays: list[int]
    clock: str = ""


class Period(msgspec.Struct, frozen=True):
    """The months of a property that are alike, from `month` to `until`: its types, the most frequent first; the share
    of the events in which it is missing, null or blank; and how many events there are."""

    month: str
    until: str
    types: list[str]
    empty: float
    events: int


class PropertySummary(msgspec.Struct, frozen=True):
    """One property of one event name. Of the `events` of that name in the months from the property's first to its last,
    `missing` do not have it, in `null` and `blank` it is null or a text without characters, and `types` counts the
    others. `distinct` is the number of different values, `exact` or an estimate; `first` and `last` are days. `periods`
    are the months that are alike; of more than twelve the last one is of all others."""

    event: str
    property: str
    events: int
    missing: int
    null: int
    blank: int
    types: dict[str, int]
    distinct: int
    exact: bool
    first: str
    last: str
    periods: list[Period]


class LeftOut(msgspec.Struct, frozen=True):
    """Properties of event names that were counted and not examined: how many, in how many events, and some."""

    properties: int = 0
    events: int = 0
    names: list[str] = []


class SampleSize(msgspec.Struct, frozen=True):
    """At most `of_month` events of each event name and month are in the sample, and `events` in all. With a
    probability of 95 % a share of a month is within `margin` percentage points."""

    events: int
    of_month: int
    margin: float


class Drift(msgspec.Struct, frozen=True):
    """The drift of a plan. `properties` are the most notable ones, of `examined` ones, all of which are in drift.jsonl;
    `left_out` are the others. `sample` is UNSET if all `events` were examined; else numbers of values are estimates,
    and different values, the first place and the days are those of the sample."""

    events: int = 0
    examined: int = 0
    properties: list[PropertySummary] = []
    left_out: LeftOut = LeftOut()
    sample: SampleSize | msgspec.UnsetType = msgspec.UNSET


class LargePerson(msgspec.Struct, frozen=True):
    """A person of the sample with many events: one of its ids, its events, and the stratum that nobody else shows."""

    id: str
    events: int
    stratum: str


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """The sample of at most `most` events that comes first. `events` counts it by phase, `persons` whole people.

    It shows `shown` of `strata` different names of events in a year, entries of `events` in the mapping, kinds of
    merges and kinds of profile updates; `not_shown` names the first 20 others, `more_strata` says that there are more
    than were counted, and `large` are people with many events. If every person has more events than fit, the sample is
    empty, and `least` is the size that one with the smallest person would have.
    """

    most: int
    events: dict[str, int] = {}
    persons: int = 0
    strata: int = 0
    shown: int = 0
    not_shown: list[str] = []
    more_strata: bool = False
    large: list[LargePerson] = []
    least: int = 0

    @property
    def size(self) -> int:
        """All of its events."""
        return sum(self.events.values())
