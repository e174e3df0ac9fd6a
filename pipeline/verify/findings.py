"""What a verification finds: the counts, the differences with their rows, and what the service is known to change."""

from __future__ import annotations

from typing import Literal

import msgspec

Uuids = Literal["all", "differing"]
Fields = Literal["sample", "all", "none"]
Landed = tuple[str, str, str]
"""The event, distinct_id and timestamp of one event that landed."""


class Difference(msgspec.Struct, frozen=True):
    """One event that differs. `kind` is `missing`, `extra`, `different`, `duplicated` or `altered`.

    `landed` has the (event, distinct_id, timestamp) of each landed event of its uuid. `block` is where it was planned,
    of the phase `phase`; `part`, `row` and `offset` are its row in the export, or its line in a file of the plan, as
    `rejects` has them; `row` is 0 where it is not known. `changed` names what differs: `event`, `distinct_id` or
    `timestamp` of a different event, properties of an altered one (`$set.plan` for a member of `$set`).
    """

    kind: str
    uuid: str
    block: int | None
    landed: list[Landed]
    phase: str = ""
    event: str = ""
    part: str = ""
    row: int = 0
    offset: int = 0
    changed: list[str] = []


class ExtraEvents(msgspec.Struct, frozen=True):
    """Events of one name and UTC day that are not of the plan."""

    event: str
    day: str
    count: int


class KnownDifference(msgspec.Struct, frozen=True):
    """What the service itself adds to events or changes in them, which is no difference: `events` have it.

    `properties` are some of their properties that have it, `meaning` and `source` say what it is and how it is known.
    """

    code: str
    events: int
    properties: list[str]
    meaning: str
    source: str


class ValueCheck(msgspec.Struct, frozen=True):
    """The comparison of the events' properties: of `compared` events, in `strata` (phase, event name and year).

    `fields` is how deep it went; `altered` counts events of which a value is not what was sent.
    """

    fields: Fields
    compared: int = 0
    strata: int = 0
    altered: int = 0
    known: list[KnownDifference] = []


class PersonDifference(msgspec.Struct, frozen=True):
    """A merge, a profile or a group that is not at the target as it was sent.

    `kind` is `merge_undone`, `not_identified`, `created_later`, `profile_missing`, `profile_overwritten`,
    `group_missing` or `group_overwritten`. `ids` are the ids it is about: of a merge the surviving one first, of a
    group its type and key. `part` and `row` are its file in the plan and its line; `properties` those that are absent
    or have another value.
    """

    kind: str
    ids: list[str]
    part: str
    row: int
    uuid: str
    properties: list[str] = []


class PeopleCheck(msgspec.Struct, frozen=True):
    """Merges, profiles and groups against the target. `compared` counts them by kind, `wrong` the differences by kind.

    `kept` counts profiles of which another value stands than `$set_once` brought: that policy fills only what is empty.
    `there_before` counts merges whose person existed before they arrived, so that it keeps a later `created_at`.
    `unknown` says what could not be checked, "" where everything could.
    """

    compared: dict[str, int] = {}
    wrong: dict[str, int] = {}
    kept: int = 0
    differences: list[PersonDifference] = []
    unknown: str = ""
    there_before: int = 0


class WarningCount(msgspec.Struct, frozen=True):
    """Ingestion warnings of one type about events of the plan; `dropped` of them were stored nowhere.

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


class Verification(msgspec.Struct, frozen=True):
    """What verification found. `proved`: all that was sent is there, once and as it was sent.

    In `events`, `duplicated` are there a second time with another content, and `extra` counts them too; `others` are
    not of the plan, and no difference; `copies` are accepted ones that are equal to another, which collapse; `late`
    were missing first, and there when they were asked for again. Of the `different`, `renamed`, `retimed` and
    `other_person` count what differs. In a project that is the plan's alone, what is not of it is `extra`. `extras` are
    the cells with most of what is not of the plan, `scope` the properties that an event had to have to be compared.

    `uuids` says whether all were compared, or those of days whose counts differ. `differences` are the first of each
    kind; the file `differences.jsonl` of the plan has all. `settled` is how long ago, in seconds, the last event was
    accepted when reading began, None where nothing was sent. `resolved_doubts` counts `batches`, and their `events`,
    that were sent again because no answer came (`pipeline.ledger.read_doubts`). `kept` are the kinds of differences
    that an earlier, deeper verification found and that stay; `values` and `people` are then of that one
    (`pipeline.verify.earlier`).
    """

    cells: dict[str, int]
    events: dict[str, int]
    differences: list[Difference]
    extras: list[ExtraEvents]
    scope: dict[str, str]
    uuids: Uuids = "all"
    values: ValueCheck = ValueCheck("none")
    people: PeopleCheck = PeopleCheck()
    warnings: WarningCheck = WarningCheck()
    settled: float | None = None
    resolved_doubts: dict[str, int] = {}
    kept: list[str] = []
    format: str = "backcast.verify/1"

    @property
    def differs(self) -> bool:
        """Whether anything is not as it was sent."""
        wrong = any(self.events[kind] for kind in ("missing", "extra", "different", "altered"))
        return wrong or any(self.people.wrong.values())

    @property
    def proved(self) -> bool:
        return not self.differs and self.uuids == "all"
