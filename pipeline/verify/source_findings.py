"""The result of comparing a target with the project that it was moved from."""

from __future__ import annotations

import msgspec

from pipeline.verify.number_findings import Metrics


class SourceCell(msgspec.Struct, frozen=True):
    """The events of one name and UTC day at the source, and those found at the target; `explained` are left out by the
    plans, less those of other senders."""

    event: str
    day: str
    events: int
    found: int
    explained: int = 0

    @property
    def differs(self) -> bool:
        return self.events - self.explained != self.found


class SourceEvent(msgspec.Struct, frozen=True):
    """An event that only one side has. `kind` is `missing`, `different` (the target has its uuid with another name, id
    or time), `extra`, or `left_out` by a plan with a `code`."""

    kind: str
    uuid: str
    event: str
    day: str
    code: str = ""


class SourcePersons(msgspec.Struct, frozen=True):
    """The persons of both sides and their `ids`; those of the target, `persons_found` and `ids_found`, with live ones.

    `wrong` counts by kind: `split` persons of the source are several at the target, `merged` ones there several at the
    source; `missing` ids have a person only at the source, and `extra` ids, which events of the plans have, only at the
    target. `because` counts split persons and missing ids that are explained: by the code of rejected rows, by
    `refused_merge` and `conflict_merge` of a plan, and as `later` if the person has events that no plan read.
    `examples` are ids by kind.
    """

    persons: int = 0
    persons_found: int = 0
    ids: int = 0
    ids_found: int = 0
    wrong: dict[str, int] = {}
    because: dict[str, int] = {}
    examples: list[tuple[str, list[str]]] = []


class SourceGroups(msgspec.Struct, frozen=True):
    """A type of groups of the source: its number there and at the target (-1: it does not exist), how many `groups` it
    has, how many are `missing`, and some of their `keys`. `left_out`: the plans do not have it among their
    --group-types."""

    type: str
    number: int
    number_found: int
    left_out: bool
    groups: int = 0
    missing: int = 0
    keys: list[str] = []


class SourceCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The target of `plans` compared with the project at `source` that they were exported from.

    `events` of the source, ingested at `until` at the latest (ISO 8601, UTC; "" if the plans do not know), and those
    `found` at the target: `missing`, `different` and `extra` ones are differences; `others` are at the target without
    marks of the plans, `because` counts by code what the plans leave out. `later` events of the source were ingested
    after `until`; `updates` such as $identify are compared by their effect. `cells` are event names by UTC day;
    `rows` are some that differ. `differences` are the first; the file `source-differences.jsonl` has all.
    """

    source: str = ""
    plans: list[str] = []
    until: str = ""
    events: int
    found: int
    missing: int
    different: int
    extra: int
    others: int
    later: int = 0
    updates: int = 0
    because: dict[str, int]
    cells: int
    cells_differing: int
    rows: list[SourceCell]
    differences: list[SourceEvent]
    persons: SourcePersons = SourcePersons()
    groups: list[SourceGroups] = []
    metrics: Metrics = Metrics()

    @property
    def differs(self) -> bool:
        """Whether anything differs that no plan explains."""
        events = self.missing or self.different or self.extra or self.cells_differing
        groups = any(one.missing and not one.left_out for one in self.groups)
        return bool(events or groups or self.persons.wrong or self.metrics.differing)
