"""The result of a verification: the counts, the differences with their rows, and what the service is known to
change."""

from __future__ import annotations

from typing import Literal

import msgspec

from pipeline.verify.number_findings import Metrics
from pipeline.verify.source_findings import SourceCheck

Uuids = Literal["all", "differing"]
Fields = Literal["sample", "all", "none"]
Landed = tuple[str, str, str]
"""The event, distinct_id and timestamp of one event that landed."""


class Difference(msgspec.Struct, frozen=True):
    """One event that differs. `kind` is `missing`, `extra`, `different`, `duplicated` or `altered`.

    `landed` has the (event, distinct_id, timestamp) of each landed event with its uuid. `request` is the request that
    contains it in the phase `phase`, null for an extra event; `part`, `row` and `offset` are its row in the export, or
    its line in a file of the plan, as `rejects` gives them; `row` is 0 if it is not known. `changed` names what
    differs: `event`, `distinct_id` or `timestamp` of a different event, properties of an altered one (`$set.plan` for a
    member of `$set`).
    """

    kind: str
    uuid: str
    request: int | None
    landed: list[Landed]
    phase: str = ""
    event: str = ""
    part: str = ""
    row: int = 0
    offset: int = 0
    changed: list[str] = []


class ExtraEvents(msgspec.Struct, frozen=True):
    """Events of one name and UTC day that do not belong to the plan; `uuid` is an example."""

    event: str
    day: str
    count: int
    uuid: str = ""


class KnownDifference(msgspec.Struct, frozen=True):
    """What the service itself adds to events or changes in them, which does not count as a difference; `events` have
    it.

    `properties` are some of their affected properties; `meaning` and `source` say what it is and how it is known.
    """

    code: str
    events: int
    properties: list[str]
    meaning: str
    source: str


class ValueCheck(msgspec.Struct, frozen=True):
    """The comparison of the events' properties: of `compared` events, in `strata` (phase, event name and year).

    `fields` is how deep it went; `altered` counts events with a value that differs from what was sent.
    """

    fields: Fields
    compared: int = 0
    strata: int = 0
    altered: int = 0
    known: list[KnownDifference] = []


class PersonDifference(msgspec.Struct, frozen=True):
    """A merge, a profile or a group that is not at the target as it was sent.

    `kind` is `merge_undone`, `not_identified`, `created_later`, `profile_missing`, `profile_overwritten`,
    `group_missing` or `group_overwritten`. `ids` are the ids concerned: for a merge the surviving one first, for a
    group its type and key. `part` and `row` are its file in the plan and its line; `properties` are those that are
    absent or have a different value.
    """

    kind: str
    ids: list[str]
    part: str
    row: int
    uuid: str
    properties: list[str] = []


class PeopleCheck(msgspec.Struct, frozen=True):
    """Merges, profiles and groups against the target. `compared` counts them by kind, `wrong` the differences by kind.

    `kept` counts profiles that have another value than `$set_once` brought: that policy fills only what is empty.
    `there_before` counts merges whose person existed before they arrived, so that it keeps a later `created_at`.
    `unknown` says what could not be checked, "" if everything could.
    """

    compared: dict[str, int] = {}
    wrong: dict[str, int] = {}
    kept: int = 0
    differences: list[PersonDifference] = []
    unknown: str = ""
    there_before: int = 0


class WarningCount(msgspec.Struct, frozen=True):
    """Ingestion warnings of one type about events of the plan; `dropped` of these events were not stored anywhere.

    `examples` are the first of these events, each with its row.
    """

    type: str
    events: int
    dropped: int
    examples: list[Difference] = []


class WarningCheck(msgspec.Struct, frozen=True):
    """The target's ingestion warnings about events of the plan. `unknown` says why they could not be read."""

    types: list[WarningCount] = []
    unknown: str = ""


class CellCounts(msgspec.Struct, frozen=True):
    """Event × UTC day: the number of cells that agree with the ledger, and of those that differ, by kind."""

    match: int = 0
    missing: int = 0
    extra: int = 0
    duplicated: int = 0
    different: int = 0


class FoundCounts(msgspec.Struct, frozen=True):
    """Events: `expected` by the ledger, `found` at the service.

    `duplicated` are there a second time with other content, and `extra` counts them too; `others` do not belong to the
    plan; `copies` are accepted events that equal another one, which the service collapses. `altered` have a different
    property value than was sent; `late` were missing first, and then there. `renamed`, `retimed` and
    `other_person` are the `different` events with another name, time or distinct_id. `replayed` were sent by the
    plan that this one replays, so they are expected.
    """

    expected: int = 0
    found: int = 0
    missing: int = 0
    extra: int = 0
    duplicated: int = 0
    different: int = 0
    others: int = 0
    copies: int = 0
    altered: int = 0
    late: int = 0
    renamed: int = 0
    retimed: int = 0
    other_person: int = 0
    replayed: int = 0


