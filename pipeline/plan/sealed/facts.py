"""What other modules compute for a plan and its results, as plain data: reading a plan loads none of those modules."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class PluginSeal(msgspec.Struct, frozen=True):
    """One mapping, format or verb of a package. `digest` is the sha256 of its source; for a mapping, of its file."""

    kind: str
    name: str
    package: str
    version: str
    digest: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of the package {self.package}"


class MonthEvidence(msgspec.Struct, frozen=True):
    """The evidence of one month: in `rows` of `of` rows the clock is `offset` seconds east of UTC.

    `expected` are the offsets that the declared zone had in that month: two if the clocks changed. `agrees`: `offset`
    is the most frequent one and among the expected. Otherwise `offset` comes from the days that contradict the zone,
    and `expected` has the zone's offsets on those days.
    """

    month: str
    offset: int
    rows: int
    of: int
    expected: tuple[int, ...]
    agrees: bool


class FieldCoverage(msgspec.Struct, frozen=True):
    """One field. `field` is how a mapping refers to it. In `mapped` of its `rows` it goes where `to` says, in `kept` it
    stays as a property that the mapping does not set, and in the rest it is `dropped`, `by` some rule. `unmapped`: kept
    in some row although the mapping does not name it. `share` is its share of all rows; `examples` are masked."""

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
    """One event name as the mapping reads it, in `rows`.

    `become_events` counts the rows that become an event with the name `to` (several names if code of the mapping
    decides), duplicates included; `updates` counts those that become a merge or an update, `left_out` the others, by
    code. `unmapped`: sent under its own name although the mapping does not name it."""

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

    `unit` is `rows`, or `items` if a decoder makes plain rows of a row; `rows` counts them. `never_met` are
    references of the mapping that no row has, and `never_met_events` names in `events` that no row has. `skipped_items`
    counts, by code, what is left out of rows that are partly sent. `duplicates` counts the rows that become events and
    are left out as duplicates afterwards: the plan's `events` counts what is sent."""

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
    """Events to send by hour of day, 24 counts from midnight on, in UTC and on the source's clock.

    `weekdays` are seven counts from Monday on, by the source's clock. `clock` says in words what the changes to
    and from daylight saving time show about that clock, "" if they show nothing.
    """

    utc: list[int]
    source: list[int]
    weekdays: list[int]
    clock: str = ""


class Period(msgspec.Struct, frozen=True):
    """Similar months of a property, from `month` to `until`: its types, the most frequent first; the share of the
    events in which it is missing, null or blank; and how many events there are."""

    month: str
    until: str
    types: list[str]
    empty: float
    events: int


class PropertySummary(msgspec.Struct, frozen=True):
    """One property of one event name. `events` counts the events of that name in the months from the property's first
    to its last; `missing` of them do not have it, in `null` and `blank` it is null or a string without characters, and
    `types` counts the others. `distinct` is the number of different values, `exact` or an estimate; `first` and `last`
    are days. `periods` are runs of similar months; if there are more than twelve, the last one covers all the
    others."""

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
    """Properties of event names that were counted but not examined: how many, in how many events, and some of them."""

    properties: int = 0
    events: int = 0
    names: list[str] = []


class SampleSize(msgspec.Struct, frozen=True):
    """The sample has at most `of_month` events of each event name and month, and `events` in all. With a
    probability of 95 %, a share in a month is accurate to `margin` percentage points."""

    events: int
    of_month: int
    margin: float


class Drift(msgspec.Struct, frozen=True):
    """The drift of a plan. `properties` are the most notable of the `examined` ones, which are all in drift.jsonl;
    `left_out` are the others. `sample` is UNSET if all `events` were examined; else numbers of values are estimates,
    and different values, the first place and the days come from the sample."""

    events: int = 0
    examined: int = 0
    properties: list[PropertySummary] = []
    left_out: LeftOut = LeftOut()
    sample: SampleSize | msgspec.UnsetType = msgspec.UNSET


class Violation(msgspec.Struct, frozen=True):
    """A rule of a tracking plan that about `events` events of a name break: in which property ("" for the event), what
    the rule expects, the first value that breaks it, masked, and its row in words."""

    event: str
    property: str
    rule: str
    expected: str
    events: int
    example: str
    first: str


class TrackingSeal(msgspec.Struct, frozen=True):
    """How the events compare with the tracking plan of `file`, which has `planned` events. `violations` are the most
    frequent of the `found` ones; if `Drift.sample` is set, their events are estimates. `unseen` are planned events that
    do not occur. `not_checked` has the parts of the tracking plan that are not applied, by keyword: how many, and where
    the first is."""

    file: str = ""
    digest: str = ""
    planned: int = 0
    violations: list[Violation] = []
    found: int = 0
    unseen: list[str] = []
    not_checked: dict[str, str] = {}


class LargePerson(msgspec.Struct, frozen=True):
    """A person of the sample with many events: one of its ids, its events, and the stratum that only this person
    shows."""

    id: str
    events: int
    stratum: str


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """The sample of at most `most` events that comes first. `events` counts it by phase, `persons` counts whole people.

    It shows `shown` of `strata` different combinations of event name and year, entries of `events` in the mapping,
    kinds of merges and kinds of profile updates. `not_shown` names the first 20 others, `more_strata` says that there
    are more than were counted, and `large` are people with many events. If every person has more events than fit, the
    sample is empty, and `least` is the size of a sample with the smallest person.
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
