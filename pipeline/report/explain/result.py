"""What became of a row, an event or a person: the object that `backcast explain --json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pipeline.ledger import EventRecord
from pipeline.models import Reject
from pipeline.plan.samples.source_pairs import SourcePair
from pipeline.report.pairs import PairRow


class InRequest(EventRecord, frozen=True, kw_only=True):
    """The request that has an event, and the event's place in it from 0. The event's state is `not sent`, `waiting` (to
    be sent again), `in doubt`, `accepted` or `refused`; `status` and `detail` are those of the last answer."""

    phase: str
    request: int
    place: int
    events: int
    canary: bool


class Copy(msgspec.Struct, frozen=True):
    """An event of a row; `code` says why it is left out, "" if it is sent."""

    file: str
    row: int
    uuid: str
    code: str


class ExplainedEvent(SourcePair, frozen=True, kw_only=True):
    """An event that the mapping made of a row; `code` and `detail` say why it is left out, "" if it is sent.

    Only if it is in the sample of the plan, it has the `fields` and `members`, its entry of `events` in the mapping,
    and the rule and line of each property. `copies` are the events of the same key. `difference` is what the last
    verification found. `sent` is the event byte for byte, with values and ids shown.
    """

    position: int
    distinct_id: str
    timestamp: str
    uuid: str
    code: str
    detail: str
    request: InRequest | None
    copies: list[Copy]
    more_copies: int
    difference: str
    sent: Raw | UnsetType = UNSET


class Update(msgspec.Struct, frozen=True):
    """A merge (`distinct_id` absorbs `other`), a group update or a profile update: its line in a file of the plan, and
    the names of the properties that it writes."""

    phase: str
    file: str
    line: int
    uuid: str
    distinct_id: str
    other: str
    timestamp: str
    names: list[str]
    request: InRequest


class Person(msgspec.Struct, frozen=True):
    """The ids of a person after all merges of the plan, and why: the pairs of ids, joined or not. At most MOST_IDS of
    each. If an id was asked for: its events by state, those left out by code, and some of its rows."""

    ids: list[str]
    pairs: list[PairRow]
    updates: list[Update]
    events: Mapping[str, int] = {}
    left_out: Mapping[str, int] = {}
    first: str = ""
    last: str = ""
    rows: list[Copy] = []
    excluded: bool = False


class ExplainedRow(msgspec.Struct, frozen=True):
    """A row. `outcome` is `planned` (it becomes an event to send), `left out` or `rejected`; without an event it is
    `skipped`, `update` (a merge, a profile or a group), or `no event` if the plan cannot tell these two apart.

    `codes` count skipped rows of the plan by code; a row that is skipped has one of these codes. `sampled`: the plan
    has an event of it and its fields; `like` is a row in the sample with an event of the same name. `pairs` are pairs
    of ids that this row is the first to have, `look` a command that shows the row, or its number in a workbook's
    sheet, if its file is still there.
    """

    file: str
    row: int
    outcome: str
    codes: Mapping[str, int]
    sampled: bool
    like: str
    events: list[ExplainedEvent]
    more_events: int
    rejects: list[Reject]
    pairs: list[PairRow]
    look: str


class Explanation(msgspec.Struct, frozen=True):
    """What was asked for, a `kind` of `row`, `uuid`, `key`, `id` or `sample`, and what became of it. `ledger` is what
    states are of: `send`, `rehearse`, or "" if nothing was sent; `to` is where to, and `refused` how many events were
    refused there."""

    plan: str
    digest: str
    state: str
    asked: str
    kind: str
    ledger: str
    to: str
    refused: int
    values: bool
    ids: bool
    rows: Sequence[ExplainedRow]
    updates: Sequence[Update]
    persons: Sequence[Person]
    format: str = "backcast.explain/1"