class PlanCounts(msgspec.Struct, frozen=True):
    """Events in the scope of a verification, by their property `import_plan`: how many have that of the plan, and how
    many another one, "" for none."""

    import_plan: str
    events: int
    others: dict[str, int]


class RepairCounts(msgspec.Struct, frozen=True):
    """Events that were sent again because they were missing: how many, and what the service answered."""

    sent: int
    accepted: int = 0
    refused: int = 0
    in_doubt: int = 0


class SplitPerson(msgspec.Struct, frozen=True):
    """A person who is two: `live` is an id with live events since `first_live`, `history` an id of the import. Both
    have one e-mail or device (`by`). `joins`: the file of merges has a pair that joins them."""

    live: str
    history: str
    by: str
    first_live: str
    joins: bool


class Continuity(msgspec.Struct, frozen=True, kw_only=True):
    """Whether `people` seen live since `cut_over` (ISO 8601, UTC; "" without a live event) are those of the plan.

    Each of the `looked_up` counts once: `same` (`by_id`: an id of its live events is in the history; `by_merge`:
    another one of the person), `split`, `ambiguous` or `new`. If only a sample was looked up, `margin` is how far a
    share may be off, in percentage points, with a probability of 95 %. The file `merges` has pairs for the `joinable`
    of the `split`. `active` people of the history had events in the 30 days before the cut-over; `not_seen_again` of
    them have none after it. `splits` are examples.
    """

    cut_over: str = ""
    people: int = 0
    looked_up: int = 0
    same: int = 0
    by_id: int = 0
    by_merge: int = 0
    split: int = 0
    ambiguous: int = 0
    new: int = 0
    margin: float = 0.0
    joinable: int = 0
    merges: str = ""
    active: int = 0
    not_seen_again: int = 0
    splits: list[SplitPerson] = []


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What landed against what was settled. `proved`: all that was sent is there, once and as it was sent.

    `differences` are the first of each kind; the file `differences.jsonl` of the plan has all. `scope` are the
    properties that an event must have to be compared, {} for the whole project; `extras` are the cells with the most
    events that do not belong to the plan, which count as `extra` in a project that has only this plan. `to` is the
    address that was compared, "" for the embedded local service; `at` is when (ISO 8601, UTC). `state` is the plan's
    state afterwards, which a report has by itself.

    `uuids` says whether all were compared, or those of days whose counts differ. `settled` is how long ago, in seconds,
    the last event was accepted when reading began, None if nothing was sent. `resolved_doubts` counts `batches`, and
    their `events`, that were sent again because no answer came (`pipeline.ledger.read_doubts`). `kept` are the kinds of
    differences that an earlier, deeper verification found and that stay; then `values` and `people` come from that one
    (`pipeline.verify.earlier`). `by_plan` is there for a plan with `--provenance plan` that is not a job's. `repair` is
    what was sent again, if that was requested; then the other fields come from the verification after it. `continuity`
    is there if it was requested, and proves or disproves nothing; `metrics` are the numbers of
    charts, and `source` is the comparison with the project that the plans were exported from, if requested.
    """

    format: str = "backcast.verify/1"
    cells: CellCounts
    events: FoundCounts
    proved: bool
    differences: list[Difference] = []
    extras: list[ExtraEvents] = []
    scope: dict[str, str] = {}
    to: str = ""
    at: str = ""
    state: str | msgspec.UnsetType = msgspec.UNSET
    uuids: Uuids = "all"
    values: ValueCheck = ValueCheck("none")
    people: PeopleCheck = PeopleCheck()
    warnings: WarningCheck = WarningCheck()
    settled: float | None = None
    resolved_doubts: dict[str, int] = {}
    kept: list[str] = []
    by_plan: PlanCounts | msgspec.UnsetType = msgspec.UNSET
    repair: RepairCounts | msgspec.UnsetType = msgspec.UNSET
    continuity: Continuity | msgspec.UnsetType = msgspec.UNSET
    metrics: Metrics | msgspec.UnsetType = msgspec.UNSET
    source: SourceCheck | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_wrong(self) -> bool:
        """Whether anything counted differs from what was sent."""
        counts = self.events
        wrong = counts.missing or counts.extra or counts.different or counts.altered or any(self.people.wrong.values())
        return bool(wrong)

    @property
    def more_differs(self) -> bool:
        """Whether a number of a chart differs at the target, a person is split there, or the source differs. The plan's
        state does not depend on it, since others may merge people there."""
        metrics = isinstance(self.metrics, Metrics) and bool(self.metrics.differing or self.metrics.split)
        return metrics or (isinstance(self.source, SourceCheck) and self.source.differs)

    @property
    def differs(self) -> bool:
        """Whether anything differs from what was sent. A partial comparison may find no difference and still be no
        proof."""
        return self.is_wrong or (not self.proved and self.uuids == "all")
